import type { ColumnWrite, Mutation, Row, RowKey } from "@concord/ports";
import type { TimestampUs } from "@concord/runtime";
import { compareValues } from "@concord/values";
import type { IndexDefinition, TableDefinition } from "./definition.ts";
import { indexColumnsOf, indexKeyOf } from "./index-table.ts";
import { sameKey } from "./keys.ts";

/**
 * The index rows' part of one base row's change in one commit (TX21): `before` is the live row as committed, `after` as it will be;
 * undefined = there is none. Old and new index rows have different keys, so delete and insert do not tie and both take `timestampUs`
 * (TXD4); an unchanged index key whose copied columns changed is inserted anew, as a whole. A null in an indexed column means no index row.
 */
export function indexMutations(
  definition: TableDefinition,
  before: Row | undefined,
  after: Row | undefined,
  timestampUs: TimestampUs,
): Mutation[] {
  return definition.indexes.flatMap((index) => mutationsOfIndex(definition, index, before, after, timestampUs));
}

/** Index rows a change of one base row touches, old and new: what a writer locks inside the index partitions (TXD6). */
export function indexKeysTouched(definition: TableDefinition, before: Row | undefined, after: Row | undefined): RowKey[] {
  const keys: RowKey[] = [];
  for (const index of definition.indexes) {
    const oldKey = before === undefined ? undefined : indexKeyOf(definition, index, before);
    const newKey = after === undefined ? undefined : indexKeyOf(definition, index, after);
    if (oldKey !== undefined) keys.push(oldKey);
    if (newKey !== undefined && (oldKey === undefined || !sameKey(oldKey, newKey))) keys.push(newKey);
  }
  return keys;
}

function mutationsOfIndex(
  definition: TableDefinition,
  index: IndexDefinition,
  before: Row | undefined,
  after: Row | undefined,
  timestampUs: TimestampUs,
): Mutation[] {
  const oldKey = before === undefined ? undefined : indexKeyOf(definition, index, before);
  const newKey = after === undefined ? undefined : indexKeyOf(definition, index, after);
  if (oldKey !== undefined && newKey !== undefined && sameKey(oldKey, newKey)) {
    const [old, columns] = [indexColumnsOf(definition, index, before!), indexColumnsOf(definition, index, after!)];
    return differ(old, columns) ? [{ kind: "insert", key: newKey, columns: [...columns, ...gone(old, columns)], timestampUs }] : [];
  }
  const mutations: Mutation[] = [];
  if (oldKey !== undefined) mutations.push({ kind: "delete", key: oldKey, timestampUs });
  if (newKey !== undefined) {
    mutations.push({ kind: "insert", key: newKey, columns: indexColumnsOf(definition, index, after!), timestampUs });
  }
  return mutations;
}

function differ(before: readonly ColumnWrite[], after: readonly ColumnWrite[]): boolean {
  const old = new Map(before.map((write) => [write.column, write.value]));
  return gone(before, after).length > 0 || after.some(({ column, value }) => compareValues(old.get(column) ?? null, value) !== 0);
}

/** Columns the row no longer has, deleted: an insert merges. */
function gone(before: readonly ColumnWrite[], after: readonly ColumnWrite[]): ColumnWrite[] {
  const kept = new Set(after.map(({ column }) => column));
  return before.filter(({ column }) => !kept.has(column)).map(({ column }) => ({ column, value: null }));
}
