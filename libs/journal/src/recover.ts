import { ConcordError, type Checksum, type DiskFile } from "@concord/runtime";
import type { JournalFindings, JournalOptions } from "./api.ts";
import { decodeSegmentHeader, END_MARK_BYTES, SEGMENT_HEADER_BYTES, type Frame, type SegmentHeader } from "./format.ts";
import { endOfContent, findFrame, FrameReader, hasEndMark, type FrameSource } from "./frame-reader.ts";
import { WINDOW_BYTES } from "./limits.ts";
import { PREPARED_NAME } from "./prepared-file.ts";
import { inFolder, ordinalOf, Segment, segmentName, SparseIndex, type Damage } from "./segment.ts";

/** A journal as it lies on the disk, cleaned: the last segment ends behind its last sound frame and is synced. */
export interface Recovered {
  readonly segments: Segment[];
  readonly findings: JournalFindings;
  readonly nextSequence: bigint;
  readonly lastSequence: bigint | undefined;
  /** The largest that any file had. */
  readonly lastOrdinal: number;
  /** Records before `nextSequence` are missing at the end: no record may follow in the last segment. */
  readonly isEndLost: boolean;
  /** Why the journal is only read (`readsDamaged`). */
  readonly damage: ConcordError | undefined;
}

interface Found {
  readonly name: string;
  readonly ordinal: number;
  readonly segment: Segment;
  readonly size: number;
}

interface Scan {
  readonly end: number;
  /** Behind the end, bytes that are no record and no end as it was left. */
  readonly tornBytes: number;
  readonly damage: readonly Damage[];
  readonly last: Frame | undefined;
  /** What lies behind the end, when it has whole frames in it. */
  readonly hasFramesBehind: boolean;
}

/** What a scan goes by. */
interface Stretch {
  readonly size: number;
  /** A group may have been on its way when the process died. */
  readonly isLast: boolean;
  /** An end mark and zeros are behind its last group: nothing else says where it ended. */
  readonly hasEndMark: boolean;
}

interface ScanListener {
  readonly frame: (frame: Frame) => void;
  /** Whether what comes next was durable: then bytes that are no record are damage, never a torn write. */
  readonly isProven: () => boolean;
  /** What was next is not known any more. */
  readonly damage: () => void;
}

/** Reads what is there and decides about everything that is no record: the table in the README, row by row. */
export async function recoverSegments(options: JournalOptions): Promise<Recovered> {
  const recovery = new Recovery(options);
  try {
    return await recovery.run();
  } catch (thrown) {
    await recovery.closeAll();
    throw thrown;
  }
}

class Recovery {
  readonly #options: JournalOptions;
  readonly #quarantined: { name: string; reason: string }[] = [];
  readonly #tornCopies: string[] = [];
  readonly #segments: Segment[] = [];
  readonly #unborn: { readonly ordinal: number; readonly name: string }[] = [];
  /** Those of `quarantined` that are not passed over. */
  readonly #refused: { name: string; reason: string }[] = [];
  /** Spans of the segment being scanned: the sequence of the first sound record behind each, once one is found. */
  #nextSound: (bigint | undefined)[] = [];
  #tornBytes = 0;
  /** Of the last segment. */
  #tornEndBytes = 0;
  /** Where the last segment's last group begins. */
  #lastGroup = 0;
  #lastOrdinal = 0;
  #hasPrepared = false;
  #expected: bigint | undefined;
  #lastSequence: bigint | undefined;

  constructor(options: JournalOptions) {
    this.#options = options;
  }

  /**
   * Damage makes opening fail. Then nothing on the disk changes: a segment under another name would be missed by the next opening, which
   * would end in silence at the one before it.
   */
  get #isRefused(): boolean {
    return this.#options.strict === true && this.#refused.length > 0;
  }

  async closeAll(): Promise<void> {
    for (const segment of this.#segments) await segment.closeFile();
  }

  async run(): Promise<Recovered> {
    const { disk, folder } = this.#options;
    await disk.makeFolder(folder);
    const chain = await this.#chain(await this.#load());
    for (const [at, found] of chain.entries()) await this.#check(found, chain[at + 1]);
    const isEndLost = this.#checkEnd(chain.at(-1));
    const damage = this.#isRefused ? damaged(folder, this.#refused) : undefined;
    if (damage !== undefined && (this.#options.readsDamaged !== true || chain.length === 0)) throw damage;
    const nextSequence = isEndLost ? this.#options.processedTo! : (this.#expected ?? 0n);
    const segments = chain.map(({ segment }) => segment);
    const [lastSequence, lastOrdinal] = [this.#lastSequence, this.#lastOrdinal];
    const findings = damage === undefined ? await this.#clean(chain) : { ...UNCHANGED, quarantined: this.#quarantined };
    return { segments, findings, nextSequence, lastSequence, lastOrdinal, isEndLost, damage };
  }

  /** Brings the disk to what was decided. */
  async #clean(chain: readonly Found[]): Promise<JournalFindings> {
    const last = chain.at(-1);
    const lostSegments = this.#unborn.filter(({ ordinal }) => ordinal > (last?.ordinal ?? 0)).map(({ name }) => name);
    const [tornBytes, tornCopies, quarantined] = [this.#tornBytes, this.#tornCopies, this.#quarantined];
    const findings: JournalFindings = { tornBytes, tornCopies, lostSegments, quarantined };
    if (tornBytes > 0 || lostSegments.length > 0) await this.#reportCut({ tornBytes, lostSegments });
    await this.#removeUnborn();
    if (last !== undefined) await this.#settle(last);
    return findings;
  }

  /** Whether records are missing at the end that another file proves. */
  #checkEnd(last: Found | undefined): boolean {
    const { processedTo } = this.#options;
    if (processedTo === undefined || this.#isRefused) return false;
    // Undefined behind damage at the end, which is reported.
    const end = this.#expected ?? (last === undefined ? 0n : undefined);
    if (end !== undefined && end >= processedTo) return false;
    if (end !== undefined)
      this.#report(last?.name ?? segmentName(1), `it ends at sequence ${end}, records up to ${processedTo} were durable`, processedTo);
    return true;
  }

  /** Every segment file with a sound header, oldest first; the others are to be removed (never held a record) or quarantined. */
  async #load(): Promise<Found[]> {
    const { disk, folder, checksum } = this.#options;
    const found: Found[] = [];
    const bad: { readonly name: string; readonly ordinal: number; readonly reason: string }[] = [];
    for (const { name, kind } of await disk.list(folder)) {
      if (name === PREPARED_NAME) this.#hasPrepared = true;
      const ordinal = ordinalOf(name);
      if (ordinal === undefined || kind !== "file") continue;
      this.#lastOrdinal = Math.max(this.#lastOrdinal, ordinal);
      const path = inFolder(folder, name);
      const file = await disk.open(path);
      if (file === undefined) continue;
      const { size } = file;
      const header = await headerOf(file, checksum);
      if (header?.ordinal === ordinal) {
        const segment = new Segment(disk, checksum, path, header, size);
        this.#segments.push(segment);
        found.push({ name, ordinal, size, segment });
        continue;
      }
      if (size <= SEGMENT_HEADER_BYTES) this.#noteUnborn(ordinal, name, size);
      else bad.push({ name, ordinal, reason: header === undefined ? "its header is damaged" : `it says it is segment ${header.ordinal}` });
    }
    for (const { name, ordinal, reason } of bad) {
      const next = found.find((other) => other.ordinal > ordinal);
      await this.#quarantine(name, reason, next?.segment.header.firstSequence);
    }
    return found;
  }

  /** A segment is part of the journal when the next one says so; one without records that was never followed is left out. */
  async #chain(found: readonly Found[]): Promise<Found[]> {
    const chain: Found[] = [];
    for (const [at, candidate] of found.entries()) {
      const next = found[at + 1]?.segment.header;
      const isFollowed = next === undefined || next.previous?.ordinal === candidate.ordinal;
      if (!isFollowed && (await isEmpty(candidate))) {
        this.#noteUnborn(candidate.ordinal, candidate.name, 0);
        continue;
      }
      const { previous } = candidate.segment.header;
      const before = chain.at(-1);
      if (before !== undefined && previous?.ordinal !== before.ordinal) {
        const { firstSequence } = candidate.segment.header;
        this.#report(segmentName(previous?.ordinal ?? 0), `${candidate.name} follows it and it is not there`, firstSequence);
      }
      chain.push(candidate);
    }
    return chain;
  }

  async #check(found: Found, next: Found | undefined): Promise<void> {
    const { segment, name } = found;
    const { header } = segment;
    if (this.#expected !== undefined && header.firstSequence !== this.#expected) {
      this.#report(name, `it begins with sequence ${header.firstSequence}, ${this.#expected} was next`, header.firstSequence);
    }
    this.#expected = header.firstSequence;
    this.#lastSequence = header.lastSequenceBefore;
    const isFollowed = next?.segment.header.previous?.ordinal === found.ordinal;
    const stretch = { isLast: next === undefined, hasEndMark: header.isPrepared && !isFollowed };
    const saidEnd = isFollowed ? next.segment.header.previous.end : found.size;
    const firstOfNext = next?.segment.header.firstSequence;
    if (saidEnd > found.size) this.#report(name, `it ends at ${found.size}, ${next!.name} says at ${saidEnd}`, firstOfNext);
    segment.end = Math.min(saidEnd, found.size);
    if (next === undefined || (this.#options.verify ?? "all") === "all" || !isFollowed || this.#isHalfProcessed(next)) {
      await this.#scan(found, { ...stretch, size: segment.end }, firstOfNext);
      if (next !== undefined) await segment.closeFile();
      return;
    }
    this.#expected = next.segment.header.firstSequence;
    this.#lastSequence = next.segment.header.lastSequenceBefore;
  }

  /** Readers go through the segment before this one: what is damaged in its processed half must be known. */
  #isHalfProcessed({ segment }: Found): boolean {
    const { processedTo } = this.#options;
    return processedTo !== undefined && this.#expected! < processedTo && processedTo <= segment.header.firstSequence;
  }

  async #scan(found: Found, stretch: Stretch, firstOfNext: bigint | undefined): Promise<void> {
    const { segment, name } = found;
    const source = await segment.acquire();
    segment.index = new SparseIndex();
    const scan = await scanSegment(source, stretch, {
      frame: (frame) => this.#pass(segment, name, frame),
      isProven: () => this.#expected !== undefined && this.#expected < (this.#options.processedTo ?? 0n),
      damage: () => {
        this.#nextSound.push(undefined);
        this.#expected = undefined;
      },
    });
    segment.damage = scan.damage;
    // Behind the last record nothing says how much is lost: what is proven is.
    const atEnd = firstOfNext ?? this.#options.processedTo;
    for (const [at, { from, to }] of scan.damage.entries()) {
      const copy = this.#options.strict === true ? name : await this.#copyAside(source, name, from, to);
      this.#report(copy, `bytes ${from} to ${to} of ${name} are no record`, this.#nextSound[at] ?? atEnd);
    }
    this.#nextSound = [];
    if (scan.hasFramesBehind && !this.#isRefused) {
      this.#tornCopies.push(await this.#copyAside(source, name, scan.end, Math.min(found.size, scan.end + scan.tornBytes)));
    }
    if (stretch.isLast) {
      this.#tornEndBytes = scan.tornBytes;
      this.#tornBytes += scan.tornBytes;
      this.#lastGroup = scan.last?.groupOffset ?? scan.end;
    }
    segment.end = scan.end;
    await segment.release();
  }

  /** Notes a sound frame; its sequence is the next one unless damage lies before it. */
  #pass(segment: Segment, name: string, frame: Frame): void {
    const isJump = this.#expected !== undefined && frame.sequence !== this.#expected;
    if (isJump) this.#report(name, `sequence ${frame.sequence} at ${frame.offset}, ${this.#expected} was next`, frame.sequence);
    if (this.#expected === undefined && this.#nextSound.length > 0) this.#nextSound[this.#nextSound.length - 1] = frame.sequence;
    this.#expected = frame.sequence + BigInt(frame.count);
    this.#lastSequence = frame.sequence;
    segment.index?.note(frame.offset, frame.sequence);
  }

  /**
   * Makes what was read durable before anything depends on it: a process that died before its sync, or whose sync failed, left bytes that
   * reads see and the disk may not have. The last group and the header are written again, since the system takes pages of a failed
   * sync for clean (I6).
   */
  async #settle({ segment, size }: Found): Promise<void> {
    const { disk, folder } = this.#options;
    const file = await segment.writable();
    // Another process may be writing behind the end, and has read its own (I9).
    const isOurs = this.#options.takesOver !== true;
    const cut = segment.end + segment.endMarkBytes;
    if (isOurs && this.#tornEndBytes > 0 && size > cut) await file.truncate(cut);
    const from = this.#lastGroup;
    const header = await file.read(0, SEGMENT_HEADER_BYTES);
    const group = await file.read(from, segment.end - from);
    await file.write(0, [header]);
    await file.write(from, isOurs ? [group, ...segment.endMark(segment.end)] : [group]);
    await file.sync();
    segment.fileBytes = file.size;
    await disk.syncFolder(folder);
  }

  /** A file that was made and never came to its first record: its header was not synced yet, or nothing followed it. */
  #noteUnborn(ordinal: number, name: string, bytes: number): void {
    this.#tornBytes += bytes;
    this.#unborn.push({ ordinal, name });
  }

  async #removeUnborn(): Promise<void> {
    const { disk, folder } = this.#options;
    for (const { name } of this.#unborn) await disk.remove(inFolder(folder, name));
    // It has no record; should its removal be undone, the next opening removes it.
    if (this.#hasPrepared) await disk.remove(inFolder(folder, PREPARED_NAME));
    if (this.#unborn.length > 0) await disk.syncFolder(folder);
  }

  async #quarantine(name: string, reason: string, before: bigint | undefined): Promise<void> {
    const { disk, folder, strict } = this.#options;
    if (strict === true) return this.#report(name, reason, before);
    let to = `${name}.bad`;
    for (let n = 2; (await disk.open(inFolder(folder, to)).then(isThere)) && n < Number.MAX_SAFE_INTEGER; n += 1) to = `${name}.bad-${n}`;
    await disk.rename(inFolder(folder, name), inFolder(folder, to));
    await disk.syncFolder(folder);
    this.#report(to, reason, before);
  }

  /** Copies a span under a name of its own; the segment keeps it too. Once is enough. */
  async #copyAside(source: FrameSource, name: string, from: number, to: number): Promise<string> {
    const { disk, folder } = this.#options;
    const copy = `${name}.${from}-${to}.bad`;
    const file = await disk.create(inFolder(folder, copy));
    if (file === "exists") return copy;
    try {
      for (let at = from; at < to; at += WINDOW_BYTES) {
        await file.write(at - from, [await source.file.read(at, Math.min(WINDOW_BYTES, to - at))]);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.syncFolder(folder);
    return copy;
  }

  async #reportCut(cut: Pick<JournalFindings, "tornBytes" | "lostSegments">): Promise<void> {
    const { folder, log, metrics, onCut } = this.#options;
    const segments = cut.lostSegments.join(" ");
    log?.warn("the journal's newest write is torn or rotten and is cut off", { folder, bytes: cut.tornBytes, segments });
    metrics?.count("concord_journal_cut_tails_total");
    await onCut?.(cut);
  }

  /** `before`: what is lost lies before this sequence; undefined: that is not known. */
  #report(name: string, reason: string, before: bigint | undefined): void {
    const { folder, log, metrics, processedTo } = this.#options;
    const isPassedOver = processedTo !== undefined && before !== undefined && before <= processedTo;
    this.#quarantined.push({ name, reason });
    if (!isPassedOver) this.#refused.push({ name, reason });
    if (isPassedOver)
      log?.error("journal damaged in records that are processed: passed over", { folder, name, reason, before: String(before) });
    else log?.error("journal damaged", { folder, name, reason });
    metrics?.count("concord_journal_damage_total");
  }
}

/**
 * All sound frames of a stretch. Bytes that are none: the end, where the stretch has an end mark and it is there with zeros behind it; a torn
 * tail when this is the last segment and no frame of a later group follows, since a group is written only after the one before it was
 * synced (OGD8); else damage.
 */
async function scanSegment(source: FrameSource, stretch: Stretch, seen: ScanListener): Promise<Scan> {
  const { size, isLast } = stretch;
  const damage: Damage[] = [];
  let last: Frame | undefined;
  let start = SEGMENT_HEADER_BYTES;
  for (;;) {
    const reader = new FrameReader(source, start, size);
    for (let frames = await reader.next(); frames.length > 0; frames = await reader.next()) {
      frames.forEach(seen.frame);
      last = frames.at(-1);
    }
    const bad = reader.position;
    const content = await endOfTail(source, stretch, bad);
    if (content === bad) return { end: bad, tornBytes: 0, damage, last, hasFramesBehind: false };
    const next = await findFrame(source, bad + 1, size);
    const mayBeTorn = isLast && !seen.isProven();
    if (mayBeTorn && (next === undefined || !(await hasLaterGroup(source, next, bad, size)))) {
      return { end: bad, tornBytes: content - bad, damage, last, hasFramesBehind: next !== undefined };
    }
    const to = next?.offset ?? content;
    damage.push({ from: bad, to });
    seen.damage();
    if (next === undefined) return { end: to, tornBytes: 0, damage, last, hasFramesBehind: false };
    start = to;
  }
}

/** Where the bytes end that were found behind the last sound frame and should not be there; `from` when all is as it was left. */
async function endOfTail(source: FrameSource, { size, hasEndMark: isMarked }: Stretch, from: number): Promise<number> {
  if (!isMarked) return size;
  const behind = from + END_MARK_BYTES;
  const content = await endOfContent(source, behind, size);
  // A mark that is not there was overwritten, or lost: then a group may be lost with it.
  return content > behind || !(await hasEndMark(source, from)) ? content : from;
}

/** Whether a group that was begun behind `bad` follows: then what is at `bad` had been synced. */
async function hasLaterGroup(source: FrameSource, first: Frame, bad: number, size: number): Promise<boolean> {
  for (let frame: Frame | undefined = first; frame !== undefined; frame = await findFrame(source, frame.end, size)) {
    if (frame.groupOffset > bad) return true;
  }
  return false;
}

/** Whether it never held a record. */
async function isEmpty({ segment, size }: Found): Promise<boolean> {
  if (!segment.header.isPrepared) return size <= SEGMENT_HEADER_BYTES;
  const source = await segment.acquire();
  const isEndThere = await hasEndMark(source, SEGMENT_HEADER_BYTES);
  await segment.release();
  return isEndThere;
}

async function headerOf(file: DiskFile, checksum: Checksum): Promise<SegmentHeader | undefined> {
  try {
    return decodeSegmentHeader(await file.read(0, SEGMENT_HEADER_BYTES), checksum);
  } finally {
    await file.close();
  }
}

async function isThere(file: DiskFile | undefined): Promise<boolean> {
  await file?.close();
  return file !== undefined;
}

/** Nothing on the disk was changed. */
const UNCHANGED = { tornBytes: 0, tornCopies: [], lostSegments: [] } as const;

function damaged(folder: string, quarantined: readonly { name: string; reason: string }[]): ConcordError {
  const first = quarantined[0]!;
  return new ConcordError("CORRUPT_DATA", `journal ${folder}: ${first.name}: ${first.reason} (${quarantined.length} findings)`);
}
