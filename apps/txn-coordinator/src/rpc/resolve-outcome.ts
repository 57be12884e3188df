import type { WireRowKey } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { unreachable } from "@concord/runtime";
import type { Parts } from "../parts.ts";
import { catalogueFor } from "./in-transaction.ts";
import { checkedKey, idFromWire, tablesOfKeys, tokenToWire } from "./wire.ts";

interface ResolveOutcomeRequest {
  readonly transactionId: Uint8Array;
  readonly key: WireRowKey | null;
}

/** ResolveOutcome (TXD7). The key is checked against the schema: another type of value would name another group. */
export function resolveOutcomeHandler(parts: Parts): UnaryHandler {
  return async (request: ResolveOutcomeRequest, context) => {
    const id = idFromWire(request.transactionId);
    const key = checkedKey(request.key, await catalogueFor(parts, tablesOfKeys([request.key])));
    const resolved = await parts.groups.groupOf(key, 0n).resolveOutcome(id, context.deadlineAtMs);
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
