import type { WireRowWrite } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { WRITES_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedWrites, tablesOfWrites, type WireOperation } from "./wire.ts";

interface WriteRequest {
  readonly operation: WireOperation | null;
  readonly writes: readonly WireRowWrite[];
}

export function writeHandler(parts: Parts): UnaryHandler {
  return async (request: WriteRequest, context) => {
    await inTransaction(parts, callFromWire(request.operation, context, parts), async (operations) => {
      checkCount(request.writes.length, 1, WRITES_MAX, "writes");
      await operations.write(checkedWrites(request.writes, await catalogueFor(parts, tablesOfWrites(request.writes))));
    });
    return {};
  };
}
