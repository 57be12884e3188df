// What a scan of a closed epoch's segment found, in a file beside it: the next process reads it instead of a prefix of each needle.
import type { Checksum, Disk, Log } from "@concord/runtime";
import { toConcordError } from "@concord/runtime";
import { decodeSegmentIndex, encodeSegmentIndex, type SegmentIndex } from "./needle-format.ts";
import { indexName } from "./segment-file.ts";

export interface IndexedSegment {
  readonly disk: Disk;
  /** The folder of the segment. */
  readonly folder: string;
  readonly epoch: number;
  readonly segment: number;
  readonly checksum: Checksum;
}

/** Undefined: there is none, or it is not whole, or cannot be read; then the segment is scanned. Never rejects. */
export async function readIndex({ disk, folder, epoch, segment, checksum }: IndexedSegment, log: Log): Promise<SegmentIndex | undefined> {
  const path = `${folder}/${indexName(segment)}`;
  try {
    const file = await disk.open(path);
    if (file === undefined) return undefined;
    try {
      return decodeSegmentIndex(await file.read(0, file.size), { epoch, segment }, checksum);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    log.warn("the index of a segment cannot be read; the segment is scanned", { path, reason: toConcordError(thrown).message });
    return undefined;
  }
}

/** Not synced: one that a power cut spoils fails its checksum. Never rejects: without it the next process scans. */
export async function writeIndex({ disk, folder, epoch, segment, checksum }: IndexedSegment, index: SegmentIndex, log: Log): Promise<void> {
  const path = `${folder}/${indexName(segment)}`;
  try {
    await disk.remove(path);
    const file = await disk.create(path);
    if (file === "exists") return;
    try {
      await file.write(0, [encodeSegmentIndex({ epoch, segment }, index, checksum)]);
    } finally {
      await file.close();
    }
  } catch (thrown) {
    // On a full disk, or the segments moved to another folder.
    log.debug("the index of a segment was not written", { path, reason: toConcordError(thrown).message });
  }
}
