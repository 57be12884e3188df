import type { WireRowWrite } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { CommitToken, OperationCall, TableWrite, WritesOf } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { catalogueFor } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedWrites, tablesOfWrites, tokenToWire, type WireOperation } from "./wire.ts";

interface CommitRequest {
  readonly operation: WireOperation | null;
  readonly writes: readonly WireRowWrite[];
  readonly maxCommitDelayMs: number;
}

/** Commit (TX6, TX27). OUTCOME_UNKNOWN: ask ResolveOutcome. */
export function commitHandler(parts: Parts): UnaryHandler {
  return async (request: CommitRequest, context) => {
    const call = callFromWire(request.operation, context, parts);
    const opening = parts.groups.whenOpen(call.id);
    if (opening !== undefined) await opening;
    const token = await commit(parts, call, () => writesOf(parts, request), request.maxCommitDelayMs);
    return { token: tokenToWire(token), flushSize: token.flushSize };
  };
}

function writesOf(parts: Parts, request: CommitRequest): readonly TableWrite[] | Promise<readonly TableWrite[]> {
  checkCount(request.writes.length, 0, WRITES_MAX, "writes");
  if (request.writes.length === 0) return [];
  const catalogue = catalogueFor(parts, tablesOfWrites(request.writes));
  if (catalogue instanceof Promise) return catalogue.then((known) => checkedWrites(request.writes, known));
  return checkedWrites(request.writes, catalogue);
}

async function commit(parts: Parts, call: OperationCall, writes: WritesOf, maxDelayMs: number): Promise<CommitToken> {
  const group = parts.groups.groupOfTransaction(call.id);
  if (group !== undefined) return group.commit(call, writes, maxDelayMs);
  // It ended before this process began, or so long ago that only its outcome row knows: the id does not say in which group.
  for (const own of parts.groups.own) {
    try {
      return await own.commit(call, writes, maxDelayMs);
    } catch (thrown) {
      if (!(thrown instanceof ConcordError) || thrown.code !== "TRANSACTION_UNKNOWN") throw thrown;
    }
  }
  // A master elsewhere may have committed it.
  throw new ConcordError("TRANSACTION_UNKNOWN", "the transaction is not open here: ask ResolveOutcome with a row of it", {
    applied: "unknown",
  });
}
