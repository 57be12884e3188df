import type { TransactionService, ExecuteRequest } from "@concord/protos-txn";
import { malformed } from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import { ConcordError, timeIdFromBytes } from "@concord/runtime";
import type { TableWrite } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor } from "./in-transaction.ts";
import { plannedStatement, writesOfPlan } from "./query.ts";
import { checkCount, checkedWrites, tablesOfWrites, tokenToWire } from "./wire.ts";

/** A one-statement transaction (TX8): how a transactional table is written from outside. */
export function executeHandler(coordinator: Context): Handler<TransactionService, "Execute"> {
  return async (request, context) => {
    const id = timeIdFromBytes(request.transactionId);
    const writes = await writesOf(coordinator, request);
    const group = coordinator.groups.groupOf(writes[0]!.write.key, request.groupMapVersion);
    const { span, owner } = context;
    const origin = { span, owner, onWait: () => void context.waits() };
    return { token: tokenToWire(await group.serving("unknown").execute(id, writes, context.deadlineAtMs, origin)) };
  };
}

async function writesOf(coordinator: Context, request: ExecuteRequest): Promise<readonly TableWrite[]> {
  if (request.statement !== null) {
    if (request.writes.length > 0) throw malformed("either writes or a statement are given, not both");
    const { planned, catalogue } = await plannedStatement(coordinator, request.statement, request.schemaVersion);
    if (planned.kind !== "write" && planned.kind !== "batch")
      throw new ConcordError("CQL_UNSUPPORTED", "Execute takes INSERT, UPDATE or DELETE");
    return writesOfPlan(planned, catalogue);
  }
  checkCount(request.writes.length, 1, WRITES_MAX, "writes");
  return checkedWrites(request.writes, await catalogueFor(coordinator, tablesOfWrites(request.writes), request.schemaVersion));
}
