import { ConcordError } from "@concord/runtime";
import {
  catalogueOf,
  parse,
  plan,
  sameShape,
  withTable,
  type PlanContext,
  type SchemaCatalogue,
  type TableDefinition,
} from "@concord/schema";
import { CREATE_STATEMENTS_MAX } from "../limits.ts";

/**
 * The tables that CREATE TABLE and CREATE INDEX statements ask for, each with its indexes, without a look at existing tables. An index
 * comes in the same call as its table (TX29): `newTables` refuses one on an existing table.
 */
export interface PlannedTables {
  readonly tables: ReadonlyMap<string, TableDefinition>;
  /** Parsed CREATE INDEX statements on tables this call does not create. */
  readonly elsewhere: readonly ReturnType<typeof parse>[];
}

/** CQL_SYNTAX, CQL_UNSUPPORTED, SCHEMA_INVALID, SYSTEM_TABLE, TABLE_EXISTS when two statements contradict each other. */
export function plannedTables(statements: readonly string[], context: PlanContext): PlannedTables {
  if (statements.length === 0) throw new ConcordError("MALFORMED_REQUEST", "there is no statement");
  if (statements.length > CREATE_STATEMENTS_MAX) {
    const metadata = { limit: "CREATE_STATEMENTS_MAX", value: String(CREATE_STATEMENTS_MAX) };
    throw new ConcordError("LIMIT_EXCEEDED", `${statements.length} statements; at most ${CREATE_STATEMENTS_MAX}`, { metadata });
  }
  let catalogue = catalogueOf(0n, []);
  const elsewhere: ReturnType<typeof parse>[] = [];
  for (const statement of statements.map(parse)) {
    const { body } = statement;
    if (body.kind !== "create-table" && body.kind !== "create-index") {
      throw new ConcordError("CQL_UNSUPPORTED", "CreateTables takes CREATE TABLE and CREATE INDEX only");
    }
    if (body.kind === "create-index" && !catalogue.tables.has(body.table)) {
      elsewhere.push(statement);
      continue;
    }
    const planned = plan(statement, catalogue, [], context);
    if (planned.kind === "create-table") {
      const earlier = catalogue.tables.get(planned.definition.name);
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
    if (present === undefined) return true;
    if (sameShape(present, definition)) return false;
    throw new ConcordError("TABLE_EXISTS", `there is another table ${definition.name} already`, { metadata: { table: definition.name } });
  });
}
