import type { QueryRequest, RowsService } from "@concord/protos-storage";
import type { AnswerOf, Handler, HandlerContext } from "@concord/rpc";
import { ConcordError, unreachable, writeRefused, WRITES_TAKEN, type Writes } from "@concord/runtime";
import { parse, plan, type Plan, type ReadPlan, type SchemaCatalogue, type Statement, type WritePlan } from "@concord/schema";
import type { Serving } from "../context.ts";
import { runRead } from "../rows/run-query.ts";
import { runBatch } from "./batch-execute.ts";
import { checkAnswer } from "./answer-rows.ts";
import { budgetMs, readBudget } from "./budget.ts";
import { positionsFromWire } from "./numbers.ts";
import { checkedPageSize, limitExceeded } from "./checks.ts";
import { runCreate } from "./create-tables.ts";
import { malformed, required, rowToWire } from "@concord/rows-wire";
import { cellFromWire } from "@concord/values";
import { applyWrite, refuseTransactional } from "./write.ts";

const BINDS_MAX = 4096;

type Answer = AnswerOf<RowsService, "Query">;
/** Each kind of statement fills its own fields. */
const NOTHING: Answer = {
  rows: undefined,
  nextPageToken: undefined,
  timestampUs: undefined,
  schemaVersion: undefined,
  superseded: undefined,
};

/** One CQL statement: plain tables, or a SELECT on any (TX24). It compiles to the same plan as a structured request. */
export function queryHandler(serving: Serving, writes: Writes = WRITES_TAKEN): Handler<RowsService, "Query"> {
  return async (request, context) => {
    const { text, binds } = required(request.statement, "statement");
    if (binds.length > BINDS_MAX) throw limitExceeded("BINDS_MAX", BINDS_MAX, `${binds.length} bind values`);
    const pageSize = checkedPageSize(request.pageSize);
    const statement = parse(text);
    if (writes.kind === "refused" && statement.body.kind !== "select") throw writeRefused(writes.reason);
    const { config, clock, schema } = serving();
    if (isCreate(statement)) {
      const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
      return { ...NOTHING, schemaVersion: await runCreate(serving(), [text], timeoutMs) };
    }
    const catalogue = await schema.having(tablesOf(statement), request.schemaVersion);
    const planned = plan(statement, catalogue, binds.map(cellFromWire), serving());
    return execute(serving, { request, pageSize, planned, catalogue, context });
  };
}

interface Execution {
  readonly request: QueryRequest;
  readonly pageSize: number;
  readonly planned: Plan;
  readonly catalogue: SchemaCatalogue;
  readonly context: HandlerContext;
}

async function execute(serving: Serving, execution: Execution): Promise<Answer> {
  const { planned } = execution;
  switch (planned.kind) {
    case "read-rows":
    case "read-range":
    case "read-index":
      return select(serving, execution, planned);
    case "write":
      return write(serving, execution, planned);
    case "batch":
      return batch(serving, execution, planned);
    case "create-table":
    case "create-index":
      throw malformed("a CREATE has no bind values");
    default:
      return unreachable(planned);
  }
}

async function select(serving: Serving, { request, pageSize, catalogue, context }: Execution, planned: ReadPlan): Promise<Answer> {
  if (planned.skipLocked === true) {
    const text = "FOR UPDATE SKIP LOCKED locks rows until a transaction ends: run the statement in a transaction";
    throw new ConcordError("USE_TRANSACTION", text, { metadata: { table: planned.table } });
  }
  const { rows, pageTokens, config, clock } = serving();
  const page = await runRead(planned, {
    rows,
    catalogue,
    tokens: pageTokens,
    pageSize,
    pageToken: request.pageToken,
    options: { ...readBudget(context, clock, config.readTimeoutMs), after: positionsFromWire(request.after) },
  });
  const columns = new Set(planned.columns);
  checkAnswer(page.rows, columns);
  return { ...NOTHING, rows: page.rows.map((row) => rowToWire(row, columns)), nextPageToken: page.nextPageToken };
}

async function write(serving: Serving, { request, context }: Execution, planned: Extract<WritePlan, { kind: "write" }>): Promise<Answer> {
  const { config, clock } = serving();
  refuseTransactional(planned.tableKind, planned.write.table);
  const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
  return { ...NOTHING, ...(await applyWrite(serving(), planned.write, planned.timestampUs ?? request.timestampUs, timeoutMs)) };
}

async function batch(serving: Serving, { request }: Execution, planned: Extract<WritePlan, { kind: "batch" }>): Promise<Answer> {
  refuseTransactional(planned.tableKind, planned.writes[0]!.table);
  const { batchId } = request;
  const timestampUs = planned.timestampUs ?? request.timestampUs;
  const result = await runBatch(serving(), { batchId, writes: planned.writes, timestampUs, unlogged: !planned.logged });
  return { ...NOTHING, timestampUs: result.timestampUs };
}

function isCreate(statement: Statement): boolean {
  return statement.body.kind === "create-table" || statement.body.kind === "create-index";
}

function tablesOf(statement: Statement): string[] {
  const { body } = statement;
  if (body.kind === "batch") return [...new Set(body.writes.map((one) => one.table))];
  return [body.table];
}
