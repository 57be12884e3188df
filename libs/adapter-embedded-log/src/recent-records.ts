import { assert } from "@concord/runtime";
import { RECENT_BYTES_MAX, RECENT_TOPIC_BYTES_MAX } from "./limits.ts";

/** A record as it was appended; durable. */
export interface RecentRecord {
  readonly sequence: bigint;
  readonly count: number;
  readonly payload: Uint8Array;
}

/** Memory for recent records of all topics of a log. */
export class RecentBudget {
  #bytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** False: all of it is taken. */
  take(bytes: number): boolean {
    assert(bytes > 0, "a record has bytes");
    if (this.#bytes + bytes > RECENT_BYTES_MAX) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
    assert(this.#bytes >= 0, "what is given back was taken");
  }
}

/**
 * The newest records of a topic, one behind the other without a gap, as they were written: the reader that follows the appends needs no read and no
 * checksum of what is in memory. What it has passed goes; so do the oldest where the memory ends. What is not here is on disk.
 */
export class RecentRecords {
  readonly #budget: RecentBudget;
  /** Those before `#first` are gone. */
  #records: RecentRecord[] = [];
  #first = 0;
  #end = -1n;
  #bytes = 0;

  constructor(budget: RecentBudget) {
    this.#budget = budget;
  }

  add(record: RecentRecord): void {
    if (record.count === 0) return;
    if (record.sequence !== this.#end) this.clear();
    const bytes = heldBytes(record);
    while (this.#bytes + bytes > RECENT_TOPIC_BYTES_MAX && this.#first < this.#records.length) this.#drop();
    this.#end = record.sequence + BigInt(record.count);
    if (bytes > RECENT_TOPIC_BYTES_MAX || !this.#budget.take(bytes)) {
      // The next one begins anew.
      this.clear();
      return;
    }
    this.#bytes += bytes;
    this.#records.push(record);
  }

  /** The records from the one that holds `offset` on, if that one is here. */
  from(offset: bigint): readonly RecentRecord[] {
    const oldest = this.#records[this.#first];
    if (oldest === undefined || offset < oldest.sequence) return [];
    this.passed(offset);
    return this.#records.slice(this.#first);
  }

  /** What lies before is not asked for again; or it is read from disk. */
  passed(offset: bigint): void {
    while (this.#first < this.#records.length && endOf(this.#records[this.#first]!) <= offset) this.#drop();
  }

  clear(): void {
    while (this.#first < this.#records.length) this.#drop();
    this.#records = [];
    this.#first = 0;
    this.#end = -1n;
    assert(this.#bytes === 0, "no record, no memory");
  }

  #drop(): void {
    const bytes = heldBytes(this.#records[this.#first]!);
    this.#first += 1;
    this.#bytes -= bytes;
    this.#budget.giveBack(bytes);
    // The dropped half goes at once: each record is moved at most once for each that is dropped.
    if (this.#first * 2 < this.#records.length) return;
    this.#records.splice(0, this.#first);
    this.#first = 0;
  }
}

const endOf = ({ sequence, count }: RecentRecord): bigint => sequence + BigInt(count);

/** A short payload keeps the whole slab that it is a part of. */
const heldBytes = ({ payload }: RecentRecord): number => payload.buffer.byteLength;
