import type { RowKey } from "@concord/ports";
import { ConcordError, newTimeId, sleep, type TimeId } from "@concord/runtime";
import { evenGroupMap, groupIdOf, isSystemTable, masterOf, SYSTEM_GROUP, type GroupMap } from "@concord/schema";
import { TransactionGroup, type GroupContext, type GroupSettings } from "@concord/transactions";
import { POLL_MS } from "../limits.ts";
import type { Coordinator } from "./coordinators.ts";
import { groupMapWrites, readGroupMap } from "./group-map-rows.ts";

/** What all groups share, and who serves them. */
export interface GroupsOptions extends Omit<GroupContext, "settings"> {
  readonly settings: Omit<GroupSettings, "group" | "owns">;
  /** All of them; the first serves the system group. */
  readonly coordinators: readonly Coordinator[];
  readonly groupCount: number;
  /** As configured: a node at this address is this process, and is reached where it was bound. */
  readonly listenAddress: string;
}

/** The transaction groups this coordinator is the master of, and who serves the others (TX2). Masters are static. */
export class Groups {
  readonly #options: GroupsOptions;
  readonly #own = new Map<string, TransactionGroup>();
  /** Sessions whose end is already watched. */
  readonly #sessions = new Set<number>();
  /** Starts that wait for a newer schema: later operations of the same transaction wait behind them. */
  readonly #opening = new Map<TimeId, Promise<unknown>>();
  #map: GroupMap | undefined;
  #boundAddress: string | undefined;

  constructor(options: GroupsOptions) {
    this.#options = options;
  }

  get map(): GroupMap {
    if (this.#map === undefined) throw new ConcordError("STARTING", "the group map is not read yet");
    return this.#map;
  }

  get own(): readonly TransactionGroup[] {
    return [...this.#own.values()];
  }

  get coordinators(): readonly Coordinator[] {
    return this.reachable(this.#options.coordinators);
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

  get systemMaster(): Coordinator {
    return this.#options.coordinators[0]!;
  }

  /** True while every own group serves. */
  get ready(): boolean {
    return this.#map !== undefined && this.own.every((group) => group.state.kind === "serving");
  }

  /** Finds or makes the group map, then takes every own group over. Resolves when all of them serve. */
  async start(signal: AbortSignal): Promise<void> {
    const { nodeName } = this.#options.settings;
    if (this.systemMaster.name === nodeName) await this.#startSystemGroup(signal);
    this.#map = await this.#awaitMap(signal);
    const own = this.#map.groups.filter((group) => group.master === nodeName);
    await Promise.all(
      own.map(({ id }) => this.#startGroup(id, signal, (key) => !isSystemTable(key.table) && groupIdOf(this.map, key) === id)),
    );
  }

  /** The own group of a row. NOT_MASTER names the coordinator to ask; SCHEMA_BEHIND for a newer map than ours. */
  groupOf(key: RowKey, mapVersion: bigint): TransactionGroup {
    if (mapVersion > this.map.version) throw new ConcordError("SCHEMA_BEHIND", `group map version ${mapVersion} is not known here yet`);
    return this.groupById(groupIdOf(this.map, key));
  }

  groupById(id: string): TransactionGroup {
    const group = this.#own.get(id);
    if (group !== undefined) return group;
    const master = this.#options.coordinators.find((coordinator) => coordinator.name === masterOf(this.map, id));
    const metadata = { group: id, master: master?.name ?? masterOf(this.map, id), address: master?.address ?? "" };
    throw new ConcordError("NOT_MASTER", `group ${id} is served by ${metadata.master} at ${metadata.address}`, { metadata });
  }

  /** The own group in which a transaction is open or remembered; undefined = in none. */
  groupOfTransaction(id: TimeId): TransactionGroup | undefined {
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

  /** Aborts what is open, finishes and applies what is committing; after `graceMs` whatever is left is cut. */
  async stop(graceMs: number): Promise<void> {
    const done = new AbortController();
    const drained = Promise.all(this.own.map((group) => group.drain())).then(() => done.abort());
    await Promise.race([drained, sleep(this.#options.clock, graceMs, done.signal)]);
    for (const group of this.own) group.stop();
  }

  async #startSystemGroup(signal: AbortSignal): Promise<void> {
    const { coordinators, groupCount, settings, clock, random, log } = this.#options;
    const group = await this.#startGroup(SYSTEM_GROUP, signal, (key) => isSystemTable(key.table));
    const present = await this.#repeated(signal, async () => ({ map: await this.#readMap() }));
    if (present.map !== undefined) return;
    const names = coordinators.map((coordinator) => coordinator.name);
    const map = evenGroupMap(groupCount, names);
    await group.serving("unknown").execute(newTimeId(clock, random), groupMapWrites(map), clock.monotonicMs() + settings.storageTimeoutMs);
    log.info("group map created", { groups: map.groups.length });
  }

  /** Nothing is begun after the stop, so the stop knows all that was. */
  async #startGroup(id: string, signal: AbortSignal, owns: (key: RowKey) => boolean): Promise<TransactionGroup> {
    if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
    const { settings } = this.#options;
    const group = new TransactionGroup({ ...this.#options, settings: { ...settings, group: id, owns } });
    this.#own.set(id, group);
    await group.start();
    return group;
  }

  /** The system group's master may still have to write it. */
  #awaitMap(signal: AbortSignal): Promise<GroupMap> {
    return this.#repeated(signal, () => this.#readMap());
  }

  #readMap(): Promise<GroupMap | undefined> {
    const { rows, settings } = this.#options;
    return readGroupMap(rows, this.systemMaster.name, settings.storageTimeoutMs);
  }

  async #repeated<Answer>(signal: AbortSignal, action: () => Promise<Answer | undefined>): Promise<Answer> {
    const { clock, log } = this.#options;
    for (;;) {
      if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it started");
      try {
        const answer = await action();
        if (answer !== undefined) return answer;
      } catch (thrown) {
        if (!(thrown instanceof ConcordError) || thrown.kind === "rejected" || thrown.kind === "corrupt") throw thrown;
        log.debug("the group map cannot be read yet", { reason: thrown.message });
      }
      await sleep(clock, POLL_MS, signal);
    }
  }
}
