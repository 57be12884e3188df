import { compareBytes, keyText } from "@concord/codec";
import type { Journal } from "@concord/journal";
import type { DerivedWrite, KeyRange, KeyValueEntry, KeyValueOperation, Store, SuspectRange } from "@concord/ports";
import { BoundedCache, assert, ConcordError, isShortage, silentMetrics, toConcordError, type Metrics, type Timer } from "@concord/runtime";
import { NO_EVIDENCE, writeCheckpoint, type Checkpoint } from "./checkpoint-file.ts";
import { removeCutFile } from "./cut-file.ts";
import { damaged, describeDifference } from "./damage.ts";
import { type DirtyTable } from "./dirty-table.ts";
import { DirtyEntry, valueOf } from "./dirty-entry.ts";
import {
  CHECKPOINT_BATCH_BYTES,
  CHECKPOINT_KEYS_PER_CALL,
  CHECKPOINT_KEYS_PER_TURN,
  KNOWN_KEY_BYTES,
  KNOWN_KEYS,
  READ_KEYS_PER_CALL,
} from "./limits.ts";
import { keyAfter, mergeRange } from "./merge-range.ts";
import { patientReads, untilSpace, type BackingReads } from "./patient-reads.ts";
import { ABSENT, imageBehind, type RangeSums } from "./range-sums.ts";
import { encodeBatch, encodeIntents, setAcknowledged, type IntentEntry } from "./record-format.ts";
import { Scan, countOf } from "./scan-sums.ts";
import { ServingScan } from "./serving-scan.ts";
import type { OpenedState, StoreContext } from "./store-context.ts";
import { StoredKeys } from "./stored-keys.ts";
import { StoreSuspects } from "./suspect-keys.ts";

interface Write {
  /** Undefined: nothing of it is journalled. */
  readonly payload: Uint8Array | undefined;
  readonly entries: readonly DirtyEntry[];
  /** Sequence behind its record, once that is durable; of a write without one, 0 as soon as it is handed over. */
  durable: bigint | undefined;
  resolve(): void;
  reject(error: ConcordError): void;
}

type Health = { readonly kind: "healthy" } | { readonly kind: "closing" } | { readonly kind: "failed"; readonly cause: ConcordError };

/** Values that a checkpoint writes. */
type Frozen = readonly DirtyEntry[];

/** Of a value in the backing store. */
interface KnownImage {
  readonly key: Uint8Array;
  readonly image: number;
}

/** What a checkpoint makes of a key: images in the backing store before and after it. */
interface Change extends IntentEntry {
  readonly entry: DirtyEntry;
}

/** A value that came and went between two checkpoints was never in the backing store: an entry of a log that is trimmed soon. */
function isWritten({ before, after }: Change): boolean {
  return before !== ABSENT || after !== ABSENT;
}

/**
 * The journal decides what is durable; values between two checkpoints are in memory; the backing store has everything below the newest
 * checkpoint. The README has the crash points.
 */
export class JournaledStore implements Store {
  readonly incarnation: string;
  readonly cutTail: boolean;
  readonly suspects: StoreSuspects;
  readonly #context: StoreContext;
  readonly #metrics: Metrics;
  readonly #journal: Journal;
  readonly #table: DirtyTable;
  /** The backing store, for checkpoints. */
  readonly #backing: BackingReads;
  /** By hash, the oldest first: of keys in the backing store that are not dirty and were written more than once; of two with one hash the later. */
  readonly #known = new BoundedCache<number, KnownImage>(KNOWN_KEYS);
  /** Of the keys in the backing store, and of those that a checkpoint is going to put there; undefined until a scan has read them. */
  #keys: StoredKeys | undefined;
  readonly #reads = new Set<Promise<unknown>>();
  readonly #checkpointListeners: (() => () => void)[] = [];
  /** What it reads is compared with the sums, and its keys are trusted, at its end; undefined then. */
  #scan: ServingScan | undefined;
  #sums: RangeSums;
  #newest: Checkpoint;
  /** Writes that wait for the end of a checkpoint, in call order. */
  #waiting: Write[] = [];
  /** Writes that were handed to the journal and are not in the table yet, in call order. */
  #handed: Write[] = [];
  /** Called when no write is on its way to the table any more, or the store failed. */
  #settled: (() => void)[] = [];
  /** Sequence behind the newest record that is durable and in the table. */
  #applied: bigint;
  /** Journalled since the newest checkpoint began. */
  #journalledBytes: number;
  /** Of the oldest record whose writes are in the table, but for those that a checkpoint left there. */
  #tableFrom: bigint;
  #checkpoint: Promise<void> | undefined;
  #timer: Timer | undefined;
  #isLeaving = false;
  #closed: Promise<void> | undefined;
  #health: Health = { kind: "healthy" };

  constructor(context: StoreContext, opened: OpenedState) {
    this.#context = context;
    this.#metrics = context.metrics ?? silentMetrics;
    this.incarnation = opened.incarnation;
    this.cutTail = opened.cutTail;
    this.#journal = opened.journal;
    this.#table = opened.table;
    this.#backing = patientReads(context.backing, context.clock, () => this.#isLeaving);
    this.#sums = opened.sums;
    this.#keys = opened.keys;
    this.#newest = opened.checkpoint;
    this.#applied = opened.journal.durableSequence;
    this.#journalledBytes = opened.journalledBytes;
    this.suspects = new StoreSuspects(opened.checkpoint.suspects, {
      page: (range) => this.#range(range),
      write: (operations) => this.batch(operations),
      checkpoint: (kept) => this.#checkpointWith(kept),
    });
    this.#tableFrom = opened.checkpoint.left.from;
    this.#scheduleCheckpoint();
    this.#scanWhenDue();
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return (await this.getMany([key]))[0];
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    this.#refuseReads();
    const refusal = this.suspects.refusal(keys);
    if (refusal !== undefined) throw refusal;
    const { backing, checksum } = this.#context;
    const values: (Uint8Array | undefined)[] = [];
    const [asked, places]: [Uint8Array[], number[]] = [[], []];
    for (const [at, key] of keys.entries()) {
      const entry = this.#table.get(key);
      values.push(entry && valueOf(entry)?.slice());
      if (entry !== undefined || !this.#mayHave(checksum(key))) continue;
      asked.push(key);
      places.push(at);
    }
    if (asked.length === 0) return values;
    const loaded = await this.#reading(backing.getMany(asked));
    for (const [nth, at] of places.entries()) values[at] = loaded[nth];
    return values;
  }

  peek(key: Uint8Array): Uint8Array | undefined | "ask" {
    if (this.#health.kind === "failed" || this.suspects.refusal([key]) !== undefined) return "ask";
    const entry = this.#table.get(key);
    if (entry !== undefined) return valueOf(entry);
    return this.#mayHave(this.#context.checksum(key)) ? "ask" : undefined;
  }

  async range(range: KeyRange): Promise<KeyValueEntry[]> {
    this.#refuseReads();
    return this.suspects.checkedRange(range, (part) => this.#range(part));
  }

  async #range(range: KeyRange): Promise<KeyValueEntry[]> {
    const { entries, isCut } = this.#table.within(range);
    const last = entries.at(-1)?.operation.key;
    const bounds =
      !isCut || last === undefined ? range : range.reverse === true ? { ...range, from: last } : { ...range, to: keyAfter(last) };
    return this.#reading(mergeRange(bounds, entries, (part) => this.#context.backing.range(part)));
  }

  /** Every batch is durable when it resolves, whatever `sync` says. */
  batch(operations: readonly KeyValueOperation[]): Promise<void> {
    return this.write(new Map(operations.map((operation) => [keyText(operation.key), operation])), NONE);
  }

  write(persist: ReadonlyMap<string, KeyValueOperation>, derived: readonly DerivedWrite[]): Promise<void> {
    const refusal = this.#refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    const journalled = persist.size === 0 ? undefined : encodeBatch([...persist.values()]);
    const bytesMax = this.#context.limits.journal.recordBytes ?? Number.MAX_SAFE_INTEGER;
    if (journalled !== undefined && journalled.payload.length > bytesMax) {
      const text = `a batch of ${journalled.payload.length} bytes is over the limit of ${bytesMax}: write it in parts`;
      return Promise.reject(new ConcordError("LIMIT_EXCEEDED", text, { applied: "no", metadata: { limit: "recordBytes" } }));
    }
    const entries = (journalled?.operations ?? []).map((operation) => new DirtyEntry(operation));
    for (const write of derived) entries.push(new DirtyEntry(write, "derived", write.hash));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ payload: journalled?.payload, entries, durable: undefined, resolve, reject });
      this.#admit();
    });
  }

  /** Idempotent; nothing to do where cuts are not kept. */
  caughtUp(): Promise<void> {
    return removeCutFile(this.#context.disk, this.#context.folder);
  }

  onCheckpoint(begun: () => () => void): void {
    this.#checkpointListeners.push(begun);
  }

  /** Waits for what was written, and puts it below a checkpoint: the next opening has nothing to replay. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  refuseWaiting(): void {
    this.#isLeaving = true;
    this.#context.backing.refuseWaiting?.();
    this.#journal.refuseWaiting();
  }

  async #close(): Promise<void> {
    this.refuseWaiting();
    while (this.#health.kind === "healthy" && this.#waiting.length > 0) await this.#startCheckpoint();
    if (this.#health.kind === "healthy") this.#health = { kind: "closing" };
    this.#scan?.stop();
    await this.#checkpoint;
    if (this.#handed.length > 0 || this.#table.size > 0) await this.#startCheckpoint();
    this.#timer?.cancel();
    await Promise.allSettled(this.#reads);
    try {
      await this.#journal.close();
    } finally {
      await this.#context.backing.close();
    }
  }

  #refusal(): ConcordError | undefined {
    if (this.#health.kind === "closing") return new ConcordError("DRAINING", "the store is closed", { applied: "no" });
    if (this.#health.kind === "failed") return storeFailed("an earlier write failed", this.#health.cause, "no");
    return undefined;
  }

  /** What failed may be the backing store itself. */
  #refuseReads(): void {
    if (this.#health.kind === "failed") throw storeFailed("the store failed", this.#health.cause, "no");
  }

  /** Hands writes over in call order; those over the limit wait for a checkpoint. */
  #admit(): void {
    while (this.#waiting.length > 0 && !this.#isFull()) this.#hand(this.#waiting.shift()!);
    if (this.#waiting.length > 0) void this.#startCheckpoint();
  }

  #isFull(): boolean {
    const { dirtyBytesMax } = this.#context.limits;
    return this.#journalledBytes >= dirtyBytesMax || this.#table.bytes >= dirtyBytesMax;
  }

  #hand(write: Write): void {
    this.#handed.push(write);
    if (write.payload === undefined) {
      write.durable = 0n;
      this.#applyDurable();
      return;
    }
    this.#append(write.payload).then(
      (sequence) => {
        write.durable = sequence + 1n;
        this.#applyDurable();
      },
      (thrown: unknown) => this.#fail(thrown),
    );
  }

  #append(payload: Uint8Array): Promise<bigint> {
    this.#account(payload);
    return this.#journal.append(payload);
  }

  /** Also in a full journal, which only the checkpoint that it belongs to can trim (OGD13): opening takes either kind. */
  #appendIntent(payload: Uint8Array): Promise<bigint> {
    this.#account(payload);
    return this.#untilSpace(() => this.#journal.checkpoint(() => payload));
  }

  /** A checkpoint waits on a full disk, and for a descriptor: the store serves what it has. */
  #untilSpace<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    return untilSpace(act, this.#context.clock, () => this.#isLeaving);
  }

  #account(payload: Uint8Array): void {
    setAcknowledged(payload, this.#applied);
    this.#journalledBytes += payload.length;
  }

  /** Durable before visible, and visible before answered (I1); in the order of the calls (I2). */
  #applyDurable(): void {
    if (this.#health.kind === "failed") return;
    while (this.#handed.length > 0 && this.#handed[0]!.durable !== undefined) {
      const { durable, entries, resolve } = this.#handed.shift()!;
      for (const entry of entries) this.#put(entry);
      // A position never passes a write that is not in the table.
      if (durable! > this.#applied) this.#applied = durable!;
      resolve();
    }
    if (this.#handed.length === 0) for (const settled of this.#settled.splice(0)) settled();
    this.#scheduleCheckpoint();
  }

  #put(entry: DirtyEntry): void {
    if (!this.#table.put(entry)) return;
    const known = this.#known.get(entry.hash);
    if (known === undefined || compareBytes(known.key, entry.key) !== 0) return;
    entry.base = known.image;
    this.#known.delete(entry.hash);
  }

  /** Now when enough is dirty, else in time. */
  #scheduleCheckpoint(): void {
    if (this.#health.kind !== "healthy" || this.#table.size === 0 || this.#checkpoint !== undefined) return;
    const { checkpointBytes, checkpointAgeMs } = this.#context.limits;
    if (this.#journalledBytes >= checkpointBytes || this.#table.newBytes >= checkpointBytes) {
      void this.#startCheckpoint();
      return;
    }
    this.#timer ??= this.#context.clock.setTimer(checkpointAgeMs, () => {
      this.#timer = undefined;
      if (this.#health.kind === "healthy") void this.#startCheckpoint();
    });
  }

  /** Not one that runs: it may have begun before the writes that this one must hold. */
  async #checkpointWith(suspects: readonly SuspectRange[]): Promise<void> {
    while (this.#checkpoint !== undefined) await this.#checkpoint;
    const refusal = this.#refusal();
    if (refusal !== undefined) throw refusal;
    await this.#startCheckpoint(suspects);
    if (this.#health.kind === "failed") throw storeFailed("the checkpoint failed", this.#health.cause, "unknown");
  }

  /** One at a time. Never rejects: a failed checkpoint is a failed store. */
  #startCheckpoint(suspects: readonly SuspectRange[] = this.#newest.suspects): Promise<void> {
    this.#checkpoint ??= this.#makeCheckpoint(suspects).then(
      () => this.#endCheckpoint(),
      (thrown: unknown) => {
        this.#fail(thrown);
        this.#endCheckpoint();
      },
    );
    return this.#checkpoint;
  }

  #endCheckpoint(): void {
    this.#checkpoint = undefined;
    this.#scanWhenDue();
    // Under a load that makes one checkpoint after the other the scan goes on all the same.
    this.#scan?.wake();
    if (this.#health.kind === "healthy") this.#admit();
    this.#scheduleCheckpoint();
  }

  async #makeCheckpoint(suspects: readonly SuspectRange[]): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    const { disk, folder, checksum, failpoint, backing, clock } = this.#context;
    const startedMs = clock.monotonicMs();
    // Steps that have run have handed their writes over, unless these wait for this very checkpoint: then the next one tells (I6).
    const listeners = this.#waiting.length > 0 ? [] : this.#checkpointListeners.map((begun) => begun());
    await this.#whenSettled();
    const [frozen, position, journalled] = [this.#table.freeze(), this.#applied, this.#journalledBytes];
    // A read that began before sees the backing store as it was (I5); later ones see these entries in the table.
    await Promise.allSettled(this.#reads);
    if (this.#health.kind === "failed") throw this.#health.cause;
    const left = this.#leftOf(frozen, journalled);
    const changes = await this.#changesOf(left.length === 0 ? frozen : frozen.filter(({ image }) => image === undefined));
    const written = changes.filter(isWritten);
    await this.#intend(written);
    failpoint("store:intended");
    await this.#writeRows(written);
    failpoint("store:rows-written");
    await backing.flush();
    failpoint("store:flushed");
    const sums = this.#sums.copy();
    for (const { key, before, after } of changes) sums.change(key, before, after);
    const evidence = await this.#backing.evidence();
    const keys = await this.#keys?.note();
    const from = left.length === 0 ? position : this.#tableFrom;
    const checkpoint = {
      number: this.#newest.number + 1n,
      position,
      left: { from, namespaces: this.#context.shortLived ?? new Uint8Array() },
      sums: sums.list(),
      evidence,
      scannedMs: this.#newest.scannedMs,
      keys,
      suspects,
    };
    await this.#untilSpace(() => writeCheckpoint(disk, folder, checkpoint, checksum));
    failpoint("store:checkpointed");
    this.#newest = checkpoint;
    this.#sums = sums;
    const scan = this.#scan?.scan;
    if (scan !== undefined) for (const { key, before, after } of changes) scan.changed(key, before, after);
    this.#tableFrom = position;
    this.#table.release(left);
    for (const done of listeners) done();
    await this.#untilSpace(() => this.#journal.trim(from));
    // Not before: writes that wait for a full journal find space in it.
    this.#journalledBytes -= journalled;
    failpoint("store:trimmed");
    this.#metrics.observe("store_checkpoint_seconds", (clock.monotonicMs() - startedMs) / 1000);
    this.#metrics.count("store_checkpoint_keys_total", written.length);
  }

  /** A clock that was set back makes it due: nothing is known of when it ended. */
  #scanWhenDue(): void {
    if (this.#scan !== undefined || this.#health.kind !== "healthy") return;
    const { clock, limits, backing, checksum } = this.#context;
    const sinceMs = clock.nowMs() - (this.#newest.scannedMs ?? Number.NEGATIVE_INFINITY);
    if (this.#keys !== undefined && sinceMs >= 0 && sinceMs < limits.scanEveryMs) return;
    const keys = StoredKeys.begin(this.#context, countOf(this.#newest.sums));
    const scan = new Scan(backing, checksum, keys);
    // Between checkpoints the backing store and the sums say the same.
    const mayRead = (): boolean => this.#health.kind === "healthy" && this.#checkpoint === undefined;
    const run = (read: Promise<void>): void => void this.#reading(read).catch((thrown: unknown) => this.#fail(thrown));
    this.#scan = new ServingScan({ clock, entries: limits.scanEntries, scan, keys, mayRead, run, onEnd: () => this.#endScan(scan, keys) });
    this.#metrics.gauge("store_scan_running", 1);
  }

  async #endScan(scan: Scan, keys: StoredKeys): Promise<void> {
    const { disk, folder, checksum, clock } = this.#context;
    const wrong = this.#sums.difference(scan.sums);
    if (wrong !== undefined) await this.#refuse(damaged(folder, describeDifference(wrong)));
    await keys.finish();
    const checkpoint = { ...this.#newest, scannedMs: clock.nowMs(), keys: await keys.note() };
    await this.#untilSpace(() => writeCheckpoint(disk, folder, checkpoint, checksum));
    this.#newest = checkpoint;
    this.#keys = keys;
    this.#scan = undefined;
    this.#metrics.gauge("store_scan_running", 0);
  }

  /** Without evidence every later opening reads everything first, and refuses. */
  async #refuse(damage: ConcordError): Promise<void> {
    const { disk, folder, checksum } = this.#context;
    await writeCheckpoint(disk, folder, { ...this.#newest, evidence: NO_EVIDENCE }, checksum);
    throw damage;
  }

  #mayHave(keyChecksum: number): boolean {
    return this.#keys === undefined || this.#keys.filter.mayHave(keyChecksum);
  }

  /**
   * New values of short-lived keys, if there is space for them: most are deleted before the next checkpoint and are never written. Their
   * journal is kept one checkpoint longer (I7).
   */
  #leftOf(frozen: Frozen, journalled: number): Frozen {
    const { shortLived, limits, checksum } = this.#context;
    if (shortLived === undefined || this.#health.kind !== "healthy" || 2 * journalled > limits.dirtyBytesMax) return [];
    const left = frozen.filter((entry) => {
      if (entry.origin !== "journalled" || entry.operation.kind === "delete") return false;
      const { key } = entry.operation;
      if (!shortLived.includes(key[0] ?? 0)) return false;
      const base = entry.base === undefined && !this.#mayHave(checksum(key)) ? ABSENT : entry.base;
      return (typeof base === "object" ? base.image : base) === ABSENT;
    });
    for (const entry of left) entry.image = ABSENT;
    return left;
  }

  /** What has to become of each key in the backing store. */
  async #changesOf(frozen: Frozen): Promise<readonly Change[]> {
    const { checksum } = this.#context;
    const changes: Change[] = [];
    for (let at = 0; at < frozen.length; at += CHECKPOINT_KEYS_PER_TURN) {
      if (at > 0) await this.#pause();
      const part = frozen.slice(at, at + CHECKPOINT_KEYS_PER_TURN);
      const keyChecksums = part.map(({ operation }) => checksum(operation.key));
      const before = await this.#imagesBelow(part, keyChecksums);
      for (let place = 0; place < part.length; place += 1) {
        changes.push(this.#changeOf(part[place]!, keyChecksums[place]!, before[place]!));
      }
    }
    this.#metrics.gauge("store_key_filter_bytes", this.#keys?.filter.bytes ?? 0);
    return changes;
  }

  /** What is learned of the key counts once the entry has left the table. */
  #changeOf(entry: DirtyEntry, keyChecksum: number, before: number): Change {
    const value = valueOf(entry);
    const after = imageBehind(keyChecksum, value, this.#context.checksum);
    entry.base = before;
    entry.image = after;
    if (value === undefined) this.#known.delete(entry.hash);
    else if (before === ABSENT) for (const keys of [this.#keys, this.#scan?.keys]) keys?.add(keyChecksum);
    // What was written once mostly stays as it is, what was written again is written once more.
    if (before !== ABSENT && after !== ABSENT) this.#know(entry, after);
    return { key: entry.operation.key, before, after, entry };
  }

  /** The journal knows every key that the checkpoint is going to change, before it changes one (I4). */
  async #intend(changes: readonly Change[]): Promise<void> {
    const bytesMax = Math.min(CHECKPOINT_BATCH_BYTES, this.#context.limits.journal.recordBytes ?? CHECKPOINT_BATCH_BYTES);
    const intents = encodeIntents(this.#newest.number + 1n, changes, { bytesMax, entriesMax: CHECKPOINT_KEYS_PER_CALL });
    await Promise.all(intents.map((payload) => this.#appendIntent(payload)));
  }

  /** What the backing store has under these keys. */
  async #imagesBelow(part: Frozen, keyChecksums: readonly number[]): Promise<readonly number[]> {
    const { checksum } = this.#context;
    const unknown: number[] = [];
    const images = part.map(({ base }, place) => {
      if (base === undefined && this.#mayHave(keyChecksums[place]!)) unknown.push(place);
      const image = typeof base === "object" ? base.image : base;
      assert(image !== undefined || base === undefined, "a frozen entry got its image before its checkpoint ended");
      return image ?? ABSENT;
    });
    for (let at = 0; at < unknown.length; at += READ_KEYS_PER_CALL) {
      const places = unknown.slice(at, at + READ_KEYS_PER_CALL);
      const values = await this.#backing.getMany(places.map((place) => part[place]!.operation.key));
      for (const [nth, place] of places.entries()) images[place] = imageBehind(keyChecksums[place]!, values[nth], checksum);
    }
    return images;
  }

  async #writeRows(changes: readonly Change[]): Promise<void> {
    const { backing } = this.#context;
    let [operations, bytes]: [KeyValueOperation[], number] = [[], 0];
    for (const { key, entry } of changes) {
      operations.push(entry.operation);
      bytes += key.length + (valueOf(entry)?.length ?? 0);
      if (operations.length < CHECKPOINT_KEYS_PER_CALL && bytes < CHECKPOINT_BATCH_BYTES) continue;
      await backing.batch(operations);
      [operations, bytes] = [[], 0];
    }
    if (operations.length > 0) await backing.batch(operations);
  }

  #know({ key, hash }: DirtyEntry, image: number): void {
    // A part of a larger buffer would keep all of it.
    this.#known.set(hash, { key: key.slice(), image }, key.length + KNOWN_KEY_BYTES);
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#context.clock.defer(resolve));
  }

  async #reading<Answer>(read: Promise<Answer>): Promise<Answer> {
    this.#reads.add(read);
    return await read.finally(() => this.#reads.delete(read));
  }

  /** When every write that was handed over is in the table. */
  async #whenSettled(): Promise<void> {
    if (this.#handed.length > 0) await new Promise<void>((resolve) => this.#settled.push(resolve));
    if (this.#health.kind === "failed") throw this.#health.cause;
  }

  #fail(thrown: unknown): void {
    if (this.#health.kind === "failed") return;
    const cause = toConcordError(thrown);
    this.#health = { kind: "failed", cause };
    this.#timer?.cancel();
    this.#scan?.stop();
    // What a checkpoint lacks is in the journal, where the next opening finds it.
    const isLeft = this.#isLeaving && isShortage(cause);
    const { log, folder } = this.#context;
    if (isLeft) log.warn("no space or no descriptor: the store is closed without a checkpoint", { folder, reason: cause.message });
    else log.error("the store failed", { folder, reason: cause.message });
    for (const { reject } of this.#handed.splice(0)) reject(storeFailed("the write failed", cause, "unknown"));
    for (const { reject } of this.#waiting.splice(0)) reject(storeFailed("an earlier write failed", cause, "no"));
    for (const settled of this.#settled.splice(0)) settled();
    if (!isLeft) this.#context.onFailed?.(cause);
  }
}

const NONE: readonly DerivedWrite[] = [];

function storeFailed(what: string, cause: ConcordError, applied: "no" | "unknown"): ConcordError {
  return new ConcordError("STORE_FAILED", `${what}: ${cause.message}`, { applied, cause });
}
