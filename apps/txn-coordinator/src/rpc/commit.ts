import type { TransactionService, CommitRequest } from "@concord/protos-txn";
import type { AnswerOf, Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { CommitOptions, CommitToken, OperationCall, TableWrite, WritesOf } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedWrites, tablesOfWrites, tokenToWire } from "./wire.ts";

/** Commit (TX6, TX27). OUTCOME_UNKNOWN: ask ResolveOutcome. */
export function commitHandler(coordinator: Context): Handler<TransactionService, "Commit"> {
  return (request, context) => {
    const call = callFromWire(request.operation, context, coordinator);
    const work = (): CommitToken | Promise<CommitToken> =>
      commit(coordinator, call, () => writesOf(coordinator, request), {
        maxDelayMs: request.maxCommitDelayMs,
        freesSpace: request.freesSpace,
      });
    const opening = coordinator.groups.whenOpen(call.id);
    const answer = opening === undefined ? work() : opening.then(work);
    return answer instanceof Promise ? answer.then(answerToWire) : answerToWire(answer);
  };
}

function answerToWire(token: CommitToken): AnswerOf<TransactionService, "Commit"> {
  return { token: tokenToWire(token), flushSize: token.flushSize };
}

function writesOf(coordinator: Context, request: CommitRequest): readonly TableWrite[] | Promise<readonly TableWrite[]> {
  checkCount(request.writes.length, 0, WRITES_MAX, "writes");
  if (request.writes.length === 0) return [];
  const catalogue = catalogueFor(coordinator, tablesOfWrites(request.writes));
  if (catalogue instanceof Promise) return catalogue.then((known) => checkedWrites(request.writes, known));
  return checkedWrites(request.writes, catalogue);
}

function commit(coordinator: Context, call: OperationCall, writes: WritesOf, options: CommitOptions): CommitToken | Promise<CommitToken> {
  const group = coordinator.groups.groupOfTransaction(call.id);
  return group === undefined ? commitAnywhere(coordinator, call, writes, options) : group.serving("unknown").commit(call, writes, options);
}

async function commitAnywhere(coordinator: Context, call: OperationCall, writes: WritesOf, options: CommitOptions): Promise<CommitToken> {
  // It ended before this process began, or so long ago that only its outcome row knows: the id does not say in which group.
  for (const own of coordinator.groups.own) {
    try {
      return await own.serving("unknown").commit(call, writes, options);
    } catch (thrown) {
      if (!(thrown instanceof ConcordError) || thrown.code !== "TRANSACTION_UNKNOWN") throw thrown;
    }
  }
  // A master elsewhere may have committed it.
  throw new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here: ask ResolveOutcome with a row of it", {
    applied: "unknown",
  });
}
