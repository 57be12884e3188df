// Parts and ranges of stored objects, as GET and HEAD request and report them.
import type { ByteRange, PartPage, StoredObject } from "@concord/objects";
import { formatHttpDate, S3Error, type Fields } from "@concord/s3";
import type { S3Call } from "./call.ts";
import { partNumberOf } from "./parameters.ts";
import { checksumHeaders, quoted, type Header } from "./responses.ts";

/** The part requested instead of the whole object. */
export function readPart({ query }: S3Call): number | undefined {
  return query.has("partNumber") ? partNumberOf(query) : undefined;
}

export function contentRange({ offset, lengthBytes }: Span, sizeBytes: number): Header {
  return ["content-range", `bytes ${offset}-${offset + lengthBytes - 1}/${sizeBytes}`];
}

/** Only on request, and only of all bytes: it is not the checksum of a range. */
export function wholeChecksumHeaders(call: S3Call, object: StoredObject): readonly Header[] {
  return wantsChecksum(call) ? checksumHeaders(object.checksum) : [];
}

/** Only on request; the kind of checksum is that of the object. An object that was not uploaded in parts is its own part. */
export function partChecksumHeaders(call: S3Call, object: StoredObject, part: number, page: PartPage | undefined): readonly Header[] {
  if (!wantsChecksum(call)) return [];
  if (object.content.kind !== "parts") return checksumHeaders(object.checksum);
  const checksum = page?.parts.find(({ number }) => number === part)?.checksum;
  return checksumHeaders(checksum && { ...checksum, type: object.checksum?.type ?? checksum.type });
}

export const wantsChecksum = ({ headers }: S3Call): boolean => headers.one("x-amz-checksum-mode")?.toUpperCase() === "ENABLED";

export function partsCountHeaders({ content }: StoredObject): readonly Header[] {
  return content.kind === "parts" ? [["x-amz-mp-parts-count", String(content.parts.length)]] : [];
}

export interface Span {
  readonly offset: number;
  readonly lengthBytes: number;
}

/** The range of a part; an object that was not uploaded in parts is its own part 1. InvalidRange. */
export function partSpan({ content, sizeBytes }: StoredObject, number: number): Span {
  if (content.kind !== "parts") {
    if (number === 1) return { offset: 0, lengthBytes: sizeBytes };
    throw new S3Error("InvalidRange");
  }
  let offset = 0;
  for (const part of content.parts) {
    if (part.number === number) return { offset, lengthBytes: part.lengthBytes };
    offset += part.lengthBytes;
  }
  throw new S3Error("InvalidRange");
}

/** Whether If-Range names this very object, if there is one: its ETag, or its time to the second. */
export function rangeHolds(headers: Fields, { etag, modifiedMs }: StoredObject): boolean {
  const text = headers.one("if-range");
  if (text === undefined) return true;
  return text === etag || text === quoted(etag) || text === formatHttpDate(modifiedMs);
}

/** Which bytes a range names; InvalidRange when there are none. */
export function rangeSpan({ first, last }: ByteRange, sizeBytes: number): Span {
  const offset = first ?? Math.max(0, sizeBytes - (last ?? 0));
  const end = first === undefined || last === undefined ? sizeBytes : Math.min(last + 1, sizeBytes);
  if (offset >= end) throw new S3Error("InvalidRange");
  return { offset, lengthBytes: end - offset };
}
