import { assert, type DiskFile } from "@concord/runtime";

const NAME = /^seg-([0-9a-f]{8})$/;

export const segmentName = (segment: number): string => `seg-${segment.toString(16).padStart(8, "0")}`;

/** Undefined: the name is not a segment's. */
export function segmentOf(name: string): number | undefined {
  const found = NAME.exec(name);
  return found === null ? undefined : Number.parseInt(found[1]!, 16);
}

const DRAFT_NAME = /^copy-[0-9a-f]{8}$/;

/** A copy that is not durable yet: no segment. */
export const draftName = (segment: number): string => `copy-${segment.toString(16).padStart(8, "0")}`;
export const isDraft = (name: string): boolean => DRAFT_NAME.test(name);

const INDEX_NAME = /^index-([0-9a-f]{8})$/;

/** What a scan of the segment found. */
export const indexName = (segment: number): string => `index-${segment.toString(16).padStart(8, "0")}`;

/** Undefined: the name is not an index's. */
export function indexedSegmentOf(name: string): number | undefined {
  const found = INDEX_NAME.exec(name);
  return found === null ? undefined : Number.parseInt(found[1]!, 16);
}

const REMOVALS_NAME = /^removed-\d+$/;

export const removalsName = (ordinal: number): string => `removed-${ordinal}`;
export const isRemovals = (name: string): boolean => REMOVALS_NAME.test(name);

/** A blob in its segment, read as if it were a file of its own. Closing it closes the segment's. */
export function needleFile(segment: DiskFile, offset: number, lengthBytes: number): DiskFile {
  return {
    size: lengthBytes,
    read: (at, length, into) => segment.read(offset + at, Math.max(0, Math.min(length, lengthBytes - at)), into),
    close: () => segment.close(),
    ...READ_ONLY,
  };
}

/** A blob that is in memory. */
export function bytesFile(bytes: Uint8Array): DiskFile {
  return {
    size: bytes.length,
    read: (at, length) => Promise.resolve(bytes.slice(at, at + length)),
    close: () => Promise.resolve(),
    ...READ_ONLY,
  };
}

/** The rest of a file that is only read. */
export const READ_ONLY = { write: notChanged, writeSynced: notChanged, sync: notChanged, truncate: notChanged };

async function notChanged(): Promise<never> {
  assert(false, "what is opened for reading is not changed");
}
