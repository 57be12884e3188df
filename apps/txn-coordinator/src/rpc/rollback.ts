import type { UnaryHandler } from "@concord/rpc";
import { required } from "@concord/rows-wire";
import type { Parts } from "../parts.ts";
import { idFromWire, type WireOperation } from "./wire.ts";

/** Rollback. Idempotent: an id nobody knows is rolled back already. */
export function rollbackHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly operation: WireOperation | null }) => {
    const id = idFromWire(required(request.operation, "operation").transactionId);
    const opening = parts.groups.whenOpen(id);
    if (opening !== undefined) await opening;
    parts.groups.groupOfTransaction(id)?.rollback(id);
    return {};
  };
}
