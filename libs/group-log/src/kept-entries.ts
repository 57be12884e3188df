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

  push(bytes: number): void {
    this.#sizes.push(bytes);
    this.#bytes += bytes;
  }

  /** Bytes of the kept entry after `offset` others. */
  sizeAt(offset: number): number {
    return this.#sizes[this.#from + offset] ?? 0;
  }

  dropOldest(): Seq {
    const bytes = this.#sizes[this.#from];
    assert(bytes !== undefined, "an entry that is dropped was kept");
    this.#from += 1;
    this.#bytes -= bytes;
    this.#droppedSeq = nextSeq(this.#droppedSeq);
    if (this.#from > COMPACT_AT && 2 * this.#from > this.#sizes.length) {
      this.#sizes = this.#sizes.slice(this.#from);
      this.#from = 0;
    }
    return this.#droppedSeq;
  }
}

const COMPACT_AT = 1024;
