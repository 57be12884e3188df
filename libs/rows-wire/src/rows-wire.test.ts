// Messages there and back; what does not fit is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation } from "@concord/ports";
import { imageOf } from "@concord/rows";
import fc from "fast-check";
import type { CellValue as WireCellValue, CellValueInit } from "@concord/protos-common";
import type { RowImage as WireRowImage } from "@concord/protos-storage";
import { catalogueOf, definitionFromJson } from "@concord/schema";
import { cellFromWire, cellToWire } from "@concord/values";
import { anyValue } from "@concord/values/testing";
import { timestampUsOf } from "@concord/runtime";
import { imageFromWire, imageToWire, mutationFromWire, schemaToWire, writeFromWire } from "./index.ts";

/** As a oneof is decoded: `kind` names the field that is set. */
const received = (wire: CellValueInit): WireCellValue => ({ ...wire, kind: Object.keys(wire)[0]! }) as WireCellValue;

test("cells: every value survives the way there and back; what has no kind is refused", () => {
  const value = fc.oneof(fc.constant(null), anyValue);
  fc.assert(
    fc.property(value, (cell) => {
      const wire = cellToWire(cell);
      assert.deepEqual(cellFromWire(received(wire)), cell);
    }),
    { seed: 7, numRuns: 200 },
  );
  assert.throws(() => cellFromWire({}), { code: "MALFORMED_REQUEST" });
  assert.throws(() => cellFromWire({ kind: "uuidValue", uuidValue: new Uint8Array(3) }), { code: "MALFORMED_REQUEST" });
  assert.throws(() => cellFromWire({ kind: "intValue", intValue: 2 ** 40 }), { code: "MALFORMED_REQUEST" });
});

test("writes: kinds by name; a write without one, a delete with columns or a mutation without timestamp: refused", () => {
  const key = { table: "t", partition: [received({ bigintValue: 1n })], clustering: [] };
  const columns = [{ name: "a", value: received({ intValue: 5 }) }];
  const written = writeFromWire({ kind: "WRITE_KIND_UPDATE", key, columns });
  assert.deepEqual([written.kind, written.table, written.columns], ["update", "t", [{ column: "a", value: { kind: "int", value: 5 } }]]);
  assert.throws(() => writeFromWire({ kind: "WRITE_KIND_UNSPECIFIED", key, columns }), /write.kind is missing/);
  const remove = { kind: "WRITE_KIND_DELETE" as const, key, columns: [] };
  assert.equal(mutationFromWire({ write: remove, timestampUs: 7n }).kind, "delete");
  assert.throws(() => mutationFromWire({ write: { ...remove, columns }, timestampUs: 7n }), /a delete has columns/);
  assert.throws(() => mutationFromWire({ write: remove, timestampUs: 0n }), /no timestamp/);
  const isNew = { kind: "WRITE_KIND_INSERT_NEW" as const, key, columns };
  assert.equal(writeFromWire(isNew).kind, "insert-new");
  assert.throws(() => mutationFromWire({ write: isNew, timestampUs: 7n }), /a mutation has a condition/);
});

test("images: tombstones, timestamps and markers survive; blobs share nothing with the frame", () => {
  const key = { table: "t", partition: [{ kind: "bigint" as const, value: 1n }], clustering: [] };
  const insert: Mutation = { kind: "insert", key, columns: [{ column: "a", value: null }], timestampUs: timestampUsOf(9n) };
  const wire = imageToWire(imageOf(insert));
  const there = {
    ...wire,
    key: { ...wire.key!, partition: wire.key!.partition!.map(received) },
    cells: wire.cells!.map((cell) => ({ ...cell, value: received(cell.value!) })),
  } as WireRowImage;
  assert.deepEqual(imageFromWire(there), imageOf(insert));
  const frame = Uint8Array.of(1, 2, 3);
  const blob = cellFromWire({ kind: "blobValue", blobValue: frame.subarray(1) });
  frame.fill(0);
  assert.deepEqual(blob, { kind: "blob", value: Uint8Array.of(2, 3) });
});

test("images, mutations: a negative timestamp: MALFORMED_REQUEST", () => {
  const key = { table: "t", partition: [received({ bigintValue: 1n })], clustering: [] };
  const wire: WireRowImage = { key, deletedAtUs: 0n, markerUs: 0n, cells: [] };
  assert.equal(imageFromWire(wire).markerUs, undefined);
  const write = { kind: "WRITE_KIND_DELETE" as const, key, columns: [] };
  assert.throws(() => mutationFromWire({ write, timestampUs: -1n }), { code: "MALFORMED_REQUEST" });
  for (const change of [
    { deletedAtUs: -1n },
    { markerUs: -1n },
    { cells: [{ name: "a", timestampUs: -1n, value: received(cellToWire(null)) }] },
  ]) {
    assert.throws(() => imageFromWire({ ...wire, ...change }), { code: "MALFORMED_REQUEST" });
  }
});

test("schema: a definition: the same in the message and in the deprecated JSON text", () => {
  const json =
    '{"formatVersion":1,"name":"photos","kind":"transactional","columns":[{"name":"owner","type":"bigint"},{"name":"id","type":"uuid"},' +
    '{"name":"state","type":"text"}],"partitionKey":["owner"],"clusteringKey":["id"],"indexes":[{"name":"by_state","columns":["state"]}],"version":"2"}';
  assert.deepEqual(schemaToWire(catalogueOf(7n, [definitionFromJson(json)])), {
    schemaVersion: 7n,
    tables: [json],
    definitions: [
      {
        name: "photos",
        kind: "TABLE_KIND_TRANSACTIONAL",
        columns: [
          { name: "owner", type: "CELL_TYPE_BIGINT" },
          { name: "id", type: "CELL_TYPE_UUID" },
          { name: "state", type: "CELL_TYPE_TEXT" },
        ],
        partitionKey: ["owner"],
        clusteringKey: ["id"],
        indexes: [{ name: "by_state", columns: ["state"] }],
        version: 2n,
      },
    ],
  });
});
