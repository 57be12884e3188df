// What one body, of an object or of a part, is encrypted with while it is stored.
import type { Oid } from "@concord/ports";
import { assert, toHex } from "@concord/runtime";
import type { StoredChecksum } from "../rows.ts";
import { sealChecksum, type DataKey } from "./data-keys.ts";
import { frameKeyOf, FrameSealer } from "./frames.ts";

const ETAG_BYTES = 16;
const ETAG_LABEL = new TextEncoder().encode("concord etag 1");

export interface BodyKey {
  readonly key: DataKey;
  /** 0: the object itself. */
  readonly part: number;
  /** Of its put. */
  readonly guid: bigint;
}

export function sealerOf({ key, part, guid }: BodyKey, oid: Oid | undefined): FrameSealer {
  assert(part === 0 || oid !== undefined, "OGD24: a part is a blob");
  assert(part > 0 || guid === key.encryption.guid, "OGD24: what is encrypted of an object is bound to its put");
  return new FrameSealer(frameKeyOf(key.cipher, key.bytes, { object: key.encryption.guid, part, guid, oid }));
}

interface Digests {
  readonly md5Hex: string;
  readonly checksum: StoredChecksum | undefined;
}

/**
 * The digests of a body, and what is stored of them. Under SSE-C and SSE-KMS nothing beside a ciphertext tells of its content: the checksum is
 * stored encrypted, and for the MD5 there are 128 bits that are the blob's own.
 */
export function digestsBeside(
  body: BodyKey | undefined,
  oid: Oid | undefined,
  digests: Digests,
): Digests & { readonly sealedChecksum?: Uint8Array } {
  if (body === undefined || body.key.encryption.under.kind === "managed") return digests;
  const { key, part, guid } = body;
  const blob = frameKeyOf(key.cipher, key.bytes, { object: key.encryption.guid, part, guid, oid });
  const md5Hex = toHex(key.cipher.derive(blob.key, ETAG_LABEL).subarray(0, ETAG_BYTES));
  assert(md5Hex.length === 2 * ETAG_BYTES, "OGD23: what is shown in place of an MD5 is as long as one");
  const { checksum } = digests;
  return { md5Hex, checksum, ...(checksum === undefined ? {} : { sealedChecksum: sealChecksum(key, checksum) }) };
}
