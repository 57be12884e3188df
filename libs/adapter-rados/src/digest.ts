import type { SealedBlob } from "@concord/ports";
import type { Checksum } from "@concord/runtime";

/** Length and checksum of all bytes that pass. */
export class Digest {
  readonly #checksum: Checksum;
  #whole: number;
  lengthBytes = 0;

  constructor(checksum: Checksum) {
    this.#checksum = checksum;
    this.#whole = checksum(new Uint8Array());
  }

  update(bytes: Uint8Array): void {
    this.#whole = this.#checksum(bytes, this.lengthBytes === 0 ? undefined : this.#whole);
    this.lengthBytes += bytes.length;
  }

  finish(): SealedBlob {
    return { lengthBytes: this.lengthBytes, checksum: this.#whole >>> 0 };
  }
}
