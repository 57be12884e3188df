// Stored rows on disk: golden bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowImage } from "@concord/ports";
import { encodeImage, encodeRowKey, encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { seqOf, timestampUsOf, toHex } from "@concord/runtime";
import { imageOfStored, keyOfStored, openRow, rowsOfEntry, storedRowKey } from "./stored-row.ts";
import { checksum } from "./test/ring.ts";

const row = (name: string, value: string): RowImage =>
  imageOf({
    kind: "insert",
    key: { table: "t", partition: [{ kind: "text", value: name }], clustering: [] },
    columns: [{ column: "v", value: { kind: "text", value } }],
    timestampUs: timestampUsOf(5n),
  });

test("rows of an entry: as version 2 lies on disk: golden bytes", () => {
  const operations = rowsOfEntry("g", { seq: seqOf(7n), rows: joinRows([encodeRowsPart([row("p", "x"), row("q", "yy")])]) }, checksum);
  const written = operations.map((operation) => {
    assert.ok(operation.kind === "put");
    return `${toHex(operation.key)} ${toHex(operation.value)}`;
  });
  assert.deepEqual(written, [
    "727400010370000100 02aeaca2a901670000000000000007087400010370000100ffffffffffffffff00000000000000050101760000000000000005030178",
    "727400010371000100 0280bc092b01670000000000000007087400010371000100ffffffffffffffff0000000000000005010176000000000000000503027979",
  ]);
});

test("[TX6] [TXD14] rows of an entry: three rows, small and large: every row is put whole, none is left out", () => {
  for (const bytes of [10, 20_000, 100_000, 900_000]) {
    const images = ["p", "q", "r"].map((name) => row(name, name.repeat(bytes / 3)));
    const operations = rowsOfEntry("group", { seq: seqOf(9n), rows: joinRows([encodeRowsPart(images)]) }, checksum);
    assert.equal(operations.length, 3, `${bytes} bytes`);
    for (const [at, operation] of operations.entries()) {
      assert.ok(operation.kind === "put");
      assert.deepEqual(operation.key, storedRowKey(encodeRowKey(images[at]!.key)), `key ${at} of ${bytes} bytes`);
      assert.deepEqual(openRow(operation.value, checksum).image, encodeImage(images[at]!), `row ${at} of ${bytes} bytes`);
    }
  }
});

test("rows of an entry: each opens as the row it is, with its place", () => {
  const images = [row("p", "x"), row("q", ""), row("r", "z".repeat(5_000))];
  const operations = rowsOfEntry("group", { seq: seqOf(9n), rows: joinRows([encodeRowsPart(images)]) }, checksum);
  assert.equal(operations.length, images.length);
  for (const [at, operation] of operations.entries()) {
    assert.ok(operation.kind === "put");
    const key = encodeRowKey({ table: "t", partition: [{ kind: "text", value: "pqr"[at]! }], clustering: [] });
    assert.deepEqual(operation.key, storedRowKey(key));
    const image = encodeImage(images[at]!);
    assert.deepEqual(openRow(operation.value, checksum), { image, place: { group: "group", seq: 9n } });
    assert.deepEqual([imageOfStored(operation.value), keyOfStored(operation.value)], [image, key]);
  }
  assert.deepEqual(rowsOfEntry("g", { seq: seqOf(1n), rows: new Uint8Array() }, checksum), []);
});
