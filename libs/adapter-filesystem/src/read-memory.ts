import { BLOCK_BYTES, READ_BLOCKS, READ_MEMORY_KEPT, READ_MEMORY_MIN_BYTES } from "./limits.ts";

const LENGTH = READ_BLOCKS * BLOCK_BYTES;

/** Memory that chunks are read into, used again and again: fresh memory costs more than reading into it. */
export class ReadMemory {
  readonly #free: Uint8Array[] = [];

  /** For a chunk of `bytes`; undefined: a short one, or one of larger blocks than ours, has memory of its own. */
  take(bytes: number): Uint8Array | undefined {
    if (bytes < READ_MEMORY_MIN_BYTES || bytes > LENGTH) return undefined;
    return this.#free.pop() ?? new Uint8Array(LENGTH);
  }

  give(memory: Uint8Array | undefined): void {
    if (memory !== undefined && this.#free.length < READ_MEMORY_KEPT) this.#free.push(memory);
  }
}
