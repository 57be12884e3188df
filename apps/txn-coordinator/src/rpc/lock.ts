import type { TransactionService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import { LOCK_KEYS_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedKey, modeFromWire, rowResult, tablesOfKeys } from "./wire.ts";

export function lockHandler(coordinator: Context): Handler<TransactionService, "Lock"> {
  return async (request, context) => {
    const rows = await inTransaction(coordinator, callFromWire(request.operation, context, coordinator), async (operations) => {
      checkCount(request.keys.length, 1, LOCK_KEYS_MAX, "keys");
      const catalogue = await catalogueFor(coordinator, tablesOfKeys(request.keys));
      const keys = request.keys.map((key) => checkedKey(key, catalogue));
      return operations.lock(keys, modeFromWire(request.mode), request.skipRead ? "skip" : "read");
    });
    return { rows: rows.map(rowResult) };
  };
}
