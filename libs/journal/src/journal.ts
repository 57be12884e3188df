import { assert, ConcordError, isShortage, silentMetrics, type Metrics } from "@concord/runtime";
import type { Journal, JournalOptions, JournalRecord } from "./api.ts";
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, SEGMENT_ID_BYTES, type SegmentHeader } from "./format.ts";
import { encodeGroup, groupBytes, type EncodedGroup, type Pending } from "./group.ts";
import { OPEN_SEGMENTS_MAX, PREPARED_AFTER_PART, type JournalLimits } from "./limits.ts";
import { PreparedFile } from "./prepared-file.ts";
import { readBackward, readForward, type Place } from "./read.ts";
import type { Recovered } from "./recover.ts";
import { inFolder, Segment, segmentName, SparseIndex } from "./segment.ts";

const COUNT_MAX = 2 ** 32 - 1;
const nothing = (): void => undefined;

type State =
  | { readonly kind: "running" }
  /** A sync failed and no segment could follow: what is on disk is known only after opening again. */
  | { readonly kind: "stopped"; readonly cause: unknown }
  /** Only read: an append would follow what is not known. */
  | { readonly kind: "damaged"; readonly damage: ConcordError }
  | { readonly kind: "closing" };

/** The one writer of a journal. Records wait in a queue; a loop takes groups from it: one write, one sync, then the answers (I1, I2). */
export class SegmentedJournal implements Journal {
  readonly #options: JournalOptions;
  readonly #limits: JournalLimits;
  readonly #metrics: Metrics;
  readonly #failpoint: (name: string) => void;
  readonly #prepared: PreparedFile;
  #segments: Segment[];
  #queue: Pending[] = [];
  #queuedBytes = 0;
  #queuedUnits = 0n;
  /** Units of the group on its way to the disk. */
  #writingUnits = 0n;
  #durableSequence: bigint;
  #lastSequence: bigint | undefined;
  #lastOrdinal: number;
  /** Nothing is written to the newest segment any more: its successor says where it ended (I4, I5). */
  #isSealed: boolean;
  #state: State = { kind: "running" };
  #sizeBytes: number;
  #loop: Promise<void> | undefined;
  #trimming: Promise<unknown> = Promise.resolve();
  /** No write waits for space or descriptors any more. */
  #refusesWaiting = false;
  /** The newest try to write found no space, or no descriptor. */
  #isWaiting = false;
  /** A segment's file was removed, which is not durable yet. */
  #hasUnsyncedRemoval = false;
  /** Where the last forward read ended: the next one mostly begins there. */
  #place: Place | undefined;

  constructor(options: JournalOptions, limits: JournalLimits, recovered: Recovered) {
    this.#options = options;
    this.#limits = limits;
    this.#metrics = options.metrics ?? silentMetrics;
    this.#failpoint = options.failpoint ?? nothing;
    this.#prepared = new PreparedFile(options, limits.preparedBytes);
    this.#segments = recovered.segments;
    this.#durableSequence = recovered.nextSequence;
    this.#lastSequence = recovered.lastSequence;
    this.#lastOrdinal = recovered.lastOrdinal;
    this.#sizeBytes = recovered.segments.reduce((sum, { end }) => sum + end, 0);
    this.#isSealed = recovered.isEndLost || (recovered.segments.at(-1)?.damage.length ?? 0) > 0;
    if (recovered.damage !== undefined) this.#state = { kind: "damaged", damage: recovered.damage };
  }

  get firstSequence(): bigint {
    return this.#segments[0]?.header.firstSequence ?? this.#durableSequence;
  }

  get nextSequence(): bigint {
    return this.#durableSequence + this.#writingUnits + this.#queuedUnits;
  }

  get durableSequence(): bigint {
    return this.#durableSequence;
  }

  get damage(): ConcordError | undefined {
    return this.#state.kind === "damaged" ? this.#state.damage : undefined;
  }

  get isStopped(): boolean {
    return this.#state.kind === "stopped";
  }

  get segments(): readonly { readonly firstSequence: bigint; readonly bytes: number }[] {
    return this.#segments.map(({ header, end }) => ({ firstSequence: header.firstSequence, bytes: end }));
  }

  get firstOrdinal(): number {
    return this.#segments[0]?.header.ordinal ?? 0;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Makes the first segment of a new journal, or of a new owner (I9). */
  async begin(): Promise<void> {
    if (this.#state.kind === "damaged") return;
    if (this.#segments.length === 0 || this.#options.takesOver === true) await this.#addSegment();
  }

  async append(payload: Uint8Array, count = 1): Promise<bigint> {
    assert(Number.isInteger(count) && count >= 0 && count <= COUNT_MAX, `count ${count} fits a record`);
    const refusal = this.#refusalOf(payload.length) ?? this.#fullness(payload.length);
    if (refusal !== undefined) throw refusal;
    return await this.#enqueue("record", payload, count);
  }

  async checkpoint(snapshot: () => Uint8Array): Promise<bigint> {
    const payload = snapshot();
    const refusal = this.#refusalOf(payload.length);
    // No turn passes between the snapshot and its place in the queue, and the queue's order is the disk's (OGD7).
    if (refusal !== undefined) throw refusal;
    return await this.#enqueue("checkpoint", payload, 1);
  }

  read(from: bigint): AsyncIterable<JournalRecord> {
    if (from < this.firstSequence || from > this.#durableSequence) {
      const bounds = `${this.firstSequence} to ${this.#durableSequence}`;
      throw new ConcordError("OFFSET_OUT_OF_RANGE", `sequence ${from} is not within ${bounds}`);
    }
    const start = this.#place?.sequence === from ? this.#place : undefined;
    return readForward(this.#segments, from, start, (place) => {
      this.#place = place;
      this.#closeIdle();
    });
  }

  readBackward(): AsyncIterable<JournalRecord> {
    return readBackward(this.#segments, () => this.#closeIdle());
  }

  trim(sequence: bigint): Promise<bigint> {
    if (this.#state.kind === "damaged") return Promise.reject(this.#state.damage);
    const trimmed = this.#trimming.then(() => this.#trim(sequence));
    this.#trimming = trimmed.catch(nothing);
    return trimmed;
  }

  refuseWaiting(): void {
    this.#refusesWaiting = true;
  }

  async close(): Promise<void> {
    if (this.#state.kind === "running") this.#state = { kind: "closing" };
    this.refuseWaiting();
    await this.#loop;
    await this.#trimming;
    await this.#prepared.close();
    for (const segment of this.#segments) await segment.drop();
  }

  #refusalOf(bytes: number): ConcordError | undefined {
    const { recordBytes, queueBytes } = this.#limits;
    if (this.#state.kind === "damaged") return this.#state.damage;
    if (this.#state.kind === "closing") return new ConcordError("DRAINING", "the journal is closed");
    if (this.#state.kind === "stopped") {
      return new ConcordError("STORE_FAILED", "the journal stopped at a failed write", { applied: "no", cause: this.#state.cause });
    }
    if (bytes > recordBytes) return new ConcordError("LIMIT_EXCEEDED", `a record of ${bytes} bytes is over the limit of ${recordBytes}`);
    if (this.#queuedBytes + bytes > queueBytes) return new ConcordError("OVERLOADED", `${this.#queuedBytes} bytes wait for the journal`);
    return undefined;
  }

  #fullness(bytes: number): ConcordError | undefined {
    if (this.sizeBytes + this.#queuedBytes + bytes <= this.#limits.journalBytes) return undefined;
    return new ConcordError("STORAGE_FULL", `the journal is at its limit of ${this.#limits.journalBytes} bytes; trim it`);
  }

  #enqueue(kind: JournalRecord["kind"], payload: Uint8Array, count: number): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#put({ kind, payload, count, resolve, reject });
      this.#loop ??= this.#run();
    });
  }

  #put(pending: Pending): void {
    this.#queue.push(pending);
    this.#queuedBytes += pending.payload.length;
    this.#queuedUnits += BigInt(pending.count);
  }

  /** Never rejects: the waiting appends get the error. */
  async #run(): Promise<void> {
    await Promise.resolve();
    while (this.#queue.length > 0) await this.#commit();
    this.#loop = undefined;
  }

  /** One group from the queue to the disk, then its answers. */
  async #commit(): Promise<void> {
    let segment = this.#segments.at(-1)!;
    if (this.#endsBefore(segment, this.#nextGroup())) {
      try {
        segment = await this.#addSegment();
      } catch (thrown) {
        if (isShortage(thrown)) await this.#afterShortage(this.#takeGroup(), thrown);
        else this.#refuse(this.#takeGroup(), thrown);
        return;
      }
    }
    await this.#writeGroup(segment, this.#takeGroup());
  }

  /** Whether the segment has no space for the group, or would grow for it while a prepared one is there. */
  #endsBefore(segment: Segment, group: readonly Pending[]): boolean {
    if (this.#isSealed) return true;
    const end = segment.end + groupBytes(group) + segment.endMarkBytes;
    const grows = end > segment.fileBytes && this.#prepared.isReady;
    return (grows || end > this.#limits.segmentBytes) && segment.end > SEGMENT_HEADER_BYTES;
  }

  /** The zeros are half used, or the file grows; a journal that little is written to prepares nothing. */
  #needsPreparedFile({ end, fileBytes }: Segment): boolean {
    const { preparedBytes } = this.#limits;
    return end >= preparedBytes / PREPARED_AFTER_PART && fileBytes - end < preparedBytes / 2;
  }

  async #writeGroup(segment: Segment, group: readonly Pending[]): Promise<void> {
    try {
      const encoded = encodeGroup(group, segment.header.id, segment.end, this.#durableSequence, this.#options.checksum);
      this.#writingUnits = encoded.next - this.#durableSequence;
      const shortage = await this.#write(segment, encoded);
      if (shortage !== undefined) {
        this.#writingUnits = 0n;
        await this.#afterShortage(group, shortage);
        return;
      }
      this.#failpoint("journal:group-synced");
      this.#publish(segment, group, encoded);
    } catch (thrown) {
      await this.#afterFailedWrite(group, thrown);
    } finally {
      this.#writingUnits = 0n;
    }
  }

  /** On disk when it resolves with undefined. A shortage: what got there was taken back, durably, before it is returned (I5). */
  async #write(segment: Segment, encoded: EncodedGroup): Promise<ConcordError | undefined> {
    const file = await segment.writable().catch(shortageOf);
    if (file instanceof ConcordError) return file;
    this.#failpoint("journal:group-writing");
    try {
      await file.writeSynced(segment.end, [...encoded.parts, ...segment.endMark(segment.end + encoded.bytes)]);
      return undefined;
    } catch (thrown) {
      const shortage = shortageOf(thrown);
      // Over bytes that are there: it needs no space.
      await file.write(segment.end, segment.endMark(segment.end));
      await file.truncate(segment.end + segment.endMarkBytes);
      await file.sync();
      return shortage;
    } finally {
      segment.fileBytes = file.size;
    }
  }

  /** The records the next write takes; they stay in the queue. */
  #nextGroup(): readonly Pending[] {
    let bytes = 0;
    const end = this.#queue.findIndex(({ payload }) => (bytes += payload.length) >= this.#limits.groupBytes);
    return end < 0 ? this.#queue : this.#queue.slice(0, end + 1);
  }

  #takeGroup(): readonly Pending[] {
    const group = this.#queue.splice(0, this.#nextGroup().length);
    for (const { payload, count } of group) {
      this.#queuedBytes -= payload.length;
      this.#queuedUnits -= BigInt(count);
    }
    return group;
  }

  /** Durable before answered (I1). */
  #publish(segment: Segment, group: readonly Pending[], encoded: EncodedGroup): void {
    for (const { offset, sequence } of encoded.frames) segment.index?.note(offset, sequence);
    segment.end += encoded.bytes;
    if (this.#needsPreparedFile(segment)) this.#prepared.begin();
    this.#sizeBytes += encoded.bytes;
    this.#durableSequence = encoded.next;
    this.#writingUnits = 0n;
    if (this.#isWaiting) this.#options.log?.info("records of the journal that waited are written", { folder: this.#options.folder });
    this.#isWaiting = false;
    this.#lastSequence = encoded.frames.at(-1)!.sequence;
    this.#metrics.count("concord_journal_syncs_total");
    this.#metrics.count("concord_journal_written_bytes_total", encoded.bytes);
    this.#metrics.observe("concord_journal_group_records", group.length);
    for (const [at, { resolve }] of group.entries()) resolve(encoded.frames[at]!.sequence);
  }

  /** OGD8: the waiting appends fail and the file is never synced again; a new segment takes everything unresolved, or the journal ends. */
  async #afterFailedWrite(group: readonly Pending[], cause: unknown): Promise<void> {
    this.#isSealed = true;
    this.#writingUnits = 0n;
    this.#metrics.count("concord_journal_sync_failures_total");
    this.#options.log?.warn("journal write failed", { folder: this.#options.folder, cause: String(cause) });
    const error = new ConcordError("STORE_FAILED", "the journal's sync failed: the record may be there", { applied: "unknown", cause });
    for (const { reject } of group) reject(error);
    const { onSyncFailed } = this.#options;
    if (onSyncFailed === undefined || this.#state.kind !== "running") {
      this.#stop(cause);
      return;
    }
    try {
      await this.#goOn(onSyncFailed);
    } catch (thrown) {
      this.#isSealed = true;
      this.#stop(thrown);
    }
  }

  /** The snapshot is a group by itself; what was appended meanwhile goes behind it. */
  async #goOn(snapshot: () => Uint8Array): Promise<void> {
    const segment = await this.#addSegment();
    const group: Pending[] = [{ kind: "checkpoint", payload: snapshot(), count: 1, resolve: nothing, reject: nothing }];
    const encoded = encodeGroup(group, segment.header.id, segment.end, this.#durableSequence, this.#options.checksum);
    this.#writingUnits = 1n;
    const file = await segment.writable();
    await file.writeSynced(segment.end, [...encoded.parts, ...segment.endMark(segment.end + encoded.bytes)]);
    segment.fileBytes = file.size;
    this.#failpoint("journal:snapshot-written");
    this.#publish(segment, group, encoded);
  }

  #stop(cause: unknown): void {
    this.#state = { kind: "stopped", cause };
    this.#options.log?.warn("journal stopped", { folder: this.#options.folder });
    for (const { reject } of this.#takeAll()) {
      reject(new ConcordError("STORE_FAILED", "the journal stopped before this record was written", { applied: "no", cause }));
    }
    this.#options.onStopped?.(cause);
  }

  /** Nothing of the group is on disk. Where appends wait none is written that follows one that was not. */
  async #afterShortage(group: readonly Pending[], cause: unknown): Promise<void> {
    const { spacePause, folder, log } = this.#options;
    if (spacePause === undefined) {
      this.#refuse(group, cause);
      return;
    }
    if (this.#refusesWaiting) {
      this.#refuse([...group, ...this.#takeAll()], cause);
      return;
    }
    this.#putBack(group);
    if (!this.#isWaiting) log?.error(waitingText(cause), { folder, bytes: this.#queuedBytes });
    this.#isWaiting = true;
    await spacePause();
  }

  #putBack(group: readonly Pending[]): void {
    const later = this.#takeAll();
    for (const pending of [...group, ...later]) this.#put(pending);
  }

  #takeAll(): readonly Pending[] {
    this.#queuedBytes = 0;
    this.#queuedUnits = 0n;
    return this.#queue.splice(0);
  }

  /** Nothing of the group is on disk. */
  #refuse(group: readonly Pending[], cause: unknown): void {
    const code = isShortage(cause) ? (cause as ConcordError).code : "STORE_FAILED";
    const error = new ConcordError(code, "the journal could not write the record", {
      applied: "no",
      cause,
    });
    for (const { reject } of group) reject(error);
  }

  /** Its header and name are durable before it holds a record (I4); then the one before it is never written again (I5). */
  async #addSegment(): Promise<Segment> {
    const { disk, folder, checksum } = this.#options;
    this.#isSealed = true;
    this.#lastOrdinal += 1;
    const path = inFolder(folder, segmentName(this.#lastOrdinal));
    const prepared = this.#prepared.take();
    const file = prepared ?? (await disk.create(path));
    if (file === "exists") throw new ConcordError("STORE_FAILED", `${path} exists`, { applied: "no" });
    const segment = new Segment(disk, checksum, path, this.#nextHeader(prepared !== undefined), SEGMENT_HEADER_BYTES, file);
    try {
      await file.write(0, [encodeSegmentHeader(segment.header, checksum), ...segment.endMark(SEGMENT_HEADER_BYTES)]);
      await file.sync();
      this.#failpoint("journal:segment-written");
      if (prepared !== undefined && !(await disk.rename(this.#prepared.path, path))) {
        throw new ConcordError("STORE_FAILED", `${this.#prepared.path} is gone`, { applied: "no" });
      }
      await disk.syncFolder(folder);
    } catch (thrown) {
      await file.close();
      if (prepared !== undefined) await disk.remove(this.#prepared.path).catch(nothing);
      await disk.remove(path).catch(nothing);
      throw thrown;
    }
    this.#failpoint("journal:segment-made");
    segment.index = new SparseIndex();
    this.#segments.push(segment);
    this.#sizeBytes += segment.end;
    this.#isSealed = false;
    this.#closeIdle();
    return segment;
  }

  #nextHeader(isPrepared: boolean): SegmentHeader {
    const last = this.#segments.at(-1);
    return {
      id: this.#options.random.bytes(SEGMENT_ID_BYTES),
      ordinal: this.#lastOrdinal,
      firstSequence: this.#durableSequence,
      previous: last === undefined ? undefined : { ordinal: last.header.ordinal, end: last.end },
      lastSequenceBefore: this.#lastSequence,
      isPrepared,
    };
  }

  /** Oldest first, each removal durable before the next: what is kept is always without gaps (I7). */
  async #trim(sequence: bigint): Promise<bigint> {
    for (;;) {
      await this.#syncRemoval();
      const [oldest, next] = this.#segments;
      if (oldest === undefined || next === undefined || !isBefore(next.header, sequence)) return this.firstSequence;
      await this.#options.disk.remove(oldest.path);
      // No reader may look for it from now on, also when the folder's sync fails.
      this.#segments.shift();
      this.#hasUnsyncedRemoval = true;
      this.#sizeBytes -= oldest.end;
      if (this.#place?.segment === oldest) this.#place = undefined;
      await oldest.drop();
    }
  }

  /** Of an earlier trim, too, whose sync failed. */
  async #syncRemoval(): Promise<void> {
    if (!this.#hasUnsyncedRemoval) return;
    await this.#options.disk.syncFolder(this.#options.folder);
    this.#hasUnsyncedRemoval = false;
    this.#failpoint("journal:segment-dropped");
  }

  #closeIdle(): void {
    // In the background: a file without readers may be closed late.
    closeIdle(this.#segments).catch((thrown: unknown) => this.#options.log?.warn("journal file not closed", { cause: String(thrown) }));
  }
}

/** Whether every record before this segment lies before `sequence`. */
function isBefore(header: SegmentHeader, sequence: bigint): boolean {
  return header.firstSequence <= sequence && (header.lastSequenceBefore === undefined || header.lastSequenceBefore < sequence);
}

async function closeIdle(segments: readonly Segment[]): Promise<void> {
  const open = segments.slice(0, -1).filter((segment) => segment.isOpen);
  for (const segment of open.slice(0, Math.max(0, open.length - OPEN_SEGMENTS_MAX))) if (segment.isIdle) await segment.closeFile();
}

/** Throws what is no shortage. */
function shortageOf(thrown: unknown): ConcordError {
  if (!isShortage(thrown)) throw thrown;
  return thrown as ConcordError;
}

function waitingText(shortage: unknown): string {
  return (shortage as ConcordError).code === "STORAGE_FULL"
    ? "the disk is full: records of the journal wait for space"
    : "the process has no free file descriptor: records of the journal wait for one; raise RLIMIT_NOFILE";
}
