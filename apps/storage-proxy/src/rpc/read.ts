import type { ReadRequest, RowsService } from "@concord/protos-storage";
import type { RowKey } from "@concord/ports";
import { liveRow } from "@concord/rows";
import type { HandlerContext, Handler } from "@concord/rpc";
import { tableOf, validateKey } from "@concord/schema";
import { READ_KEYS_MAX } from "../limits.ts";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { positionsFromWire } from "./numbers.ts";
import { checkCount, checkImagesRole, checkKeyShape, checkReadMode, isCoordinator } from "./checks.ts";
import { imageToWire, keyFromWire, rowToWire } from "@concord/rows-wire";

/** Rows by full primary key at quorum. */
export function readHandler(serving: Serving): Handler<RowsService, "Read"> {
  return async (request, context) => {
    const { rows, config, clock } = serving();
    checkCount(request.keys.length, READ_KEYS_MAX, "READ_KEYS_MAX", "keys");
    checkReadMode(request.mode);
    checkImagesRole(request.images, context);
    const keys = await checkedKeys(serving, request, context);
    const after = positionsFromWire(request.after);
    const images = await rows.read(keys, { timeoutMs: budgetMs(context, clock, config.readTimeoutMs), after });
    return {
      results: images.map((image) => {
        if (request.images) return image === undefined ? {} : { image: imageToWire(image) };
        const row = liveRow(image);
        return row === undefined ? {} : { row: rowToWire(row) };
      }),
    };
  };
}

/** Coordinators read any table; what others ask for is checked against the schema. */
async function checkedKeys(serving: Serving, request: ReadRequest, context: HandlerContext): Promise<readonly RowKey[]> {
  const keys = request.keys.map(keyFromWire);
  if (isCoordinator(context)) return keys.map(checkKeyShape);
  const catalogue = await serving().schema.having([...new Set(keys.map((key) => key.table))], request.schemaVersion);
  return keys.map((key) => validateKey(tableOf(catalogue, key.table), key));
}
