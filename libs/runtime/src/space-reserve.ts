import type { Disk } from "./disk.ts";

const NAME = "reserve";
const BLOCK_BYTES = 4 * 1024 * 1024;
/** Unit in which file systems give space to files. */
const CLUSTER_BYTES = 4096;

/**
 * Space that a file of its own keeps from others, so that there is some for the stores when the disk is full: they need it to open, to
 * delete, and to end what they began. It grows and shrinks by a block at a time, and most of it goes at once when the stores open. The rest is
 * lent to single writes that find no space.
 */
export class SpaceReserve {
  readonly disk: Disk;
  readonly #bytes: number;
  #heldBytes = 0;
  /** One change of the file at a time. */
  #turn: Promise<unknown> = Promise.resolve();

  /** `bytes` in the root of `disk`; 0: none. */
  constructor(disk: Disk, bytes: number) {
    this.disk = disk;
    this.#bytes = bytes;
  }

  /** False: none is to be kept. */
  get isWanted(): boolean {
    return this.#bytes > 0;
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

  /** Opening stores do not get it: it is for single writes, also when another program has taken all that the stores got. */
  get keptBytes(): number {
    return Math.floor(this.#bytes / (4 * CLUSTER_BYTES)) * CLUSTER_BYTES;
  }

  /** What an earlier life kept counts. */
  async find(): Promise<void> {
    if (this.#bytes > 0) await this.#inTurn(() => this.#find());
  }

  /** A block more. It is not synced: a power cut may take it. */
  grow(): Promise<void> {
    return this.#inTurn(() => this.#grow());
  }

  /** A block less. */
  shrink(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.canShrink) await this.#truncate(this.#heldBytes - BLOCK_BYTES);
    });
  }

  /** Gives up all but what is kept for single writes. */
  release(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#heldBytes > this.keptBytes) await this.#truncate(this.keptBytes);
    });
  }

  /**
   * Gives up space for `bytes`, if it has so much, and calls `write` at once: another program that fills the disk has no time to take it, and when it
   * does all the same, it has taken no more than that. "nothing": the reserve has no more; `write` was not called.
   */
  lend<Answer>(bytes: number, write: () => Promise<Answer>): Promise<Answer | "nothing"> {
    return this.#inTurn(async () => {
      const lent = Math.ceil(bytes / CLUSTER_BYTES + 1) * CLUSTER_BYTES;
      if (lent > this.#heldBytes) return "nothing";
      await this.#truncate(this.#heldBytes - lent);
      return await write();
    });
  }

  #inTurn<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    const done = this.#turn.then(act);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #find(): Promise<void> {
    const file = await this.disk.open(NAME);
    if (file === undefined) return;
    this.#heldBytes = Math.min(file.size, this.#bytes);
    await file.close();
  }

  async #grow(): Promise<void> {
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

  async #truncate(size: number): Promise<void> {
    const file = await this.disk.open(NAME);
    if (file === undefined) return;
    try {
      await file.truncate(size);
      this.#heldBytes = size;
    } finally {
      await file.close();
    }
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
