import type { Mutation, RowStore } from "@concord/ports";
import { ConcordError, type TimestampUs } from "@concord/runtime";
import {
  catalogueOf,
  definitionToJson,
  parse,
  plan,
  type PlanContext,
  sameShape,
  SCHEMA_VERSION_KEY,
  type SchemaCache,
  type SchemaCatalogue,
  type SchemaPlan,
  type TableDefinition,
  TABLES_RANGE,
  withTable,
} from "@concord/schema";
import { CREATE_STATEMENTS_MAX } from "../limits.ts";

export interface CreateTablesOptions {
  readonly rows: RowStore;
  readonly schema: SchemaCache;
  readonly context: PlanContext;
  readonly drawTimestamp: () => TimestampUs;
  readonly timeoutMs: number;
}

/**
 * Creates plain tables where no txn-coordinator is deployed. All statements are checked before anything is written; repeating the
 * call with the same statements changes nothing. TABLE_EXISTS, USE_TRANSACTION for transactional tables, and what planning refuses.
 * Two nodes creating tables at the same moment may give both the same schema version.
 */
export async function createTables(statements: readonly string[], options: CreateTablesOptions): Promise<bigint> {
  if (statements.length === 0) throw new ConcordError("MALFORMED_REQUEST", "there is no statement");
  if (statements.length > CREATE_STATEMENTS_MAX) {
    const metadata = { limit: "CREATE_STATEMENTS_MAX", value: String(CREATE_STATEMENTS_MAX) };
    throw new ConcordError("LIMIT_EXCEEDED", `${statements.length} statements; at most ${CREATE_STATEMENTS_MAX}`, { metadata });
  }
  const parsed = statements.map(parse);
  await options.schema.reload();
  const before = options.schema.catalogue;
  let catalogue = before;
  const created = new Set<string>();
  for (const statement of parsed) {
    // Whether a table exists is decided below: the same definition again is no mistake.
    const planned = plan(statement, statement.body.kind === "create-table" ? NO_TABLES : catalogue, [], options.context);
    if (planned.kind !== "create-table" && planned.kind !== "create-index") {
      throw new ConcordError("CQL_UNSUPPORTED", "CreateTables takes CREATE TABLE and CREATE INDEX only");
    }
    const definition = definitionOf(planned, catalogue, before);
    if (definition === undefined) continue;
    catalogue = withTable(catalogue, definition, before.version + 1n);
    created.add(definition.name);
  }
  if (created.size === 0) return before.version;
  const definitions = [...created].map((name) => catalogue.tables.get(name)!);
  await options.rows.apply(mutationsOf(definitions, catalogue.version, options.drawTimestamp()), { timeoutMs: options.timeoutMs });
  await options.schema.reload();
  return options.schema.catalogue.version;
}

const NO_TABLES = catalogueOf(0n, []);

/** The definition to store; undefined when it is there already. */
function definitionOf(planned: SchemaPlan, catalogue: SchemaCatalogue, before: SchemaCatalogue): TableDefinition | undefined {
  const { definition } = planned;
  if (definition.kind === "transactional") {
    throw new ConcordError(
      "USE_TRANSACTION",
      `${definition.name} is transactional: create it at a txn-coordinator, or say WITH kind = 'plain'`,
    );
  }
  if (planned.kind === "create-index") {
    if (planned.exists) return undefined;
    if (before.tables.has(definition.name))
      throw new ConcordError("INDEX_ON_EXISTING_TABLE", `${definition.name} exists: an index stands with its table`);
    return definition;
  }
  const present = catalogue.tables.get(definition.name);
  if (present === undefined) return definition;
  if (sameShape(present, definition)) return undefined;
  throw new ConcordError("TABLE_EXISTS", `there is another table ${definition.name} already`, { metadata: { table: definition.name } });
}

function mutationsOf(definitions: readonly TableDefinition[], version: bigint, timestampUs: TimestampUs): Mutation[] {
  const tables = definitions.map((definition): Mutation => {
    const key = {
      table: TABLES_RANGE.table,
      partition: TABLES_RANGE.partition,
      clustering: [{ kind: "text", value: definition.name } as const],
    };
    return {
      kind: "insert",
      key,
      columns: [{ column: "definition", value: { kind: "text", value: definitionToJson(definition) } }],
      timestampUs,
    };
  });
  const versionKey = SCHEMA_VERSION_KEY;
  return [
    ...tables,
    { kind: "insert", key: versionKey, columns: [{ column: "version", value: { kind: "bigint", value: version } }], timestampUs },
  ];
}
