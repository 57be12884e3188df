import type { TransactionService, CommitRequest } from "@concord/protos-txn";
import type { AnswerOf, Handler } from "@concord/rpc";
import type { RowKey } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { groupIdOf, type SchemaCatalogue } from "@concord/schema";
import type { CommitOptions, CommitToken, OperationCall, TableWrite, TransactionGroup, WritesOf } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor } from "./in-transaction.ts";
import {
  callFromWire,
  checkCount,
  checkedKey,
  checkedWrites,
  tablesOfKeys,
  tablesOfWrites,
  tokenToWire,
  type CallFromWire,
} from "./wire.ts";

/** Commit (TX6, TX27). OUTCOME_UNKNOWN: ask ResolveOutcome. NOT_MASTER, when it has a key: repeat it at the coordinator that is named. */
export function commitHandler(coordinator: Context): Handler<TransactionService, "Commit"> {
  return (request, context) => {
    const call = callFromWire(request.operation, context, coordinator);
    const work = (): CommitToken | Promise<CommitToken> => commit(coordinator, call, request);
    const opening = coordinator.groups.whenOpen(call.id);
    const answer = opening === undefined ? work() : opening.then(work);
    return answer instanceof Promise ? answer.then(answerToWire) : answerToWire(answer);
  };
}

function answerToWire(token: CommitToken): AnswerOf<TransactionService, "Commit"> {
  return { token: tokenToWire(token), flushSize: token.flushSize };
}

/** The last writes; a key is checked when there is one, for a wrong one would send a repeat to a group that never had the transaction. */
function writesOf(coordinator: Context, { writes, key }: CommitRequest, group: TransactionGroup | undefined): ReturnType<WritesOf> {
  checkCount(writes.length, 0, WRITES_MAX, "writes");
  if (writes.length === 0 && key === null) return [];
  const keys = key === null ? [] : tablesOfKeys([key]);
  const checked = (catalogue: SchemaCatalogue): readonly TableWrite[] => {
    if (key !== null && group !== undefined) requireSameGroup(coordinator, checkedKey(key, catalogue), group.group);
    return checkedWrites(writes, catalogue);
  };
  const catalogue = catalogueFor(coordinator, [...tablesOfWrites(writes), ...keys]);
  return catalogue instanceof Promise ? catalogue.then(checked) : checked(catalogue);
}

function requireSameGroup({ groups }: Context, key: RowKey, group: string): void {
  const own = groupIdOf(groups.map, key);
  if (own === group) return;
  throw new ConcordError("GROUP_MISMATCH", `the key is of group ${own}, the transaction of group ${group}: name a row of the transaction`, {
    metadata: { table: key.table, group },
  });
}

function commit(coordinator: Context, call: CallFromWire, request: CommitRequest): CommitToken | Promise<CommitToken> {
  const options: CommitOptions = { maxDelayMs: request.maxCommitDelayMs, freesSpace: request.freesSpace };
  const group = coordinator.groups.groupOfTransaction(call.id, call.owner.identity);
  const writes: WritesOf = () => writesOf(coordinator, request, group);
  if (group !== undefined) return group.serving("unknown").commit(call, writes, options);
  return request.key === null ? commitAnywhere(coordinator, call, writes, options) : commitByKey(coordinator, call, request, options);
}

/** Commits a transaction that is not open here: its key names the group. Another coordinator may have committed it already, so no refusal says that nothing was applied. */
async function commitByKey(
  coordinator: Context,
  call: OperationCall,
  request: CommitRequest,
  options: CommitOptions,
): Promise<CommitToken> {
  const key = checkedKey(request.key, await catalogueFor(coordinator, tablesOfKeys([request.key])));
  const group = coordinator.groups.groupOf(key, 0n, "unknown");
  return group.serving("unknown").commit(call, () => writesOf(coordinator, request, group), options);
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
