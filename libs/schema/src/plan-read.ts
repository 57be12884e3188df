import { ConcordError } from "@concord/runtime";
import type { RowKey, RowRange } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { tableOf, type SchemaCatalogue } from "./catalogue.ts";
import { columnOf, type TableDefinition } from "./definition.ts";
import { indexTableOf } from "./index-table.ts";
import { matchKey, rangeOf, type KeyMatch } from "./key-match.ts";
import { SCHEMA_LIMITS } from "./limits.ts";
import type { Constraint, IndexScan, ReadPlan, ReadRequest } from "./plan.ts";
import { keyHint, validateKey, validateRange } from "./validate-rows.ts";
import { checkedValue } from "./values.ts";

type Direction = "ascending" | "descending";

interface Candidate {
  readonly index: TableDefinition["indexes"][number];
  readonly match: KeyMatch;
}

/**
 * A query as key reads or ranges that answer it exactly: nothing is filtered afterwards, nothing scanned (TX20, TX22). By the table's own
 * key if that serves all conditions and the order, else by one index, else by several whose rows are intersected (TX28); rows with a
 * null in a column of such an index are not found (I4). SCAN_REFUSED says which keys
 * and indexes there are; TABLE_UNKNOWN, COLUMN_UNKNOWN, TYPE_MISMATCH, LIMIT_EXCEEDED, MALFORMED_REQUEST, CQL_UNSUPPORTED (order).
 */
export function planRead(catalogue: SchemaCatalogue, request: ReadRequest): ReadPlan {
  const definition = tableOf(catalogue, request.table);
  const columns = projection(definition, request.columns);
  const where = checkedConstraints(definition, request.where);
  const limit = checkedLimit(request.limit);
  for (const { column } of request.order) columnOf(definition, column);
  const own = matchKey(definition, where);
  const servesAll = own !== undefined && own.used.size === where.size;
  if (servesAll && isWholeKey(definition, own)) {
    return {
      kind: "read-rows",
      table: definition.name,
      columns,
      keys: [{ table: definition.name, partition: own.partition, clustering: own.prefix }],
    };
  }
  const direction = servesAll ? directionOf(definition, own, request) : undefined;
  if (servesAll && direction !== undefined) {
    const range = rangeOf(definition, own, direction === "descending", pageLimit(limit));
    return { kind: "read-range", table: definition.name, columns, range, limit };
  }
  const scans = indexScans(definition, where, request, limit);
  if (scans !== undefined) return { kind: "read-index", table: definition.name, columns, scans, limit };
  throw servesAll ? orderRefused(definition) : scanRefused(definition);
}

/** Structured read of rows by full primary key. LIMIT_EXCEEDED above `keysPerReadMax`; as `validateKey`. */
export function planReadRows(catalogue: SchemaCatalogue, table: string, keys: readonly RowKey[], columns?: readonly string[]): ReadPlan {
  const definition = tableOf(catalogue, table);
  if (keys.length > SCHEMA_LIMITS.keysPerReadMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `${keys.length} keys in one read; at most ${SCHEMA_LIMITS.keysPerReadMax}`);
  }
  const checked = keys.map((key) => validateKey(definition, key));
  return { kind: "read-rows", table, columns: projection(definition, columns), keys: checked };
}

/** Structured read of one partition's range; as `validateRange`. */
export function planReadRange(catalogue: SchemaCatalogue, range: RowRange, columns?: readonly string[], limit?: number): ReadPlan {
  const definition = tableOf(catalogue, range.table);
  const checked = validateRange(definition, range);
  return { kind: "read-range", table: range.table, columns: projection(definition, columns), range: checked, limit: checkedLimit(limit) };
}

function projection(definition: TableDefinition, columns: readonly string[] | undefined): readonly string[] {
  if (columns === undefined) return definition.columns.map((column) => column.name);
  const names = columns.map((column) => columnOf(definition, column).name);
  if (new Set(names).size !== names.length) {
    throw new ConcordError("MALFORMED_REQUEST", `${definition.name}: a column is asked for twice`);
  }
  return names;
}

function checkedConstraints(definition: TableDefinition, where: readonly Constraint[]): ReadonlyMap<string, Constraint> {
  const byColumn = new Map<string, Constraint>();
  for (const constraint of where) {
    const { name, type } = columnOf(definition, constraint.column);
    if (byColumn.has(name)) {
      throw new ConcordError("MALFORMED_REQUEST", `${definition.name}: column ${name} has two conditions`, {
        metadata: { table: definition.name, column: name },
      });
    }
    const checked = (value: CellValue): CellValue => checkedValue(value, { table: definition.name, column: name, type, inKey: true });
    byColumn.set(name, mapValues(constraint, checked));
  }
  return byColumn;
}

function mapValues(constraint: Constraint, change: (value: CellValue) => CellValue): Constraint {
  if (constraint.kind === "equal") return { ...constraint, value: change(constraint.value) };
  const { lower, upper } = constraint;
  return {
    ...constraint,
    lower: lower && { ...lower, value: change(lower.value) },
    upper: upper && { ...upper, value: change(upper.value) },
  };
}

function checkedLimit(limit: number | undefined): number | undefined {
  if (limit === undefined) return undefined;
  if (!Number.isInteger(limit) || limit < 1) throw new ConcordError("MALFORMED_REQUEST", "LIMIT is a whole number of at least 1");
  if (limit > SCHEMA_LIMITS.queryLimitMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `LIMIT ${limit}; at most ${SCHEMA_LIMITS.queryLimitMax}`);
  }
  return limit;
}

function pageLimit(limit: number | undefined): number {
  return Math.min(limit ?? SCHEMA_LIMITS.pageRowsMax, SCHEMA_LIMITS.pageRowsMax);
}

function isWholeKey(definition: TableDefinition, match: KeyMatch): boolean {
  return match.prefix.length === definition.clusteringKey.length;
}

/** The reading direction that gives the order asked for, or undefined when the key's order is another. */
function directionOf(table: TableDefinition, match: KeyMatch, request: ReadRequest): Direction | undefined {
  const { order } = request;
  const first = order[0];
  if (first === undefined) return "ascending";
  if (order.some((part) => part.descending !== first.descending)) return undefined;
  const from = table.clusteringKey.indexOf(first.column);
  const follows = from >= 0 && from <= match.prefix.length && order.every((part, at) => table.clusteringKey[from + at] === part.column);
  if (!follows) return undefined;
  return first.descending ? "descending" : "ascending";
}

/** One index that serves every condition and the order; else several that together do, the first of them in order. */
function indexScans(
  definition: TableDefinition,
  where: ReadonlyMap<string, Constraint>,
  request: ReadRequest,
  limit: number | undefined,
): IndexScan[] | undefined {
  const candidates = definition.indexes.flatMap((index): Candidate[] => {
    const match = matchKey(indexTableOf(definition, index), where);
    return match === undefined ? [] : [{ index, match }];
  });
  const chosen = cover(definition, where, candidates, request);
  return chosen?.map(({ index, match }, at) => {
    const table = indexTableOf(definition, index);
    const reverse = at === 0 && directionOf(table, match, request) === "descending";
    const rows = chosen.length === 1 ? pageLimit(limit) : SCHEMA_LIMITS.pageRowsMax;
    return { index, range: rangeOf(table, match, reverse, rows) };
  });
}

/**
 * Greedy: always the index that serves most of the conditions still open, then the one with fewest columns no condition names: rows
 * with a null there are not in it (I4). The first must give the order.
 */
function cover(
  definition: TableDefinition,
  where: ReadonlyMap<string, Constraint>,
  candidates: readonly Candidate[],
  request: ReadRequest,
): Candidate[] | undefined {
  const open = new Set(where.keys());
  const chosen: Candidate[] = [];
  const gain = ({ match }: Candidate): number => [...match.used].filter((column) => open.has(column)).length;
  const unnamed = ({ index }: Candidate): number => index.columns.filter((column) => !where.has(column)).length;
  const better = (left: Candidate, right: Candidate): Candidate => {
    const difference = gain(right) - gain(left) || unnamed(left) - unnamed(right);
    return difference > 0 ? right : left;
  };
  const givesOrder = ({ index, match }: Candidate): boolean => directionOf(indexTableOf(definition, index), match, request) !== undefined;
  while (open.size > 0) {
    const usable = chosen.length === 0 ? candidates.filter(givesOrder) : candidates;
    const [first, ...rest] = usable;
    const best = first && rest.reduce(better, first);
    if (best === undefined || gain(best) === 0) return undefined;
    chosen.push(best);
    for (const column of best.match.used) open.delete(column);
  }
  return chosen.length === 0 ? undefined : chosen;
}

function orderRefused(definition: TableDefinition): ConcordError {
  const message = `${definition.name}: rows come in clustering order or its reverse (${definition.clusteringKey.join(", ")}); order otherwise by an index or in the application`;
  return new ConcordError("CQL_UNSUPPORTED", message, { metadata: { table: definition.name, construct: "ORDER BY" } });
}

function scanRefused(definition: TableDefinition): ConcordError {
  const indexes = definition.indexes.map((index) => `${index.name} (${index.columns.join(", ")})`);
  const offered = indexes.length === 0 ? "it has no index" : `its indexes are ${indexes.join(", ")}`;
  const message =
    `this query would scan ${definition.name}: ${keyHint(definition)}, ${offered}; fix the whole partition key, or an index's first ` +
    "column, by =, go on in key order, and let only the last condition be a range";
  return new ConcordError("SCAN_REFUSED", message, { metadata: { table: definition.name } });
}
