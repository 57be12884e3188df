import { compareBytes } from "@concord/codec";
import { assert, ConcordError } from "@concord/runtime";
import type { ListedObject, Listing, ListRequest } from "./api.ts";
import type { ObjectStoreContext } from "./context.ts";
import { decodeRowAs, isMarkerRow } from "./row-codec.ts";
import { afterKey, afterPrefix, bucketPartition, headKey, headSpan, keyOfHead, spanOf, type KeySpan } from "./row-keys.ts";
import { mergeShards, type MergedRows } from "./shard-cursor.ts";
import { readBucket } from "./shard-view.ts";

/**
 * Keys with the prefix, in binary order of their UTF-8; those that have the delimiter behind the prefix are rolled up to common prefixes, which
 * are jumped over by a seek, however much lies below them. BUCKET_UNKNOWN.
 */
export async function listObjects(context: ObjectStoreContext, request: ListRequest): Promise<Listing> {
  const { prefix, delimiter, limit } = request;
  checkListing(context, request);
  const bucket = await readBucket(context, request.bucket);
  const partitions = Array.from({ length: bucket.row.shards }, (_, shard) => bucketPartition(request.bucket, shard));
  const rows = mergeShards(context, partitions, startOf(request));
  const objects: ListedObject[] = [];
  const commonPrefixes: string[] = [];
  let last: string | undefined;
  for (let row = await peekWithin(rows, limit); row !== undefined; row = await rows.peek()) {
    if (isMarkerRow(row.value)) {
      rows.take();
      continue;
    }
    assert(objects.length + commonPrefixes.length <= limit, "a page has at most what was asked for");
    if (objects.length + commonPrefixes.length === limit) {
      assert(last !== undefined, "a page that goes on says where");
      return { objects, commonPrefixes, next: last };
    }
    const key = keyOfHead(row.key);
    const common = commonPrefixOf(key, prefix, delimiter);
    if (common === undefined) {
      objects.push(listed(key, row.value));
      rows.take();
    } else {
      assert(commonPrefixes.at(-1) !== common, "keys below a common prefix are jumped over");
      commonPrefixes.push(common);
      rows.seek(afterPrefix(headKey(common)));
    }
    last = common ?? key;
  }
  return { objects, commonPrefixes, next: undefined };
}

/** Up to and with the first delimiter behind the prefix. */
export function commonPrefixOf(key: string, prefix: string, delimiter: string | undefined): string | undefined {
  assert(key.startsWith(prefix), "a listed key has the prefix");
  if (delimiter === undefined || delimiter === "") return undefined;
  const at = key.indexOf(delimiter, prefix.length);
  return at < 0 ? undefined : key.slice(0, at + delimiter.length);
}

/** The first row that may count: with the prefix, and behind `after` and everything that rolls up to it or to something before it. */
export function startOf({ prefix, delimiter, after }: Pick<ListRequest, "prefix" | "delimiter" | "after">): KeySpan {
  const span = prefix === "" ? headSpan() : spanOf(headKey(prefix));
  if (after === undefined) return span;
  const common = after.startsWith(prefix) ? commonPrefixOf(after, prefix, delimiter) : undefined;
  const from = common === undefined ? afterKey(headKey(after)) : afterPrefix(headKey(common));
  const start = compareBytes(from, span.from) > 0 ? from : span.from;
  assert(compareBytes(start, headKey(after)) > 0, "a page begins behind its marker");
  return { from: start, to: span.to };
}

/** A page of zero keys reads nothing and is not truncated (S3). */
async function peekWithin(rows: MergedRows, limit: number): ReturnType<MergedRows["peek"]> {
  return limit === 0 ? undefined : await rows.peek();
}

function listed(key: string, value: Uint8Array): ListedObject {
  const { sizeBytes, etag, modifiedMs, checksum, acl } = decodeRowAs("object", value);
  return { key, sizeBytes, etag, modifiedMs, checksum, owner: acl?.owner };
}

export function checkListing(context: ObjectStoreContext, { prefix, after, delimiter, limit }: Omit<ListRequest, "bucket">): void {
  const texts = [prefix, after ?? "", delimiter ?? ""];
  if (!texts.every((text) => text.isWellFormed())) throw new ConcordError("MALFORMED_REQUEST", "a listing's texts are UTF-8");
  const fits = Number.isSafeInteger(limit) && limit >= 0 && limit <= context.limits.listLimitMax;
  if (!fits)
    throw new ConcordError("LIMIT_EXCEEDED", `a listing has at most ${context.limits.listLimitMax} entries`, {
      metadata: { limit: "list" },
    });
}
