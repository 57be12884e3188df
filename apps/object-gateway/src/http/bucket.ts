// S3 operations of a bucket: make, look, remove, its fixed properties.
import {
  listBucketsXml,
  locationXml,
  readCreateBucketConfiguration,
  readLockEnabled,
  readNumber,
  readVersioning,
  S3Error,
  versioningXml,
} from "@concord/s3";
import { BUCKETS_PAGE_MAX } from "../limits.ts";
import { documentsOfNew } from "./acls.ts";
import type { Operation } from "./context.ts";
import { readDocument } from "./bodies.ts";
import { afterOfToken, pageTokenOf } from "./page-token.ts";
import { empty, xml } from "./responses.ts";

/** Creating one's own bucket again changes nothing, and is refused when it asks for other settings; another tenant's name is refused. */
export const createBucket: Operation = async (call, context) => {
  const { bucket, tenant, headers } = call;
  const { store, region } = context;
  const documents = documentsOfNew(headers, tenant, context);
  const withLocks = readLockEnabled(headers);
  const asked = readCreateBucketConfiguration(await readDocument(call, context)) ?? region;
  if (asked !== region)
    throw new S3Error("IllegalLocationConstraintException", `The ${asked} location constraint is incompatible: this is ${region}.`);
  await store.createBucket({ bucket, tenant, region, documents, withLocks });
  return empty(200, [["location", `/${bucket}`]]);
};

/** The pipeline has checked already that the bucket exists and belongs to the caller. */
export const headBucket: Operation = async (_call, { region }) => empty(200, [["x-amz-bucket-region", region]]);

/** Only an empty one (OGD17). */
export const deleteBucket: Operation = async ({ bucket }, { store }) => {
  await store.deleteBucket(bucket);
  return empty(204);
};

export const getBucketLocation: Operation = async (_call, { region }) => xml(locationXml(region));

export const getBucketVersioning: Operation = async ({ bucket }, { store }) => xml(versioningXml(await store.bucketVersioning(bucket)));

/** A put that begins after the answer keeps what it replaces, or no longer does. */
export const putBucketVersioning: Operation = async (call, context) => {
  await context.store.setBucketVersioning(call.bucket, readVersioning(await readDocument(call, context)));
  return empty(200);
};

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
