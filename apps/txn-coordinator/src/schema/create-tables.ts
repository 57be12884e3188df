import { sleep, type Environment } from "@concord/runtime";
import {
  catalogueOf,
  definitionOfRow,
  definitionToJson,
  newTables,
  plannedTables,
  type PlannedTables,
  SCHEMA_VERSION_KEY,
  type SchemaCache,
  type SchemaCatalogue,
  type TableDefinition,
  TABLES_PAGE_ROWS,
  TABLES_RANGE,
} from "@concord/schema";
import type { TransactionGroup, TransactionOperations } from "@concord/transactions";
import type { CellValue } from "@concord/values";
import { CREATE_STATEMENTS_MAX, POLL_MS, SCHEMA_SETTLE_POLLS } from "../limits.ts";
import { tableRow, versionRow } from "./system-tables.ts";
import { SystemTransaction } from "./system-transaction.ts";

export interface CreateTablesContext {
  readonly environment: Environment;
  readonly schema: SchemaCache;
}

/**
 * Creates tables with their indexes at the system group's master, in one transaction of it (TX3): all or nothing. Repeating the call changes
 * nothing and answers the version there is. Resolves when a quorum read shows the new version, so any node can catch up to it.
 */
export async function createTables(
  statements: readonly string[],
  group: TransactionGroup,
  context: CreateTablesContext,
  deadlineAtMs: number,
): Promise<bigint> {
  const { environment, schema } = context;
  const planned = plannedTables(statements, CREATE_STATEMENTS_MAX, environment);
  const version = await createdIn(new SystemTransaction(group, environment, deadlineAtMs), planned, context);
  for (let poll = 0; poll < SCHEMA_SETTLE_POLLS && schema.catalogue.version < version; poll += 1) {
    await schema.reload();
    if (schema.catalogue.version < version) await sleep(environment.clock, POLL_MS);
  }
  return version;
}

/** The version with the tables. */
async function createdIn(transaction: SystemTransaction, planned: PlannedTables, context: CreateTablesContext): Promise<bigint> {
  try {
    const existing = await transaction.read(SCHEMA_VERSION_KEY, (operations) => existingTables(operations, context));
    const created = newTables(planned, existing, context.environment);
    if (created.length === 0) return existing.version;
    const next = existing.version + 1n;
    await transaction.commit([...created.map(rowOf), versionRow(SCHEMA_VERSION_KEY, next, existing.tables.size + created.length)]);
    return next;
  } finally {
    transaction.end();
  }
}

/** As the transaction sees them: the version row is locked, so no other transaction changes them meanwhile. */
async function existingTables(operations: TransactionOperations, { environment }: CreateTablesContext): Promise<SchemaCatalogue> {
  const [row] = await operations.read([SCHEMA_VERSION_KEY]);
  const version = row?.columns.get("version");
  const definitions: TableDefinition[] = [];
  let after: readonly CellValue[] | undefined;
  do {
    const page = await operations.readRange({ ...TABLES_RANGE, limit: TABLES_PAGE_ROWS, ...(after === undefined ? {} : { after }) });
    for (const found of page.rows) {
      const definition = definitionOfRow(found, environment.log);
      if (definition !== undefined) definitions.push(definition);
    }
    after = page.next;
  } while (after !== undefined);
  return catalogueOf(version?.kind === "bigint" ? version.value : 0n, definitions);
}

function rowOf(definition: TableDefinition): ReturnType<typeof tableRow> {
  return tableRow(definition.name, definitionToJson(definition));
}
