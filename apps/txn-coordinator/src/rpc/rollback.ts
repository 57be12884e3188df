import { timeIdFromBytes } from "@concord/runtime";
import type { TransactionService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import { required } from "@concord/rows-wire";
import type { Context } from "../context.ts";
import { comparedIdentity } from "./wire.ts";

/** Rollback. Idempotent: an unknown id counts as rolled back. */
export function rollbackHandler(coordinator: Context): Handler<TransactionService, "Rollback"> {
  return async (request, context) => {
    const id = timeIdFromBytes(required(request.operation, "operation").transactionId);
    const identity = comparedIdentity(context);
    coordinator.groups.queued.withdraw(id, identity);
    const opening = coordinator.groups.whenOpen(id);
    if (opening !== undefined) await opening;
    coordinator.groups.groupOfTransaction(id, context.owner.identity)?.serving().rollback(id, identity);
    return {};
  };
}
