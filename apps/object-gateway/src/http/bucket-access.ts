// S3 operations of who may use a bucket: its policy and the block of public access.
import { policyStatusXml, publicAccessBlockXml, readPolicy, readPublicAccessBlock, refuseIdleActions, S3Error } from "@concord/s3";
import { POLICY, PUBLIC_ACCESS_BLOCK, readBlock } from "./access.ts";
import { readDocument } from "./bodies.ts";
import type { Operation } from "./context.ts";
import { empty, xml } from "./responses.ts";

/** NoSuchBucketPolicy. The text as it was put. */
export const getBucketPolicy: Operation = async ({ bucket }, { store }) => {
  const { [POLICY]: text } = (await store.headBucket(bucket)).settings.documents;
  if (text === undefined) throw new S3Error("NoSuchBucketPolicy");
  const body = new TextEncoder().encode(text);
  return {
    status: 200,
    headers: [
      ["content-type", "application/json"],
      ["content-length", String(body.length)],
    ],
    body,
  };
};

/** MalformedPolicy; AccessDenied for a public one where that is blocked. In effect for every request that begins after the answer. */
export const putBucketPolicy: Operation = async (call, context) => {
  const { bucket, access } = call;
  const body = await readDocument(call, context);
  const policy = readPolicy(body, bucket, context.access.options.isTenant);
  refuseIdleActions(policy);
  if (policy.isPublic && (access.block.blockPublicPolicy || access.publicAccess === "refused"))
    throw new S3Error("AccessDenied", "Public policies are blocked by the public access block of the bucket or of this server.");
  await context.store.setBucketDocument({ bucket, name: POLICY, text: Buffer.from(body).toString() });
  return empty(204);
};

/** Success also when there was none. */
export const deleteBucketPolicy: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: POLICY, text: undefined });
  return empty(204);
};

/** NoSuchBucketPolicy. */
export const getBucketPolicyStatus: Operation = async ({ access: { policy } }) => {
  if (policy === undefined) throw new S3Error("NoSuchBucketPolicy");
  return xml(policyStatusXml(policy.isPublic));
};

/** NoSuchPublicAccessBlockConfiguration. */
export const getPublicAccessBlock: Operation = async ({ bucket }, { store }) => {
  const block = readBlock((await store.headBucket(bucket)).settings.documents[PUBLIC_ACCESS_BLOCK]);
  if (block === undefined) throw new S3Error("NoSuchPublicAccessBlockConfiguration");
  return xml(publicAccessBlockXml(block));
};

export const putPublicAccessBlock: Operation = async (call, context) => {
  const block = readPublicAccessBlock(await readDocument(call, context));
  await context.store.setBucketDocument({ bucket: call.bucket, name: PUBLIC_ACCESS_BLOCK, text: JSON.stringify(block) });
  return empty(200);
};

/** Success also when there was none. */
export const deletePublicAccessBlock: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: PUBLIC_ACCESS_BLOCK, text: undefined });
  return empty(204);
};
