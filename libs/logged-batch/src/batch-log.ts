import { keyText } from "@concord/codec";
import type { DeadLetter, DeadLetterReason, KeyValueOperation, PendingBatch, StoreStep } from "@concord/ports";
import { applyRowsStep, type ApplyRowsReply, type OnRow } from "@concord/quorum";
import {
  assert,
  ConcordError,
  RotatingMap,
  TIMESTAMP_ZERO,
  timeIdMs,
  type Checksum,
  type Clock,
  type TimeId,
  type TimestampUs,
} from "@concord/runtime";
import { decodeEntry, decodeLetter, digestOf, encodeEntry, encodeLetter, entryKey, letterKey, type BatchEntry } from "./batch-entry.ts";
import type { BatchLogWrite, BatchLogWritten, PutResult } from "./batch-node.ts";
import {
  COORDINATED_SHARE,
  GC_GRACE_MS,
  LOG_CALL_ENTRIES_MAX,
  PENDING_BYTES_MAX,
  PENDING_ENTRIES_MAX,
  PREPARED_BYTES_MAX,
} from "./limits.ts";
import { UndecidedRows } from "./undecided-rows.ts";

/** The rows a held batch writes. */
export interface HeldRows {
  readonly storedKeys: readonly Uint8Array[];
  /** The keys as texts, in their order. */
  readonly names: readonly string[];
  /** Merges them. Undefined: it is made from the stored entry when it is needed. */
  readonly prepared: StoreStep<ApplyRowsReply> | undefined;
}

/** How far a held batch came at this node. */
export type HeldState =
  /** Not known here to be at two holders: no row of it is merged (I1), reads of its rows wait (I5). */
  | { readonly kind: "undecided"; readonly rows: HeldRows }
  /** Decided; some stored row fails its check, so that not every row is merged. */
  | { readonly kind: "damaged"; readonly rows: HeldRows }
  | { readonly kind: "merged" };

/** What a holder knows of one entry without reading it. */
export interface HeldBatch extends PendingBatch {
  /** Of the newest entry that came, as `createdMs`. */
  holders: readonly string[];
  readonly bytes: number;
  readonly digest: string;
  /** Of the newest entry that came: a redriven batch is new again (LBD6). */
  createdMs: number;
  /** Monotonic; undefined: found in the store at start. */
  readonly receivedAtMs: number | undefined;
  /** Nodes that confirmed the rows to this holder: the progress of replay (LBD5). */
  readonly confirmed: Set<string>;
  /** Nodes for which this holder keeps a hint with the rows, or the note that a comparison is due. */
  readonly hinted: Set<string>;
  state: HeldState;
}

/** An entry that failed its check when the store was opened. */
export interface UnreadableBatch {
  readonly id: TimeId;
  readonly bytes: number;
}

/** What one log keeps. */
export interface PendingLimits {
  readonly entries: number;
  readonly bytes: number;
  /** Bytes of entries whose merge is kept ready in memory; for more, the stored entry is read again. Default PREPARED_BYTES_MAX. */
  readonly preparedBytes?: number;
}

/** A limit of the batchlog that is reached. */
export interface ReachedLimit {
  readonly limit: string;
  readonly largest: number;
  readonly value: number;
}

export interface BatchLogOptions {
  readonly limits?: PendingLimits;
  /** Gets the size of each row that is merged. */
  readonly onRow?: OnRow;
  /** A row had newer cells when this batch of a coordinator was merged: a part of it has no effect. Called once in each life that merges it. */
  readonly onSuperseded?: (coordinator: string) => void;
}

export const PENDING_LIMITS: PendingLimits = { entries: PENDING_ENTRIES_MAX, bytes: PENDING_BYTES_MAX };

/** What this node has forgotten: quorum's Forgotten is one. */
export interface ForgottenDeletions {
  /** Of the newest one; 0 = none. */
  readonly newestUs: TimestampUs;
}

/**
 * The batchlog of one node as steps over its store (LB15, LBD2). The index of what is there lives in memory, loaded by
 * `openBatchLog`, and changes only inside `run`, in the order in which the effects reach the disk.
 */
export class BatchLog {
  readonly #checksum: Checksum;
  readonly #clock: Clock;
  readonly #forgotten: ForgottenDeletions;
  readonly #limits: PendingLimits;
  readonly #preparedBytesMax: number;
  readonly #onRow: OnRow | undefined;
  readonly #onSuperseded: (coordinator: string) => void;
  readonly #pending = new RotatingMap<TimeId, HeldBatch>();
  readonly #unreadable = new Map<TimeId, UnreadableBatch>();
  readonly #letters = new Set<TimeId>();
  readonly #undecided = new UndecidedRows<HeldBatch>();
  #bytes = 0;
  /** Entries that this node sends to all holders and that are not held here yet. */
  readonly #underWay = new RotatingMap<TimeId, Pick<HeldBatch, "bytes">>();
  #underWayBytes = 0;
  /** Of the entries whose merge is prepared. */
  #preparedBytes = 0;

  constructor(
    checksum: Checksum,
    clock: Clock,
    forgotten: ForgottenDeletions = { newestUs: TIMESTAMP_ZERO },
    options: BatchLogOptions = {},
  ) {
    this.#limits = options.limits ?? PENDING_LIMITS;
    this.#preparedBytesMax = this.#limits.preparedBytes ?? PREPARED_BYTES_MAX;
    this.#onRow = options.onRow;
    this.#onSuperseded = options.onSuperseded ?? (() => undefined);
    this.#checksum = checksum;
    this.#clock = clock;
    this.#forgotten = forgotten;
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

  /**
   * Counts an entry that this node is about to send, until it is held here or leaves; or reports the limit that it meets, and counts nothing. An entry that is
   * held or under way is no further one. A coordinator takes a share of the log, and of what is free of it the same part as every other one: what they have
   * under way finds space, so that a batch is refused before it is sent and not by a holder, when another one may have it.
   */
  admit(id: TimeId, bytes: number, coordinators: number): ReachedLimit | undefined {
    assert(coordinators >= 1, "this node is a coordinator");
    if (this.#pending.has(id) || this.#underWay.has(id)) return undefined;
    const { entries, bytes: bytesMax } = this.#limits;
    const [underWay, underWayBytes] = [this.#underWay.size, this.#underWayBytes];
    if (this.size + coordinators * underWay + 1 > COORDINATED_SHARE * entries)
      return { limit: "PENDING_ENTRIES_MAX", largest: entries, value: this.size + underWay };
    if (this.#bytes + coordinators * underWayBytes + bytes > COORDINATED_SHARE * bytesMax)
      return { limit: "PENDING_BYTES_MAX", largest: bytesMax, value: this.#bytes + underWayBytes };
    this.#underWay.set(id, { bytes });
    this.#underWayBytes += bytes;
    return undefined;
  }

  /** The entry is not under way to this log any more: it is held here, or was not taken. */
  leave(id: TimeId): void {
    const underWay = this.#underWay.get(id);
    if (underWay === undefined) return;
    this.#underWay.delete(id);
    this.#underWayBytes -= underWay.bytes;
    assert(this.#underWayBytes >= 0 && (this.#underWay.size > 0 || this.#underWayBytes === 0), "what leaves was counted");
  }

  /**
   * A deletion that is as new is forgotten here: merged, the batch could bring deleted rows back (I6). False of one that an operator had executed by force,
   * which one node holds, as created long after its timestamp (LBD6).
   */
  isForgotten({ timestampUs, createdMs, holders }: Pick<HeldBatch, "timestampUs" | "createdMs" | "holders">): boolean {
    const isForced = holders.length === 1 && BigInt(createdMs - GC_GRACE_MS) * 1000n > timestampUs;
    return timestampUs <= this.#forgotten.newestUs && !isForced;
  }

  isHeld(held: HeldBatch): boolean {
    return this.#pending.get(held.id) === held;
  }

  /** Ids of dead letters, oldest first. */
  letters(): readonly TimeId[] {
    return [...this.#letters].sort();
  }

  /** Held batches that write one of the rows, or one of a range, and may not be shown yet (I5). */
  get undecided(): UndecidedRows<HeldBatch> {
    return this.#undecided;
  }

  /** Keeps entries, merges the rows of decided batches, forgets removed ones (I3). MALFORMED_REQUEST: nothing is done. */
  write({ entries, decided, removed }: BatchLogWrite): StoreStep<BatchLogWritten> {
    refuseCount(entries.length, decided.length, removed.length);
    const read = entries.map((bytes) => this.#read(bytes));
    const merge = this.#mergeStep(decided);
    return {
      load: merge.load,
      run: (loaded) => {
        const merged = merge.run(loaded);
        const persist = [...merged.persist];
        const results = read.map(({ bytes, summary }) => this.#keep(bytes, summary, persist));
        for (const id of removed) if (this.#drop(id)) persist.push(remove(entryKey(id)));
        return { persist, reply: { results, applied: merged.reply } };
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
    assert(entry.holders.length === 1, "a redriven batch is held by one node (LBD6)");
    const bytes = encodeEntry(entry, this.#checksum);
    const { summary } = this.#read(bytes);
    return {
      load: [],
      run: () => {
        if (!this.#letters.has(entry.id)) throw new ConcordError("NOT_FOUND", `no dead letter ${entry.id}`);
        if (this.#isOther(summary)) throw new ConcordError("IDEMPOTENCY_MISMATCH", `batch ${entry.id} is held with another payload`);
        this.#letters.delete(entry.id);
        const held = this.#pending.get(entry.id);
        if (held === undefined) this.#add(summary);
        else renew(held, summary);
        const redriven = this.#pending.get(entry.id);
        assert(redriven !== undefined && !this.#letters.has(entry.id), "I4: what is redriven is in the log alone");
        return { persist: [remove(letterKey(entry.id)), put(entryKey(entry.id), bytes)], reply: redriven };
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
    assert(!this.#letters.has(id), "each letter is found once");
    this.#letters.add(id);
  }

  #read(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly summary: HeldBatch } {
    let entry: BatchEntry;
    let rows: HeldRows;
    try {
      entry = decodeEntry(bytes, this.#checksum);
      rows = this.#rowsOf(entry.mutations);
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
      hinted: new Set(),
      state: { kind: "undecided", rows },
    };
    return { bytes, summary };
  }

  /** Durable before answered (I3); held ones are written again, so that a repeat waits for the first put. */
  #keep(bytes: Uint8Array, summary: HeldBatch, persist: KeyValueOperation[]): PutResult {
    const held = this.#pending.get(summary.id);
    if (held !== undefined && held.digest !== summary.digest) return "mismatch";
    if (this.isForgotten(summary)) return "expired";
    if (held === undefined) {
      const { entries, bytes: bytesMax } = this.#limits;
      if (this.size >= entries) return "full-entries";
      if (this.#bytes + summary.bytes > bytesMax) return "full-bytes";
      this.#add(summary);
      assert(this.size <= entries && this.#bytes <= bytesMax, "what a holder keeps for others is bounded");
    } else renew(held, summary);
    persist.push(put(entryKey(summary.id), bytes));
    return "kept";
  }

  /** Merges the rows of decided batches, later ones on top of earlier ones; answers which are merged. */
  #mergeStep(ids: readonly TimeId[]): StoreStep<readonly boolean[]> {
    const planned = [...new Set(ids)].flatMap((id) => {
      const held = this.#pending.get(id);
      return held === undefined || held.state.kind === "merged" ? [] : [{ held, rows: held.state.rows }];
    });
    const keysOf = ({ held, rows }: (typeof planned)[number]): readonly Uint8Array[] =>
      rows.prepared === undefined ? [entryKey(held.id), ...rows.storedKeys] : rows.storedKeys;
    return {
      load: planned.flatMap(keysOf),
      run: (loaded) => {
        const persist: KeyValueOperation[] = [];
        // Several may write one row; one alone merges what was loaded.
        const values = planned.length > 1 ? new Map<string, Uint8Array | undefined>() : undefined;
        let at = 0;
        const merges = planned.map(({ held, rows }) => {
          const entry = rows.prepared === undefined ? loaded[at++] : undefined;
          const before = loaded.slice(at, (at += rows.names.length));
          if (values !== undefined) for (const [row, name] of rows.names.entries()) values.set(name, before[row]);
          return { held, rows, entry, before };
        });
        assert(at === loaded.length, "I3: every loaded row is of a batch that is merged");
        for (const { held, rows, entry, before } of merges) {
          if (this.#pending.get(held.id) !== held || held.state.kind === "merged" || this.isForgotten(held)) continue;
          const step = rows.prepared ?? this.#prepare(entry);
          if (step === undefined) continue;
          const effects = step.run(values === undefined ? before : rows.names.map((name) => values.get(name)));
          for (const operation of effects.persist) {
            persist.push(operation);
            if (values !== undefined && operation.kind === "put") values.set(keyText(operation.key), operation.value);
          }
          const { reply } = effects;
          this.#decide(held, reply.kind === "applied");
          if (reply.kind === "applied" && reply.supersededUs > TIMESTAMP_ZERO) this.#onSuperseded(held.coordinator);
        }
        return { persist, reply: ids.map((id) => this.#pending.get(id)?.state.kind === "merged") };
      },
    };
  }

  /** Undefined: the stored entry fails its check; replay makes it a dead letter. */
  #prepare(entry: Uint8Array | undefined): StoreStep<ApplyRowsReply> | undefined {
    assert(entry !== undefined, "a held entry is in the store (I3)");
    try {
      return this.#mergeOf(decodeEntry(entry, this.#checksum).mutations);
    } catch (thrown) {
      if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
      throw thrown;
    }
  }

  /** CORRUPT_DATA when a mutation does not decode. */
  #rowsOf(mutations: readonly Uint8Array[]): HeldRows {
    const prepared = this.#mergeOf(mutations);
    return { storedKeys: prepared.load, names: prepared.load.map(keyText), prepared };
  }

  #mergeOf(mutations: readonly Uint8Array[]): StoreStep<ApplyRowsReply> {
    return applyRowsStep(mutations, this.#checksum, undefined, this.#onRow);
  }

  #decide(held: HeldBatch, isMerged: boolean): void {
    assert(this.isHeld(held), "I1: what is decided is held");
    assert(!this.isForgotten(held), "I6: no row is merged that a forgotten deletion had deleted");
    assert(held.state.kind !== "merged", "the rows of a batch are merged once");
    const { rows } = held.state;
    this.#release(held);
    held.state = isMerged ? { kind: "merged" } : { kind: "damaged", rows: { ...rows, prepared: undefined } };
  }

  /** Readers of its rows wait no longer; what was prepared for it is gone. */
  #release(held: HeldBatch): void {
    if (held.state.kind !== "undecided") return;
    this.#undecided.delete(held, held.state.rows.names);
    if (held.state.rows.prepared !== undefined) this.#preparedBytes -= held.bytes;
    assert(this.#preparedBytes >= 0, "what is released was counted");
    assert(this.#undecided.size > 0 || this.#preparedBytes === 0, "what is kept ready is of undecided batches");
  }

  #add(summary: HeldBatch): void {
    assert(!this.#pending.has(summary.id), "an entry is counted once");
    assert(summary.state.kind === "undecided", "I5: what is held is undecided at first, after a restart too");
    this.#pending.set(summary.id, summary);
    const { rows } = summary.state;
    if (this.#preparedBytes + summary.bytes > this.#preparedBytesMax)
      summary.state = { kind: "undecided", rows: { ...rows, prepared: undefined } };
    else this.#preparedBytes += summary.bytes;
    assert(this.#preparedBytes <= this.#preparedBytesMax, "what is kept ready is bounded");
    this.#undecided.add(summary, rows.names);
    this.#bytes += summary.bytes;
    this.leave(summary.id);
  }

  #drop(id: TimeId): boolean {
    const held = this.#pending.get(id);
    if (held !== undefined) this.#bytes -= held.bytes;
    if (held !== undefined) this.#release(held);
    assert(this.#bytes >= 0, "what is dropped was counted");
    const unreadable = this.#unreadable.delete(id);
    const isDropped = this.#pending.delete(id) || unreadable;
    assert(this.#undecided.size <= this.#pending.size, "I5: what a read waits for is held");
    assert(this.#pending.size > 0 || (this.#bytes === 0 && this.#preparedBytes === 0), "what is counted is held");
    return isDropped;
  }

  #isOther(summary: HeldBatch): boolean {
    const held = this.#pending.get(summary.id);
    return held !== undefined && held.digest !== summary.digest;
  }
}

/** What an operator redrove is as old as its redrive, here too. */
function renew(held: HeldBatch, { createdMs, digest, holders }: HeldBatch): void {
  assert(held.digest === digest, "LBD8: what is held keeps its first payload");
  if (createdMs <= held.createdMs) return;
  held.createdMs = createdMs;
  held.holders = holders;
}

function refuseCount(...counts: readonly number[]): void {
  const largest = Math.max(...counts);
  if (largest === 0 || largest > LOG_CALL_ENTRIES_MAX) throw malformed(`1 to ${LOG_CALL_ENTRIES_MAX} batches in one call`);
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
