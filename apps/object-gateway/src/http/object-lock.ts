// S3 operations of locks: a bucket's default, retention and legal hold of versions; and the locks that uploads ask for.
import type { BucketLocking, Bypass, ObjectLock, StoredObject } from "@concord/objects";
import {
  legalHoldXml,
  lockConfigurationXml,
  lockFacts,
  lockHeaders,
  readBypass,
  readLegalHold,
  readLockConfiguration,
  readLockHeaders,
  readRetention,
  retentionXml,
  S3Error,
  type S3Action,
} from "@concord/s3";
import { askingAlso, decide, demand, demandBeforeBody, type Asking } from "./access.ts";
import { readDocument } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { empty, versionHeader, xml, type Header } from "./responses.ts";

/** ObjectLockConfigurationNotFoundError: its versions cannot be locked. */
export const getObjectLockConfiguration: Operation = async ({ bucket }, { store }) => {
  const locking = await store.bucketLocking(bucket);
  if (locking === undefined) throw new S3Error("ObjectLockConfigurationNotFoundError");
  return xml(lockConfigurationXml(locking));
};

/** In effect for every upload that commits after the answer. InvalidBucketState: the bucket keeps no versions. */
export const putObjectLockConfiguration: Operation = async (call, context) => {
  const locking: BucketLocking = readLockConfiguration(await readDocument(call, context));
  await context.store.setBucketLocking(call.bucket, locking);
  return empty(200);
};

/** NoSuchObjectLockConfiguration: it has none. */
export const getObjectRetention: Operation = async (call, context) => {
  const { retention } = await lockOf(call, context);
  if (retention === undefined) throw new S3Error("NoSuchObjectLockConfiguration");
  return xml(retentionXml(retention));
};

/** AccessDenied: what is in force would end earlier, or in another mode, and is not bypassed; in compliance mode never. */
export const putObjectRetention: Operation = async (call, context) => {
  const bypass = readBypass(call.headers);
  demandBeforeBody(call, "s3:PutObjectRetention");
  const retention = readRetention(await readDocument(call, context));
  const asking = askingFor(call, { retention });
  demand(call.access, asking, "s3:PutObjectRetention", call.key);
  if (bypass !== undefined) demand(call.access, asking, "s3:BypassGovernanceRetention", call.key);
  const { bucket, key, query } = call;
  const versionId = query.one("versionId");
  await context.store.setObjectRetention({ bucket, key, versionId, retention, bypass });
  return empty(200, versionHeader(versionId));
};

/** NoSuchObjectLockConfiguration: it was never set. */
export const getObjectLegalHold: Operation = async (call, context) => {
  const { legalHold } = await lockOf(call, context);
  if (legalHold === undefined) throw new S3Error("NoSuchObjectLockConfiguration");
  return xml(legalHoldXml(legalHold));
};

export const putObjectLegalHold: Operation = async (call, context) => {
  demandBeforeBody(call, "s3:PutObjectLegalHold");
  const legalHold = readLegalHold(await readDocument(call, context));
  demand(call.access, askingFor(call, { legalHold }), "s3:PutObjectLegalHold", call.key);
  const { bucket, key, query } = call;
  const versionId = query.one("versionId");
  await context.store.setObjectLegalHold({ bucket, key, versionId, legalHold });
  return empty(200, versionHeader(versionId));
};

async function lockOf({ bucket, key, query }: S3Call, { store }: Context): Promise<ObjectLock> {
  return (await store.objectLock({ bucket, key, versionId: query.one("versionId") })) ?? {};
}

/** For conditions on the lock that the request sets. */
const askingFor = (call: S3Call, lock: ObjectLock): Asking =>
  askingAlso(call, (known) => lockFacts(lock, Number(known["aws:currenttime"])));

/** What an upload asks for, by the right to ask for it. */
export function lockOfNew(call: S3Call): ObjectLock | undefined {
  const { access, key } = call;
  const lock = readLockHeaders(call.headers);
  if (lock?.retention !== undefined) demand(access, call, "s3:PutObjectRetention", key);
  if (lock?.legalHold !== undefined) demand(access, call, "s3:PutObjectLegalHold", key);
  return lock;
}

/** What a delete may pass over, by the right to do so. */
export function bypassOf(call: S3Call, key: string, versionId?: string): Bypass {
  const bypass = readBypass(call.headers);
  if (bypass !== undefined) demand(call.access, call, "s3:BypassGovernanceRetention", key, { versionId });
  return bypass;
}

/** Of the answer to a read: what the caller has the right to know. */
export function lockHeadersOf(call: S3Call, { lock }: StoredObject): readonly Header[] {
  if (lock === undefined) return [];
  const may = (action: S3Action): boolean => decide(call.access, call, action, call.key).kind === "allowed";
  const { retention, legalHold } = lock;
  return lockHeaders({
    ...(retention !== undefined && may("s3:GetObjectRetention") ? { retention } : {}),
    ...(legalHold !== undefined && may("s3:GetObjectLegalHold") ? { legalHold } : {}),
  });
}
