import type { DeadLetter, DeadLetterReason, KeyValueOperation, PendingBatch, StoreStep } from "@concord/ports";
import { assert, ConcordError, timeIdMs, type Checksum, type Clock, type TimeId } from "@concord/runtime";
import { decodeEntry, decodeLetter, digestOf, encodeEntry, encodeLetter, entryKey, letterKey, type BatchEntry } from "./batch-entry.ts";
import { LOG_CALL_ENTRIES_MAX, PENDING_BYTES_MAX, PENDING_ENTRIES_MAX } from "./limits.ts";

/** What a holder knows of one entry without reading it. */
export interface HeldBatch extends PendingBatch {
  readonly holders: readonly string[];
  readonly bytes: number;
  readonly digest: string;
  /** Monotonic; undefined: found in the store at start. */
  readonly receivedAtMs: number | undefined;
  /** Nodes that confirmed the rows to this holder: the progress of replay (LBD5). */
  readonly confirmed: Set<string>;
}

/** An entry that failed its check when the store was opened. */
export interface UnreadableBatch {
  readonly id: TimeId;
  readonly bytes: number;
}

/**
 * The batchlog of one node as steps over its store (LB15, LBD2). The index of what is there lives in memory, loaded by
 * `openBatchLog`, and changes only inside `run`, in the order in which the effects reach the disk.
 */
export class BatchLog {
  readonly #checksum: Checksum;
  readonly #clock: Clock;
  readonly #pending = new Map<TimeId, HeldBatch>();
  readonly #unreadable = new Map<TimeId, UnreadableBatch>();
  readonly #letters = new Set<TimeId>();
  #bytes = 0;

  constructor(checksum: Checksum, clock: Clock) {
    this.#checksum = checksum;
    this.#clock = clock;
  }

  /** Oldest first; the entry's own creation time counts. */
  pending(): readonly HeldBatch[] {
    return [...this.#pending.values()].sort(byAge);
  }

  unreadable(): readonly UnreadableBatch[] {
    return [...this.#unreadable.values()];
  }

  get size(): number {
    return this.#pending.size + this.#unreadable.size;
  }

  /** Ids of dead letters, oldest first. */
  letters(): readonly TimeId[] {
    return [...this.#letters].sort();
  }

  /** Keeps entries. MALFORMED_REQUEST when one cannot be read, IDEMPOTENCY_MISMATCH, OVERLOADED: then none is kept. */
  put(entries: readonly Uint8Array[]): StoreStep<void> {
    if (entries.length === 0 || entries.length > LOG_CALL_ENTRIES_MAX) throw malformed(`1 to ${LOG_CALL_ENTRIES_MAX} entries in one put`);
    const decoded = entries.map((bytes) => this.#read(bytes));
    return {
      load: [],
      run: () => {
        for (const { summary } of decoded) this.#refuseOther(summary);
        this.#refuseOverload(decoded.map(({ summary }) => summary));
        for (const { summary } of decoded) if (!this.#pending.has(summary.id)) this.#add(summary);
        // durable before answered (I3); held ones are written again, so that a repeat waits for the first put
        return { persist: decoded.map(({ bytes, summary }) => put(entryKey(summary.id), bytes)), reply: undefined };
      },
    };
  }

  /** Forgets completed batches; unknown ids are no error (LB7). */
  remove(ids: readonly TimeId[]): StoreStep<void> {
    if (ids.length === 0 || ids.length > LOG_CALL_ENTRIES_MAX) throw malformed(`1 to ${LOG_CALL_ENTRIES_MAX} ids in one remove`);
    return {
      load: [],
      run: () => {
        const held = ids.filter((id) => this.#drop(id));
        return { persist: held.map((id) => remove(entryKey(id))), reply: undefined };
      },
    };
  }

  /** An entry's bytes as stored; undefined when it is gone. */
  read(id: TimeId): StoreStep<Uint8Array | undefined> {
    return { load: [entryKey(id)], run: ([bytes]) => ({ persist: [], reply: bytes }) };
  }

  /** Moves an entry to the dead letters in one write (I4, LBD6). False: it was gone. */
  deadLetter(id: TimeId, reason: DeadLetterReason): StoreStep<boolean> {
    return {
      load: [entryKey(id)],
      run: ([entry]) => {
        if (entry === undefined || !this.#drop(id)) return { persist: [], reply: false };
        assert(!this.#pending.has(id), "I4: in one place at a time");
        this.#letters.add(id);
        const letter = encodeLetter({ id, reason, setAsideMs: this.#clock.nowMs(), entry }, this.#checksum);
        return { persist: [remove(entryKey(id)), put(letterKey(id), letter)], reply: true };
      },
    };
  }

  readLetters(ids: readonly TimeId[]): StoreStep<readonly DeadLetter[]> {
    return {
      load: ids.map(letterKey),
      run: (loaded) => {
        const letters = loaded.flatMap((bytes, at) => (bytes === undefined ? [] : [decodeLetter(ids[at]!, bytes, this.#checksum)]));
        return { persist: [], reply: letters };
      },
    };
  }

  /** Moves a dead letter back to the log, as held by this node alone and created now, in one write (I4). */
  revive(entry: BatchEntry): StoreStep<HeldBatch> {
    const bytes = encodeEntry(entry, this.#checksum);
    const { summary } = this.#read(bytes);
    return {
      load: [],
      run: () => {
        if (!this.#letters.has(entry.id)) throw new ConcordError("NOT_FOUND", `no dead letter ${entry.id}`);
        this.#refuseOther(summary);
        this.#letters.delete(entry.id);
        if (!this.#pending.has(entry.id)) this.#add(summary);
        return { persist: [remove(letterKey(entry.id)), put(entryKey(entry.id), bytes)], reply: this.#pending.get(entry.id)! };
      },
    };
  }

  /** At open only: an entry found in the store. */
  found(id: TimeId, bytes: Uint8Array): void {
    assert(!this.#pending.has(id) && !this.#unreadable.has(id), "each entry is found once");
    try {
      const { summary } = this.#read(bytes);
      if (summary.id !== id) throw malformed("an entry under another key");
      this.#add({ ...summary, receivedAtMs: undefined });
    } catch (thrown) {
      if (!(thrown instanceof ConcordError)) throw thrown;
      this.#unreadable.set(id, { id, bytes: bytes.length });
    }
  }

  foundLetter(id: TimeId): void {
    this.#letters.add(id);
  }

  #read(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly summary: HeldBatch } {
    let entry: BatchEntry;
    try {
      entry = decodeEntry(bytes, this.#checksum);
    } catch (thrown) {
      throw malformed("a batchlog entry cannot be read", thrown);
    }
    const { id, coordinator, createdMs, timestampUs, holders, rowCount, mutations } = entry;
    const summary: HeldBatch = {
      id,
      coordinator,
      createdMs,
      timestampUs,
      holders,
      rowCount,
      bytes: bytes.length,
      digest: digestOf(timestampUs, mutations, this.#checksum),
      receivedAtMs: this.#clock.monotonicMs(),
      confirmed: new Set(),
    };
    return { bytes, summary };
  }

  #add(summary: HeldBatch): void {
    assert(!this.#pending.has(summary.id), "an entry is counted once");
    this.#pending.set(summary.id, summary);
    this.#bytes += summary.bytes;
  }

  #drop(id: TimeId): boolean {
    const held = this.#pending.get(id);
    if (held !== undefined) this.#bytes -= held.bytes;
    assert(this.#bytes >= 0, "what is dropped was counted");
    const unreadable = this.#unreadable.delete(id);
    return this.#pending.delete(id) || unreadable;
  }

  #refuseOther(summary: HeldBatch): void {
    const held = this.#pending.get(summary.id);
    if (held === undefined || held.digest === summary.digest) return;
    throw new ConcordError("IDEMPOTENCY_MISMATCH", `batch ${summary.id} is logged with another payload or timestamp`, {
      metadata: { batchId: summary.id },
    });
  }

  #refuseOverload(summaries: readonly HeldBatch[]): void {
    const bytes = summaries.reduce((sum, summary) => sum + summary.bytes, this.#bytes);
    if (this.size + summaries.length <= PENDING_ENTRIES_MAX && bytes <= PENDING_BYTES_MAX) return;
    const metadata = { limit: "PENDING_ENTRIES_MAX", entries: String(this.size), bytes: String(this.#bytes) };
    throw new ConcordError("OVERLOADED", "the batchlog is full until replay has completed some", { metadata });
  }
}

function byAge(left: HeldBatch, right: HeldBatch): number {
  return left.createdMs - right.createdMs || timeIdMs(left.id) - timeIdMs(right.id) || (left.id < right.id ? -1 : 1);
}

function put(key: Uint8Array, value: Uint8Array): KeyValueOperation {
  return { kind: "put", key, value };
}

function remove(key: Uint8Array): KeyValueOperation {
  return { kind: "delete", key };
}

function malformed(message: string, cause?: unknown): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", message, { cause });
}
