// Encrypted blobs that were changed by who can also make the store's checksums fit: only the cipher knows (OGD24).
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import type { Oid } from "@concord/ports";
import type { Disk, Environment } from "@concord/runtime";
import type { SeededRandom, World } from "@concord/simulation";

const SCRATCH = "scratch";
const OIDS_MAX = 1_000_000;
const TAMPERED_MAX = 12;
/** Of an encrypted frame. */
const FRAME_BYTES = 65_536 + 16;

interface StoredBlob {
  readonly oid: Oid;
  readonly key: string;
  readonly path: string;
  readonly bytes: Uint8Array;
}

export interface TamperOptions {
  readonly world: World;
  readonly env: Environment;
  /** That holds the blobs. */
  readonly disk: Disk;
  readonly keys: ReadonlySet<string>;
}

/** The keys of which a blob is another one now. Blobs that share files are left. */
export async function tamper({ world, env, disk, keys }: TamperOptions): Promise<ReadonlySet<string>> {
  const random = world.random("tampering");
  const { checksum, random: drawn } = env;
  world.sharedDisk(SCRATCH, []);
  const scratchDisk = world.filesOn(SCRATCH);
  const failpoint = (): void => undefined;
  const data = new FilesystemObjectData({ disk, checksum, random: drawn, failpoint });
  const scratch = new FilesystemObjectData({ disk: scratchDisk, checksum, random: drawn, failpoint });
  const blobs = await storedBlobs(data, disk, keys);
  const tampered = new Set<string>();
  for (const blob of blobs.slice(0, TAMPERED_MAX)) {
    const state = await data.inspect(blob.oid);
    if (state.kind !== "sealed") continue;
    const writer = await scratch.create(blob.oid, state.description);
    await writer.write(altered(random, blob, blobs));
    await writer.seal();
    await overwrite(disk, blob.path, await contentOf(scratchDisk, (await pathOf(scratchDisk, "", blob.oid))!));
    tampered.add(blob.key);
  }
  return tampered;
}

async function storedBlobs(data: FilesystemObjectData, disk: Disk, keys: ReadonlySet<string>): Promise<readonly StoredBlob[]> {
  const blobs: StoredBlob[] = [];
  for (const epoch of await data.epochs()) {
    for (const oid of await data.list({ epoch, fromSequence: 0, limit: OIDS_MAX })) {
      const state = await data.inspect(oid);
      const path = await pathOf(disk, "", oid);
      if (state.kind !== "sealed" || path === undefined || !keys.has(state.description.key)) continue;
      const chunks: Uint8Array[] = [];
      for await (const chunk of data.read(oid, 0, state.sealed.lengthBytes)) chunks.push(Uint8Array.from(chunk));
      blobs.push({ oid, key: state.description.key, path, bytes: Buffer.concat(chunks) });
    }
  }
  return blobs;
}

/** A byte flipped, two frames in each other's place, or the bytes of another blob of the same length. */
function altered(random: SeededRandom, { oid, bytes }: StoredBlob, blobs: readonly StoredBlob[]): Uint8Array {
  const others = blobs.filter((other) => other.oid !== oid && other.bytes.length === bytes.length);
  const frames = Math.floor(bytes.length / FRAME_BYTES);
  if (frames > 1 && random.chance(0.6)) {
    const [one, two] = [bytes.subarray(0, FRAME_BYTES), bytes.subarray(FRAME_BYTES, 2 * FRAME_BYTES)];
    return Buffer.concat([two, one, bytes.subarray(2 * FRAME_BYTES)]);
  }
  if (others.length > 0 && random.chance(0.4)) return random.pick(others).bytes;
  const flipped = Uint8Array.from(bytes);
  flipped[random.below(bytes.length)]! ^= 1 << random.below(8);
  return flipped;
}

/** Of a file that has the blob's name. */
async function pathOf(disk: Disk, folder: string, oid: Oid): Promise<string | undefined> {
  for (const { name, kind } of await disk.list(folder)) {
    const path = folder === "" ? name : `${folder}/${name}`;
    if (kind === "file" && name === oid) return path;
    const below = kind === "folder" ? await pathOf(disk, path, oid) : undefined;
    if (below !== undefined) return below;
  }
  return undefined;
}

async function contentOf(disk: Disk, path: string): Promise<Uint8Array> {
  const file = (await disk.open(path))!;
  const content = await file.read(0, file.size);
  await file.close();
  return content;
}

async function overwrite(disk: Disk, path: string, content: Uint8Array): Promise<void> {
  const file = (await disk.open(path))!;
  await file.writeSynced(0, [content]);
  await file.close();
}
