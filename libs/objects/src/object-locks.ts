// Retention and legal hold of versions that are there.
import { assert } from "@concord/runtime";
import type { ObjectStore } from "./api.ts";
import { changeObject } from "./change-object.ts";
import type { ObjectStoreContext } from "./context.ts";
import { objectWithoutKey } from "./get-object.ts";
import { assertRetentionChange, checkFuture, checkLocking, checkRetentionChange } from "./locks.ts";
import type { ObjectLock, StoredObject } from "./rows.ts";
import { viewShard } from "./shard-view.ts";
import { rowKeysOfVersion } from "./versions.ts";

/** Locks of the object, or of one version of it; undefined: none. MALFORMED_REQUEST in a bucket without locks. */
export async function objectLock(
  context: ObjectStoreContext,
  request: Parameters<ObjectStore["objectLock"]>[0],
): Promise<ObjectLock | undefined> {
  const { bucket, key, versionId } = request;
  const view = await viewShard(context, "read", bucket, key, rowKeysOfVersion(key, versionId));
  checkLocking(view.header.row);
  return (await objectWithoutKey(context, { bucket, key, versionId, precondition: {} })).lock;
}

/**
 * Sets, extends or ends (undefined) the retention of a version. PERMISSION_DENIED: it is in force, and would end earlier, or in another mode; in governance
 * mode unless it is bypassed. MALFORMED_REQUEST as above.
 */
export async function setObjectRetention(
  context: ObjectStoreContext,
  request: Parameters<ObjectStore["setObjectRetention"]>[0],
): Promise<void> {
  const { retention, bypass } = request;
  await changeObject(context, {
    ...request,
    what: "retention was",
    changes: "lock",
    event: undefined,
    change: async (object, header) => {
      checkLocking(header);
      const nowMs = await context.lockTime.judgeMs();
      if (retention !== undefined) checkFuture(retention, nowMs);
      checkRetentionChange(object.lock?.retention, retention, { nowMs, bypass });
      assertRetentionChange(object.lock?.retention, retention, { nowMs, bypass });
      const row = withLock(object, { ...object.lock, retention });
      assert(row.lock?.legalHold === object.lock?.legalHold, "OGD21: a retention leaves the legal hold as it is");
      return row;
    },
  });
}

export async function setObjectLegalHold(
  context: ObjectStoreContext,
  request: Parameters<ObjectStore["setObjectLegalHold"]>[0],
): Promise<void> {
  const { legalHold } = request;
  await changeObject(context, {
    ...request,
    what: "legal hold was",
    changes: "lock",
    event: undefined,
    change: (object, header) => {
      checkLocking(header);
      const row = withLock(object, { ...object.lock, legalHold });
      assert(row.lock?.retention === object.lock?.retention, "OGD21: a legal hold leaves the retention as it is");
      return row;
    },
  });
}

function withLock(object: StoredObject, { retention, legalHold }: ObjectLock): StoredObject {
  const { lock: _, ...rest } = object;
  if (retention === undefined && legalHold === undefined) return rest;
  return {
    ...rest,
    lock: { ...(retention === undefined ? {} : { retention }), ...(legalHold === undefined ? {} : { legalHold }) },
  };
}
