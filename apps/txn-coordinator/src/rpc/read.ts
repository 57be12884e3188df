import { malformed, rangeFromWire, rowToWire, type WireRowKey, type WireRowRange } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import { queryFingerprint, tableOf, validateRange } from "@concord/schema";
import type { TransactionOperations } from "@concord/transactions";
import { READ_KEYS_MAX } from "../limits.ts";
import type { Parts } from "../parts.ts";
import { catalogueFor, inTransaction } from "./in-transaction.ts";
import { callFromWire, checkCount, checkedKey, checkedLimit, rowResult, tablesOfKeys, userTable, type WireOperation } from "./wire.ts";

interface ReadRequest {
  readonly operation: WireOperation | null;
  readonly keys: readonly WireRowKey[];
  readonly range: WireRowRange | null;
  readonly limit: number;
  readonly pageToken: Uint8Array;
}

export function readHandler(parts: Parts): UnaryHandler {
  return async (request: ReadRequest, context) =>
    inTransaction(parts, callFromWire(request.operation, context, parts), async (operations) => {
      if (request.keys.length === 0 && request.range === null) throw malformed("neither keys nor a range are given");
      const rows = request.keys.length === 0 ? [] : await readKeys(parts, request, operations);
      const range = request.range === null ? {} : await readRange(parts, request, operations);
      return { rows, ...range };
    });
}

async function readKeys(parts: Parts, request: ReadRequest, operations: TransactionOperations): Promise<object[]> {
  checkCount(request.keys.length, 1, READ_KEYS_MAX, "keys");
  const catalogue = await catalogueFor(parts, tablesOfKeys(request.keys));
  const rows = await operations.read(request.keys.map((key) => checkedKey(key, catalogue)));
  return rows.map(rowResult);
}

async function readRange(parts: Parts, request: ReadRequest, operations: TransactionOperations): Promise<object> {
  const asked = rangeFromWire(request.range, checkedLimit(request.limit));
  const catalogue = await catalogueFor(parts, [userTable(asked.table)]);
  const query = queryFingerprint([asked]);
  const position = parts.pageTokens.read(query, request.pageToken);
  const range = validateRange(tableOf(catalogue, asked.table), position === undefined ? asked : { ...asked, after: position.after });
  const { rows, next } = await operations.readRange(range);
  const token = parts.pageTokens.issue(query, next === undefined ? undefined : { after: next, remaining: undefined });
  return { rangeRows: rows.map((row) => rowToWire(row)), nextPageToken: token };
}
