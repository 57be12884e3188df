// What is true of every commit of this lib before it is sent.
import type { MetadataCommit, MetadataCondition, MetadataWrite } from "@concord/ports";
import { assert } from "@concord/runtime";
import { isBodyKey, isEventKey, isFencedKey, isGarbageKey, isHeadKey, isHeaderKey, isPlaced, SYSTEM_PARTITION } from "./row-keys.ts";
import type { ShardHeader } from "./rows.ts";

/** In work that grows with its rows alone: a commit has few conditions. */
export function assertCommit({ partition, conditions, writes }: MetadataCommit): void {
  const isFenced = partition === SYSTEM_PARTITION || conditions.some(({ key }) => isHeaderKey(key));
  for (const write of writes) {
    const key = keyOf(write);
    assert(isPlaced(partition, key), "OGD15: rows of buckets, epochs and passes are apart from those of objects");
    if (write.kind === "add") continue;
    const condition = conditionOn(conditions, key);
    assert(condition !== undefined || !isHeadKey(key), "OGD4: a head is replaced or removed as it was seen");
    if (write.kind === "delete") {
      assert(isFenced || !isHeadKey(key), "I3: a commit that removes a head names its header");
      continue;
    }
    assert(isFenced || !isFencedKey(key), "I3: a commit that puts a head, an upload or a part names its header");
    assert(isFenced || !isEventKey(key), "I19: an event is written under the header that has its rules");
    const seen = condition?.version;
    assert(seen === undefined || write.row.version.commit > seen.commit, "I7: a row is written under a higher number than was seen");
  }
}

/** However often it arrives, it happens once at most: it changes what it names, or writes garbage that was never there. */
export function assertRepeatable({ conditions, writes }: Pick<MetadataCommit, "conditions" | "writes">): void {
  const isOnce = writes.some((write) => (conditions.length === 0 ? isPutOf(write, isGarbageKey) : conditionOn(conditions, keyOf(write))));
  assert(isOnce, "OGD2: a commit that may be repeated changes a row that it names");
}

/** The commit of an attempt tells by its deciding row whether it happened, and puts a body under the version of the row that names it. */
export function assertAttempt({ conditions, writes }: MetadataCommit, deciding: Uint8Array, guid: bigint): void {
  let decisions = 0;
  for (const write of writes) {
    if (write.kind !== "put") continue;
    const { key, version } = write.row;
    if (sameKey(key, deciding)) {
      decisions += 1;
      assert(version.guid === guid, "OGD2: the deciding row tells whose commit it is");
    }
    assert(!isBodyKey(key) || version.guid === guid, "I23: a body is put by the commit that puts its version");
  }
  assert(decisions === 1, "OGD2: a commit writes once the row that decides it");
  for (const [at, { key }] of conditions.entries())
    assert(conditionOn(conditions, key) === conditions[at], "a commit says once what a row must be");
}

/** Blobs go once no row can name them: collection finds them, also when the bucket is about to be forgotten (I9). */
export function assertCollected({ state }: ShardHeader, writes: readonly MetadataWrite[]): void {
  const isRaised = writes.some((write) => isPutOf(write, isHeaderKey));
  assert(
    state === "open" || isRaised || !writes.some((write) => isPutOf(write, isGarbageKey)),
    "I9: garbage in a closed shard raises its header",
  );
}

const keyOf = (write: MetadataWrite): Uint8Array => (write.kind === "put" ? write.row.key : write.key);

const isPutOf = (write: MetadataWrite, isKind: (key: Uint8Array) => boolean): boolean => write.kind === "put" && isKind(write.row.key);

function conditionOn(conditions: readonly MetadataCondition[], key: Uint8Array): MetadataCondition | undefined {
  for (const condition of conditions) if (sameKey(condition.key, key)) return condition;
  return undefined;
}

/** Keys of one commit differ in length or at their ends, mostly. */
function sameKey(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  for (let at = left.length - 1; at >= 0; at -= 1) if (left[at] !== right[at]) return false;
  return true;
}
