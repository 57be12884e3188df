import type { Disk } from "./disk.ts";

const NAME = "reserve";
const BLOCK_BYTES = 4 * 1024 * 1024;

/**
 * Space that a file of its own keeps from others, so that there is some for the stores when the disk is full: they need it to open, and
 * to delete. It grows and shrinks by a block at a time, and goes at once when the stores open.
 */
export class SpaceReserve {
  readonly disk: Disk;
  readonly #bytes: number;
  #heldBytes = 0;

  /** `bytes` in the root of `disk`; 0: none. */
  constructor(disk: Disk, bytes: number) {
    this.disk = disk;
    this.#bytes = bytes;
  }

  /** How much is still to be kept. */
  get missingBytes(): number {
    return this.#bytes - this.#heldBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Minimum of free space above which opening stores do not get it: what a checkpoint in progress may take. */
  get neededBytes(): number {
    return this.#bytes / 2;
  }

  /** Minimum of free space above which open stores do not get a block of it. */
  get blockBytes(): number {
    return BLOCK_BYTES;
  }

  /** Half of it is for the next opening, whatever others take meanwhile. */
  get canShrink(): boolean {
    return this.#heldBytes - BLOCK_BYTES >= this.neededBytes;
  }

  get nextBytes(): number {
    return Math.min(BLOCK_BYTES, this.missingBytes);
  }

  /** What an earlier life kept counts. */
  async find(): Promise<void> {
    if (this.#bytes === 0) return;
    const file = await this.disk.open(NAME);
    if (file === undefined) return;
    this.#heldBytes = Math.min(file.size, this.#bytes);
    await file.close();
  }

  /** A block more. It is not synced: a power cut may take it. */
  async grow(): Promise<void> {
    const bytes = this.nextBytes;
    const made = await this.disk.create(NAME);
    const file = made === "exists" ? await this.disk.open(NAME) : made;
    if (file === undefined) return;
    try {
      await file.write(this.#heldBytes, [incompressible(bytes)]);
      this.#heldBytes += bytes;
    } finally {
      await file.close();
    }
  }

  /** A block less. */
  async shrink(): Promise<void> {
    const file = await this.disk.open(NAME);
    if (file === undefined) return;
    try {
      await file.truncate(this.#heldBytes - BLOCK_BYTES);
      this.#heldBytes -= BLOCK_BYTES;
    } finally {
      await file.close();
    }
  }

  async release(): Promise<void> {
    await this.disk.remove(NAME);
    this.#heldBytes = 0;
  }
}

/** Zeros would take no space on a file system that compresses. */
function incompressible(bytes: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(bytes / Uint32Array.BYTES_PER_ELEMENT));
  let word = 1;
  for (let at = 0; at < words.length; at += 1) {
    word ^= word << 13;
    word ^= word >>> 17;
    word ^= word << 5;
    words[at] = word;
  }
  return new Uint8Array(words.buffer, 0, bytes);
}
