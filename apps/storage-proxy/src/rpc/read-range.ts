import type { ReadRangeRequest, RowsService } from "@concord/protos-storage";
import type { RowRange } from "@concord/ports";
import { liveRow } from "@concord/rows";
import type { HandlerContext, Handler } from "@concord/rpc";
import { queryFingerprint, tableOf, validateRange } from "@concord/schema";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { positionsFromWire } from "./numbers.ts";
import { checkedPageSize, checkImagesRole, checkKeyShape, checkReadMode, isCoordinator } from "./checks.ts";
import { imageToWire, rangeFromWire, rowToWire } from "@concord/rows-wire";

/** One page of one partition in clustering order at quorum. */
export function readRangeHandler(serving: Serving): Handler<RowsService, "ReadRange"> {
  return async (request, context) => {
    const { rows, config, clock, pageTokens } = serving();
    checkReadMode(request.mode);
    checkImagesRole(request.images, context);
    const range = await checkedRange(serving, request, context);
    const query = queryFingerprint([range]);
    const position = pageTokens.read(query, request.pageToken);
    const timeoutMs = budgetMs(context, clock, config.readTimeoutMs);
    const page = await rows.readRange(position === undefined ? range : { ...range, after: position.after }, {
      timeoutMs,
      after: positionsFromWire(request.after),
    });
    const token = pageTokens.issue(query, page.next === undefined ? undefined : { after: page.next, remaining: undefined });
    if (request.images) return { rows: [], images: page.rows.map(imageToWire), nextPageToken: token };
    return { rows: page.rows.map((image) => rowToWire(liveRow(image)!)), images: [], nextPageToken: token };
  };
}

async function checkedRange(serving: Serving, request: ReadRangeRequest, context: HandlerContext): Promise<RowRange> {
  const range = rangeFromWire(request.range, checkedPageSize(request.pageSize));
  if (isCoordinator(context)) {
    for (const prefix of [range.lower?.prefix, range.upper?.prefix]) checkKeyShape({ ...range, clustering: prefix ?? [] });
    return range;
  }
  const catalogue = await serving().schema.having([range.table], request.schemaVersion);
  return validateRange(tableOf(catalogue, range.table), range);
}
