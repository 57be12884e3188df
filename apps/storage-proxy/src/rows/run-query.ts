import { ByteWriter } from "@concord/codec";
import type { ReadOptions, Row, RowRange, RowStore } from "@concord/ports";
import { PAGE_ROW_BYTES_MAX } from "@concord/quorum";
import { columnBytes, liveRow } from "@concord/rows";
import { ConcordError, unreachable } from "@concord/runtime";
import {
  baseKeyOf,
  baseRowOf,
  indexOf,
  type IndexScan,
  keyText,
  type PagePosition,
  type PageTokens,
  queryFingerprint,
  type ReadPlan,
  type SchemaCatalogue,
  tableOf,
} from "@concord/schema";
import type { CellValue } from "@concord/values";
import { INTERSECTION_ROWS_MAX, PAGE_ROWS_MAX } from "../limits.ts";

export interface ReadContext {
  readonly rows: RowStore;
  readonly catalogue: SchemaCatalogue;
  readonly tokens: PageTokens;
  readonly pageSize: number;
  readonly pageToken: Uint8Array;
  /** Options of each read of rows. */
  readonly options: ReadOptions;
}

export interface ResultPage {
  readonly rows: readonly Row[];
  /** Empty = this was the last. */
  readonly nextPageToken: Uint8Array;
}

const NO_TOKEN = new Uint8Array();

/** Runs a planned read outside transactions (TX8): keys and ranges only, nothing is scanned or filtered (TX22). */
export function runRead(plan: ReadPlan, context: ReadContext): Promise<ResultPage> {
  switch (plan.kind) {
    case "read-rows":
      return readRows(plan, context);
    case "read-range":
      return readRange(plan.range, plan.limit, context, (row) => row);
    case "read-index":
      return plan.scans.length === 1 ? readIndex(plan, plan.scans[0]!, context) : intersect(plan, context);
    default:
      return unreachable(plan);
  }
}

async function readRows(plan: Extract<ReadPlan, { kind: "read-rows" }>, context: ReadContext): Promise<ResultPage> {
  context.tokens.read(fingerprintOfKeys(), context.pageToken);
  const images = await context.rows.read(plan.keys, context.options);
  return { rows: images.map(liveRow).filter((row) => row !== undefined), nextPageToken: NO_TOKEN };
}

/** No token was ever issued for it, so every one is refused. */
function fingerprintOfKeys(): Uint8Array {
  return new ByteWriter().text("rows by key have one page").finish();
}

/** The index table holds a copy of the row (TX20). */
function readIndex(plan: Extract<ReadPlan, { kind: "read-index" }>, scan: IndexScan, context: ReadContext): Promise<ResultPage> {
  const definition = tableOf(context.catalogue, plan.table);
  const index = indexOf(definition, scan.index.name);
  return readRange(scan.range, plan.limit, context, (row) => baseRowOf(definition, index, row));
}

async function readRange(range: RowRange, limit: number | undefined, context: ReadContext, toRow: (row: Row) => Row): Promise<ResultPage> {
  const query = queryFingerprint([range]);
  const position = context.tokens.read(query, context.pageToken);
  const remaining = position === undefined ? limit : position.remaining;
  const wanted = Math.min(context.pageSize, remaining ?? PAGE_ROWS_MAX);
  if (wanted === 0) return { rows: [], nextPageToken: NO_TOKEN };
  const page = await context.rows.readRange({ ...range, limit: wanted, ...afterOf(position) }, context.options);
  const rows = page.rows.map((image) => toRow(liveRow(image)!));
  const left = remaining === undefined ? undefined : remaining - rows.length;
  if (page.next === undefined || left === 0) return { rows, nextPageToken: NO_TOKEN };
  return { rows, nextPageToken: context.tokens.issue(query, { after: page.next, remaining: left }) };
}

/**
 * Rows that every scan finds, in the order of the first (TX28): one row or PAGE_ROW_BYTES_MAX at most. The other scans are read whole, page after page of
 * the first filtered.
 */
async function intersect(plan: Extract<ReadPlan, { kind: "read-index" }>, context: ReadContext): Promise<ResultPage> {
  const definition = tableOf(context.catalogue, plan.table);
  const [first, ...others] = plan.scans;
  const found = await Promise.all(others.map((scan) => keysOfScan(plan.table, scan, context)));
  const query = queryFingerprint(plan.scans.map((scan) => scan.range));
  const position = context.tokens.read(query, context.pageToken);
  const remaining = position === undefined ? plan.limit : position.remaining;
  const wanted = Math.min(context.pageSize, remaining ?? PAGE_ROWS_MAX);
  const index = indexOf(definition, first!.index.name);
  const rows: Row[] = [];
  let bytes = 0;
  let after = position?.after;
  const pageSoFar = (): ResultPage => {
    const left = remaining === undefined ? undefined : remaining - rows.length;
    if (after === undefined || left === 0) return { rows, nextPageToken: NO_TOKEN };
    return { rows, nextPageToken: context.tokens.issue(query, { after, remaining: left }) };
  };
  while (rows.length < wanted) {
    const range = { ...first!.range, limit: wanted - rows.length, ...(after === undefined ? {} : { after }) };
    const page = await context.rows.readRange(range, context.options);
    for (const image of page.rows) {
      const row = baseRowOf(definition, index, liveRow(image)!);
      if (found.every((keys) => keys.has(keyText(row.key)))) {
        bytes += columnBytes(row);
        if (rows.length > 0 && bytes > PAGE_ROW_BYTES_MAX) return pageSoFar();
        rows.push(row);
      }
      after = image.key.clustering;
    }
    after = page.next;
    if (after === undefined) break;
  }
  return pageSoFar();
}

async function keysOfScan(table: string, scan: IndexScan, context: ReadContext): Promise<ReadonlySet<string>> {
  const definition = tableOf(context.catalogue, table);
  const index = indexOf(definition, scan.index.name);
  const keys = new Set<string>();
  let position: PagePosition | undefined;
  for (;;) {
    const range = { ...scan.range, limit: PAGE_ROWS_MAX, ...afterOf(position) };
    const page = await context.rows.readRange(range, context.options);
    for (const image of page.rows) keys.add(keyText(baseKeyOf(definition, index, image.key)));
    if (keys.size > INTERSECTION_ROWS_MAX) {
      const metadata = { limit: "INTERSECTION_ROWS_MAX", value: String(INTERSECTION_ROWS_MAX) };
      throw new ConcordError(
        "LIMIT_EXCEEDED",
        `index ${index.name} finds more than ${INTERSECTION_ROWS_MAX} rows to intersect; use one index that serves all conditions`,
        { metadata },
      );
    }
    if (page.next === undefined) return keys;
    position = { after: page.next, remaining: undefined };
  }
}

function afterOf(position: PagePosition | undefined): { readonly after?: readonly CellValue[] } {
  return position === undefined ? {} : { after: position.after };
}
