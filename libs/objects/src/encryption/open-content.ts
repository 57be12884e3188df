// The plaintext of what is stored encrypted: only the frames that hold the wanted bytes are read.
import type { Oid } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import type { PartRow } from "../rows.ts";
import type { DataKey } from "./data-keys.ts";
import { frameKeyOf, frameSpanOf, openBytes, openFrames } from "./frames.ts";

interface Span {
  readonly offset: number;
  readonly lengthBytes: number;
}

export function openInline(
  { cipher, bytes, encryption: { guid } }: DataKey,
  sealed: Uint8Array,
  sizeBytes: number,
  span: Span,
): Uint8Array {
  const key = frameKeyOf(cipher, bytes, { object: guid, part: 0, guid, oid: undefined });
  return openBytes(key, frameSpanOf(sizeBytes, span.offset, span.lengthBytes), sealed);
}

export function openBlob(
  context: ObjectStoreContext,
  key: DataKey,
  { oid, lengthBytes }: { readonly oid: Oid; readonly lengthBytes: number },
  span: Span,
): AsyncIterable<Uint8Array> {
  return openOf(context, key, { oid, lengthBytes, part: 0, guid: key.encryption.guid }, span);
}

/** CORRUPT_DATA: a part of an encrypted object that is not encrypted. */
export function openPart(context: ObjectStoreContext, key: DataKey, part: number, row: PartRow, span: Span): AsyncIterable<Uint8Array> {
  if (row.encryption === undefined) throw new ConcordError("CORRUPT_DATA", `part ${part} of an encrypted object is not encrypted`);
  return openOf(context, key, { ...row, part, guid: row.encryption.guid }, span);
}

function openOf(
  { data }: ObjectStoreContext,
  { cipher, bytes, encryption }: DataKey,
  { oid, lengthBytes, part, guid }: { readonly oid: Oid; readonly lengthBytes: number; readonly part: number; readonly guid: bigint },
  { offset, lengthBytes: wanted }: Span,
): AsyncIterable<Uint8Array> {
  const key = frameKeyOf(cipher, bytes, { object: encryption.guid, part, guid, oid });
  const span = frameSpanOf(lengthBytes, offset, wanted);
  return openFrames(key, span, data.read(oid, span.offset, span.lengthBytes));
}
