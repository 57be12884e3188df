import type { Mutation, RowStore } from "@concord/ports";
import { ConcordError, type TimestampUs } from "@concord/runtime";
import {
  definitionToJson,
  newTables,
  plannedTables,
  SCHEMA_VERSION_KEY,
  TABLES_RANGE,
  type PlanContext,
  type SchemaCache,
  type TableDefinition,
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
  const { rows, schema, context, drawTimestamp, timeoutMs } = options;
  const planned = plannedTables(statements, CREATE_STATEMENTS_MAX, context);
  for (const { name, kind } of planned.tables.values())
    if (kind === "transactional")
      throw new ConcordError("USE_TRANSACTION", `${name} is transactional: create it at a txn-coordinator, or say WITH kind = 'plain'`);
  await schema.reload();
  const { version } = schema.catalogue;
  const created = newTables(planned, schema.catalogue, context);
  if (created.length === 0) return version;
  await rows.apply(mutationsOf(created, version + 1n, drawTimestamp()), { timeoutMs });
  await schema.reload();
  return schema.catalogue.version;
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
