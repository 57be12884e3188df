import type { RowKey } from "@concord/ports";
import { assert } from "@concord/runtime";
import { tokenOf } from "@concord/values";

/** The token of a row: that of its first partition key column. */
export function tokenOfKey(key: RowKey): bigint {
  const entity = key.partition[0];
  assert(entity !== undefined, `a key of ${key.table} has a partition key`);
  return tokenOf(entity);
}
