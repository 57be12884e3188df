import type { ListedMembership, Membership } from "@concord/failure-detection";
import { assignable, Owners, Units, unitOfTenure, type HandOverPeers, type MemberLists, type RecordedList } from "@concord/ownership";
import type { RowKey } from "@concord/ports";
import {
  ConcordError,
  ERRORS,
  newTimeId,
  sleep,
  toConcordError,
  type Epoch,
  type StartWaits,
  type StopProgress,
  type TimeId,
} from "@concord/runtime";
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
import { POLL_MS, UNIT_TIMES } from "../limits.ts";
import type { Coordinator, Masters } from "./coordinators.ts";
import { groupMapWrites } from "./group-map-rows.ts";
import { GroupUnit } from "./group-unit.ts";
import { groupView } from "./group-view.ts";
import { QueuedOpens } from "./queued-opens.ts";
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
  readonly peers: HandOverPeers;
  readonly startWaits: StartWaits;
  /** Names the groups that a stop waits for. */
  readonly stopProgress?: StopProgress;
  /** As configured: a node at this address is this process, and is reached where it was bound. */
  readonly listenAddress: string;
}

/**
 * The transaction groups this coordinator is the master of, and who serves the others (TX2). For each group it is master or standby by rank (TX16):
 * it takes a group over when all before it have failed (TX17), and is a standby again when it was fenced.
 */
export class Groups {
  readonly #options: GroupsOptions;
  readonly #owners: Owners;
  readonly #units: Units<GroupUnit>;
  readonly #shared: Shared;
  readonly #stopping = new AbortController();
  readonly #queued: QueuedOpens;
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
    const { lists, masters, metrics, settings, clock, log } = options;
    this.#owners = new Owners({
      ...options,
      nodeName: settings.nodeName,
      view: () => groupView(lists.current, masters, this.#map),
      onVerdict: (about, verdict) => {
        log.info("the coordinators' opinion changed", { about, opinion: verdict });
        metrics.count("coordinator_verdicts_total", 1, { about, verdict });
      },
    });
    this.#queued = new QueuedOpens(clock);
    this.#units = new Units({
      ...options,
      owners: this.#owners,
      tenure: (id) => this.#tenure(id),
      times: UNIT_TIMES,
      noun: "group",
      onServing: (id) => this.#queued.served(id),
    });
  }

  get map(): GroupMap {
    if (this.#map === undefined) throw new ConcordError("STARTING", "the group map is not read yet");
    return this.#map;
  }

  get own(): readonly TransactionGroup[] {
    return this.#units.own.map(({ group }) => group);
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

  /** Planned hand-over. */
  get units(): Pick<Units<GroupUnit>, "handOver" | "left" | "release"> {
    return this.#units;
  }

  get owners(): Owners {
    return this.#owners;
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
    if (id !== SYSTEM_GROUP) masterOf(this.map, id);
    const name = this.epochOf(id) === undefined ? this.#owners.ownerOf(id) : this.#owners.self;
    return this.coordinators.find((coordinator) => coordinator.name === name)!;
  }

  /**
   * The epoch under which this coordinator serves the group; undefined when it does not. Its lease holds, and the log has confirmed the epoch since
   * the last time that a standby may have acted (TX14).
   */
  epochOf(id: string): Epoch | undefined {
    const state = this.#trusted(id)?.state;
    return state?.kind === "serving" ? state.master.epoch : undefined;
  }

  /** Names of all coordinators that may serve the group, in their order (TX16). */
  ranksOf(id: string): readonly string[] {
    return this.#owners.view.placement.get(id) ?? [];
  }

  /** Resolves when masters, epochs or opinions change. */
  changed(): Promise<void> {
    return this.#units.changed();
  }

  /** Starts that wait until this coordinator serves their group. */
  get queued(): QueuedOpens {
    return this.#queued;
  }

  /** True while this coordinator works and serves every group that it should. */
  get ready(): boolean {
    if (this.#map === undefined || !this.#owners.works) return false;
    const groups = [SYSTEM_GROUP, ...this.#map.groups.map(({ id }) => id)];
    return groups.every((id) => !this.#owners.owns(id) || this.epochOf(id) !== undefined);
  }

  /**
   * Becomes a member, finds or makes the group map, then takes over every group that this coordinator should serve. Resolves when all of them
   * serve; goes on as master and standby until `stop`.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { clock, startWaits } = this.#options;
    const state = await startWaits.during("the list of coordinators", () => this.#owners.listed(signal));
    // It would lose heartbeats while it compiles, and with them the groups that others release for it as soon as it works.
    const isArriving = state === "arriving";
    if (isArriving) await startWaits.during("its own warm-up", () => this.#warmUp());
    await this.#units.start();
    await startWaits.during("a majority of the coordinators", async () => {
      while (!this.#owners.works) {
        if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
        await Promise.race([this.#units.changed(), sleep(clock, POLL_MS, signal)]);
      }
    });
    await this.#begin(SYSTEM_GROUP);
    const map = await this.#awaitMap(signal);
    this.#map = map;
    this.#owners.relist();
    await Promise.all(map.groups.map(({ id }) => this.#begin(id)));
    if (this.#units.served === 0 && !isArriving) void this.#warmUp();
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
    const group = this.#trusted(id);
    if (group !== undefined) return group;
    const { name, address } = this.masterOf(id);
    if (name === this.#owners.self) throw new ConcordError("STARTING", `group ${id} is about to be taken over; try again`, { applied });
    throw new ConcordError("NOT_MASTER", `group ${id} is served by ${name} at ${address}`, {
      applied,
      metadata: { group: id, master: name, address },
    });
  }

  /** The group's present tenure. Undefined while a standby may have taken over (TX14): what is open goes on, the log decides about its commit (TXD1). */
  #trusted(id: string): TransactionGroup | undefined {
    return this.#owners.works && this.#units.isConfirmed(id) ? unitOfTenure(this.#units.tenure(id))?.group : undefined;
  }

  /**
   * The own group in which a transaction is open or remembered; undefined = in none. The caller's come first: another one may have used the
   * id in another group.
   */
  groupOfTransaction(id: TimeId, identity: string): TransactionGroup | undefined {
    const { own } = this.#units;
    const unit =
      own.find(({ group }) => group.hasOpen(id, identity)) ??
      own.find(({ group }) => group.hasCommitted(id, identity)) ??
      own.find(({ group }) => group.knows(id));
    return unit?.group;
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
        for (const group of this.own) group.sessionEnded(session.id);
      });
    }
    return session.id;
  }

  /** Aborts what is open, finishes and applies what is committing; after `graceMs` whatever is left is cut. Then the others find this one gone. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping.abort();
    this.#queued.stop();
    await this.#units.stop(graceMs);
  }

  /** Serves the group whenever it is this coordinator's, from now on. Rejects when this process must not start. */
  async #begin(id: string): Promise<void> {
    try {
      await this.#units.add(id);
    } catch (thrown) {
      if (this.#owners.isAlone || this.#stopping.signal.aborted || !isOvertaken(thrown)) throw thrown;
    }
    if (this.#stopping.signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
  }

  #tenure(id: string): GroupUnit {
    const { settings } = this.#options;
    const owns = (key: RowKey): boolean => {
      if (id === SYSTEM_GROUP) return isSystemTable(key.table);
      return !isSystemTable(key.table) && groupIdOf(this.map, key) === id;
    };
    const group = new TransactionGroup({ ...this.#options, ...this.#shared, settings: { ...settings, group: id, owns } });
    const prepare = async (): Promise<void> => {
      if (id === SYSTEM_GROUP && this.#map === undefined) await this.#makeMap(group);
    };
    return new GroupUnit({ ...this.#options, ...settings, group, prepare });
  }

  /** The first master of the system group writes the map. */
  async #makeMap(group: TransactionGroup): Promise<void> {
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
    await startWaits.until("the group map", step, { signal: this.#stopping.signal, again });
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
    return stored === undefined ? undefined : { ...stored, systemMaster: this.ranksOf(SYSTEM_GROUP)[0]! };
  }
}

/** Another coordinator was faster, or turned out to be before this one. */
function isOvertaken(thrown: unknown): boolean {
  return ["EPOCH_FENCED", "DRAINING"].includes(toConcordError(thrown).code);
}

function isRetryable(thrown: unknown): boolean {
  return ERRORS[toConcordError(thrown).code].retryable;
}
