// What is true of every commit of this lib before it is sent.
import type { MetadataCommit, MetadataCondition } from "@concord/ports";
import { assert } from "@concord/runtime";
import { isBodyKey, isFencedKey, isHeaderKey, SYSTEM_PARTITION } from "./row-keys.ts";

/** In work that grows with its rows alone: a commit has few conditions. */
export function assertCommit({ partition, conditions, writes }: MetadataCommit): void {
  const isFenced = partition === SYSTEM_PARTITION || conditions.some(({ key }) => isHeaderKey(key));
  for (const write of writes) {
    if (write.kind !== "put") continue;
    const { key, version } = write.row;
    assert(isFenced || !isFencedKey(key), "I3: a commit that puts a head, an upload or a part names its header");
    const seen = seenVersion(conditions, key);
    assert(seen === undefined || version.commit > seen.commit, "I7: a row is written under a higher number than was seen");
  }
}

/** The commit of an attempt tells by its deciding row whether it happened, and puts a body under the version of the row that names it. */
export function assertAttempt({ writes }: Pick<MetadataCommit, "writes">, deciding: Uint8Array, guid: bigint): void {
  let decides = false;
  for (const write of writes) {
    if (write.kind !== "put") continue;
    const { key, version } = write.row;
    if (sameKey(key, deciding)) decides = version.guid === guid;
    assert(!isBodyKey(key) || version.guid === guid, "I23: a body is put by the commit that puts its version");
  }
  assert(decides, "OGD2: the deciding row tells whose commit it is");
}

function seenVersion(conditions: readonly MetadataCondition[], key: Uint8Array): MetadataCondition["version"] {
  for (const condition of conditions) if (sameKey(condition.key, key)) return condition.version;
  return undefined;
}

/** Keys of one commit differ in length or at their ends, mostly. */
function sameKey(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  for (let at = left.length - 1; at >= 0; at -= 1) if (left[at] !== right[at]) return false;
  return true;
}
