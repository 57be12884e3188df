import type { MetadataCommit } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import type { DeleteCondition } from "./api.ts";
import { commitRepeatable, putGarbage } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { countUsage, headOf, leftBy } from "./head-row.ts";
import { checkKey } from "./names.ts";
import { checkDeleteCondition } from "./preconditions.ts";
import { headKey } from "./row-keys.ts";
import type { StoredObject } from "./rows.ts";
import { headerCondition, viewShard, type ShardView, type Versioned } from "./shard-view.ts";

type Deletion = "deleted" | "changed";

/**
 * Removes the object, if there is one. One batch: the head row goes, exactly its blobs are garbage (I4), the usage falls.
 * BUCKET_UNKNOWN, WRITE_CONFLICT; OUTCOME_UNKNOWN. The commit names the version on which the condition was checked: PRECONDITION_FAILED, and
 * OBJECT_UNKNOWN for If-Match of nothing.
 */
export async function deleteObject(
  context: ObjectStoreContext,
  { bucket, key, condition = {} }: { readonly bucket: string; readonly key: string; readonly condition?: DeleteCondition },
): Promise<void> {
  checkKey(key);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const view = await viewShard(context, "write", bucket, key, [headKey(key)]);
    const found = headOf(view);
    checkDeleteCondition(condition, found?.row);
    if (found === undefined) return;
    if ((await commitDelete(context, view, found)) === "deleted") return;
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

async function commitDelete(context: ObjectStoreContext, view: ShardView, found: Versioned<StoredObject>): Promise<Deletion> {
  const { bucket, key } = view;
  const guid = await context.guids.next();
  const left = leftBy(found.row);
  const record = await context.journal.beginDelete({ bucket, key, guid, version: found.version });
  context.failpoint("object:before-delete");
  const commit: MetadataCommit = {
    partition: view.partition,
    conditions: [headerCondition(view), { key: headKey(key), version: found.version }],
    writes: [
      { kind: "delete", key: headKey(key) },
      ...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]),
      ...countUsage(found.row, undefined),
    ],
  };
  const outcome = await commitRepeatable(context, commit).catch(async (error: unknown) => {
    // The store rejects only what it did not do.
    await record.resolve();
    throw error;
  });
  context.failpoint("object:after-delete");
  if (outcome.kind === "unknown") {
    // Its record stays open until the commit is decided: it is sent until the store answers.
    const attempt = async (): Promise<boolean> => {
      const again = await context.metadata.commit(commit);
      if (again.kind !== "unknown") await record.resolve();
      return again.kind !== "unknown";
    };
    context.unresolved.add({ bucket, key, oids: [], attempt });
    throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the object was deleted", { cause: outcome.cause });
  }
  await record.resolve();
  if (outcome.kind === "committed") return "deleted";
  const now = outcome.rows[1];
  // This commit arrived after all, or another one did: either way the object is gone.
  if (now === undefined) return "deleted";
  // A newer object may have replaced the old one or followed the delete: a second delete could remove too much.
  if (outcome.uncertain && now.version.guid !== found.version.guid) {
    throw new ConcordError("OUTCOME_UNKNOWN", "the object was written while the store did not say whether it was deleted");
  }
  return "changed";
}
