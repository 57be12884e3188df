import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "@concord/checksums";
import { ByteReader, ByteWriter, compareBytes } from "@concord/codec";
import { tablesOf, type ListedTables } from "./manifest-tables.ts";

/** Evidence, version 1: u8 version | text name of the manifest | u64 its bytes | u32 their CRC-32. */
const FORMAT_VERSION = 1;
const READ_BYTES = 64 * 1024;

/** A manifest up to some byte. It only grows, and has a new name after each opening. */
interface Prefix {
  readonly name: string;
  readonly bytes: number;
  readonly checksum: number;
}

/**
 * Which tables a store is made of lies in one file, the manifest, to which LevelDB appends what it adds and removes, a synced record each. As
 * long as its beginning is as it was, every table that was written until then is part of the store, or was compacted into one that is.
 */
export class ManifestEvidence {
  readonly #folder: string;
  /** Before LevelDB opened; undefined: there was none, `now` was called, or it proves nothing. */
  #before: { readonly name: string; readonly content: Uint8Array } | undefined;
  #now: Prefix | undefined;

  private constructor(folder: string, before: { readonly name: string; readonly content: Uint8Array } | undefined) {
    this.#folder = folder;
    this.#before = before;
  }

  /** Called before LevelDB opens. */
  static async of(folder: string): Promise<ManifestEvidence> {
    const name = await manifestName(folder);
    const content = name === undefined ? undefined : await readIfThere(join(folder, name));
    return new ManifestEvidence(folder, name === undefined || content === undefined ? undefined : { name, content });
  }

  /** The tables that the store was made of before LevelDB opened; undefined: there was no manifest, or it cannot be read. */
  tables(): ListedTables | undefined {
    return this.#before === undefined ? undefined : tablesOf(this.#before.content);
  }

  /** Whether the manifest is still what it was before LevelDB opened: asked under the lock, no other process has opened the store since. */
  async isUnchanged(): Promise<boolean> {
    const { name, content } = (await ManifestEvidence.of(this.#folder)).#before ?? {};
    const before = this.#before;
    return before !== undefined && content !== undefined && name === before.name && compareBytes(content, before.content) === 0;
  }

  /** The manifest as far as it can be read: what LevelDB synced before the call is in it. */
  async now(): Promise<Uint8Array> {
    this.#before = undefined;
    this.#now = await this.#read(this.#now ?? { name: (await manifestName(this.#folder)) ?? "", bytes: 0, checksum: 0 });
    return encode(this.#now);
  }

  /** A table that was not as it was written may have been compacted before that was noticed: no evidence holds. */
  doubt(): void {
    this.#before = undefined;
  }

  /** LevelDB was opened again: the manifest is another. */
  restart(): void {
    this.#before = undefined;
    this.#now = undefined;
  }

  holds(evidence: Uint8Array): boolean {
    const before = this.#before;
    if (before === undefined) return false;
    const { bytes } = decode(evidence) ?? { bytes: Number.MAX_SAFE_INTEGER };
    if (bytes > before.content.length) return false;
    const found = { name: before.name, bytes, checksum: crc32(before.content.subarray(0, bytes)) };
    return compareBytes(encode(found), evidence) === 0;
  }

  /** Goes on from what was read before. */
  async #read({ name, ...read }: Prefix): Promise<Prefix> {
    let { bytes, checksum } = read;
    const file = await open(join(this.#folder, name), "r");
    try {
      for (const buffer = Buffer.alloc(READ_BYTES); ;) {
        const { bytesRead } = await file.read(buffer, 0, READ_BYTES, bytes);
        if (bytesRead === 0) return { name, bytes, checksum };
        checksum = crc32(buffer.subarray(0, bytesRead), checksum);
        bytes += bytesRead;
      }
    } finally {
      await file.close();
    }
  }
}

/** True: a store was made in this folder and its manifest is gone, or CURRENT names none. LevelDB reports a missing file then, no damage. */
export async function isManifestLost(folder: string): Promise<boolean> {
  if ((await readIfThere(join(folder, "CURRENT"))) === undefined) return false;
  const name = await manifestName(folder);
  return name === undefined || (await readIfThere(join(folder, name))) === undefined;
}

/** Undefined: no store was made in this folder. */
export async function manifestName(folder: string): Promise<string | undefined> {
  const current = await readIfThere(join(folder, "CURRENT"));
  const name = current?.toString("latin1").trim();
  return name !== undefined && /^MANIFEST-\d+$/.test(name) ? name : undefined;
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw thrown;
  }
}

function encode({ name, bytes, checksum }: Prefix): Uint8Array {
  return new ByteWriter(64).u8(FORMAT_VERSION).text(name).u64(BigInt(bytes)).u32(checksum).finish();
}

/** Undefined: of another version of this program. */
function decode(evidence: Uint8Array): Prefix | undefined {
  const reader = new ByteReader(evidence);
  if (reader.remaining === 0 || reader.u8() !== FORMAT_VERSION) return undefined;
  return { name: reader.text(), bytes: Number(reader.u64()), checksum: reader.u32() };
}
