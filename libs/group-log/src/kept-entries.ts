import { assert, nextSeq, type Seq } from "@concord/runtime";

/** Sizes of a group's applied entries that are still on disk, oldest first: what another replica may still fetch. */
export class KeptEntries {
  #droppedSeq: Seq;
  #sizes: number[] = [];
  /** Sizes before this position belong to entries that are gone. */
  #from = 0;
  #bytes = 0;

  constructor(droppedSeq: Seq) {
    this.#droppedSeq = droppedSeq;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#sizes.length - this.#from;
  }

  get droppedSeq(): Seq {
    return this.#droppedSeq;
  }

  /** Up to here entries are kept, or dropped. */
  get lastSeq(): bigint {
    return this.#droppedSeq + BigInt(this.count);
  }

  push(bytes: number): void {
    assert(bytes > 0, "an entry has content");
    this.#sizes.push(bytes);
    this.#bytes += bytes;
  }

  /** Bytes of the kept entry after `offset` others. */
  sizeAt(offset: number): number {
    const bytes = offset < 0 ? undefined : this.#sizes[this.#from + offset];
    assert(bytes !== undefined, "an entry that is read was kept");
    return bytes;
  }

  dropOldest(): Seq {
    const bytes = this.#sizes[this.#from];
    assert(bytes !== undefined, "an entry that is dropped was kept");
    this.#from += 1;
    this.#bytes -= bytes;
    assert(this.#bytes >= 0, "what is dropped was counted");
    this.#droppedSeq = nextSeq(this.#droppedSeq);
    if (this.#from > COMPACT_AT && 2 * this.#from > this.#sizes.length) {
      this.#sizes = this.#sizes.slice(this.#from);
      this.#from = 0;
    }
    return this.#droppedSeq;
  }
}

const COMPACT_AT = 1024;
