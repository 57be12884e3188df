import { assert } from "@concord/runtime";
import { FILTER_BITS_PER_ID, FILTER_HASHES } from "./limits.ts";
import { mixId } from "./id-words.ts";

const BLOCK_WORDS = 16;
const BLOCK_BITS = 512;

/**
 * A Bloom filter in blocks of 512 bits: an id's bits share one cache line. `false` is certain; `true` means "look it up": no message is
 * dropped on it alone (DD13).
 */
export class IdFilter {
  readonly #seed: number;
  readonly #blocks: number;
  readonly #words: Uint32Array;

  constructor(ids: number, seed: number) {
    this.#seed = seed;
    this.#blocks = Math.max(1, Math.ceil((ids * FILTER_BITS_PER_ID) / BLOCK_BITS));
    this.#words = new Uint32Array(this.#blocks * BLOCK_WORDS);
    assert(this.#words.length * 32 >= ids * FILTER_BITS_PER_ID, "DDD6: a filter has its bits for each id");
  }

  get memoryBytes(): number {
    return this.#words.byteLength;
  }

  add(words: Uint32Array, at: number): void {
    const hash = mixId(words, at, this.#seed);
    const block = this.#blockOf(hash);
    const step = stepOf(hash);
    let bit = Math.imul(hash, 0x9e3779b1) >>> 7;
    for (let i = 0; i < FILTER_HASHES; i += 1) {
      this.#words[block + ((bit >>> 5) & 15)]! |= 1 << (bit & 31);
      bit = (bit + step) & (BLOCK_BITS - 1);
    }
  }

  mayHave(words: Uint32Array, at: number): boolean {
    const hash = mixId(words, at, this.#seed);
    const block = this.#blockOf(hash);
    const step = stepOf(hash);
    let bit = Math.imul(hash, 0x9e3779b1) >>> 7;
    for (let i = 0; i < FILTER_HASHES; i += 1) {
      if ((this.#words[block + ((bit >>> 5) & 15)]! & (1 << (bit & 31))) === 0) return false;
      bit = (bit + step) & (BLOCK_BITS - 1);
    }
    return true;
  }

  #blockOf(hash: number): number {
    return Math.floor((hash / 0x1_0000_0000) * this.#blocks) * BLOCK_WORDS;
  }
}

/** Odd, so that an id's bits differ from each other. */
function stepOf(hash: number): number {
  return (Math.imul(hash, 0x85ebca77) >>> 21) | 1;
}
