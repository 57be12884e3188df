import type { TransactionService, ReadRequest, RowResultInit } from "@concord/protos-txn";
import { malformed, rangeFromWire, rowToWire } from "@concord/rows-wire";
import type { AnswerOf, Handler } from "@concord/rpc";
import { queryFingerprint, tableOf, validateRange } from "@concord/schema";
import type { TransactionOperations } from "@concord/transactions";
import { READ_KEYS_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedKey, checkedLimit, readLockFromWire, rowResult, tablesOfKeys, userTable } from "./wire.ts";

type RangeAnswer = Omit<AnswerOf<TransactionService, "Read">, "rows">;
const NO_RANGE: RangeAnswer = { rangeRows: undefined, nextPageToken: undefined };

export function readHandler(coordinator: Context): Handler<TransactionService, "Read"> {
  return async (request, context) =>
    inTransaction(coordinator, callFromWire(request.operation, context, coordinator), async (operations) => {
      if (request.keys.length === 0 && request.range === null) throw malformed("neither keys nor a range are given");
      if (request.lock === "READ_LOCK_NEXT") throw malformed("READ_LOCK_NEXT is for Query");
      const rows = request.keys.length === 0 ? [] : await readKeys(coordinator, request, operations);
      const range = request.range === null ? NO_RANGE : await readRange(coordinator, request, operations);
      return { rows, ...range };
    });
}

async function readKeys(coordinator: Context, request: ReadRequest, operations: TransactionOperations): Promise<RowResultInit[]> {
  checkCount(request.keys.length, 1, READ_KEYS_MAX, "keys");
  const catalogue = await catalogueFor(coordinator, tablesOfKeys(request.keys));
  const rows = await operations.read(
    request.keys.map((key) => checkedKey(key, catalogue)),
    readLockFromWire(request.lock),
  );
  return rows.map(rowResult);
}

async function readRange(coordinator: Context, request: ReadRequest, operations: TransactionOperations): Promise<RangeAnswer> {
  const asked = rangeFromWire(request.range, checkedLimit(request.limit));
  const catalogue = await catalogueFor(coordinator, [userTable(asked.table)]);
  const query = queryFingerprint([asked]);
  const position = coordinator.pageTokens.read(query, request.pageToken);
  const range = validateRange(tableOf(catalogue, asked.table), position === undefined ? asked : { ...asked, after: position.after });
  const { rows, next } = await operations.readRange(range);
  const token = coordinator.pageTokens.issue(query, next === undefined ? undefined : { after: next, remaining: undefined });
  return { rangeRows: rows.map((row) => rowToWire(row)), nextPageToken: token };
}
