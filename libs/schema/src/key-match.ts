import type { RowRange } from "@concord/ports";
import type { CellValue } from "@concord/values";
import type { TableDefinition } from "./definition.ts";
import type { Constraint, ValueBound } from "./plan.ts";

/** How far a table's key, read left to right, serves a query's conditions. */
export interface KeyMatch {
  readonly partition: readonly CellValue[];
  /** Clustering columns fixed by equality, from the first on. */
  readonly prefix: readonly CellValue[];
  /** Bounds on the clustering column after them. */
  readonly lower: ValueBound | undefined;
  readonly upper: ValueBound | undefined;
  /** Columns whose conditions the match serves. */
  readonly used: ReadonlySet<string>;
}

/** undefined when the partition key is not wholly fixed by equality. */
export function matchKey(table: TableDefinition, where: ReadonlyMap<string, Constraint>): KeyMatch | undefined {
  const used = new Set<string>();
  const partition: CellValue[] = [];
  for (const column of table.partitionKey) {
    const constraint = where.get(column);
    if (constraint?.kind !== "equal") return undefined;
    partition.push(constraint.value);
    used.add(column);
  }
  const prefix: CellValue[] = [];
  for (const column of table.clusteringKey) {
    const constraint = where.get(column);
    if (constraint === undefined) break;
    used.add(column);
    if (constraint.kind === "range") return { partition, prefix, lower: constraint.lower, upper: constraint.upper, used };
    prefix.push(constraint.value);
  }
  return { partition, prefix, lower: undefined, upper: undefined, used };
}

export function rangeOf(table: TableDefinition, match: KeyMatch, reverse: boolean, limit: number): RowRange {
  const lower = boundOf(match, match.lower);
  const upper = boundOf(match, match.upper);
  return {
    table: table.name,
    partition: match.partition,
    ...(lower === undefined ? {} : { lower }),
    ...(upper === undefined ? {} : { upper }),
    reverse,
    limit,
  };
}

function boundOf(match: KeyMatch, bound: ValueBound | undefined): RowRange["lower"] {
  if (bound !== undefined) return { prefix: [...match.prefix, bound.value], inclusive: bound.inclusive };
  return match.prefix.length === 0 ? undefined : { prefix: match.prefix, inclusive: true };
}
