import { assert, ConcordError } from "@concord/runtime";
import { commitRepeatable } from "./commit-rows.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { eventWrites } from "./events/event-writes.ts";
import type { EventName, ShardHeader, StoredObject } from "./rows.ts";
import { assertJudged, headerCondition, viewShard } from "./shard-view.ts";
import { nameOf, objectOfVersion, rowKeysOfVersion, versionIdOf } from "./versions.ts";

export interface ObjectChange {
  readonly bucket: string;
  readonly key: string;
  readonly versionId?: string | undefined;
  /** What is changed, for messages. */
  readonly what: string;
  /** Where the row says it: the rest stays as it is. */
  readonly changes: "attributes" | "acl" | "lock" | "encryption";
  /** Undefined: nothing announces it. */
  readonly event: EventName | undefined;
  /** Called with the object as it is and the header that the commit names, and again after another request changed it; what it throws refuses the change. */
  readonly change: (object: StoredObject, header: ShardHeader) => StoredObject | Promise<StoredObject>;
}

function assertKept(before: StoredObject, row: StoredObject, { changes }: ObjectChange): void {
  assert(row.content === before.content && row.version === before.version, "OGD1: a change of a row keeps its content");
  assert(row.encryption?.guid === before.encryption?.guid, "I21: data keeps the key that it is encrypted with");
  const isSame = row.etag === before.etag && row.modifiedMs === before.modifiedMs && row.sizeBytes === before.sizeBytes;
  assert(isSame, "OGD1: a change of a row keeps its time and its ETag");
  assert(changes === "lock" || row.lock === before.lock, "I20: an object's lock is changed as such");
  assert(changes === "acl" || row.acl === before.acl, "I18: an object's ACL is changed as such");
  assert(changes === "encryption" || row.encryption === before.encryption, "I21: the key of an object is wrapped anew as such");
  assert(row.checksum === before.checksum, "OGD1: a change of a row keeps its checksum");
  assert(changes === "attributes" || row.attributes === before.attributes, "what a client said of its object stays as it was");
  const [said, was] = [row.attributes, before.attributes];
  assert(said.headers === was.headers && said.metadata === was.metadata, "of what a client said of its object only tags are set anew");
}

/**
 * The row gets a new version and keeps its content, time and ETag: recovery goes by what it names, not by its version (OGD1). OBJECT_UNKNOWN,
 * WRITE_CONFLICT, OUTCOME_UNKNOWN.
 */
export async function changeObject(context: ObjectStoreContext, request: ObjectChange): Promise<void> {
  const { bucket, key, versionId, what } = request;
  const guid = await context.guids.next();
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const view = await viewShard(context, "write", bucket, key, rowKeysOfVersion(key, versionId));
    const found = objectOfVersion(view, versionId);
    const row = await request.change(found.row, view.header.row);
    assertKept(found.row, row, request);
    const isLockable = row.lock === undefined || view.header.row.locking !== undefined;
    assert(isLockable, "OGD21: only versions of a bucket with locks are locked");
    assertJudged(context, view);
    const number = nextVersion(found.version, context.clock, guid);
    const named = view.header.row.versioning === undefined ? undefined : versionIdOf(nameOf(found));
    const { event: name } = request;
    const event = name === undefined ? [] : await eventWrites(context, view, { name, number, versionId: named, object: row });
    const outcome = await commitRepeatable(context, {
      partition: view.partition,
      conditions: [headerCondition(view), { key: found.rowKey, version: found.version }],
      writes: [putRow(found.rowKey, number, row), ...event],
    });
    if (outcome.kind === "committed") return;
    if (outcome.kind === "unknown") {
      throw new ConcordError("OUTCOME_UNKNOWN", `the store does not say whether the ${what} set`, { cause: outcome.cause });
    }
    const now = outcome.rows[1];
    if (now?.version.guid === guid) return;
    // They may have been set and changed since by another request: setting them again could undo that.
    if (outcome.uncertain && now?.version.guid !== found.version.guid) {
      throw new ConcordError("OUTCOME_UNKNOWN", `the object was written while the store did not say whether the ${what} set`);
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}
