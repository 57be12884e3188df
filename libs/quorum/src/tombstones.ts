import { ByteReader, readOrderedBytes } from "@concord/codec";
import type { Checkpoints, KeyValue, KeyValueOperation, LogPosition, StepRunner, StoreStep, SuspectKeys } from "@concord/ports";
import {
  assert,
  ConcordError,
  nextSeq,
  SEQ_NONE,
  seqOf,
  sleep,
  every,
  Task,
  type Checksum,
  type Clock,
  type Log,
  type Metrics,
  type Seq,
  type Tasks,
} from "@concord/runtime";
import { TOMBSTONES_PAUSE_MS, TOMBSTONES_PER_STEP_MAX } from "./limits.ts";
import { openRow, storedRowKey, tombstoneKey, tombstoneOf, TOMBSTONES_NAMESPACE } from "./stored-row.ts";

const ALL = { from: Uint8Array.of(TOMBSTONES_NAMESPACE), to: Uint8Array.of(TOMBSTONES_NAMESPACE + 1) };
const COUNTED_PER_PAGE = 1000;
const NOTHING = new Uint8Array();

export interface TombstoneCollectorOptions {
  readonly reader: { range: KeyValue["range"] };
  readonly runner: StepRunner;
  readonly checkpoints: Checkpoints;
  /** Up to where every replica has applied each group's log, this one too. */
  readonly appliedByAll: () => readonly LogPosition[];
  /** Notes of rows that no step may load stay until the next start. */
  readonly suspects?: Pick<SuspectKeys, "refusal">;
  readonly checksum: Checksum;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Removes tombstones of groups' rows once every replica has applied their deletion (I9): after each checkpoint, step by step with pauses.
 * The step looks at the row itself: what a later entry put stays.
 */
export class TombstoneCollector {
  readonly #options: TombstoneCollectorOptions;
  /** Up to here the tombstones of each group were looked at. */
  readonly #collected = new Map<string, Seq>();
  #kept = 0;
  readonly #task: Task;

  constructor(options: TombstoneCollectorOptions) {
    this.#options = options;
    const { log } = options;
    this.#task = new Task({
      ...options,
      name: "storage: tombstones of transactional rows",
      firstAfterMs: Number.POSITIVE_INFINITY,
      ...every(Number.POSITIVE_INFINITY, () => this.#collect()),
      failed: ({ message }) => log.warn("tombstones wait for the next checkpoint", { reason: message }),
      progress: () => ({ kept: this.#kept }),
    });
  }

  /** Counts what is kept, before this node applies anything new. */
  async start(): Promise<void> {
    const { reader, checkpoints } = this.#options;
    let { from } = ALL;
    this.#kept = 0;
    for (;;) {
      const page = await reader.range({ ...ALL, from, limit: COUNTED_PER_PAGE });
      this.#kept += page.length;
      if (page.length < COUNTED_PER_PAGE) break;
      from = Uint8Array.of(...page.at(-1)!.key, 0);
    }
    checkpoints.onCheckpoint(() => () => this.#task.wake());
    this.#task.start();
  }

  /** An entry's rows were put: `rowsOfEntry` of it. */
  noticed(operations: readonly KeyValueOperation[]): void {
    // The notes come last.
    for (let at = operations.length - 1; at >= 0 && operations[at]!.key[0] === TOMBSTONES_NAMESPACE; at -= 1) this.#kept += 1;
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #collect(): Promise<void> {
    const { appliedByAll, metrics } = this.#options;
    for (const place of appliedByAll()) if ((this.#collected.get(place.group) ?? SEQ_NONE) < place.seq) await this.#collectGroup(place);
    metrics.gauge("quorum_tombstones_kept", this.#kept);
  }

  async #collectGroup({ group, seq }: LogPosition): Promise<void> {
    const { reader, runner, checksum, clock, suspects } = this.#options;
    const { signal } = this.#task;
    const to = tombstonesFrom(group, nextSeq(seq));
    let from = tombstonesFrom(group, nextSeq(this.#collected.get(group) ?? SEQ_NONE));
    while (!signal.aborted) {
      const found = await reader.range({ from, to, limit: TOMBSTONES_PER_STEP_MAX });
      const last = found.at(-1);
      const notes = found.map(({ key }) => key).filter((key) => suspects?.refusal([readTombstoneKey(key).storedKey]) === undefined);
      if (notes.length > 0) this.#kept -= await runner.submit(removal(notes, seq, checksum));
      if (last === undefined || found.length < TOMBSTONES_PER_STEP_MAX) {
        this.#collected.set(group, seq);
        return;
      }
      from = Uint8Array.of(...last.key, 0);
      await sleep(clock, TOMBSTONES_PAUSE_MS, signal);
    }
  }
}

function tombstonesFrom(group: string, seq: Seq): Uint8Array {
  return tombstoneKey({ group, seq }, NOTHING);
}

/** Answers how many notes went. A crash brings back both, tombstone and note, or neither. */
function removal(keys: readonly Uint8Array[], appliedByAllSeq: Seq, checksum: Checksum): StoreStep<number> {
  const notes = keys.map(readTombstoneKey);
  assert(
    notes.every(({ seq }) => seq <= appliedByAllSeq),
    "I9: a tombstone goes after every replica has applied its deletion",
  );
  return {
    load: notes.map(({ storedKey }) => storedKey),
    run: (loaded) => {
      assert(loaded.length === notes.length, "a step sees the row of each note");
      const persist = keys.map((key): KeyValueOperation => ({ kind: "delete", key }));
      for (const [at, { storedKey, seq }] of notes.entries()) {
        const stored = loaded[at];
        if (stored !== undefined && isTombstoneOf(stored, seq, checksum)) persist.push({ kind: "delete", key: storedKey });
      }
      return { persist, reply: keys.length };
    },
  };
}

function readTombstoneKey(key: Uint8Array): { readonly seq: Seq; readonly storedKey: Uint8Array } {
  assert(key[0] === TOMBSTONES_NAMESPACE, "I9: only notes of tombstones are collected");
  const reader = new ByteReader(key);
  reader.u8();
  readOrderedBytes(reader);
  const seq = seqOf(reader.u64());
  return { seq, storedKey: storedRowKey(reader.raw(reader.remaining)) };
}

/** False of a row that a later entry put, and of a damaged one: it is healed from the peers, which have none. */
function isTombstoneOf(stored: Uint8Array, seq: Seq, checksum: Checksum): boolean {
  try {
    const row = openRow(stored, checksum);
    return row.place?.seq === seq && tombstoneOf(row) !== undefined;
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return false;
    throw thrown;
  }
}
