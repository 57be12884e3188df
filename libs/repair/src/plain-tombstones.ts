import type { KeyRange, KeyValueEntry } from "@concord/ports";
import { ROWS_NAMESPACE } from "@concord/quorum";
import { assert, sleep, Task, type Checksum, type Clock, type Log, type Metrics, type Tasks } from "@concord/runtime";
import { COLLECT_BYTES_PER_MS, COLLECT_PAGE_BYTES, COLLECT_PAGE_ROWS, COLLECT_POLL_MS } from "./limits.ts";
import { plainTombstoneOf, type LocalTombstones, type PlainTombstone } from "./local-tombstones.ts";

/** The tombstones of one peer: `LocalTombstones` there. */
export interface TombstonePeer {
  readonly name: string;
  readonly reachable: boolean;
  held(tombstones: readonly PlainTombstone[], timeoutMs: number): Promise<readonly boolean[]>;
  drop(tombstones: readonly PlainTombstone[], timeoutMs: number): Promise<void>;
}

export interface PlainTombstoneCollectorOptions {
  /** One node of a ring collects for all; the others answer it. */
  readonly isCollector: boolean;
  readonly local: LocalTombstones;
  /** All other replicas; none in a ring of one. */
  readonly peers: readonly TombstonePeer[];
  /** Answers only what is on disk. */
  readonly reader: { range(range: KeyRange): Promise<KeyValueEntry[]> };
  readonly checksum: Checksum;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly timeoutMs: number;
  /** A younger deletion stays: hints of what it deleted may be on their way (I3). */
  readonly gcGraceMs: number;
  /** Before the first pass over all rows, and from the end of one to the next. */
  readonly intervalMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pageRows?: number;
}

/** What a pass has found. */
interface Pass {
  /** Where it goes on: a stored key. */
  from: Uint8Array;
  dropped: number;
  young: number;
  elsewhere: number;
}

const FIRST = Uint8Array.of(ROWS_NAMESPACE);
const BEHIND = Uint8Array.of(ROWS_NAMESPACE + 1);

/**
 * Drops tombstones of plain rows that are older than gc_grace at every replica of the ring, once each has said that it holds them (I11). Passes
 * over all rows are paced, hold one page in memory, and wait while a peer is away.
 */
export class PlainTombstoneCollector {
  readonly #options: PlainTombstoneCollectorOptions;
  #pass = newPass();
  readonly #task: Task;

  constructor(options: PlainTombstoneCollectorOptions) {
    this.#options = options;
    const { intervalMs, log } = options;
    this.#task = new Task({
      ...options,
      name: "storage: tombstones of plain rows",
      firstAfterMs: intervalMs,
      step: async () => {
        if (this.#options.peers.some(({ reachable }) => !reachable)) return COLLECT_POLL_MS;
        return (await this.collectNext()) ? intervalMs : 0;
      },
      retryMs: () => COLLECT_POLL_MS,
      failed: ({ message }) => log.debug("tombstones wait for all replicas", { reason: message }),
    });
  }

  start(): void {
    if (this.#options.isCollector) this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Looks at the next page; answers whether the pass ended with it. Rejects when a peer does not answer: the page is looked at again. */
  async collectNext(): Promise<boolean> {
    const { reader, checksum, clock, pageRows = COLLECT_PAGE_ROWS } = this.#options;
    const pass = this.#pass;
    const entries = await reader.range({ from: pass.from, to: BEHIND, limit: pageRows, bytesMax: COLLECT_PAGE_BYTES });
    const found = entries.flatMap(({ value }) => plainTombstoneOf(value, checksum) ?? []);
    const old = found.filter((tombstone) => this.#isOld(tombstone));
    const dropped = old.length === 0 ? 0 : await this.#collect(old);
    pass.dropped += dropped;
    pass.young += found.length - old.length;
    pass.elsewhere += old.length - dropped;
    const last = entries.at(-1);
    if (last === undefined) {
      this.#end(pass);
      return true;
    }
    pass.from = Uint8Array.of(...last.key, 0);
    const bytes = entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    await sleep(clock, Math.ceil(bytes / COLLECT_BYTES_PER_MS), this.#task.signal);
    return false;
  }

  /** All replicas hold it at one time before the first one drops it (I11). */
  async #collect(old: readonly PlainTombstone[]): Promise<number> {
    const { local, peers, timeoutMs } = this.#options;
    const answers = await Promise.all(peers.map((peer) => peer.held(old, timeoutMs)));
    assert(answers.length === peers.length, "I11: every peer has answered");
    assert(
      answers.every((held) => held.length === old.length),
      "I11: a peer answers for each tombstone",
    );
    const everywhere = old.filter((_, at) => answers.every((held) => held[at] === true));
    if (everywhere.length === 0) return 0;
    // The peers first: a tombstone that one of them keeps comes back to the others by comparison, and is collected again.
    await Promise.all(peers.map((peer) => peer.drop(everywhere, timeoutMs)));
    return local.drop(everywhere);
  }

  #end({ dropped, young, elsewhere }: Pass): void {
    const { log, metrics } = this.#options;
    this.#pass = newPass();
    metrics.gauge("repair_tombstones_kept", young, { reason: "young" });
    metrics.gauge("repair_tombstones_kept", elsewhere, { reason: "not everywhere" });
    if (dropped > 0) log.info("tombstones of plain rows collected", { dropped, young, elsewhere });
  }

  #isOld({ deletedAtUs }: PlainTombstone): boolean {
    const { clock, gcGraceMs } = this.#options;
    return BigInt(clock.nowMs() - gcGraceMs) * 1000n > deletedAtUs;
  }
}

function newPass(): Pass {
  return { from: FIRST, dropped: 0, young: 0, elsewhere: 0 };
}
