// Dead letters listed, and sent to the input again as they were.
import type { IngestResult, LogMessage, MessageInit } from "@concord/protos-dedup";
import { ORIGIN_HEADER } from "@concord/dedup";
import { ConcordError, sleep, toConcordError, type Clock, type ErrorCode } from "@concord/runtime";
import { INGEST_BYTES_MAX, REDRIVE_PAGE_MESSAGES, REDRIVE_REPORT_EVERY_MS, RESERVED_HEADER_PREFIX } from "../limits.ts";
import { wireBytes } from "../rpc/wire.ts";
import type { DeadLetterLog } from "./dead-letter-log.ts";

/** Header of a message that was sent again: PARTITION-OFFSET of its dead letter. */
export const REDRIVEN_HEADER = "redriven";
const REASON = "concord-reason";
/** The message cannot be sent as it is; another one can. */
const OF_THE_MESSAGE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["MALFORMED_REQUEST", "LIMIT_EXCEEDED", "TIMESTAMP_OUT_OF_RANGE"]);

/** Offset at which the next redrive goes on, by partition. */
export interface Positions {
  load(): ReadonlyMap<number, bigint>;
  save(next: ReadonlyMap<number, bigint>): void;
}

export interface Counts {
  accepted: number;
  duplicates: number;
  /** Dead letters again. */
  again: number;
  /** Beyond what an ingest takes: not sent. */
  refused: number;
}

export interface RedriveOptions {
  readonly log: Pick<DeadLetterLog, "bounds" | "read" | "ingest">;
  readonly positions: Positions;
  readonly perSecond: number;
  /** Nothing is sent and no position kept. */
  readonly isDryRun: boolean;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** One line for each dead letter, and one for each partition. */
export async function listDeadLetters({ log, say }: Pick<RedriveOptions, "log" | "say">): Promise<void> {
  for (let [partition, partitions] = [0, 1]; partition < partitions; partition += 1) {
    const bounds = await log.bounds(partition);
    partitions = bounds.partitions;
    let count = 0;
    for (let at = bounds.start; at < bounds.end;) {
      const { messages, next, tooLarge } = await log.read(partition, at, REDRIVE_PAGE_MESSAGES);
      for (const message of messages) say(lineOf(partition, message));
      if (tooLarge !== undefined) say(`${partition}-${tooLarge.offset} cannot be shown: ${tooLarge.reason}`);
      count += messages.length + (tooLarge === undefined ? 0 : 1);
      if (next === at) break;
      at = next;
    }
    say(`partition ${partition}: ${count} dead letters`);
  }
}

function lineOf(partition: number, { offset, timestampMs, headers, value, nullValue }: LogMessage): string {
  const reason = headers.findLast(({ name }) => name === REASON)?.value;
  const time = new Date(Number(timestampMs)).toISOString();
  const size = nullValue ? "null" : `${value.length} bytes`;
  return `${partition}-${offset} ${time} ${size} ${JSON.stringify(reason === undefined ? "" : Buffer.from(reason).toString())}`;
}

/**
 * Sends again what was there when it began, from the positions on. A position is kept once each message of a page has its result: after a death the
 * page is sent again, and its messages are duplicates.
 */
export async function redriveDeadLetters(options: RedriveOptions): Promise<Counts> {
  const { log, positions } = options;
  const next = new Map(positions.load());
  const counts: Counts = { accepted: 0, duplicates: 0, again: 0, refused: 0 };
  const { partitions } = await log.bounds(0);
  const all = await Promise.all(Array.from({ length: partitions }, (_, partition) => log.bounds(partition)));
  for (const [partition, { start, end }] of all.entries()) {
    const kept = next.get(partition) ?? start;
    if (kept > end)
      throw new ConcordError(
        "OFFSET_OUT_OF_RANGE",
        `partition ${partition} has ${end} dead letters and the position is ${kept}: it is another log's`,
      );
    if (kept < start) options.say(`partition ${partition}: dead letters ${kept} to ${start - 1n} are not kept any more`);
    await redrivePartition(options, { partition, from: kept < start ? start : kept, end, counts, next });
  }
  return counts;
}

interface Part {
  readonly partition: number;
  readonly from: bigint;
  readonly end: bigint;
  readonly counts: Counts;
  readonly next: Map<number, bigint>;
}

async function redrivePartition(options: RedriveOptions, { partition, from, end, counts, next }: Part): Promise<void> {
  const { log, positions, isDryRun, perSecond, clock, say } = options;
  let reportedMs = Number.NEGATIVE_INFINITY;
  let [at, sent] = [from, 0];
  while (at < end) {
    const beganMs = clock.monotonicMs();
    const page = await log.read(partition, at, Math.min(REDRIVE_PAGE_MESSAGES, perSecond));
    const letters = page.messages.filter(({ offset }) => offset < end);
    const { tooLarge } = page;
    if (tooLarge !== undefined && tooLarge.offset < end) refuse(options, counts, `${partition}-${tooLarge.offset}`, tooLarge.reason);
    if (isDryRun) for (const letter of letters) say(`would send ${lineOf(partition, letter)}`);
    else for (const group of groupsOf(letters)) await sendGroup(options, partition, group, counts);
    sent += letters.length;
    at = page.next === at || page.next > end ? end : page.next;
    if (isDryRun) continue;
    next.set(partition, at);
    positions.save(next);
    if (clock.monotonicMs() - reportedMs >= REDRIVE_REPORT_EVERY_MS || at === end) {
      say(`partition ${partition}: ${sent} sent, up to ${at} of ${end}`);
      reportedMs = clock.monotonicMs();
    }
    const dueMs = (letters.length * 1_000) / perSecond - (clock.monotonicMs() - beganMs);
    if (at < end && dueMs > 0) await sleep(clock, dueMs);
  }
}

interface Group {
  readonly source: string;
  readonly letters: LogMessage[];
  bytes: number;
}

/** Groups in the order of the letters, each small enough for one call. */
function groupsOf(letters: readonly LogMessage[]): readonly Group[] {
  const groups: Group[] = [];
  for (const letter of letters) {
    const bytes = wireBytes(letter);
    const last = groups.at(-1);
    if (last !== undefined && last.source === letter.source && last.bytes + bytes <= INGEST_BYTES_MAX) {
      last.letters.push(letter);
      last.bytes += bytes;
    } else groups.push({ source: letter.source, letters: [letter], bytes });
  }
  return groups;
}

/** A call with a message that cannot be sent is refused whole: then each is sent alone. */
async function sendGroup(options: RedriveOptions, partition: number, { source, letters }: Group, counts: Counts): Promise<void> {
  try {
    const results = await options.log.ingest(
      letters.map((letter) => againOf(partition, letter)),
      source,
    );
    for (const result of results) count(counts, result);
  } catch (thrown) {
    const error = toConcordError(thrown);
    if (!OF_THE_MESSAGE.has(error.code)) throw error;
    if (letters.length > 1) {
      for (const letter of letters) await sendGroup(options, partition, { source, letters: [letter], bytes: 0 }, counts);
      return;
    }
    refuse(options, counts, `${partition}-${letters[0]!.offset}`, error.message);
  }
}

function refuse({ say }: RedriveOptions, counts: Counts, letter: string, reason: string): void {
  counts.refused += 1;
  say(`${letter} cannot be sent: ${reason}`);
}

function count(counts: Counts, result: IngestResult): void {
  if (result.verdict === "VERDICT_ACCEPTED") counts.accepted += 1;
  else if (result.verdict === "VERDICT_DUPLICATE") counts.duplicates += 1;
  else counts.again += 1;
}

/**
 * Key, value, headers and time as the producer sent them; the header names the dead letter, of the last redrive alone. Where the message has no id of its
 * own it gets the dead letter's: sent twice, it is a duplicate all the same.
 */
function againOf(partition: number, { offset, key, emptyKey, value, nullValue, headers, timestampMs }: LogMessage): MessageInit {
  const theirs = headers.filter(({ name }) => !name.startsWith(RESERVED_HEADER_PREFIX) && name !== REDRIVEN_HEADER);
  const redriven = { name: REDRIVEN_HEADER, value: Buffer.from(`${partition}-${offset}`) };
  // The origin tells dead letters at one offset apart where their topic was made anew.
  const origin = Buffer.from(headers.findLast(({ name }) => name === ORIGIN_HEADER)?.value ?? []).toString("hex");
  const fallbackId = `${REDRIVEN_HEADER}-${partition}-${offset}-${origin}`;
  return { key, emptyKey, value, nullValue, headers: [...theirs, redriven], timestampMs, fallbackId };
}
