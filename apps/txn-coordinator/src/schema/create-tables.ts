import { newTimeId, sleep, toConcordError, type Environment, type TimeId } from "@concord/runtime";
import {
  catalogueOf,
  definitionOfRow,
  definitionToJson,
  newTables,
  plannedTables,
  SCHEMA_VERSION_KEY,
  type SchemaCache,
  type SchemaCatalogue,
  type TableDefinition,
  TABLES_PAGE_ROWS,
  TABLES_RANGE,
} from "@concord/schema";
import type { OperationCall, TransactionGroup, TransactionOperations } from "@concord/transactions";
import type { CellValue } from "@concord/values";
import { CREATE_STATEMENTS_MAX, POLL_MS, SCHEMA_SETTLE_POLLS } from "../limits.ts";
import { tableRow, versionRow } from "./system-tables.ts";

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
  const id = newTimeId(environment.clock, environment.random);
  const call = (number: number): OperationCall => ({ id, number, sessionId: undefined, deadlineAtMs });
  await group.serving().start(call(1), {
    key: SCHEMA_VERSION_KEY,
    mode: "exclusive",
    read: "read",
    firstStartMs: undefined,
    lifetimeMs: undefined,
  });
  const version = await rollbackOnError(group, id, async () => {
    const existing = await group.serving().operate(call(2), (operations) => existingTables(operations, context));
    const created = newTables(planned, existing, environment);
    if (created.length === 0) {
      group.serving().rollback(id);
      return existing.version;
    }
    const next = existing.version + 1n;
    const writes = [...created.map(rowOf), versionRow(SCHEMA_VERSION_KEY, next, existing.tables.size + created.length)];
    await group.serving("unknown").commit(call(3), () => writes, { maxDelayMs: 0 });
    return next;
  });
  for (let poll = 0; poll < SCHEMA_SETTLE_POLLS && schema.catalogue.version < version; poll += 1) {
    await schema.reload();
    if (schema.catalogue.version < version) await sleep(environment.clock, POLL_MS);
  }
  return version;
}

async function rollbackOnError(group: TransactionGroup, id: TimeId, work: () => Promise<bigint>): Promise<bigint> {
  try {
    return await work();
  } catch (thrown) {
    // Any other failure has ended it, or its commit is on its way and must be left alone.
    const isOpen = toConcordError(thrown).kind === "rejected" && group.state.kind === "serving" && group.knows(id);
    if (isOpen) group.serving().rollback(id);
    throw thrown;
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
