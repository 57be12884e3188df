import { ConcordError, newTimeId, toHex, unreachable, type Clock, type Random } from "@concord/runtime";
import type { ColumnWrite } from "@concord/ports";
import { literalValue, type CellValue } from "@concord/values";
import type { Assignment, Condition, Insert, Select, Statement, StatementBody, Term, Update, Write } from "./cql/ast.ts";
import { syntaxError, unsupported } from "./cql/errors.ts";
import { tableOf, type SchemaCatalogue } from "./catalogue.ts";
import { columnOf, isKeyColumn, type TableDefinition } from "./definition.ts";
import type { Constraint, Plan, ValueBound, WritePlan } from "./plan.ts";
import { planRead } from "./plan-read.ts";
import { planCreateIndex, planCreateTable } from "./plan-schema.ts";
import { planBatch, planWrite } from "./plan-write.ts";
import type { RowCondition } from "./row-condition.ts";
import type { RowWrite } from "./row-write.ts";
import { refuseSystemTable } from "./validate-definition.ts";
import { keyFromColumns, keyIncomplete, validateCondition } from "./validate-rows.ts";
import { mismatch, type ValuePlace } from "./values.ts";

/** Where now() and uuid() come from; each is resolved here, once, so a plan repeats exactly (LB15). */
export interface PlanContext {
  readonly clock: Clock;
  readonly random: Random;
}

interface Context extends PlanContext {
  readonly catalogue: SchemaCatalogue;
  readonly binds: readonly (CellValue | null)[];
  /** One moment for the whole statement or batch. */
  readonly nowMs: number;
}

/**
 * A parsed statement and its bind values as a plan (TX24). The same checks as the structured entry points, which it calls. Errors of those,
 * and MALFORMED_REQUEST for a wrong number of binds, KEY_INCOMPLETE for a write without its full primary key.
 */
export function plan(statement: Statement, catalogue: SchemaCatalogue, binds: readonly (CellValue | null)[], context: PlanContext): Plan {
  if (binds.length !== statement.bindCount) {
    throw new ConcordError("MALFORMED_REQUEST", `the statement has ${statement.bindCount} bind markers, ${binds.length} values were given`);
  }
  return planBody({ ...context, catalogue, binds, nowMs: context.clock.nowMs() }, statement.body);
}

function planBody(context: Context, body: StatementBody): Plan {
  const { catalogue } = context;
  switch (body.kind) {
    case "create-table": {
      const { table, columns, partitionKey, clusteringKey, tableKind, ifNotExists } = body;
      const definition: TableDefinition = { name: table, kind: tableKind, columns, partitionKey, clusteringKey, indexes: [], version: 1n };
      return planCreateTable(catalogue, definition, ifNotExists);
    }
    case "create-index":
      return planCreateIndex(catalogue, body);
    case "select":
      return planSelect(context, body);
    case "insert":
    case "update":
    case "delete":
      return conditional(context, [body], planWrite(catalogue, writeOf(context, body), timestampOf(context, body.timestamp)));
    case "batch": {
      const writes = body.writes.map((write) => writeOf(context, write));
      return conditional(context, body.writes, planBatch(catalogue, body.logged, writes, timestampOf(context, body.timestamp)));
    }
    default:
      return unreachable(body);
  }
}

function planSelect(context: Context, select: Select): Plan {
  const { table, columns, order } = select;
  const definition = tableOf(context.catalogue, table);
  const where = constraintsOf(context, definition, select.where);
  const planned = planRead(context.catalogue, { table, columns, where, order, limit: limitOf(context, select.limit) });
  return select.skipLocked ? { ...planned, skipLocked: true } : planned;
}

function constraintsOf(context: Context, definition: TableDefinition, conditions: readonly Condition[]): Constraint[] {
  const byColumn = new Map<string, Constraint>();
  for (const condition of conditions) {
    const column = condition.column.name;
    const value = valueFor(context, definition, column, condition.term);
    if (value === null) throw unsupported(condition.term.at, "comparison with null", "a null is in no key and no index");
    const joined = joinConstraint(byColumn.get(column), column, condition, value);
    if (joined === undefined) throw syntaxError(condition.column.at, `column ${column} has two conditions of the same side`);
    byColumn.set(column, joined);
  }
  return [...byColumn.values()];
}

/** Two bounds of one column make one range; anything else twice is undefined. */
function joinConstraint(present: Constraint | undefined, column: string, condition: Condition, value: CellValue): Constraint | undefined {
  const { operator } = condition;
  if (operator === "=") return present === undefined ? { kind: "equal", column, value } : undefined;
  if (present?.kind === "equal") return undefined;
  const bound: ValueBound = { value, inclusive: operator === "<=" || operator === ">=" };
  const isLower = operator === ">" || operator === ">=";
  if ((isLower ? present?.lower : present?.upper) !== undefined) return undefined;
  return { kind: "range", column, lower: isLower ? bound : present?.lower, upper: isLower ? present?.upper : bound };
}

function writeOf(context: Context, write: Write): RowWrite {
  refuseSystemTable(write.table);
  const definition = tableOf(context.catalogue, write.table);
  const { table } = write;
  switch (write.kind) {
    case "insert":
      return { kind: "insert", table, ...insertParts(context, definition, write) };
    case "update": {
      const columns = write.assignments.map((assignment) => columnWrite(context, definition, assignment));
      return { kind: "update", table, key: keyFromColumns(definition, keyValues(context, definition, write)), columns };
    }
    case "delete":
      return { kind: "delete", table, key: keyFromColumns(definition, keyValues(context, definition, write)), columns: [] };
    default:
      return unreachable(write);
  }
}

/** The plan with the conditions of its statements; all are compared before any of them writes, as in Cassandra. */
function conditional(context: Context, statements: readonly Write[], planned: WritePlan): WritePlan {
  if (statements.every(({ condition }) => condition === undefined)) return planned;
  const writes = planned.kind === "write" ? [planned.write] : planned.writes;
  const conditions = statements.flatMap(({ condition }, at): RowCondition[] => {
    if (condition === undefined) return [];
    const { key } = writes[at]!;
    const definition = tableOf(context.catalogue, key.table);
    if (condition.kind !== "equal") return [validateCondition(definition, { kind: condition.kind, key })];
    const columns = condition.columns.map((compared) => columnWrite(context, definition, compared));
    return [validateCondition(definition, { kind: "equal", key, columns })];
  });
  return { ...planned, conditions };
}

function insertParts(context: Context, definition: TableDefinition, insert: Insert): Pick<RowWrite, "key" | "columns"> {
  const keyOf = new Map<string, CellValue>();
  const columns: ColumnWrite[] = [];
  for (const assignment of insert.assignments) {
    const { column, value } = columnWrite(context, definition, assignment);
    if (!isKeyColumn(definition, column)) columns.push({ column, value });
    else if (value === null) throw keyIncomplete(definition, column);
    else if (keyOf.has(column)) throw syntaxError(assignment.column.at, `column ${column} is named twice`);
    else keyOf.set(column, value);
  }
  return { key: keyFromColumns(definition, keyOf), columns };
}

function columnWrite(context: Context, definition: TableDefinition, assignment: Assignment): ColumnWrite {
  const column = assignment.column.name;
  return { column, value: valueFor(context, definition, column, assignment.term) };
}

/** WHERE of a write: every key column by `=`, nothing else. */
function keyValues(
  context: Context,
  definition: TableDefinition,
  write: Update | Extract<Write, { kind: "delete" }>,
): Map<string, CellValue> {
  const values = new Map<string, CellValue>();
  for (const { column, operator, term } of write.where) {
    columnOf(definition, column.name);
    if (!isKeyColumn(definition, column.name)) {
      throw unsupported(
        column.at,
        `a condition on ${column.name} in a write`,
        "name the row by its primary key; check other columns in a transaction",
      );
    }
    if (operator !== "=")
      throw unsupported(column.at, "a write of a range of rows", "write one row by its full primary key, several in a BATCH");
    if (values.has(column.name)) throw syntaxError(column.at, `column ${column.name} has two conditions`);
    const value = valueFor(context, definition, column.name, term);
    if (value === null) throw keyIncomplete(definition, column.name);
    values.set(column.name, value);
  }
  return values;
}

function valueFor(context: Context, definition: TableDefinition, column: string, term: Term): CellValue | null {
  const place: ValuePlace = {
    table: definition.name,
    column,
    type: columnOf(definition, column).type,
    inKey: isKeyColumn(definition, column),
  };
  if (term.kind === "bind") return context.binds[term.index] ?? null;
  if (term.kind === "call") return callValue(context, term.name, place);
  if (term.kind === "null") return null;
  const outcome = literalValue(place.type, term);
  if (outcome.kind === "refused") throw mismatch(place, outcome.problem);
  return outcome.value;
}

function callValue(context: Context, name: "now" | "uuid", place: ValuePlace): CellValue {
  if (name === "now" && place.type === "timestamp") return { kind: "timestamp", value: BigInt(context.nowMs) };
  if (place.type !== "uuid") throw mismatch(place, `is ${name}()`);
  return { kind: "uuid", value: name === "now" ? newTimeId(context.clock, context.random) : randomUuid(context.random) };
}

function randomUuid(random: Random): string {
  const bytes = random.bytes(16);
  bytes[6] = 0x40 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  return toHex(bytes);
}

function limitOf(context: Context, term: Term | undefined): number | undefined {
  if (term === undefined) return undefined;
  if (term.kind === "integer") return Number(term.value);
  const bound = term.kind === "bind" ? context.binds[term.index] : undefined;
  if (bound?.kind === "int") return bound.value;
  throw new ConcordError("TYPE_MISMATCH", "LIMIT takes a whole number or a bind of type int");
}

function timestampOf(context: Context, term: Term | undefined): bigint | undefined {
  if (term === undefined) return undefined;
  if (term.kind === "integer") return term.value;
  const bound = term.kind === "bind" ? context.binds[term.index] : undefined;
  if (bound?.kind === "bigint") return bound.value;
  throw new ConcordError("TYPE_MISMATCH", "TIMESTAMP takes a whole number of microseconds or a bind of type bigint");
}
