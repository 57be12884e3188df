// S3 operations of tags: those of a bucket, those of an object.
import { readTagging, S3Error, taggingXml, TAGS_PER_BUCKET_MAX, TAGS_PER_OBJECT_MAX, type S3Action } from "@concord/s3";
import { askingAlso, demandBeforeBody, judgeOf } from "./access.ts";
import type { Operation } from "./context.ts";
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
export const getObjectTagging: Operation = async ({ bucket, key, query, judge }, { store }) => {
  const versionId = query.one("versionId");
  return xml(taggingXml(await store.objectTags({ bucket, key, versionId, judge })), versionHeader(versionId));
};

/** Replaces all tags of the object. */
export const putObjectTagging: Operation = async (call, context) => {
  const { bucket, key, query, access } = call;
  const versionId = query.one("versionId");
  const action: S3Action = versionId === undefined ? "s3:PutObjectTagging" : "s3:PutObjectVersionTagging";
  demandBeforeBody(call, action);
  const tags = readTagging(await readDocument(call, context), TAGS_PER_OBJECT_MAX);
  const judge = judgeOf(
    access,
    askingAlso(call, () => ({ requestTags: tags })),
    [action],
    key,
    versionId,
  );
  await context.store.setObjectTags({ bucket, key, versionId, tags, judge });
  return empty(200, versionHeader(versionId));
};

/** Success also when the object had none. */
export const deleteObjectTagging: Operation = async ({ bucket, key, query, judge }, { store }) => {
  const versionId = query.one("versionId");
  await store.setObjectTags({ bucket, key, versionId, tags: {}, judge });
  return empty(204, versionHeader(versionId));
};
