import { ConcordError } from "@concord/runtime";
import type { Journal, JournalOptions, JournalRecord } from "@concord/journal";
import { openJournal } from "@concord/journal";
import type { LogBounds, LogMessage, LogPage, PageLimits } from "@concord/ports";
import { newestAcknowledged } from "./acknowledged.ts";
import { sizeOf } from "./format.ts";
import type { RecentRecord, RecentRecords } from "./recent-records.ts";

interface Waiter {
  readonly offset: bigint;
  readonly resolve: () => void;
}

interface DecodedRecord {
  readonly from: bigint;
  readonly end: bigint;
  readonly messages: readonly LogMessage[];
}

/** One topic of one partition: a journal whose sequences are offsets, and who waits for its end. */
export class TopicLog {
  readonly #options: JournalOptions;
  readonly #decode: (payload: Uint8Array, offset: bigint) => readonly LogMessage[];
  #journal: Journal;
  #reopening: Promise<void> | undefined;
  /** What readers see; behind the journal's end while a publication is not settled. */
  #visibleEnd: bigint;
  #waiters = new Set<Waiter>();
  /** The record decoded last: pages are mostly smaller than records and follow one another. */
  #decoded: DecodedRecord | undefined;
  /** An append that is on its way becomes durable, and leaves nothing in memory. */
  #isClosed = false;
  /** Undefined: every record is read from disk. */
  readonly #recent: RecentRecords | undefined;

  constructor(
    options: JournalOptions,
    journal: Journal,
    decode: (payload: Uint8Array, offset: bigint) => readonly LogMessage[],
    recent?: RecentRecords,
  ) {
    this.#options = options;
    this.#journal = journal;
    this.#decode = decode;
    this.#recent = recent;
    this.#visibleEnd = journal.durableSequence;
  }

  get bounds(): LogBounds {
    return { start: this.#journal.firstSequence, end: this.#visibleEnd };
  }

  /** Its journal is damaged where it is needed: it is only read. */
  get damage(): ConcordError | undefined {
    return this.#journal.damage;
  }

  /** Where the next record goes. */
  get end(): bigint {
    return this.#journal.durableSequence;
  }

  get sizeBytes(): number {
    return this.#journal.sizeBytes;
  }

  get firstOrdinal(): number {
    return this.#journal.firstOrdinal;
  }

  get segments(): Journal["segments"] {
    return this.#journal.segments;
  }

  /** Durable, not visible yet. */
  async append(payload: Uint8Array, count: number): Promise<bigint> {
    await this.ready();
    const sequence = await this.#journal.append(payload, count);
    if (!this.#isClosed) this.#recent?.add({ sequence, count, payload });
    return sequence;
  }

  /** After a failed sync what is on disk decides: the journal is opened again. Harmless when it is sound. */
  async ready(): Promise<void> {
    if (!this.#journal.isStopped) return;
    this.#reopening ??= this.#reopen().finally(() => (this.#reopening = undefined));
    await this.#reopening;
  }

  /** Everything below `end`, which is durable, is visible now. */
  showTo(end: bigint): void {
    if (end > this.#visibleEnd) this.#visibleEnd = end;
    for (const waiter of this.#waiters) {
      if (waiter.offset >= this.#visibleEnd) continue;
      this.#waiters.delete(waiter);
      waiter.resolve();
    }
  }

  records(from: bigint): AsyncIterable<JournalRecord> {
    return this.#journal.read(from);
  }

  /** The input that the newest record of an output acknowledges; undefined: it has none. */
  acknowledgedInput(): Promise<bigint | undefined> {
    return newestAcknowledged(this.#journal);
  }

  recordsBackward(): AsyncIterable<JournalRecord> {
    return this.#journal.readBackward();
  }

  trim(offset: bigint): Promise<bigint> {
    return this.#journal.trim(offset);
  }

  async read(from: bigint, limits: PageLimits): Promise<LogPage> {
    if (limits.messages < 1 || limits.bytes < 1) throw new ConcordError("MALFORMED_REQUEST", "a page holds at least a message");
    const { start, end } = this.bounds;
    if (from < start || from > end) throw new ConcordError("OFFSET_OUT_OF_RANGE", `offset ${from} is not in ${start} to ${end}`);
    const page = new Page(from, end, limits);
    if (this.#decoded !== undefined && this.#decoded.from <= from && from < this.#decoded.end) page.take(this.#decoded.messages);
    for (const record of this.#recent?.from(page.next) ?? []) {
      if (page.isDone) break;
      this.#take(page, record);
    }
    this.#recent?.passed(page.next);
    if (page.isDone) return page;
    for await (const record of this.#journal.read(page.next)) {
      if (record.count === 0) continue;
      if (record.sequence > page.next && this.damage !== undefined) {
        // What lies before the hole is sound: the page ends there, and the next one is refused.
        if (page.messages.length > 0) return page;
        throw hole(this.damage, page.next, record.sequence);
      }
      this.#take(page, record);
      if (page.isDone) break;
    }
    if (this.damage !== undefined && page.messages.length === 0 && page.next < end) throw hole(this.damage, page.next, end);
    return page;
  }

  #take(page: Page, { sequence, count, payload }: RecentRecord): void {
    const messages = this.#decode(payload, sequence);
    this.#decoded = { from: sequence, end: sequence + BigInt(count), messages };
    page.take(messages);
    // Offsets that a repair left without messages.
    if (messages.length === 0) page.pass(sequence + BigInt(count));
  }

  whenBeyond(offset: bigint, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.#visibleEnd > offset || signal.aborted) {
        resolve();
        return;
      }
      const over = (): void => {
        this.#waiters.delete(waiter);
        signal.removeEventListener("abort", over);
        resolve();
      };
      const waiter: Waiter = { offset, resolve: over };
      this.#waiters.add(waiter);
      signal.addEventListener("abort", over, { once: true });
    });
  }

  /** Those who wait for more look again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const waiter of this.#waiters) waiter.resolve();
    this.#waiters.clear();
    await this.#reopening?.catch(() => undefined);
    this.#recent?.clear();
    await this.#journal.close();
  }

  /** The disk decides what is there: what memory has may lack a record whose append was answered unknown. */
  async #reopen(): Promise<void> {
    this.#recent?.clear();
    await this.#journal.close();
    this.#journal = (await openJournal(this.#options)).journal;
  }
}

function hole(damage: ConcordError, from: bigint, to: bigint): ConcordError {
  const text = `offsets ${from} to ${to - 1n} are damaged (${damage.message}); what is sound goes on at ${to}`;
  return new ConcordError("CORRUPT_DATA", text, { applied: "no", metadata: { from: String(from), soundFrom: String(to) }, cause: damage });
}

/** A page being filled: ends after the message that passes a limit. */
class Page implements LogPage {
  readonly messages: LogMessage[] = [];
  next: bigint;
  readonly #end: bigint;
  readonly #limits: PageLimits;
  #bytes = 0;

  constructor(from: bigint, end: bigint, limits: PageLimits) {
    this.next = from;
    this.#end = end;
    this.#limits = limits;
  }

  get isFull(): boolean {
    return this.messages.length >= this.#limits.messages || this.#bytes > this.#limits.bytes;
  }

  /** It takes no more: full, or at the end of what is visible. */
  get isDone(): boolean {
    return this.isFull || this.next >= this.#end;
  }

  /** There are no messages up to `offset`. */
  pass(offset: bigint): void {
    if (this.isFull || offset <= this.next) return;
    this.next = offset < this.#end ? offset : this.#end;
  }

  /** Messages with consecutive offsets, of which those before the page's place are passed over. */
  take(messages: readonly LogMessage[]): void {
    const first = messages[0];
    if (first === undefined) return;
    for (let at = Math.max(0, Number(this.next - first.offset)); at < messages.length; at += 1) {
      const message = messages[at]!;
      if (this.isFull || message.offset >= this.#end) return;
      this.messages.push(message);
      this.#bytes += sizeOf(message);
      this.next = message.offset + 1n;
    }
  }
}
