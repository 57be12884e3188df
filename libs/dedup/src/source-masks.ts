import { compareBytes } from "@concord/codec";
import { assert } from "@concord/runtime";
import type { IdHash } from "./api.ts";
import { ID_WORDS, packBytes, type IdKeys } from "./id-words.ts";
import { SOURCE_MASKS_KEPT } from "./limits.ts";

interface Mask {
  readonly source: Uint8Array;
  readonly words: Uint32Array;
}

/**
 * Ids of a source are another source's under no name (DDD13): the packed id is combined, by exclusive or, with a keyed hash of the source's name. Equal ids
 * of two sources differ by both masks, which no producer knows, so none can choose an id that meets another source's. Ids without a source are as they were
 * before there were sources.
 */
export class SourceMasks {
  readonly #key: Uint8Array;
  readonly #hash: IdHash;
  readonly #masks = new Map<string, Mask>();
  /** Messages of one source mostly come one after the other. */
  #last: Mask | undefined;

  constructor(keys: IdKeys, hash: IdHash) {
    this.#key = keys.source;
    this.#hash = hash;
  }

  /** Makes the packed id at `at` one of the source's. */
  apply(source: Uint8Array | undefined, words: Uint32Array, at: number): void {
    if (source === undefined || source.length === 0) return;
    assert(at + ID_WORDS <= words.length, "a mask is for a whole id");
    const mask = this.#maskOf(source);
    for (let word = 0; word < ID_WORDS; word += 1) words[at + word] = (words[at + word]! ^ mask[word]!) >>> 0;
  }

  #maskOf(source: Uint8Array): Uint32Array {
    if (this.#last !== undefined && compareBytes(this.#last.source, source) === 0) return this.#last.words;
    const name = String.fromCharCode(...source);
    let mask = this.#masks.get(name);
    if (mask === undefined) {
      if (this.#masks.size >= SOURCE_MASKS_KEPT) this.#masks.clear();
      mask = { source: Uint8Array.from(source), words: new Uint32Array(ID_WORDS) };
      packBytes(this.#hash(this.#key, source), mask.words, 0);
      this.#masks.set(name, mask);
      assert(this.#masks.size <= SOURCE_MASKS_KEPT, "masks that are kept are bounded");
    }
    this.#last = mask;
    return mask.words;
  }
}
