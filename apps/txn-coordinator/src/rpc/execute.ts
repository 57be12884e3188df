import type { ConditionalWrites, ExecuteRequest, TransactionService } from "@concord/protos-txn";
import { malformed } from "@concord/rows-wire";
import type { AnswerOf, Handler } from "@concord/rpc";
import { ConcordError, timeIdFromBytes } from "@concord/runtime";
import type { TableCondition } from "@concord/schema";
import { ConditionsFailed, type CommitToken, type TableWrite } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { checkedConditions, failedRows, tablesOfConditions } from "./conditions.ts";
import { catalogueFor } from "./in-transaction.ts";
import { conditionsOfPlan, plannedStatement, writesOfPlan } from "./query.ts";
import { checkCount, checkedWrites, tablesOfWrites, tokenToWire } from "./wire.ts";

interface Work {
  readonly writes: readonly TableWrite[];
  /** Undefined: a request with writes alone. */
  readonly conditions: readonly TableCondition[] | undefined;
}

/** A one-statement transaction (TX8): how a transactional table is written from outside. With conditions: all of it or nothing (UN20). */
export function executeHandler(coordinator: Context): Handler<TransactionService, "Execute"> {
  return async (request, context) => {
    const id = timeIdFromBytes(request.transactionId);
    const { writes, conditions } = await workOf(coordinator, request);
    const key = conditions?.[0]?.condition.key ?? writes[0]!.write.key;
    const group = coordinator.groups.groupOf(key, request.groupMapVersion);
    const { span, owner } = context;
    const origin = { span, owner, onWait: () => void context.waits(), conditions };
    const answer = group.serving("unknown").execute(id, writes, context.deadlineAtMs, origin);
    if (conditions === undefined) return committedAnswer(await answer);
    return answer.then(committedAnswer, failedAnswer);
  };
}

function committedAnswer(token: CommitToken): AnswerOf<TransactionService, "Execute"> {
  return { token: tokenToWire(token), failed: undefined };
}

function failedAnswer(thrown: unknown): AnswerOf<TransactionService, "Execute"> {
  if (!(thrown instanceof ConditionsFailed)) throw thrown;
  return { token: undefined, failed: failedRows(thrown.failed) };
}

async function workOf(coordinator: Context, request: ExecuteRequest): Promise<Work> {
  const { statement, writes, conditional, schemaVersion } = request;
  const given = [statement !== null, writes.length > 0, conditional !== null].filter(Boolean).length;
  if (given > 1) throw malformed("either writes, conditional writes or a statement are given, not two of them");
  if (conditional !== null) return conditionalWork(coordinator, conditional, schemaVersion);
  if (statement !== null) {
    const { planned, catalogue } = await plannedStatement(coordinator, statement, schemaVersion);
    if (planned.kind !== "write" && planned.kind !== "batch")
      throw new ConcordError("CQL_UNSUPPORTED", "Execute takes INSERT, UPDATE or DELETE");
    const conditions = conditionsOfPlan(planned, catalogue);
    return { writes: writesOfPlan(planned, catalogue), conditions: conditions.length === 0 ? undefined : conditions };
  }
  checkCount(writes.length, 1, WRITES_MAX, "writes");
  const catalogue = await catalogueFor(coordinator, tablesOfWrites(writes), schemaVersion);
  return { writes: checkedWrites(writes, catalogue), conditions: undefined };
}

async function conditionalWork(coordinator: Context, { conditions, writes }: ConditionalWrites, schemaVersion: bigint): Promise<Work> {
  checkCount(conditions.length, 1, WRITES_MAX, "conditions");
  checkCount(writes.length, 0, WRITES_MAX, "writes");
  const tables = [...tablesOfConditions(conditions), ...tablesOfWrites(writes)];
  const catalogue = await catalogueFor(coordinator, tables, schemaVersion);
  return { writes: checkedWrites(writes, catalogue), conditions: checkedConditions(conditions, catalogue) };
}
