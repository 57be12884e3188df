// Parameters that several operations have: sizes of pages, encodings, upload ids, part numbers.
import { ConcordError } from "@concord/runtime";
import { PARTS_MAX, readNumber, S3Error, type Fields } from "@concord/s3";
import { guidFromText } from "@concord/snowflake";
import { LIST_PAGE_MAX } from "../limits.ts";
import type { S3Call } from "./call.ts";

export const INT_MAX = 2 ** 31 - 1;

/** How many entries a page may have: more than S3's own limit counts as that limit. In the query or in a header. */
export function pageSizeOf({ query, headers }: Pick<S3Call, "query" | "headers">, name: string): number {
  const fields = name.startsWith("x-amz-") ? headers : query;
  return Math.min(readNumber(fields, name, LIST_PAGE_MAX, [0, INT_MAX]), LIST_PAGE_MAX);
}

/** How the names in a list are written. */
export function encodingOf({ query }: S3Call): "url" | undefined {
  const type = query.one("encoding-type");
  if (type === undefined || type === "url") return type;
  throw new S3Error("InvalidArgument", "Invalid Encoding Method specified in Request");
}

/** NoSuchUpload for text that is no upload id. */
export function uploadIdOf(query: Fields): bigint {
  return uploadIdFrom(query.one("uploadId"));
}

export function uploadIdFrom(text: string | undefined): bigint {
  try {
    return guidFromText(text ?? "");
  } catch (thrown) {
    if (thrown instanceof ConcordError) throw new S3Error("NoSuchUpload", undefined, { cause: thrown });
    throw thrown;
  }
}

export function partNumberOf(query: Fields): number {
  const number = readNumber(query, "partNumber", 0, [1, PARTS_MAX]);
  if (number === 0) throw new S3Error("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive");
  return number;
}
