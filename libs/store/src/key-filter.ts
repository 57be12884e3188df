import { FILTER_BYTES_MAX, FILTER_KEYS_MIN } from "./limits.ts";

/** A key sets one bit in each word of one block. */
const BLOCK_WORDS = 8;
/** 12.8 bits per key: of keys that are not there one in some 250 looks as if it were. */
const KEYS_PER_BLOCK = 20;
const SALTS = [0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31] as const;

interface Layer {
  readonly words: Uint32Array;
  readonly keysMax: number;
  keys: number;
}

/**
 * Which keys a backing store may have, in memory: a key that was added is never called absent (I9). Takes checksums of keys. Keys that are
 * deleted stay. Grows by layers, each twice the one before; over FILTER_BYTES_MAX it is dropped, and every key may be there.
 */
export class KeyFilter {
  #layers: Layer[] = [];
  #bytes = 0;
  #isDropped = false;

  /** For so many keys, and as many again: more need another layer. */
  constructor(keys = 0) {
    this.#grow(Math.max(2 * keys, FILTER_KEYS_MIN));
  }

  /** 0 once it is dropped. */
  get bytes(): number {
    return this.#bytes;
  }

  mayHave(checksum: number): boolean {
    if (this.#isDropped) return true;
    for (const { words } of this.#layers) if (isIn(words, checksum)) return true;
    return false;
  }

  add(checksum: number): void {
    if (this.mayHave(checksum)) return;
    let layer = this.#layers.at(-1)!;
    if (layer.keys === layer.keysMax) {
      this.#grow(2 * layer.keysMax);
      if (this.#isDropped) return;
      layer = this.#layers.at(-1)!;
    }
    layer.keys += 1;
    const { words } = layer;
    const at = blockOf(words, checksum);
    for (let i = 0; i < BLOCK_WORDS; i += 1) words[at + i]! |= 1 << (Math.imul(checksum, SALTS[i]!) >>> 27);
  }

  #grow(keys: number): void {
    const blocks = Math.ceil(keys / KEYS_PER_BLOCK);
    const bytes = blocks * BLOCK_WORDS * Uint32Array.BYTES_PER_ELEMENT;
    if (this.#bytes + bytes > FILTER_BYTES_MAX) {
      this.#isDropped = true;
      this.#layers = [];
      this.#bytes = 0;
      return;
    }
    this.#layers.push({ words: new Uint32Array(blocks * BLOCK_WORDS), keysMax: blocks * KEYS_PER_BLOCK, keys: 0 });
    this.#bytes += bytes;
  }
}

function isIn(words: Uint32Array, checksum: number): boolean {
  const at = blockOf(words, checksum);
  for (let i = 0; i < BLOCK_WORDS; i += 1) {
    if ((words[at + i]! & (1 << (Math.imul(checksum, SALTS[i]!) >>> 27))) === 0) return false;
  }
  return true;
}

/** Index of its first word. Mixed: the bits in a block must say something else than the block does. */
function blockOf(words: Uint32Array, checksum: number): number {
  let mixed = Math.imul(checksum ^ (checksum >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  mixed = (mixed ^ (mixed >>> 16)) >>> 0;
  return Math.floor((mixed / 2 ** 32) * (words.length / BLOCK_WORDS)) * BLOCK_WORDS;
}
