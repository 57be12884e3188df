import type { TransactionService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import { WRITES_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedWrites, tablesOfWrites } from "./wire.ts";

export function writeHandler(coordinator: Context): Handler<TransactionService, "Write"> {
  return async (request, context) => {
    await inTransaction(coordinator, callFromWire(request.operation, context, coordinator), async (operations) => {
      checkCount(request.writes.length, 1, WRITES_MAX, "writes");
      await operations.write(checkedWrites(request.writes, await catalogueFor(coordinator, tablesOfWrites(request.writes))));
    });
    return {};
  };
}
