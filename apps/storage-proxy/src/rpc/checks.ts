import type { Mutation, RowKey } from "@concord/ports";
import { encodeRowKey } from "@concord/rows";
import type { HandlerContext } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { KEY_BYTES_MAX, KEY_VALUES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, ROW_WRITE_BYTES_MAX, TABLE_NAME_BYTES_MAX } from "../limits.ts";
import { malformed } from "@concord/rows-wire";

export function limitExceeded(limit: string, max: number, what: string): ConcordError {
  return new ConcordError("LIMIT_EXCEEDED", `${what}; at most ${max}`, { metadata: { limit, value: String(max) } });
}

/** Between 1 and `max` items. */
export function checkCount(count: number, max: number, limit: string, what: string): void {
  if (count === 0) throw malformed(`there are no ${what}`);
  if (count > max) throw limitExceeded(limit, max, `${count} ${what}`);
}

export function checkedPageSize(pageSize: number): number {
  if (pageSize > PAGE_ROWS_MAX) throw limitExceeded("PAGE_ROWS_MAX", PAGE_ROWS_MAX, `a page of ${pageSize} rows`);
  return pageSize === 0 ? PAGE_ROWS_DEFAULT : pageSize;
}

export function isCoordinator(context: HandlerContext): boolean {
  return context.caller.role === "coordinator";
}

export function checkImagesRole(images: boolean, context: HandlerContext): void {
  if (images && !isCoordinator(context)) throw new ConcordError("PERMISSION_DENIED", "stored images are for transaction coordinators");
}

/** The size of a key that no schema checks. */
export function checkKeyShape(key: RowKey): RowKey {
  if (key.table.length > TABLE_NAME_BYTES_MAX) throw limitExceeded("TABLE_NAME_BYTES_MAX", TABLE_NAME_BYTES_MAX, "a longer table name");
  const values = Math.max(key.partition.length, key.clustering.length);
  if (values > KEY_VALUES_MAX) throw limitExceeded("KEY_VALUES_MAX", KEY_VALUES_MAX, `${values} values in a key`);
  return key;
}

/** A row write must fit into a message between nodes, whatever the table's own limits. */
export function checkMutationBytes(mutation: Mutation): void {
  if (encodeRowKey(mutation.key).length > KEY_BYTES_MAX) throw limitExceeded("KEY_BYTES_MAX", KEY_BYTES_MAX, "a longer row key");
  if (mutation.kind === "delete") return;
  let bytes = 0;
  for (const { value } of mutation.columns) {
    if (value?.kind === "blob" || value?.kind === "text") bytes += value.value.length;
  }
  if (bytes > ROW_WRITE_BYTES_MAX) throw limitExceeded("ROW_WRITE_BYTES_MAX", ROW_WRITE_BYTES_MAX, `a row write of ${bytes} bytes`);
}
