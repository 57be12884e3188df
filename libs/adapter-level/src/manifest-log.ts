import { open } from "node:fs/promises";
import { Fields, fragmentsOf, RECORD, TAG, Unreadable } from "./manifest-format.ts";

/** Newest log that a manifest names, as far as it was read: later reads go on from there. */
export class ManifestLog {
  readonly #path: string;
  #at = 0;
  #number: number | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Number of the log that the newest edit names. */
  async number(): Promise<number | undefined> {
    for (const { type, data, end } of fragmentsOf(await this.#readOn(), this.#at)) {
      if (type === RECORD.full || type === RECORD.first) this.#number = logNumberOf(data) ?? this.#number;
      this.#at = end;
    }
    return this.#number;
  }

  async #readOn(): Promise<Buffer> {
    const file = await open(this.#path, "r");
    try {
      const bytes = Buffer.alloc(Math.max(0, (await file.stat()).size - this.#at));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#at);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }
}

/**
 * LevelDB writes the number of the log that has what is in no table yet into every edit but the first one of a new database, in front, behind the
 * comparator's name. Undefined: the edit has none.
 */
function logNumberOf(edit: Buffer): number | undefined {
  const fields = new Fields(edit);
  try {
    let tag = fields.number();
    if (tag === TAG.comparator) {
      fields.skipText();
      tag = fields.number();
    }
    return tag === TAG.logNumber ? fields.number() : undefined;
  } catch (thrown) {
    if (thrown instanceof Unreadable) return undefined;
    throw thrown;
  }
}
