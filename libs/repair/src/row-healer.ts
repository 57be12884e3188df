import { keyText } from "@concord/codec";
import { READ_MORE_MS_MAX, type LogPosition, type StepRunner } from "@concord/ports";
import { mergeAnswers, openRow, quarantine, type Forgotten, type MergedRow, type RowReplica } from "@concord/quorum";
import {
  ConcordError,
  Task,
  timestampUsOf,
  toConcordError,
  type Checksum,
  type Clock,
  type Log,
  type Metrics,
  type Seq,
  type Tasks,
  type TimestampUs,
} from "@concord/runtime";
import { HEAL_POSITIONS_MAX, HEAL_RETRY_MS, HEALING_ROWS_MAX } from "./limits.ts";

export interface RowHealerOptions {
  /** All other replicas: none has the row when all say so. */
  readonly peers: readonly Pick<RowReplica, "name" | "readRows">[];
  readonly runner: StepRunner;
  readonly forgotten: Forgotten;
  /** A tombstone that is older may have been dropped by the peers. */
  readonly gcGraceMs: number;
  /** Resolves when this node has applied a group's log up to `seq`. */
  readonly catchUp: (group: string, seq: Seq, timeoutMs: number) => Promise<void>;
  /** How far this node has applied each group's log. */
  readonly applied: () => readonly LogPosition[];
  readonly checksum: Checksum;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly timeoutMs: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Replaces stored rows that fail their check by what the other two replicas have. Both must answer: an acknowledged write is at two of three,
 * so one of these two has it. Until then this replica refuses to answer for the row (I5 of the quorum README).
 */
export class RowHealer {
  readonly #options: RowHealerOptions;
  readonly #damaged = new Map<string, Uint8Array>();
  readonly #task: Task;

  constructor(options: RowHealerOptions) {
    this.#options = options;
    this.#task = new Task({
      ...options,
      name: "storage: damaged rows",
      firstAfterMs: Number.POSITIVE_INFINITY,
      step: (signal) => this.#healAll(signal),
      retryMs: () => HEAL_RETRY_MS,
      failed: ({ message }) => options.log.warn("damaged rows are healed later", { reason: message }),
      progress: () => ({ damaged: this.size }),
    });
    this.#task.start();
  }

  /** Rows that wait to be healed. */
  get size(): number {
    return this.#damaged.size;
  }

  /** A stored row fails its check. */
  noticed(storedKey: Uint8Array): void {
    const { peers, metrics } = this.#options;
    const name = keyText(storedKey);
    if (peers.length === 0 || this.#task.signal.aborted || this.#damaged.has(name) || this.#damaged.size >= HEALING_ROWS_MAX) return;
    metrics.count("repair_damaged_rows_total", 1);
    this.#damaged.set(name, storedKey.slice());
    this.#task.wake();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Resolves with the pause until rows that could not be healed are tried again. */
  async #healAll(signal: AbortSignal): Promise<number> {
    const { log, metrics } = this.#options;
    for (const [name, storedKey] of this.#damaged) {
      if (signal.aborted) break;
      try {
        if (await this.#heal(storedKey)) metrics.count("repair_healed_rows_total", 1);
        this.#damaged.delete(name);
      } catch (thrown) {
        log.debug("a damaged row waits for both peers", { reason: toConcordError(thrown).message });
      }
    }
    return this.#damaged.size > 0 ? HEAL_RETRY_MS : Number.POSITIVE_INFINITY;
  }

  /** False: it is sound, as when a log put it anew meanwhile. */
  async #heal(storedKey: Uint8Array): Promise<boolean> {
    const { runner, forgotten, checksum, log } = this.#options;
    // known before the copies are read (I11 of the quorum README)
    const { collection } = forgotten;
    const { bytes, place } = await this.#ofPeers(storedKey.subarray(1));
    const isHealed = await runner.submit({
      load: [storedKey],
      run: ([stored]) => {
        if (stored === undefined || isSound(stored, checksum)) return { persist: [], reply: false };
        if (forgotten.collection !== collection)
          throw new ConcordError("REPLICAS_UNAVAILABLE", "tombstones were dropped since the copies were read");
        const copy = quarantine(storedKey, stored);
        // Neither has it, so it was never acknowledged.
        const healed =
          bytes.length === 0 ? ({ kind: "delete", key: storedKey } as const) : { kind: "put" as const, key: storedKey, value: bytes };
        // The damaged bytes may have been a tombstone that the peers have dropped: from here on it stops nothing any more (I13).
        return { persist: place === undefined ? [copy, healed, forgotten.collected(this.#graceUs())] : [copy, healed], reply: true };
      },
    });
    if (isHealed) log.warn("a damaged row was replaced by what the other replicas have", { keyBytes: storedKey.length });
    return isHealed;
  }

  /** Tombstones up to this one may have been dropped. */
  #graceUs(): TimestampUs {
    const { clock, gcGraceMs } = this.#options;
    return timestampUsOf(BigInt(Math.max(0, clock.nowMs() - gcGraceMs)) * 1000n);
  }

  /**
   * A row of a group must be neither older than what this node has applied, which never comes again, nor newer: both peers answer as of at
   * least this node's place in the log, then this node reaches theirs. Neither has it: it may be of any group, and applied here alone so far.
   */
  async #ofPeers(key: Uint8Array): Promise<MergedRow> {
    const { applied, catchUp, timeoutMs } = this.#options;
    let row = await this.#read(key, []);
    const { place, bytes } = row;
    if (place === undefined && bytes.length > 0) return row;
    const positions = applied().filter(({ group }) => place === undefined || group === place.group);
    for (let at = 0; at < positions.length; at += HEAL_POSITIONS_MAX) {
      row = await this.#read(key, positions.slice(at, at + HEAL_POSITIONS_MAX));
    }
    if (row.place !== undefined) await catchUp(row.place.group, row.place.seq, timeoutMs);
    return row;
  }

  async #read(key: Uint8Array, after: readonly LogPosition[]): Promise<MergedRow> {
    const { peers, checksum } = this.#options;
    const timeoutMs = this.#options.timeoutMs + READ_MORE_MS_MAX;
    const answers = await Promise.all(peers.map((peer) => peer.readRows([key], timeoutMs, after)));
    return mergeAnswers(
      answers.map(([bytes]) => bytes!),
      checksum,
    );
  }
}

function isSound(stored: Uint8Array, checksum: Checksum): boolean {
  try {
    openRow(stored, checksum);
    return true;
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return false;
    throw thrown;
  }
}
