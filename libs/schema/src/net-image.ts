import { assert, plusUs, type TimestampUs } from "@concord/runtime";
import type { ColumnWrite, Mutation } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { keyText, sameKey } from "./keys.ts";
import type { RowWrite } from "./row-write.ts";

/**
 * Several writes of ONE row, in order, as what they come to at one timestamp (TXD4, LBD14): one mutation, or a delete at
 * `timestampUs - 1` and an insert or update at `timestampUs`; on a tie the tombstone would win and the row vanish. So every commit
 * and batch owns two ticks. Applying the result equals applying the writes one after another.
 */
export function netMutations(writes: readonly RowWrite[], timestampUs: TimestampUs): Mutation[] {
  const first = writes[0];
  if (first === undefined) return [];
  assert(timestampUs >= 2n, `a net image needs two ticks, got ${timestampUs}`);
  let deleted = false;
  let inserted = false;
  const cells = new Map<string, CellValue | null>();
  for (const write of writes) {
    assert(sameKey(write.key, first.key), "a net image is of one row");
    if (write.kind === "delete") {
      deleted = true;
      inserted = false;
      cells.clear();
      continue;
    }
    if (write.kind !== "update") inserted = true;
    for (const { column, value } of write.columns) cells.set(column, value);
  }
  const key = first.key;
  const columns: ColumnWrite[] = Array.from(cells, ([column, value]) => ({ column, value }));
  const nothingLeft = !inserted && columns.every(({ value }) => value === null);
  if (deleted && nothingLeft) return [{ kind: "delete", key, timestampUs }];
  if (!inserted && columns.length === 0) return [];
  const mutations: Mutation[] = deleted ? [{ kind: "delete", key, timestampUs: plusUs(timestampUs, -1n) }] : [];
  mutations.push({ kind: inserted ? "insert" : "update", key, columns, timestampUs });
  return mutations;
}

/** The net image of every row of a batch or commit; rows in the order of their first write. */
export function netBatch(writes: readonly RowWrite[], timestampUs: TimestampUs): Mutation[] {
  const byRow = new Map<string, RowWrite[]>();
  for (const write of writes) {
    const text = keyText(write.key);
    const ofRow = byRow.get(text);
    if (ofRow === undefined) byRow.set(text, [write]);
    else ofRow.push(write);
  }
  return Array.from(byRow.values()).flatMap((ofRow) => netMutations(ofRow, timestampUs));
}
