import type { ListedMembership, Membership } from "@concord/failure-detection";
import { assignable, type MemberLists, type RecordedList } from "@concord/ownership";
import type { RowKey } from "@concord/ports";
import { ConcordError, ERRORS, newTimeId, sleep, toConcordError, type Epoch, type StartWaits, type TimeId } from "@concord/runtime";
import { evenGroupMap, groupIdOf, isSystemTable, masterOf, readGroupMap, SYSTEM_GROUP, type GroupMap } from "@concord/schema";
import {
  CachedRowShares,
  IdleMarks,
  LargeCommits,
  TransactionGroup,
  TransactionMemory,
  type GroupContext,
  type GroupSettings,
} from "@concord/transactions";
import {
  HAND_OVER_MS,
  LIST_TIMEOUT_MS,
  LOST_TAKER_MS,
  POLL_MS,
  RELEASE_TIMEOUT_MS,
  STAND_DOWN_MS,
  TAKE_OVER_AGAIN_MS,
  VERIFY_TIMEOUT_MS,
} from "../limits.ts";
import type { Coordinator, Masters } from "./coordinators.ts";
import { groupMapWrites } from "./group-map-rows.ts";
import type { Peers } from "./peers.ts";
import { QueuedOpens } from "./queued-opens.ts";
import { Standing } from "./standing.ts";
import { warmUp } from "./warm-up.ts";

/** Objects of a coordinator that its groups share. */
type Shared = Pick<GroupContext, "marks" | "largeCommits" | "memory" | "cachedRowShares">;

/** What all groups share, and who serves them. */
export interface GroupsOptions extends Omit<GroupContext, "settings" | keyof Shared> {
  readonly settings: Omit<GroupSettings, "group" | "owns">;
  /** All of them; the first that may serve groups serves the system group. */
  readonly lists: MemberLists<RecordedList>;
  readonly groupCount: number;
  readonly masters: Masters;
  readonly membership: Membership | ListedMembership;
  readonly peers: Peers;
  readonly startWaits: StartWaits;
  /** As configured: a node at this address is this process, and is reached where it was bound. */
  readonly listenAddress: string;
}

/**
 * The transaction groups this coordinator is the master of, and who serves the others (TX2). For each group it is master or standby by rank (TX16):
 * it takes a group over when all before it have failed (TX17), and is a standby again when it was fenced.
 */
export class Groups {
  readonly #options: GroupsOptions;
  readonly #standing: Standing;
  readonly #shared: Shared;
  readonly #stopping = new AbortController();
  readonly #own = new Map<string, TransactionGroup>();
  readonly #queued: QueuedOpens;
  /** How often this coordinator had been lost when the log last confirmed the group's epoch. */
  readonly #confirmed = new WeakMap<TransactionGroup, number>();
  /** Sessions whose end is already watched. */
  readonly #sessions = new Set<number>();
  /** Starts that wait for a newer schema: later operations of the same transaction wait behind them. */
  readonly #opening = new Map<TimeId, Promise<unknown>>();
  #map: GroupMap | undefined;
  #boundAddress: string | undefined;

  constructor(options: GroupsOptions) {
    this.#options = options;
    this.#shared = {
      marks: new IdleMarks(options.clock),
      largeCommits: new LargeCommits(options.clock),
      memory: new TransactionMemory(),
      cachedRowShares: new CachedRowShares(),
    };
    this.#standing = new Standing({ ...options, nodeName: options.settings.nodeName });
    this.#queued = new QueuedOpens(options.clock);
  }

  get map(): GroupMap {
    if (this.#map === undefined) throw new ConcordError("STARTING", "the group map is not read yet");
    return this.#map;
  }

  get own(): readonly TransactionGroup[] {
    return [...this.#own.values()];
  }

  /** Bytes that all open transactions hold. */
  get heldBytes(): number {
    return this.#shared.memory.used;
  }

  get coordinators(): readonly Coordinator[] {
    const { members } = this.#options.lists.current;
    return this.reachable(members.map(({ name, address, datacenter }) => ({ name, address, datacenter })));
  }

  get lists(): MemberLists<RecordedList> {
    return this.#options.lists;
  }

  /** A majority hears the coordinator, and so does this one. */
  hears(name: string): boolean {
    return this.#standing.hears(name);
  }

  /** The nodes with the addresses at which clients reach them. */
  reachable<N extends { readonly address: string }>(nodes: readonly N[]): readonly N[] {
    const { listenAddress } = this.#options;
    const bound = this.#boundAddress;
    return bound === undefined ? nodes : nodes.map((node) => (node.address === listenAddress ? { ...node, address: bound } : node));
  }

  /** An address with port 0 is known only after bind. */
  boundTo(address: string): void {
    this.#boundAddress = address;
  }

  /** Of all coordinators the one that serves the group, or is about to. GROUP_MISMATCH when the map does not have it. */
  masterOf(id: string): Coordinator {
    const { settings } = this.#options;
    if (id !== SYSTEM_GROUP) masterOf(this.map, id);
    const name = this.epochOf(id) === undefined ? this.#standing.masterOf(id) : settings.nodeName;
    return this.#coordinator(name);
  }

  /**
   * The epoch under which this coordinator serves the group; undefined when it does not. Its lease holds, and the log has confirmed the epoch since
   * the last time that a standby may have acted (TX14).
   */
  epochOf(id: string): Epoch | undefined {
    const group = this.#own.get(id);
    if (group?.state.kind !== "serving" || !this.#standing.works || !this.#isConfirmed(group)) return undefined;
    return group.state.master.epoch;
  }

  /** Names of all coordinators that may serve the group, in their order (TX16). */
  ranksOf(id: string): readonly string[] {
    return this.#standing.ranksOf(id);
  }

  /** Resolves when masters, epochs or opinions change. */
  changed(): Promise<void> {
    return this.#standing.changed();
  }

  /** Starts that wait until this coordinator serves their group. */
  get queued(): QueuedOpens {
    return this.#queued;
  }

  /** True while this coordinator works and serves every group that it should. */
  get ready(): boolean {
    if (this.#map === undefined || !this.#standing.works) return false;
    const groups = [SYSTEM_GROUP, ...this.#map.groups.map(({ id }) => id)];
    return groups.every((id) => this.#standing.duty(id).kind === "standby" || this.epochOf(id) !== undefined);
  }

  #isConfirmed(group: TransactionGroup): boolean {
    return this.#confirmed.get(group) === this.#standing.losses;
  }

  /**
   * Becomes a member, finds or makes the group map, then takes over every group that this coordinator should serve. Resolves when all of them
   * serve; goes on as master and standby until `stop`.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, startWaits } = this.#options;
    const state = await startWaits.during("the list of coordinators", () => this.#standing.listed(signal));
    // It would lose heartbeats while it compiles, and with them the groups that others release for it as soon as it works.
    const isArriving = state === "arriving";
    if (isArriving) await startWaits.during("its own warm-up", () => this.#warmUp());
    await this.#standing.start();
    void this.#watchStanding();
    await startWaits.during("a majority of the coordinators", async () => {
      while (!this.#standing.works) {
        if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
        await Promise.race([this.#standing.changed(), sleep(clock, POLL_MS, signal)]);
      }
    });
    await this.#begin(SYSTEM_GROUP, signal);
    const map = await this.#awaitMap(signal);
    this.#map = map;
    this.#standing.mapRead(map);
    await Promise.all(map.groups.map(({ id }) => this.#begin(id, signal)));
    if (this.#own.size === 0 && !isArriving) void this.#warmUp();
  }

  #warmUp(): Promise<void> {
    return warmUp({ ...this.#options, ...this.#shared }, this.#stopping.signal);
  }

  /**
   * The own group of a row. NOT_MASTER names the coordinator to ask; SCHEMA_BEHIND for a newer map than ours. `applied`: whether another call
   * may have done already what is refused here.
   */
  groupOf(key: RowKey, mapVersion: bigint, applied: "no" | "unknown" = "no"): TransactionGroup {
    if (mapVersion > this.map.version) throw new ConcordError("SCHEMA_BEHIND", `group map version ${mapVersion} is not known here yet`);
    return this.groupById(groupIdOf(this.map, key), applied);
  }

  groupById(id: string, applied: "no" | "unknown" = "no"): TransactionGroup {
    const group = this.#own.get(id);
    // A standby may have taken over already (TX14). What is open goes on, the log decides about its commit (TXD1).
    if (group !== undefined && this.#standing.works && this.#isConfirmed(group)) return group;
    const { name, address } = this.masterOf(id);
    if (name === this.#options.settings.nodeName)
      throw new ConcordError("STARTING", `group ${id} is about to be taken over; try again`, { applied });
    throw new ConcordError("NOT_MASTER", `group ${id} is served by ${name} at ${address}`, {
      applied,
      metadata: { group: id, master: name, address },
    });
  }

  /**
   * The own group in which a transaction is open or remembered; undefined = in none. The caller's come first: another one may have used the
   * id in another group.
   */
  groupOfTransaction(id: TimeId, identity: string): TransactionGroup | undefined {
    for (const group of this.#own.values()) if (group.hasOpen(id, identity)) return group;
    for (const group of this.#own.values()) if (group.hasCommitted(id, identity)) return group;
    for (const group of this.#own.values()) if (group.knows(id)) return group;
    return undefined;
  }

  /** Runs a Start's preparation; `whenOpen` lets later operations of it wait. */
  opening<Answer>(id: TimeId, work: Promise<Answer>): Promise<Answer> {
    const done = work.finally(() => this.#opening.delete(id));
    this.#opening.set(id, done);
    return done;
  }

  /** undefined: nothing to wait for. */
  whenOpen(id: TimeId): Promise<unknown> | undefined {
    return this.#opening.get(id)?.catch(() => undefined);
  }

  /** Tells the own groups when the session ends (TX10). */
  watchSession(session: { readonly id: number; onEnd(listener: () => void): void } | undefined): number | undefined {
    if (session === undefined) return undefined;
    if (!this.#sessions.has(session.id)) {
      this.#sessions.add(session.id);
      session.onEnd(() => {
        this.#sessions.delete(session.id);
        for (const group of this.#own.values()) group.sessionEnded(session.id);
      });
    }
    return session.id;
  }

  /**
   * Another coordinator is about to stop: its groups are this one's as if it had failed, but it is asked to release them first. Resolves when this
   * coordinator serves what falls to it, or after HAND_OVER_MS and the time of a takeover.
   */
  async left(name: string): Promise<void> {
    const { clock } = this.#options;
    this.#standing.left(name);
    const endsAtMs = clock.monotonicMs() + HAND_OVER_MS + RELEASE_TIMEOUT_MS;
    while (!this.ready && clock.monotonicMs() < endsAtMs && !this.#stopping.signal.aborted) {
      await Promise.race([this.#standing.changed(), sleep(clock, POLL_MS)]);
    }
  }

  /**
   * The coordinator `to` is to serve the group by this version of the list (TX17): what is open here goes on to its end, or is aborted after
   * HAND_OVER_MS; nothing new begins. Resolves when this coordinator serves the group no longer. By a newer list the group may be another's: nothing is
   * released then. Answers the version known here.
   */
  async release(id: string, to: string, listVersion: number): Promise<number> {
    await this.#untilListed(listVersion);
    const { version } = this.#options.lists.current;
    if (version > listVersion) return version;
    this.#standing.returned(to);
    const group = this.#own.get(id);
    if (group === undefined) return version;
    this.#options.log.info("a group is handed over", { group: id, to });
    await group.handOver(HAND_OVER_MS);
    return version;
  }

  /**
   * A planned stop: the others learn that this coordinator leaves, and take its groups over one by one while it goes on to serve those not yet asked for.
   * Resolves when those that live serve them, so that this node's replica is there for the takeover; at most after `graceMs`.
   */
  async handOver(graceMs: number): Promise<void> {
    const { settings, peers } = this.#options;
    if (this.#standing.isAlone || !this.#standing.works || graceMs === 0) return;
    this.#standing.left(settings.nodeName);
    const others = this.coordinators.filter(({ name }) => name !== settings.nodeName && this.#standing.isPresent(name));
    await Promise.all(others.map(({ name, address }) => this.#untilAnswered(name, peers.leave(address, graceMs))));
  }

  /** Aborts what is open, finishes and applies what is committing; after `graceMs` whatever is left is cut. Then the others find this one gone. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#queued.stop();
    this.#standing.wake();
    const done = new AbortController();
    const drained = Promise.all(this.own.map((group) => group.drain())).then(() => done.abort());
    await Promise.race([drained, sleep(this.#options.clock, graceMs, done.signal)]);
    for (const group of this.own) group.stop();
    await this.#standing.stop();
  }

  /** Takes the group over if that is its duty now, and keeps to its duty from then on. Rejects when this process must not start. */
  async #begin(id: string, signal: AbortSignal): Promise<void> {
    if (this.#standing.duty(id).kind === "serve") {
      try {
        await this.#takeOver(id, signal, false);
      } catch (thrown) {
        if (this.#standing.isAlone || signal.aborted || !isOvertaken(thrown)) throw thrown;
      }
    }
    void this.#keep(id);
  }

  /** One group's life here: master until this one is fenced or stands down, standby until all before it failed; and again (TX17). */
  async #keep(id: string): Promise<void> {
    const { signal } = this.#stopping;
    const { clock, log } = this.#options;
    for (;;) {
      const group = this.#own.get(id);
      if (group !== undefined) {
        await this.#untilEnded(id, group);
        // A twin of a coordinator alone: the two would fence each other for ever.
        if (signal.aborted || this.#standing.isAlone) return;
        this.#own.delete(id);
        log.info("standby", { group: id });
        await sleep(clock, TAKE_OVER_AGAIN_MS, signal);
      }
      const follows = await this.#untilDuty(id);
      if (signal.aborted) return;
      await this.#takeOver(id, signal, follows).catch((thrown: unknown) => {
        log.warn("a group could not be taken over", { group: id, reason: toConcordError(thrown).message });
      });
    }
  }

  /** Answers whether this coordinator was standby of a working master until then. */
  async #untilDuty(id: string): Promise<boolean> {
    const { signal } = this.#stopping;
    let follows = false;
    let { view } = this.#standing;
    while (!signal.aborted) {
      // By another list any other may have served until now.
      if (view !== this.#standing.view) follows = false;
      view = this.#standing.view;
      const isMaster = this.#standing.duty(id).kind === "serve";
      if (isMaster && this.#standing.works) break;
      follows = this.#standing.works;
      // A lease that comes back in time is no change of opinion.
      const again = isMaster ? [sleep(this.#options.clock, POLL_MS, signal)] : [];
      await Promise.race([this.#standing.changed(), ...again]);
    }
    return follows;
  }

  /** While one before this one works again, the log tells when that has taken over: an idle group would not notice. */
  async #untilEnded(id: string, group: TransactionGroup): Promise<void> {
    let isEnded = false;
    let unanswered = 0;
    const ended = group.ended.then(() => void (isEnded = true));
    while (!isEnded) {
      const isOvertaken = this.#standing.duty(id).kind === "standby" && !this.#standing.isLost;
      if (isOvertaken) unanswered = (await this.#verify(group, unanswered)) === "unknown" ? unanswered + 1 : 0;
      await Promise.race([ended, isOvertaken ? sleep(this.#options.clock, TAKE_OVER_AGAIN_MS) : this.#standing.changed()]);
    }
  }

  /** Serves when it resolves. Nothing is begun after the stop, so the stop knows all that was. */
  async #takeOver(id: string, signal: AbortSignal, follows: boolean): Promise<void> {
    await Promise.all(this.#standing.releasing(id, follows).map((name) => this.#askRelease(id, name, signal)));
    if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
    if (this.#standing.duty(id).kind === "standby") throw new ConcordError("DRAINING", "another coordinator serves the group");
    const { settings } = this.#options;
    const owns = (key: RowKey): boolean => {
      if (id === SYSTEM_GROUP) return isSystemTable(key.table);
      return !isSystemTable(key.table) && groupIdOf(this.map, key) === id;
    };
    const group = new TransactionGroup({
      ...this.#options,
      ...this.#shared,
      settings: { ...settings, group: id, owns },
    });
    this.#own.set(id, group);
    // As of before the raise: after a loss that came during it the log is asked again.
    this.#confirmed.set(group, this.#standing.losses);
    await group.start();
    if (this.#isConfirmed(group)) this.#announce(id);
    else void this.#confirm(group);
    void group.ended.then(() => this.#standing.wake());
    if (id !== SYSTEM_GROUP || this.#map !== undefined) return;
    try {
      await this.#makeMap(group, signal);
    } catch (thrown) {
      group.stop();
      throw thrown;
    }
  }

  /** Only what the other one has open gains by it: whatever it answers, or none, the epoch decides (TXD1). */
  async #askRelease(id: string, name: string, signal: AbortSignal): Promise<void> {
    const { lists, peers } = this.#options;
    const { version } = lists.current;
    const { address } = this.#coordinator(name);
    let known = version;
    const asked = peers
      .release(address, { group: id, listVersion: version }, RELEASE_TIMEOUT_MS)
      .then((answered) => void (known = answered));
    await this.#untilAnswered(name, asked, signal);
    await this.#untilListed(known);
  }

  #coordinator(name: string): Coordinator {
    return this.coordinators.find((coordinator) => coordinator.name === name)!;
  }

  /** The list was read in this version or a newer one, or cannot be in time. */
  async #untilListed(version: number): Promise<void> {
    const { lists, clock } = this.#options;
    const endsAtMs = clock.monotonicMs() + LIST_TIMEOUT_MS;
    while (lists.current.version < version && clock.monotonicMs() < endsAtMs && !this.#stopping.signal.aborted) {
      lists.readSoon();
      await Promise.race([this.#standing.changed(), sleep(clock, POLL_MS)]);
    }
  }

  /** The other coordinator has answered in whatever way, or is called gone, or the signal is aborted. */
  async #untilAnswered(name: string, call: Promise<void>, signal?: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    let isOver = false;
    const answered = call
      .catch((thrown: unknown) => log.debug("a call to another coordinator failed", { name, reason: toConcordError(thrown).message }))
      .finally(() => (isOver = true));
    while (!isOver && signal?.aborted !== true && !this.#standing.hasFailed(name)) {
      await Promise.race([answered, this.#standing.changed(), sleep(clock, POLL_MS)]);
    }
  }

  /** The first master of the system group writes the map. */
  async #makeMap(group: TransactionGroup, signal: AbortSignal): Promise<void> {
    const { lists, groupCount, masters, settings, startWaits, clock, random, log } = this.#options;
    const names = assignable(lists.current).map(({ name }) => name);
    const map = evenGroupMap(groupCount, masters === "spread" ? names : names.slice(0, 1));
    // Each try reads first: one whose outcome is unknown may have written it.
    const step = async (): Promise<void> => {
      const master = group.serving("unknown");
      if ((await this.#readMap()) !== undefined) return;
      await master.execute(newTimeId(clock, random), groupMapWrites(map), clock.monotonicMs() + settings.storageTimeoutMs);
      log.info("group map created", { groups: map.groups.length });
    };
    // A storage that drains answers as a master does that was overtaken; this one was when it serves no longer.
    const again = (thrown: unknown): boolean => isRetryable(thrown) && (group.state.kind === "serving" || !isOvertaken(thrown));
    await startWaits.until("the group map", step, { signal, again });
  }

  /** What a change of opinions means for the own groups. Ends with the stop. */
  async #watchStanding(): Promise<void> {
    const { signal } = this.#stopping;
    let wasLost = false;
    while (!signal.aborted) {
      await this.#standing.changed();
      for (const [id, group] of this.#own) {
        // The one before this one is back: it takes over, and this one does not compete. A loss of its own may be over in a moment.
        const isOvertaken = this.#standing.duty(id).kind === "standby" && !this.#standing.isLost;
        if (group.state.kind === "taking-over" && isOvertaken) group.stop();
      }
      if (this.#standing.isLost && !wasLost) {
        void this.#endTakeoversIfStillLost();
        void this.#standDownIfStillLost();
      }
      for (const group of this.own) void this.#confirm(group);
      wasLost = this.#standing.isLost;
    }
  }

  /** Its raises would end the epoch of the standby that takes over instead. */
  async #endTakeoversIfStillLost(): Promise<void> {
    await sleep(this.#options.clock, LOST_TAKER_MS, this.#stopping.signal);
    if (this.#standing.isLost) for (const group of this.own) if (group.state.kind === "taking-over") group.stop();
  }

  async #standDownIfStillLost(): Promise<void> {
    await sleep(this.#options.clock, STAND_DOWN_MS, this.#stopping.signal);
    if (this.#standing.isLost && !this.#stopping.signal.aborted) for (const group of this.own) group.stop();
  }

  /** This one was lost for a while: it opens nothing in a group before the log, asked since, has confirmed that its epoch still holds. */
  async #confirm(group: TransactionGroup): Promise<void> {
    const { clock } = this.#options;
    const losses = this.#standing.losses;
    if (this.#standing.isLost) return;
    for (
      let unanswered = 0;
      group.state.kind === "serving" && losses === this.#standing.losses && !this.#isConfirmed(group);
      unanswered += 1
    ) {
      if ((await this.#verify(group, unanswered)) === "current") {
        this.#confirmed.set(group, losses);
        this.#announce(group.group);
        return;
      }
      await sleep(clock, POLL_MS, this.#stopping.signal);
    }
  }

  /** Starts that wait for the group go on, and watchers of the topology hear of its master. */
  #announce(id: string): void {
    this.#queued.served(id);
    this.#standing.wake();
  }

  /**
   * Stops the group when the log knows a newer epoch: no idle group would notice. Each time without an answer doubles the next one's budget: a log that is
   * slow is not asked for ever in vain.
   */
  async #verify(group: TransactionGroup, unanswered: number): Promise<"current" | "fenced" | "unknown"> {
    const { groupLog, settings, log } = this.#options;
    if (group.state.kind !== "serving") return "unknown";
    const owner = { group: group.group, epoch: group.state.master.epoch, owner: group.owner };
    const timeoutMs = Math.min(settings.storageTimeoutMs, VERIFY_TIMEOUT_MS * 2 ** unanswered);
    const verified = await groupLog.verify(owner, timeoutMs).catch(() => "unknown" as const);
    if (verified === "fenced") group.stop();
    if (verified === "unknown") log.debug("the log did not say whether the epoch holds", { group: group.group, timeoutMs });
    return verified;
  }

  /** The system group's master may still have to write it. */
  #awaitMap(signal: AbortSignal): Promise<GroupMap> {
    const { clock, startWaits } = this.#options;
    const step = async (): Promise<GroupMap> => {
      for (;;) {
        const map = await this.#readMap();
        if (map !== undefined) return map;
        await sleep(clock, POLL_MS, signal);
        if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
      }
    };
    return startWaits.until("the group map", step, { signal });
  }

  async #readMap(): Promise<GroupMap | undefined> {
    const { rows, settings } = this.#options;
    const stored = await readGroupMap(rows, settings.storageTimeoutMs);
    return stored === undefined ? undefined : { ...stored, systemMaster: this.#standing.ranksOf(SYSTEM_GROUP)[0]! };
  }
}

/** Another coordinator was faster, or turned out to be before this one. */
function isOvertaken(thrown: unknown): boolean {
  return ["EPOCH_FENCED", "DRAINING"].includes(toConcordError(thrown).code);
}

function isRetryable(thrown: unknown): boolean {
  return ERRORS[toConcordError(thrown).code].retryable;
}
