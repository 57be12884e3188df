import { listBucketsXml, readNumber } from "@concord/s3";
import { BUCKETS_PAGE_MAX } from "../limits.ts";
import type { Operation } from "./call.ts";
import { afterOfToken, pageTokenOf } from "./page-token.ts";
import { xml } from "./responses.ts";

/** The caller's own buckets, by name. */
export const listBuckets: Operation = async ({ query, tenant }, { store, region }) => {
  const limit = readNumber(query, "max-buckets", BUCKETS_PAGE_MAX, [1, BUCKETS_PAGE_MAX]);
  const token = query.one("continuation-token");
  const after = token === undefined ? "" : afterOfToken(token);
  const prefix = query.one("prefix");
  const isHere = (query.one("bucket-region") ?? region) === region;
  const all = isHere ? await store.listBuckets(tenant) : [];
  const left = all
    .filter(({ name }) => name > after && name.startsWith(prefix ?? ""))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const buckets = left.slice(0, limit);
  const continuationToken = buckets.length < left.length ? pageTokenOf(buckets.at(-1)!.name) : undefined;
  return xml(listBucketsXml({ owner: { id: tenant }, buckets, prefix, continuationToken }));
};
