import type { SealedBlob } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { BLOCK_BYTES } from "./limits.ts";

/** Checksums of the blocks and of the whole, while bytes pass. */
export class Digest {
  readonly table: number[] = [];
  readonly #checksum: Checksum;
  #block = 0;
  #blockBytes = 0;
  #whole = 0;
  lengthBytes = 0;

  constructor(checksum: Checksum) {
    this.#checksum = checksum;
  }

  update(bytes: Uint8Array): void {
    this.#whole = this.#checksum(bytes, this.lengthBytes === 0 ? undefined : this.#whole);
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
    this.table.push(this.#block >>> 0);
    this.#blockBytes = 0;
  }
}
