import type { WireRowKey } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { LOCK_KEYS_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedKey, modeFromWire, rowResult, tablesOfKeys, type WireOperation } from "./wire.ts";

interface LockRequest {
  readonly operation: WireOperation | null;
  readonly keys: readonly WireRowKey[];
  readonly mode: string;
  readonly skipRead: boolean;
}

export function lockHandler(parts: Parts): UnaryHandler {
  return async (request: LockRequest, context) => {
    const rows = await inTransaction(parts, callFromWire(request.operation, context, parts), async (operations) => {
      checkCount(request.keys.length, 1, LOCK_KEYS_MAX, "keys");
      const catalogue = await catalogueFor(parts, tablesOfKeys(request.keys));
      const keys = request.keys.map((key) => checkedKey(key, catalogue));
      return operations.lock(keys, modeFromWire(request.mode), request.skipRead ? "skip" : "read");
    });
    return { rows: rows.map(rowResult) };
  };
}
