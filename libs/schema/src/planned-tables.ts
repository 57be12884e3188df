import { ConcordError } from "@concord/runtime";
import { catalogueOf, withTable, type SchemaCatalogue } from "./catalogue.ts";
import { plan, type PlanContext } from "./compile.ts";
import type { Statement } from "./cql/ast.ts";
import { parse } from "./cql/parse.ts";
import { sameShape, type TableDefinition } from "./definition.ts";

const NO_TABLES = catalogueOf(0n, []);

/**
 * The tables that CREATE TABLE and CREATE INDEX statements ask for, each with its indexes, without a look at existing tables. An index
 * comes in the same call as its table (TX29): `newTables` refuses one on an existing table.
 */
export interface PlannedTables {
  readonly tables: ReadonlyMap<string, TableDefinition>;
  /** Parsed CREATE INDEX statements on tables this call does not create. */
  readonly elsewhere: readonly Statement[];
}

/** CQL_SYNTAX, CQL_UNSUPPORTED, SCHEMA_INVALID, SYSTEM_TABLE, TABLE_EXISTS when two statements contradict each other. */
export function plannedTables(statements: readonly string[], statementsMax: number, context: PlanContext): PlannedTables {
  if (statements.length === 0) throw new ConcordError("MALFORMED_REQUEST", "there is no statement");
  if (statements.length > statementsMax) {
    const metadata = { limit: "CREATE_STATEMENTS_MAX", value: String(statementsMax) };
    throw new ConcordError("LIMIT_EXCEEDED", `${statements.length} statements; at most ${statementsMax}`, { metadata });
  }
  let catalogue = NO_TABLES;
  const elsewhere: Statement[] = [];
  for (const statement of statements.map(parse)) {
    const { body } = statement;
    if (body.kind !== "create-table" && body.kind !== "create-index") {
      throw new ConcordError("CQL_UNSUPPORTED", "CreateTables takes CREATE TABLE and CREATE INDEX only");
    }
    if (body.kind === "create-index" && !catalogue.tables.has(body.table)) {
      elsewhere.push(statement);
      continue;
    }
    const planned = plan(statement, body.kind === "create-table" ? NO_TABLES : catalogue, [], context);
    if (planned.kind === "create-table") {
      const earlier = catalogue.tables.get(planned.definition.name);
      if (earlier !== undefined && !planned.ifNotExists) refuseOther(earlier, planned.definition);
      if (earlier !== undefined) continue;
      catalogue = withTable(catalogue, planned.definition, 0n);
    } else if (planned.kind === "create-index" && !planned.exists) {
      catalogue = withTable(catalogue, { ...planned.definition, version: 1n }, 0n);
    }
  }
  return { tables: catalogue.tables, elsewhere };
}

/** Those that are to be created. TABLE_EXISTS for another definition of a name, INDEX_ON_EXISTING_TABLE, TABLE_UNKNOWN. */
export function newTables(planned: PlannedTables, existing: SchemaCatalogue, context: PlanContext): TableDefinition[] {
  for (const statement of planned.elsewhere) {
    const index = plan(statement, existing, [], context);
    if (index.kind === "create-index" && index.exists) continue;
    const table = index.kind === "create-index" ? index.definition.name : "";
    throw new ConcordError("INDEX_ON_EXISTING_TABLE", `${table} exists: send CREATE INDEX in the same call as its CREATE TABLE`, {
      metadata: { table },
    });
  }
  return [...planned.tables.values()].filter((definition) => {
    const present = existing.tables.get(definition.name);
    if (present !== undefined) refuseOther(present, definition);
    return present === undefined;
  });
}

function refuseOther(present: TableDefinition, definition: TableDefinition): void {
  const { name } = definition;
  if (sameShape(present, definition)) return;
  throw new ConcordError("TABLE_EXISTS", `there is another table ${name} already`, { metadata: { table: name } });
}
