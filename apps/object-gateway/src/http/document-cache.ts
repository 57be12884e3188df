import { BoundedCache, type BoundedCacheLimits } from "@concord/runtime";
import { DOCUMENTS_CACHED } from "../limits.ts";

/** Parses one kind of bucket documents, and keeps the parsed ones by their text. */
export function documentCache<Document extends object>(
  parse: (text: string) => Document,
  limits: BoundedCacheLimits = DOCUMENTS_CACHED,
): (text: string) => Document {
  const cached = new BoundedCache<string, Document>(limits);
  return (text) => cached.getOrMake(text, () => parse(text));
}
