import { S3Error } from "./errors.ts";
import { TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX } from "./limits.ts";

/** Letters, digits, spaces and + - = . _ : / @ of any script. */
export const TAG_TEXT = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;

/** Names that AWS keeps for itself. */
const SYSTEM_TAG = /^aws:/i;

/** A tag set: each key once, lengths and characters as S3 has them. InvalidTag; BadRequest for too many. */
export function checkTags(entries: readonly (readonly [key: string, value: string])[], max: number): Record<string, string> {
  if (entries.length > max) throw new S3Error("BadRequest", `Object tags cannot be greater than ${max}`);
  const tags = new Map<string, string>();
  for (const [key, value] of entries) {
    if (tags.has(key)) throw new S3Error("InvalidTag", "Cannot provide multiple Tags with the same key", { elements: { TagKey: key } });
    if (key === "" || key.length > TAG_KEY_CHARS_MAX || !TAG_TEXT.test(key)) {
      throw new S3Error("InvalidTag", "The TagKey you have provided is invalid", { elements: { TagKey: key } });
    }
    if (SYSTEM_TAG.test(key)) {
      throw new S3Error("InvalidTag", "System tags cannot be added/updated by requester", { elements: { TagKey: key } });
    }
    if (value.length > TAG_VALUE_CHARS_MAX || !TAG_TEXT.test(value)) {
      throw new S3Error("InvalidTag", "The TagValue you have provided is invalid", { elements: { TagKey: key } });
    }
    tags.set(key, value);
  }
  return Object.fromEntries(tags);
}
