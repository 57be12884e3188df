import type { TransactionService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import { unreachable, timeIdFromBytes } from "@concord/runtime";
import type { Context } from "../context.ts";
import { catalogueFor } from "./in-transaction.ts";
import { checkedKey, comparedIdentity, tablesOfKeys, tokenToWire } from "./wire.ts";

/** ResolveOutcome (TXD7). The key is checked against the schema: another type of value would name another group. */
export function resolveOutcomeHandler(coordinator: Context): Handler<TransactionService, "ResolveOutcome"> {
  return async (request, context) => {
    const id = timeIdFromBytes(request.transactionId);
    const key = checkedKey(request.key, await catalogueFor(coordinator, tablesOfKeys([request.key])));
    const resolved = await coordinator.groups
      .groupOf(key, 0n)
      .serving()
      .resolveOutcome(id, context.deadlineAtMs, comparedIdentity(context));
    switch (resolved.kind) {
      case "committed":
        return { committed: tokenToWire(resolved.token) };
      case "aborted":
        return { aborted: {} };
      case "expired":
        return { expired: {} };
      default:
        return unreachable(resolved);
    }
  };
}
