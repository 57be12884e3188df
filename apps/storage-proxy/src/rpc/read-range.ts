import type { ReadRangeRequest, RowsService } from "@concord/protos-storage";
import type { ReadOptions, RowRange } from "@concord/ports";
import { liveRow } from "@concord/rows";
import type { HandlerContext, Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { queryFingerprint, tableOf, validateRange, type SchemaCatalogue } from "@concord/schema";
import type { Serving } from "../context.ts";
import { checkAnswer } from "./answer-rows.ts";
import { readBudget } from "./budget.ts";
import { positionsFromWire } from "./numbers.ts";
import { checkedPageSize, checkImagesRole, checkKeyShape, isCoordinator } from "./checks.ts";
import { readPageAtOnce } from "../rows/atomic-reads.ts";
import { imageToWire, rangeFromWire, rowToWire } from "@concord/rows-wire";

/** One page of one partition in clustering order: at quorum, or as one state of its group (TXD5). */
export function readRangeHandler(serving: Serving): Handler<RowsService, "ReadRange"> {
  return async (request, context) => {
    const { config, clock, pageTokens } = serving();
    checkImagesRole(request.images, context);
    const isAtomic = request.mode === "READ_MODE_ATOMIC";
    if (isAtomic && request.pageToken.length > 0) throw noPagesAtOnce();
    const asked = rangeFromWire(request.range, checkedPageSize(request.pageSize));
    const { range, catalogue } = await checkedRange(serving, request, asked, context);
    const query = queryFingerprint([range]);
    const position = pageTokens.read(query, request.pageToken);
    const options: ReadOptions = {
      ...readBudget(context, clock, config.readTimeoutMs),
      after: positionsFromWire(request.after),
    };
    const page = isAtomic
      ? await readPageAtOnce(serving(), catalogue!, range, options)
      : await serving().rows.readRange(position === undefined ? range : { ...range, after: position.after }, options);
    const token = pageTokens.issue(query, page.next === undefined ? undefined : { after: page.next, remaining: undefined });
    if (request.images) return { rows: [], images: page.rows.map(imageToWire), nextPageToken: token };
    const rows = page.rows.map((image) => liveRow(image)!);
    checkAnswer(rows);
    return { rows: rows.map((row) => rowToWire(row)), images: [], nextPageToken: token };
  };
}

/** Coordinators read any table at quorum; what others ask for is checked against the schema. */
async function checkedRange(
  serving: Serving,
  request: ReadRangeRequest,
  range: RowRange,
  context: HandlerContext,
): Promise<{ readonly range: RowRange; readonly catalogue: SchemaCatalogue | undefined }> {
  if (isCoordinator(context) && request.mode !== "READ_MODE_ATOMIC") {
    for (const prefix of [range.lower?.prefix, range.upper?.prefix]) checkKeyShape({ ...range, clustering: prefix ?? [] });
    return { range, catalogue: undefined };
  }
  const catalogue = await serving().schema.having([range.table], request.schemaVersion);
  return { range: validateRange(tableOf(catalogue, range.table), range), catalogue };
}

/** The state of the page before may be gone. */
function noPagesAtOnce(): ConcordError {
  const text = "read mode ATOMIC answers one page: ask for at most page_size rows, go on with mode FAST, or use a transaction";
  return new ConcordError("MALFORMED_REQUEST", text, { metadata: { field: "page_token" } });
}
