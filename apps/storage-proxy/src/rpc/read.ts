import type { ReadRequest, RowsService } from "@concord/protos-storage";
import type { ReadOptions, RowImage } from "@concord/ports";
import { liveRow } from "@concord/rows";
import type { HandlerContext, Handler } from "@concord/rpc";
import { tableOf, validateKey } from "@concord/schema";
import { READ_KEYS_MAX } from "../limits.ts";
import type { Serving } from "../context.ts";
import { readBudget } from "./budget.ts";
import { positionsFromWire } from "./numbers.ts";
import { checkAnswer } from "./answer-rows.ts";
import { checkCount, checkImagesRole, checkKeyShape, isCoordinator } from "./checks.ts";
import { readAtOnce } from "../rows/atomic-reads.ts";
import { imageToWire, keyFromWire, rowToWire } from "@concord/rows-wire";

/** Rows by full primary key: at quorum, or as one state of their group (TXD5). */
export function readHandler(serving: Serving): Handler<RowsService, "Read"> {
  return async (request, context) => {
    const { config, clock } = serving();
    checkCount(request.keys.length, READ_KEYS_MAX, "READ_KEYS_MAX", "keys");
    checkImagesRole(request.images, context);
    const images = await imagesOf(serving, request, context, (): ReadOptions => {
      return { ...readBudget(context, clock, config.readTimeoutMs), after: positionsFromWire(request.after) };
    });
    if (!request.images) checkAnswer(images.map(liveRow));
    return {
      results: images.map((image) => {
        if (request.images) return image === undefined ? {} : { image: imageToWire(image) };
        const row = liveRow(image);
        return row === undefined ? {} : { row: rowToWire(row) };
      }),
    };
  };
}

/** Coordinators read any table at quorum; what others ask for is checked against the schema. `options` are made once the schema is known. */
async function imagesOf(
  serving: Serving,
  request: ReadRequest,
  context: HandlerContext,
  options: () => ReadOptions,
): Promise<(RowImage | undefined)[]> {
  const keys = request.keys.map(keyFromWire);
  const isAtomic = request.mode === "READ_MODE_ATOMIC";
  if (isCoordinator(context) && !isAtomic) return serving().rows.read(keys.map(checkKeyShape), options());
  const catalogue = await serving().schema.having([...new Set(keys.map((key) => key.table))], request.schemaVersion);
  const checked = keys.map((key) => validateKey(tableOf(catalogue, key.table), key));
  return isAtomic ? readAtOnce(serving(), catalogue, checked, options()) : serving().rows.read(checked, options());
}
