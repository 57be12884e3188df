import { assert } from "@concord/runtime";
import { INDEX_PAGE_SEQUENCES } from "./limits.ts";
import { NEEDLE_PREFIX_BYTES } from "./needle-format.ts";

export interface NeedlePlace {
  readonly segment: number;
  /** Where the blob begins, behind the needle's prefix. */
  readonly offset: number;
  /** Of the blob; less than it says of itself when it is torn. */
  readonly lengthBytes: number;
}

/** Segment, offset, length + 1; 0 for none. */
const WORDS = 3;

interface Page {
  readonly words: Uint32Array;
  count: number;
}

/** Where the needles of one epoch are, by sequence: pages of plain numbers, since sequences are given out one after the other. */
export class NeedleIndex {
  readonly #pages = new Map<number, Page>();
  readonly #liveBytes = new Map<number, number>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(sequence: number): NeedlePlace | undefined {
    const words = this.#pages.get(pageOf(sequence))?.words;
    const at = slotOf(sequence);
    if (words === undefined || words[at + 2] === 0) return undefined;
    return { segment: words[at]!, offset: words[at + 1]!, lengthBytes: words[at + 2]! - 1 };
  }

  set(sequence: number, { segment, offset, lengthBytes }: NeedlePlace): void {
    assert(segment < 2 ** 32 && offset < 2 ** 32 && lengthBytes < 2 ** 32 - 1, "a needle's place fits the index");
    this.delete(sequence);
    let page = this.#pages.get(pageOf(sequence));
    if (page === undefined) this.#pages.set(pageOf(sequence), (page = { words: new Uint32Array(INDEX_PAGE_SEQUENCES * WORDS), count: 0 }));
    page.words.set([segment, offset, lengthBytes + 1], slotOf(sequence));
    page.count += 1;
    this.#size += 1;
    this.#liveBytes.set(segment, this.liveBytes(segment) + NEEDLE_PREFIX_BYTES + lengthBytes);
  }

  delete(sequence: number): boolean {
    const place = this.get(sequence);
    const page = this.#pages.get(pageOf(sequence));
    if (place === undefined || page === undefined) return false;
    page.words.fill(0, slotOf(sequence), slotOf(sequence) + WORDS);
    page.count -= 1;
    this.#size -= 1;
    if (page.count === 0) this.#pages.delete(pageOf(sequence));
    this.#liveBytes.set(place.segment, this.liveBytes(place.segment) - NEEDLE_PREFIX_BYTES - place.lengthBytes);
    return true;
  }

  /** Of the segment's needles that are to be found here, prefixes included. */
  liveBytes(segment: number): number {
    return this.#liveBytes.get(segment) ?? 0;
  }

  /** In order, from `from` on. */
  *sequences(from = 0): Iterable<number> {
    const pages = [...this.#pages.keys()].filter((page) => page >= pageOf(from)).sort((left, right) => left - right);
    for (const page of pages) {
      const first = page * INDEX_PAGE_SEQUENCES;
      for (let sequence = Math.max(first, from); sequence < first + INDEX_PAGE_SEQUENCES; sequence += 1)
        if (this.get(sequence) !== undefined) yield sequence;
    }
  }

  *inSegment(segment: number): Iterable<readonly [number, NeedlePlace]> {
    for (const sequence of this.sequences()) {
      const place = this.get(sequence);
      if (place?.segment === segment) yield [sequence, place];
    }
  }
}

const SET_BITS = 32;

/** Sequences, one bit each. */
export class SequenceSet {
  readonly #pages = new Map<number, Uint32Array>();

  has(sequence: number): boolean {
    const at = sequence % INDEX_PAGE_SEQUENCES;
    const words = this.#pages.get(pageOf(sequence));
    return words !== undefined && ((words[Math.floor(at / SET_BITS)]! >>> (at % SET_BITS)) & 1) === 1;
  }

  add(sequence: number): void {
    const at = sequence % INDEX_PAGE_SEQUENCES;
    let words = this.#pages.get(pageOf(sequence));
    if (words === undefined) this.#pages.set(pageOf(sequence), (words = new Uint32Array(INDEX_PAGE_SEQUENCES / SET_BITS)));
    words[Math.floor(at / SET_BITS)]! |= 1 << (at % SET_BITS);
  }
}

const pageOf = (sequence: number): number => Math.floor(sequence / INDEX_PAGE_SEQUENCES);
const slotOf = (sequence: number): number => (sequence % INDEX_PAGE_SEQUENCES) * WORDS;
