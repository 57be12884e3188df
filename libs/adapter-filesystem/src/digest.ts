import type { SealedBlob } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { BLOCK_BYTES } from "./limits.ts";

/** The checksum of A||B from those of A and B and the length of B. */
export type CombineChecksums = (first: number, second: number, secondBytes: number) => number;

/** Checksums of the blocks and of the whole, while bytes pass: each byte once when the whole's can be made of the blocks'. */
export class Digest {
  readonly table: number[] = [];
  readonly #checksum: Checksum;
  readonly #combine: CombineChecksums | undefined;
  #block = 0;
  #blockBytes = 0;
  #whole = 0;
  lengthBytes = 0;

  constructor(checksum: Checksum, combine?: CombineChecksums) {
    this.#checksum = checksum;
    this.#combine = combine;
  }

  update(bytes: Uint8Array): void {
    if (this.#combine === undefined) this.#whole = this.#checksum(bytes, this.lengthBytes === 0 ? undefined : this.#whole);
    this.lengthBytes += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + BLOCK_BYTES - this.#blockBytes);
      this.#block = this.#checksum(part, this.#blockBytes === 0 ? undefined : this.#block);
      this.#blockBytes += part.length;
      at += part.length;
      if (this.#blockBytes === BLOCK_BYTES) this.#endBlock();
    }
  }

  finish(): SealedBlob {
    if (this.#blockBytes > 0) this.#endBlock();
    const checksum = this.lengthBytes === 0 ? this.#checksum(new Uint8Array()) : this.#whole;
    return { lengthBytes: this.lengthBytes, checksum: checksum >>> 0 };
  }

  #endBlock(): void {
    const block = this.#block >>> 0;
    if (this.#combine !== undefined) this.#whole = this.table.length === 0 ? block : this.#combine(this.#whole, block, this.#blockBytes);
    this.table.push(block);
    this.#blockBytes = 0;
  }
}
