import { ConcordError, type Checksum, type Disk } from "@concord/runtime";
import type { EpochFolders, PackedPlace } from "./epoch-folders.ts";
import { SEGMENTS_MAX } from "./limits.ts";
import { decodeBounds, encodeBounds, type Bounds } from "./needle-format.ts";
import { segmentName, segmentOf } from "./segment-file.ts";

const BOUNDS = "bounds";
const SIZES = "sizes";

/** Undefined: they are not published. CORRUPT_DATA. */
export async function readBounds(disk: Disk, parent: string, checksum: Checksum): Promise<Bounds | undefined> {
  const file = await disk.open(`${parent}/${BOUNDS}/${SIZES}`);
  if (file === undefined) return undefined;
  try {
    return decodeBounds(await file.read(0, file.size), checksum);
  } finally {
    await file.close();
  }
}

/**
 * How long the segments of a closed epoch are, recorded once: a paused writer may still append to its open segment, and no reader counts
 * that (I8). Of several who publish the first one wins, since a folder is not renamed onto one that holds a file.
 */
export async function publishBounds(
  disk: Disk,
  folders: EpochFolders,
  place: PackedPlace,
  checksum: Checksum,
  failpoint: (name: string) => void,
): Promise<Bounds> {
  // The close is durable before its bounds: an epoch that opens again after a power cut has none.
  await folders.syncRoot();
  const bytes = encodeBounds(await sizesOf(disk, place), checksum);
  const draft = await writeDraft(disk, place, bytes);
  failpoint("segment:bounds-written");
  const published = await disk.rename(draft, `${place.parent}/${BOUNDS}`).catch(() => false);
  const bounds = await readBounds(disk, place.parent, checksum);
  if (bounds === undefined) throw new ConcordError("STORE_FAILED", `the bounds in ${place.parent} cannot be published`);
  if (!published) await removeDraft(disk, draft);
  return bounds;
}

async function removeDraft(disk: Disk, draft: string): Promise<void> {
  for (const path of [`${draft}/${SIZES}`, draft]) await disk.remove(path).catch(() => false);
}

async function sizesOf(disk: Disk, place: PackedPlace): Promise<Bounds> {
  const sizes = new Map<number, number>();
  for (const { name } of await disk.list(place.path)) {
    const segment = segmentOf(name);
    if (segment === undefined) continue;
    const file = await disk.open(`${place.path}/${segmentName(segment)}`);
    if (file === undefined) throw new ConcordError("STORE_FAILED", `segment ${name} in ${place.path} vanished`, { applied: "no" });
    sizes.set(segment, file.size);
    await file.close();
  }
  return sizes;
}

/** Whole and durable, in a folder of its own. */
async function writeDraft(disk: Disk, place: PackedPlace, bytes: Uint8Array): Promise<string> {
  for (let ordinal = 0; ordinal < SEGMENTS_MAX; ordinal += 1) {
    const draft = `${place.parent}/${BOUNDS}-${ordinal}`;
    await disk.makeFolder(draft);
    const file = await disk.create(`${draft}/${SIZES}`);
    if (file === "exists") continue;
    try {
      await file.write(0, [bytes]);
      await file.sync();
      await disk.syncFolder(draft);
      return draft;
    } catch (thrown) {
      // No other draft is in its folder: this process made the file.
      await removeDraft(disk, draft);
      throw thrown;
    } finally {
      await file.close();
    }
  }
  throw new ConcordError("STORE_FAILED", `too many drafts of bounds in ${place.parent}`);
}
