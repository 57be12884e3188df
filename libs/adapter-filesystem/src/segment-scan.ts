import { parseOid } from "@concord/ports";
import type { Checksum, DiskFile } from "@concord/runtime";
import { SEARCH_BYTES } from "./limits.ts";
import { decodePrefix, NEEDLE_FIRST_BYTE, NEEDLE_PREFIX_BYTES, type NeedlePrefix } from "./needle-format.ts";
import { decodeEnd, blobBytesOf, TRAILER_BYTES_MAX } from "./blob-format.ts";

export interface FoundNeedle {
  readonly sequence: number;
  readonly offset: number;
  readonly lengthBytes: number;
}

export interface ScanRequest {
  readonly file: DiskFile;
  readonly epoch: number;
  readonly from: number;
  /** Nothing behind it is the segment's. */
  readonly end: number;
  readonly checksum: Checksum;
}

export interface ScanResult {
  readonly needles: readonly FoundNeedle[];
  /** Where the next scan continues: behind the last whole needle. */
  readonly next: number;
  /** Bytes that were synced once and are not sound now: a needle of a later group stands behind them. */
  readonly damagedBytes: number;
}

/** Reads the needles' prefixes and skips the rest. */
export async function scanSegment(request: ScanRequest): Promise<ScanResult> {
  const { file, epoch, end, checksum } = request;
  const needles: FoundNeedle[] = [];
  let [at, next, damagedBytes] = [request.from, request.from, 0];
  while (at + NEEDLE_PREFIX_BYTES <= end) {
    let prefix = decodePrefix(await file.read(at, NEEDLE_PREFIX_BYTES), epoch, at, checksum);
    if (prefix === undefined) {
      const found = await nextPrefix(request, at + 1);
      needles.push(...(await endedNeedles(request, at, found?.offset ?? end)));
      if (found === undefined) break;
      // A group is written after the one before it was synced: everything before a later group was whole once.
      if (found.groupOffset > at) damagedBytes += found.offset - at;
      at = found.offset;
      prefix = found;
    }
    const offset = at + NEEDLE_PREFIX_BYTES;
    needles.push({ sequence: prefix.sequence, offset, lengthBytes: Math.min(prefix.lengthBytes, end - offset) });
    at = offset + prefix.lengthBytes;
    if (at <= end) next = at;
  }
  return { needles, next, damagedBytes };
}

/** The first prefix, from `from` on, whose own offset matches. */
async function nextPrefix({ file, epoch, end, checksum }: ScanRequest, from: number): Promise<NeedlePrefix | undefined> {
  for (let start = from; start + NEEDLE_PREFIX_BYTES <= end; start += SEARCH_BYTES) {
    const window = await file.read(start, Math.min(SEARCH_BYTES + NEEDLE_PREFIX_BYTES - 1, end - start));
    for (let at = window.indexOf(NEEDLE_FIRST_BYTE); at >= 0; at = window.indexOf(NEEDLE_FIRST_BYTE, at + 1)) {
      const prefix = decodePrefix(window.subarray(at), epoch, start + at, checksum);
      if (prefix !== undefined) return prefix;
    }
  }
  return undefined;
}

/** Blobs whose prefix is damaged: each is found by its trailer, from behind. Their bytes are verified when they are read. */
async function endedNeedles({ file, epoch, checksum }: ScanRequest, from: number, to: number): Promise<readonly FoundNeedle[]> {
  const needles: FoundNeedle[] = [];
  for (let end = to; end > from;) {
    const tailBytes = Math.min(end - from, TRAILER_BYTES_MAX);
    const trailer = decodeEnd(await file.read(end - tailBytes, tailBytes), checksum);
    if (trailer === undefined || parseOid(trailer.oid).epoch !== epoch) break;
    const [lengthBytes, offset] = [blobBytesOf(trailer), end - blobBytesOf(trailer)];
    if (offset - NEEDLE_PREFIX_BYTES < from) break;
    needles.push({ sequence: parseOid(trailer.oid).sequence, offset, lengthBytes });
    end = offset - NEEDLE_PREFIX_BYTES;
  }
  return needles;
}
