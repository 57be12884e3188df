import { malformed, type WireRowWrite } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { TableWrite } from "@concord/transactions";
import { WRITES_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { catalogueFor } from "./in-transaction.ts";
import { plannedStatement, writesOfPlan } from "./query.ts";
import { checkCount, checkedWrites, idFromWire, tablesOfWrites, tokenToWire, type WireStatement } from "./wire.ts";

interface ExecuteRequest {
  readonly transactionId: Uint8Array;
  readonly writes: readonly WireRowWrite[];
  readonly statement: WireStatement | null;
  readonly groupMapVersion: bigint;
  readonly schemaVersion: bigint;
}

/** A one-statement transaction (TX8): how a transactional table is written from outside. */
export function executeHandler(parts: Parts): UnaryHandler {
  return async (request: ExecuteRequest, context) => {
    const id = idFromWire(request.transactionId);
    const writes = await writesOf(parts, request);
    const group = parts.groups.groupOf(writes[0]!.write.key, request.groupMapVersion);
    return { token: tokenToWire(await group.execute(id, writes, context.deadlineAtMs)) };
  };
}

async function writesOf(parts: Parts, request: ExecuteRequest): Promise<readonly TableWrite[]> {
  if (request.statement !== null) {
    if (request.writes.length > 0) throw malformed("either writes or a statement are given, not both");
    const { planned, catalogue } = await plannedStatement(parts, request.statement, request.schemaVersion);
    if (planned.kind !== "write" && planned.kind !== "batch")
      throw new ConcordError("CQL_UNSUPPORTED", "Execute takes INSERT, UPDATE or DELETE");
    return writesOfPlan(planned, catalogue);
  }
  checkCount(request.writes.length, 1, WRITES_MAX, "writes");
  return checkedWrites(request.writes, await catalogueFor(parts, tablesOfWrites(request.writes), request.schemaVersion));
}
