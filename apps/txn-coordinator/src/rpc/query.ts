import type { CqlStatement } from "@concord/protos-common";
import type { TransactionService } from "@concord/protos-txn";
import { malformed, required, rowToWire } from "@concord/rows-wire";
import type { Row } from "@concord/ports";
import type { AnswerOf, Handler } from "@concord/rpc";
import { ConcordError, unreachable } from "@concord/runtime";
import { plan, queryFingerprint, type ReadPlan, type SchemaCatalogue, type TableCondition, tableOf, type WritePlan } from "@concord/schema";
import { ConditionsFailed, type NextScan, type ReadLock, type TableWrite, type TransactionOperations } from "@concord/transactions";
import type { Context } from "../context.ts";
import { tablesOf } from "../schema/parsed-statements.ts";
import { failedRows } from "./conditions.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { bindsFromWire, callFromWire, checkedLimit, readLockFromWire, userTable } from "./wire.ts";

/** A SELECT by key, range or index, or a write given as CQL (TX24, TX28). SCAN_REFUSED, INDEX_CROSS_GROUP, CQL_SYNTAX ... */
export function queryHandler(coordinator: Context): Handler<TransactionService, "Query"> {
  return async (request, context) =>
    inTransaction(coordinator, callFromWire(request.operation, context, coordinator), async (operations) => {
      const limit = checkedLimit(request.limit);
      const { planned, catalogue } = await plannedStatement(coordinator, request.statement, 0n);
      if (request.lock === "READ_LOCK_NEXT" || isSkipLocked(planned))
        return lockNext(planned, catalogue, operations, { limit, pageToken: request.pageToken });
      if (planned.kind === "write" || planned.kind === "batch") return runWrite(planned, catalogue, operations);
      const page: Page = { limit, pageToken: request.pageToken, lock: readLockFromWire(request.lock) };
      return runRead(coordinator, planned, catalogue, operations, page);
    });
}

/** SELECT ... FOR UPDATE SKIP LOCKED. */
function isSkipLocked(planned: ReadPlan | WritePlan): boolean {
  return planned.kind !== "write" && planned.kind !== "batch" && planned.skipLocked === true;
}

export interface PlannedStatement {
  readonly planned: ReadPlan | WritePlan;
  readonly catalogue: SchemaCatalogue;
}

export async function plannedStatement(
  coordinator: Context,
  statement: CqlStatement | null,
  schemaVersion: bigint,
): Promise<PlannedStatement> {
  const given = required(statement, "statement");
  const parsed = coordinator.statements.of(given.text);
  const catalogue = await catalogueFor(coordinator, tablesOf(parsed).map(userTable), schemaVersion);
  const planned = plan(parsed, catalogue, bindsFromWire(given), coordinator.environment);
  if (planned.kind === "create-table" || planned.kind === "create-index") {
    throw new ConcordError("CQL_UNSUPPORTED", "tables are created with SchemaService.CreateTables");
  }
  return { planned, catalogue };
}

export function writesOfPlan(planned: WritePlan, catalogue: SchemaCatalogue): TableWrite[] {
  if (planned.tableKind === "plain") throw new ConcordError("USE_PLAIN_WRITE", "the table is plain: write it at the storage-proxy");
  const writes = planned.kind === "write" ? [planned.write] : planned.writes;
  return writes.map((write) => ({ definition: tableOf(catalogue, write.table), write }));
}

/** Conditions of IF. */
export function conditionsOfPlan({ conditions = [] }: WritePlan, catalogue: SchemaCatalogue): TableCondition[] {
  return conditions.map((condition) => ({ definition: tableOf(catalogue, condition.key.table), condition }));
}

const NOTHING: AnswerOf<TransactionService, "Query"> = { rows: [], nextPageToken: new Uint8Array(), failed: undefined };

/** Buffers what a statement writes, if its conditions hold; they are compared under the locks that the transaction then keeps (UN20). */
async function runWrite(
  planned: WritePlan,
  catalogue: SchemaCatalogue,
  operations: TransactionOperations,
): Promise<AnswerOf<TransactionService, "Query">> {
  const writes = writesOfPlan(planned, catalogue);
  const conditions = conditionsOfPlan(planned, catalogue);
  try {
    if (conditions.length > 0) await operations.compare(conditions, writes);
  } catch (thrown) {
    if (!(thrown instanceof ConditionsFailed)) throw thrown;
    return { ...NOTHING, failed: failedRows(thrown.failed) };
  }
  await operations.write(writes);
  return NOTHING;
}

interface Page {
  readonly limit: number;
  readonly pageToken: Uint8Array;
  readonly lock: ReadLock;
}

async function runRead(
  coordinator: Context,
  planned: ReadPlan,
  catalogue: SchemaCatalogue,
  operations: TransactionOperations,
  page: Page,
): Promise<AnswerOf<TransactionService, "Query">> {
  const columns = new Set(planned.columns);
  const answer = (rows: readonly Row[], nextPageToken: Uint8Array = new Uint8Array()): AnswerOf<TransactionService, "Query"> => ({
    rows: rows.map((row) => rowToWire(row, columns)),
    nextPageToken,
    failed: undefined,
  });
  if (planned.kind === "read-rows") {
    const rows = await operations.read(planned.keys, page.lock);
    return answer(rows.filter((row) => row !== undefined));
  }
  const ranges = planned.kind === "read-range" ? [planned.range] : planned.scans.map((scan) => scan.range);
  const query = queryFingerprint(ranges);
  const position = coordinator.pageTokens.read(query, page.pageToken);
  const remaining = position === undefined ? planned.limit : position.remaining;
  const wanted = Math.min(page.limit, remaining ?? page.limit);
  if (wanted === 0) return answer([]);
  const after = position === undefined ? {} : { after: position.after };
  const found = await runRanged(planned, catalogue, operations, wanted, after);
  const left = remaining === undefined ? undefined : remaining - found.rows.length;
  const next = found.next === undefined || left === 0 ? undefined : { after: found.next, remaining: left };
  return answer(found.rows, coordinator.pageTokens.issue(query, next));
}

/** The first rows of a range or an index query that are free: locked exclusively. */
async function lockNext(
  planned: ReadPlan | WritePlan,
  catalogue: SchemaCatalogue,
  operations: TransactionOperations,
  { limit, pageToken }: Omit<Page, "lock">,
): Promise<AnswerOf<TransactionService, "Query">> {
  if (planned.kind !== "read-range" && planned.kind !== "read-index") {
    throw malformed("SKIP LOCKED and READ_LOCK_NEXT take a SELECT by range or index; a row whose full key is known is locked with Lock");
  }
  if (pageToken.length > 0) throw malformed("SKIP LOCKED and READ_LOCK_NEXT have no pages: repeat the query, locked rows are passed over");
  const scans: readonly NextScan[] = planned.kind === "read-range" ? [{ index: undefined, range: planned.range }] : planned.scans;
  const rows = await operations.lockNext(tableOf(catalogue, planned.table), scans, Math.min(limit, planned.limit ?? limit));
  const columns = new Set(planned.columns);
  return { ...NOTHING, rows: rows.map((row) => rowToWire(row, columns)) };
}

function runRanged(
  planned: Exclude<ReadPlan, { kind: "read-rows" }>,
  catalogue: SchemaCatalogue,
  operations: TransactionOperations,
  limit: number,
  after: { readonly after?: NonNullable<Extract<ReadPlan, { kind: "read-range" }>["range"]["after"]> },
): ReturnType<TransactionOperations["readRange"]> {
  switch (planned.kind) {
    case "read-range":
      return operations.readRange({ ...planned.range, limit, ...after });
    case "read-index": {
      const [first, ...others] = planned.scans;
      const scans = [{ ...first!, range: { ...first!.range, ...after } }, ...others];
      return operations.queryIndex(tableOf(catalogue, planned.table), scans, limit);
    }
    default:
      return unreachable(planned);
  }
}
