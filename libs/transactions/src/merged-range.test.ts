import type { RowImage, RowKey, RowRange } from "@concord/ports";
import { emptyImage, imageOf } from "@concord/rows";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellValue } from "@concord/values";
import { timestampUsOf } from "@concord/runtime";
import { readMergedRange } from "./merged-range.ts";

const text = (value: string): CellValue => ({ kind: "text", value });
const keyOf = (name: string): RowKey => ({ table: "names", partition: [text("p")], clustering: [text(name)] });
const row = (name: string): RowImage => imageOf({ kind: "insert", key: keyOf(name), columns: [], timestampUs: timestampUsOf(5n) });

test("[TX28] range: stored and pending names beyond the basic plane: no row is passed over", async () => {
  const stored = ["！a", "😀b"].map(row);
  const readPage = (range: RowRange): Promise<{ rows: RowImage[]; next: readonly CellValue[] | undefined }> => {
    const names = stored.map((image) => (image.key.clustering[0] as { value: string }).value);
    const after = range.after === undefined ? -1 : names.findLastIndex((name) => Buffer.compare(Buffer.from(name), afterBytes(range)) <= 0);
    const page = stored.slice(after + 1, after + 1 + range.limit);
    return Promise.resolve({ rows: page, next: after + 1 + page.length < stored.length ? page.at(-1)!.key.clustering : undefined });
  };
  const afterBytes = (range: RowRange): Buffer => Buffer.from((range.after![0] as { value: string }).value);
  const found: string[] = [];
  let after: RowRange["after"];
  do {
    const range: RowRange = { table: "names", partition: [text("p")], reverse: false, limit: 1, ...(after === undefined ? {} : { after }) };
    const pending = after === undefined || Buffer.compare(Buffer.from("😀c"), afterBytes(range)) > 0 ? ["😀c"] : [];
    const changes = pending.map((name) => ({ text: name, image: { ...emptyImage(keyOf(name)), markerUs: timestampUsOf(9n) } }));
    const page = await readMergedRange(range, changes, readPage);
    for (const image of page.rows) found.push((image.key.clustering[0] as { value: string }).value);
    after = page.next;
  } while (after !== undefined && found.length < 5);
  assert.deepEqual(found, ["！a", "😀b", "😀c"]);
});
