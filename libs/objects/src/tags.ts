import { ConcordError } from "@concord/runtime";
import { commitRepeatable, nextVersion, putRow } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { headObject } from "./get-object.ts";
import { checkTags } from "./names.ts";
import type { StoredObject } from "./rows.ts";
import { headerCondition, viewShard } from "./shard-view.ts";
import { objectOfVersion, rowKeysOfVersion } from "./versions.ts";

type Tags = Readonly<Record<string, string>>;

/** Of the object, or of one version of it. */
export async function objectTags(context: ObjectStoreContext, bucket: string, key: string, versionId?: string): Promise<Tags> {
  const object = await headObject(context, { bucket, key, precondition: {}, versionId });
  return object.attributes.tags;
}

/** The row gets a new version and keeps its content, time and ETag: recovery goes by what it names, not by its version (OGD1). */
export async function setObjectTags(
  context: ObjectStoreContext,
  bucket: string,
  key: string,
  tags: Tags,
  versionId?: string,
): Promise<void> {
  checkTags("object", tags);
  const guid = await context.guids.next();
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const view = await viewShard(context, "write", bucket, key, rowKeysOfVersion(key, versionId));
    const found = objectOfVersion(view, versionId);
    const row: StoredObject = { ...found.row, attributes: { ...found.row.attributes, tags } };
    const outcome = await commitRepeatable(context, {
      partition: view.partition,
      conditions: [headerCondition(view), { key: found.rowKey, version: found.version }],
      writes: [putRow(found.rowKey, nextVersion(found.version, context.clock, guid), row)],
    });
    if (outcome.kind === "committed") return;
    if (outcome.kind === "unknown") {
      throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the tags were set", { cause: outcome.cause });
    }
    const now = outcome.rows[1];
    if (now?.version.guid === guid) return;
    // They may have been set and changed since by another request: setting them again could undo that.
    if (outcome.uncertain && now?.version.guid !== found.version.guid) {
      throw new ConcordError("OUTCOME_UNKNOWN", "the object was written while the store did not say whether the tags were set");
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}
