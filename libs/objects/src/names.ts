import { ConcordError } from "@concord/runtime";
import {
  ACL_CHARS_MAX,
  BUCKET_NAME_MAX,
  BUCKET_NAME_MIN,
  KEY_BYTES_MAX,
  METADATA_BYTES_MAX,
  TAG_NAME_MAX,
  TAG_VALUE_MAX,
  TAGS_BUCKET_MAX,
  TAGS_OBJECT_MAX,
} from "./limits.ts";
import type { ObjectAcl, ObjectAttributes } from "./rows.ts";

const encoder = new TextEncoder();
const RESERVED_STARTS = ["xn--", "sthree-", "amzn-s3-demo-"];
const RESERVED_ENDS = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/** S3's rules for new buckets. MALFORMED_REQUEST. */
export function checkBucketName(name: string): void {
  const fits = name.length >= BUCKET_NAME_MIN && name.length <= BUCKET_NAME_MAX;
  const labels = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(name);
  const address = /^\d+\.\d+\.\d+\.\d+$/.test(name);
  const reserved = RESERVED_STARTS.some((start) => name.startsWith(start)) || RESERVED_ENDS.some((end) => name.endsWith(end));
  if (!fits || !labels || address || reserved) {
    throw new ConcordError("MALFORMED_REQUEST", `${JSON.stringify(name)} cannot name a bucket`, { metadata: { field: "bucket" } });
  }
}

/** Any well-formed text of 1 to 1024 bytes in UTF-8. MALFORMED_REQUEST, LIMIT_EXCEEDED. */
export function checkKey(key: string): void {
  if (key === "" || !key.isWellFormed())
    throw new ConcordError("MALFORMED_REQUEST", "a key is some UTF-8 text", { metadata: { field: "key" } });
  // A UTF-16 unit takes at least one byte: the encoder is not asked for what cannot fit, nor for what must.
  if (key.length * 3 <= KEY_BYTES_MAX) return;
  if (key.length <= KEY_BYTES_MAX && encoder.encode(key).length <= KEY_BYTES_MAX) return;
  throw new ConcordError("LIMIT_EXCEEDED", `a key has at most ${KEY_BYTES_MAX} bytes`, { metadata: { limit: "key" } });
}

export function checkAttributes(attributes: ObjectAttributes): void {
  let bytes = 0;
  for (const [name, value] of Object.entries(attributes.metadata)) bytes += encoder.encode(name).length + encoder.encode(value).length;
  if (bytes > METADATA_BYTES_MAX) {
    throw new ConcordError("LIMIT_EXCEEDED", `user metadata has at most ${METADATA_BYTES_MAX} bytes`, { metadata: { limit: "metadata" } });
  }
  checkTags("object", attributes.tags);
}

export function checkAcl(acl: ObjectAcl | undefined): void {
  if (acl !== undefined && acl.owner.length + acl.grants.length > ACL_CHARS_MAX)
    throw new ConcordError("LIMIT_EXCEEDED", `an ACL has at most ${ACL_CHARS_MAX} characters`, { metadata: { limit: "acl" } });
}

export function checkTags(of: "object" | "bucket", tags: Readonly<Record<string, string>>): void {
  const entries = Object.entries(tags);
  const limit = of === "object" ? TAGS_OBJECT_MAX : TAGS_BUCKET_MAX;
  if (entries.length > limit) {
    throw new ConcordError("LIMIT_EXCEEDED", `a${of === "object" ? "n object" : " bucket"} has at most ${limit} tags`, {
      metadata: { limit: "tags" },
    });
  }
  for (const [name, value] of entries) {
    const fits = name.length > 0 && name.length <= TAG_NAME_MAX && value.length <= TAG_VALUE_MAX;
    if (!fits || !name.isWellFormed() || !value.isWellFormed()) {
      throw new ConcordError("MALFORMED_REQUEST", `tag names have 1 to ${TAG_NAME_MAX} characters, values at most ${TAG_VALUE_MAX}`, {
        metadata: { field: "tag" },
      });
    }
  }
}
