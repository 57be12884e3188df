// S3 operations of tags: those of a bucket, those of an object.
import { readTagging, S3Error, taggingXml, TAGS_PER_BUCKET_MAX, TAGS_PER_OBJECT_MAX } from "@concord/s3";
import type { Operation } from "./call.ts";
import { readDocument } from "./bodies.ts";
import { empty, versionHeader, xml } from "./responses.ts";

/** NoSuchTagSet when there are none. */
export const getBucketTagging: Operation = async ({ bucket }, { store }) => {
  const tags = await store.bucketTags(bucket);
  if (Object.keys(tags).length === 0) throw new S3Error("NoSuchTagSet");
  return xml(taggingXml(tags));
};

/** Replaces all tags of the bucket. */
export const putBucketTagging: Operation = async (call, context) => {
  const tags = readTagging(await readDocument(call, context), TAGS_PER_BUCKET_MAX);
  await context.store.setBucketTags(call.bucket, tags);
  return empty(200);
};

/** Success also when there were none. */
export const deleteBucketTagging: Operation = async ({ bucket }, { store }) => {
  await store.setBucketTags(bucket, {});
  return empty(204);
};

/** An empty set when there are none. */
export const getObjectTagging: Operation = async ({ bucket, key, query }, { store }) => {
  const versionId = query.one("versionId");
  return xml(taggingXml(await store.objectTags(bucket, key, versionId)), versionHeader(versionId));
};

/** Replaces all tags of the object. */
export const putObjectTagging: Operation = async (call, context) => {
  const tags = readTagging(await readDocument(call, context), TAGS_PER_OBJECT_MAX);
  const versionId = call.query.one("versionId");
  await context.store.setObjectTags(call.bucket, call.key, tags, versionId);
  return empty(200, versionHeader(versionId));
};

/** Success also when the object had none. */
export const deleteObjectTagging: Operation = async ({ bucket, key, query }, { store }) => {
  const versionId = query.one("versionId");
  await store.setObjectTags(bucket, key, {}, versionId);
  return empty(204, versionHeader(versionId));
};
