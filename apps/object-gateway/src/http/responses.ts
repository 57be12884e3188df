// Answers: what they all have, and what a stored object is described with.
import { versionIdOf, type StoredChecksum, type StoredObject } from "@concord/objects";
import type { HttpResponse } from "@concord/runtime";
import { formatHttpDate } from "@concord/s3";

export type Header = readonly [name: string, value: string];

const encoder = new TextEncoder();

export const empty = (status: number, headers: readonly Header[] = []): HttpResponse => ({ status, headers });

export function xml(text: string, headers: readonly Header[] = [], status = 200): HttpResponse {
  const body = encoder.encode(text);
  return { status, headers: [["content-type", "application/xml"], ["content-length", String(body.length)], ...headers], body };
}

export const quoted = (etag: string): string => `"${etag}"`;

/** Checksum headers of an answer. */
export function checksumHeaders(checksum: StoredChecksum | undefined): readonly Header[] {
  if (checksum === undefined) return [];
  return [
    [`x-amz-checksum-${checksum.algorithm.toLowerCase()}`, checksum.value],
    ["x-amz-checksum-type", checksum.type],
  ];
}

/** Of a bucket that has versions. */
export const versionHeader = (versionId: string | undefined): readonly Header[] =>
  versionId === undefined ? [] : [["x-amz-version-id", versionId]];

export const objectVersionHeader = ({ version }: StoredObject): readonly Header[] =>
  versionHeader(version === undefined ? undefined : versionIdOf(version));

/** Of the answer to a copy. */
export const copySourceVersionHeader = (versionId: string | undefined): readonly Header[] =>
  versionId === undefined ? [] : [["x-amz-copy-source-version-id", versionId]];

/** Headers of GET and HEAD for an object, whatever the range. */
export function objectHeaders(object: StoredObject, overrides: Readonly<Record<string, string>>): readonly Header[] {
  const { headers, metadata, tags } = object.attributes;
  const tagCount = Object.keys(tags).length;
  return [
    ["etag", quoted(object.etag)],
    ["last-modified", formatHttpDate(object.modifiedMs)],
    ["accept-ranges", "bytes"],
    ...objectVersionHeader(object),
    ...Object.entries({ "content-type": "binary/octet-stream", ...headers, ...overrides }),
    ...Object.entries(metadata).map(([name, value]): Header => [`x-amz-meta-${name}`, value]),
    ...(tagCount === 0 ? [] : [["x-amz-tagging-count", String(tagCount)] as const]),
  ];
}
