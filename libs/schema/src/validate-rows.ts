import { ConcordError } from "@concord/runtime";
import type { ColumnWrite, RowKey, RowRange } from "@concord/ports";
import { valueBytes, type CellValue } from "@concord/values";
import { columnOf, columnUnknown, isKeyColumn, primaryKeyOf, type ColumnDefinition, type TableDefinition } from "./definition.ts";
import { SCHEMA_LIMITS } from "./limits.ts";
import type { RowCondition } from "./row-condition.ts";
import type { RowWrite } from "./row-write.ts";
import { checkedValue, type ValuePlace } from "./values.ts";

/** A full primary key with every value checked and normalised. KEY_INCOMPLETE, TYPE_MISMATCH, LIMIT_EXCEEDED, MALFORMED_REQUEST. */
export function validateKey(definition: TableDefinition, key: RowKey): RowKey {
  sameTable(definition, key.table);
  const partition = checkedKeyPart(definition, definition.partitionKey, key.partition, "all");
  const clustering = checkedKeyPart(definition, definition.clusteringKey, key.clustering, "all");
  const isAsGiven = partition === key.partition && clustering === key.clustering;
  return isAsGiven ? key : { table: definition.name, partition, clustering };
}

/** A full primary key from values by column name. COLUMN_UNKNOWN when a name is no key column, else as `validateKey`. */
export function keyFromColumns(definition: TableDefinition, values: ReadonlyMap<string, CellValue>): RowKey {
  for (const name of values.keys()) {
    columnOf(definition, name);
    if (!isKeyColumn(definition, name)) {
      throw new ConcordError("COLUMN_UNKNOWN", `${name} is no key column of ${definition.name}; ${keyHint(definition)}`);
    }
  }
  const part = (columns: readonly string[]): CellValue[] =>
    columns.map((column) => {
      const value = values.get(column);
      if (value === undefined) throw keyIncomplete(definition, column);
      return value;
    });
  return validateKey(definition, {
    table: definition.name,
    partition: part(definition.partitionKey),
    clustering: part(definition.clusteringKey),
  });
}

/**
 * A write of exactly one row with key and columns checked and normalised. COLUMN_UNKNOWN, TYPE_MISMATCH, KEY_INCOMPLETE, LIMIT_EXCEEDED;
 * MALFORMED_REQUEST for a key column among the columns, a column twice, an update of nothing or a delete with columns.
 */
export function validateWrite(definition: TableDefinition, write: RowWrite): RowWrite {
  sameTable(definition, write.table);
  const key = validateKey(definition, write.key);
  if (write.kind === "delete" && write.columns.length > 0) {
    throw malformed(definition, "a delete removes the whole row and takes no columns; set columns to null with an update");
  }
  if (write.kind === "update" && write.columns.length === 0) throw malformed(definition, "an update sets at least one column");
  if (write.kind === "insert-new" && definition.kind === "plain") throw conditionOnPlain(definition);
  const columns = checkedColumns(definition, write.columns);
  return key === write.key && columns === write.columns ? write : { kind: write.kind, table: definition.name, key, columns };
}

/**
 * A condition with key and columns checked and normalised. As `validateWrite`; USE_TRANSACTION for a row of a plain table, MALFORMED_REQUEST
 * when no column is compared.
 */
export function validateCondition(definition: TableDefinition, condition: RowCondition): RowCondition {
  sameTable(definition, condition.key.table);
  const key = validateKey(definition, condition.key);
  if (definition.kind === "plain") throw conditionOnPlain(definition);
  if (condition.kind !== "equal") return { ...condition, key };
  if (condition.columns.length === 0) throw malformed(definition, "a condition of equal columns names at least one column");
  return { kind: "equal", key, columns: checkedColumns(definition, condition.columns) };
}

/** A range of one partition with bounds and paging checked. KEY_INCOMPLETE, TYPE_MISMATCH, LIMIT_EXCEEDED, MALFORMED_REQUEST, PAGE_TOKEN_INVALID. */
export function validateRange(definition: TableDefinition, range: RowRange): RowRange {
  sameTable(definition, range.table);
  if (!Number.isInteger(range.limit) || range.limit < 1 || range.limit > SCHEMA_LIMITS.pageRowsMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `a page has 1 to ${SCHEMA_LIMITS.pageRowsMax} rows, not ${range.limit}`);
  }
  const bound = (given: NonNullable<RowRange["lower"]>): NonNullable<RowRange["lower"]> => ({
    prefix: checkedKeyPart(definition, definition.clusteringKey, given.prefix, "prefix"),
    inclusive: given.inclusive,
  });
  return {
    table: definition.name,
    partition: checkedKeyPart(definition, definition.partitionKey, range.partition, "all"),
    ...(range.lower === undefined ? {} : { lower: bound(range.lower) }),
    ...(range.upper === undefined ? {} : { upper: bound(range.upper) }),
    reverse: range.reverse,
    limit: range.limit,
    ...(range.after === undefined ? {} : { after: checkedAfter(definition, range.after) }),
  };
}

export function keyHint(definition: TableDefinition): string {
  const clustering = definition.clusteringKey.length === 0 ? "" : `, ${definition.clusteringKey.join(", ")}`;
  return `its primary key is ((${definition.partitionKey.join(", ")})${clustering})`;
}

export function keyIncomplete(definition: TableDefinition, column: string): ConcordError {
  return new ConcordError("KEY_INCOMPLETE", `${definition.name}: no value for key column ${column}; ${keyHint(definition)}`, {
    metadata: { table: definition.name, column },
  });
}

function checkedAfter(definition: TableDefinition, after: readonly CellValue[]): readonly CellValue[] {
  try {
    return checkedKeyPart(definition, definition.clusteringKey, after, "all");
  } catch (thrown) {
    throw new ConcordError("PAGE_TOKEN_INVALID", `the page position is no clustering key of ${definition.name}; start again`, {
      cause: thrown,
    });
  }
}

function checkedKeyPart(
  definition: TableDefinition,
  names: readonly string[],
  values: readonly CellValue[],
  extent: "all" | "prefix",
): readonly CellValue[] {
  if (values.length > names.length)
    throw malformed(definition, `${values.length} key values for ${names.length} columns; ${keyHint(definition)}`);
  const missing = names[values.length];
  if (extent === "all" && missing !== undefined) throw keyIncomplete(definition, missing);
  const { places } = planOf(definition);
  let isAsGiven = true;
  for (let at = 0; at < values.length; at += 1) {
    if (checkedValue(values[at]!, places.get(names[at]!)!) !== values[at]) isAsGiven = false;
  }
  return isAsGiven ? values : values.map((value, at) => checkedValue(value, places.get(names[at]!)!));
}

function checkedColumns(definition: TableDefinition, writes: readonly ColumnWrite[]): readonly ColumnWrite[] {
  const { places, keyColumns } = planOf(definition);
  let bytes = 0;
  let isAsGiven = true;
  for (let at = 0; at < writes.length; at += 1) {
    const { column: name, value } = writes[at]!;
    const place = places.get(name);
    if (place === undefined) throw columnUnknown(definition, name);
    if (keyColumns.has(name)) throw malformed(definition, `${name} is part of the key and cannot be set`);
    for (let before = 0; before < at; before += 1)
      if (writes[before]!.column === name) throw malformed(definition, `column ${name} is set twice`);
    if (value === null) continue;
    bytes += valueBytes(value);
    if (checkedValue(value, place) !== value) isAsGiven = false;
  }
  if (bytes > SCHEMA_LIMITS.rowWriteBytesMax) {
    throw new ConcordError(
      "LIMIT_EXCEEDED",
      `${definition.name}: a row write of ${bytes} bytes; at most ${SCHEMA_LIMITS.rowWriteBytesMax}`,
    );
  }
  if (isAsGiven) return writes;
  const stored = ({ column, value }: ColumnWrite): ColumnWrite => ({ column, value: value && checkedValue(value, places.get(column)!) });
  return writes.map(stored);
}

interface ColumnPlan {
  /** By column: what a value of it must be. */
  readonly places: ReadonlyMap<string, ValuePlace>;
  readonly keyColumns: ReadonlySet<string>;
}

/** Definitions are immutable, so what is derived from one is derived once. */
const PLANS = new WeakMap<TableDefinition, ColumnPlan>();

function planOf(definition: TableDefinition): ColumnPlan {
  let plan = PLANS.get(definition);
  if (plan === undefined) {
    const keyColumns = new Set(primaryKeyOf(definition));
    const inKeys = new Set([...keyColumns, ...definition.indexes.flatMap(({ columns }) => columns)]);
    const placeOf = ({ name, type }: ColumnDefinition): ValuePlace => ({
      table: definition.name,
      column: name,
      type,
      inKey: inKeys.has(name),
    });
    plan = { places: new Map(definition.columns.map((column) => [column.name, placeOf(column)])), keyColumns };
    PLANS.set(definition, plan);
  }
  return plan;
}

function sameTable(definition: TableDefinition, table: string): void {
  if (table !== definition.name) throw malformed(definition, `the key or write names table ${table}`);
}

/** A plain table has no locks: two writers would both find the condition true. */
function conditionOnPlain({ name }: TableDefinition): ConcordError {
  return new ConcordError("USE_TRANSACTION", `${name} is a plain table: only rows of transactional ones are written on a condition`, {
    metadata: { table: name },
  });
}

function malformed(definition: TableDefinition, what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", `${definition.name}: ${what}`, { metadata: { table: definition.name } });
}
