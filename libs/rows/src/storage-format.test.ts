// Format version 1 on disk and between nodes: golden bytes, order, round trips, hostile input; and the laws of merging.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteWriter } from "@concord/codec";
import fc from "fast-check";
import { ConcordError, timestampUsOf } from "@concord/runtime";
import type { Mutation, RowImage, RowKey } from "@concord/ports";
import { compareValues, writeCellValue, type CellValue } from "@concord/values";
import { anyValue, VALUES } from "@concord/values/testing";
import { imageOf, liveRow, mergeImages, sameImage } from "./row-image.ts";
import {
  decodeImage,
  decodeMutation,
  decodeRowKey,
  encodeImage,
  encodeMutation,
  encodeRange,
  encodeRowKey,
  encodeRowsPart,
  joinRows,
  readRows,
  rowPlaces,
  imageRowKey,
  mutationRowKey,
} from "./storage-format.ts";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
/** Plain objects, as decoding gives them. */
const record = <Model>(model: { [Key in keyof Model]: fc.Arbitrary<Model[Key]> }): fc.Arbitrary<Model> =>
  fc.record<Model>(model, { noNullPrototype: true });
const value = anyValue;
const rowKey: fc.Arbitrary<RowKey> = record({
  table: fc.constantFrom("notes", "note", "notes__by_owner", "t"),
  partition: fc.array(value, { minLength: 1, maxLength: 3 }),
  clustering: fc.array(value, { maxLength: 3 }),
});
const columns = fc
  .uniqueArray(record({ column: fc.constantFrom("a", "b", "c", "größe"), value: fc.option(value) }), {
    selector: (write) => write.column,
    maxLength: 4,
  })
  .map((writes) => [...writes]);

function mutationOf(key: fc.Arbitrary<RowKey>, largest = 1_900_000_000_000_000): fc.Arbitrary<Mutation> {
  const timestampUs = fc.integer({ min: 1, max: largest }).map((at) => timestampUsOf(BigInt(at)));
  return fc.oneof(
    record({ kind: fc.constantFrom("insert" as const, "update" as const), key, columns, timestampUs }),
    record({ kind: fc.constant("delete" as const), key, timestampUs }),
  );
}

const KEY: RowKey = { table: "notes", partition: [{ kind: "text", value: "p" }], clustering: [{ kind: "bigint", value: -1n }] };
const GOLDEN: Mutation = {
  kind: "insert",
  key: KEY,
  columns: [
    { column: "n", value: { kind: "int", value: 7 } },
    { column: "t", value: { kind: "text", value: "hi" } },
    { column: "x", value: null },
  ],
  timestampUs: timestampUsOf(1n),
};

test("format: version 1: golden bytes of key, mutation and image", () => {
  assert.equal(hex(encodeRowKey(KEY)), "6e6f746573000103700001000" + "17fffffffffffffff");
  assert.equal(
    hex(encodeMutation(GOLDEN)),
    "00" + "0000000000000001" + "15" + hex(encodeRowKey(KEY)) + "03" + "016e0280000007" + "0174030268690178" + "09",
  );
  const image = encodeImage(imageOf(GOLDEN));
  const at = "0000000000000001";
  assert.equal(
    hex(image),
    "15" + hex(encodeRowKey(KEY)) + "ffffffffffffffff" + at + "03" + `016e${at}0280000007` + `0174${at}03026869` + `0178${at}09`,
  );
});

const EVERY_KIND: readonly (readonly [CellValue, string])[] = [
  [{ kind: "bigint", value: 1n }, "018000000000000001"],
  [{ kind: "int", value: -1 }, "027fffffff"],
  [{ kind: "text", value: "a\u0000b" }, "036100ff620001"],
  [{ kind: "blob", value: Uint8Array.of(0, 255) }, "0400ffff0001"],
  [{ kind: "boolean", value: true }, "0501"],
  [{ kind: "double", value: -2.5 }, "063ffbffffffffffff"],
  [{ kind: "timestamp", value: 0n }, "078000000000000000"],
  [{ kind: "uuid", value: "00112233445566778899aabbccddeeff" }, "0800112233445566778899aabbccddeeff"],
];

for (const [cell, expected] of EVERY_KIND) {
  test(`format: a key value of type ${cell.kind}: golden bytes`, () => {
    assert.equal(hex(encodeRowKey({ table: "t", partition: [cell], clustering: [] })), `740001${expected}00`);
  });
}

test("row key: any: read back as written; as found inside mutations and images", () => {
  fc.assert(
    fc.property(rowKey, (key) => {
      const bytes = encodeRowKey(key);
      assert.deepEqual(decodeRowKey(bytes), key);
      const mutation: Mutation = { kind: "delete", key, timestampUs: timestampUsOf(1n) };
      assert.deepEqual(Uint8Array.from(mutationRowKey(encodeMutation(mutation))), bytes);
      assert.deepEqual(Uint8Array.from(imageRowKey(encodeImage(imageOf(mutation)))), bytes);
    }),
  );
});

for (const [kind, values] of Object.entries(VALUES)) {
  test(`row key: clustering values of type ${kind}: stored in the order of the values (I2)`, () => {
    fc.assert(
      fc.property(values, values, (left, right) => {
        const [first, second] = [left, right].map((one) => encodeRowKey({ ...KEY, clustering: [one] })) as [Uint8Array, Uint8Array];
        const expected =
          kind === "text" ? Buffer.compare(Buffer.from(String(left.value)), Buffer.from(String(right.value))) : compareValues(left, right);
        assert.equal(Math.sign(Buffer.compare(first, second)), Math.sign(expected));
      }),
      { numRuns: 300 },
    );
  });
}

test("row key: two partitions or tables: their rows never interleave (I2)", () => {
  const partition = record({
    table: fc.constantFrom("t", "t2", "u"),
    partition: fc.array(fc.oneof(VALUES.text, VALUES.blob), { minLength: 1, maxLength: 2 }),
  });
  fc.assert(
    fc.property(partition, partition, fc.array(VALUES.text, { maxLength: 2 }), (left, right, clustering) => {
      const { from, to } = encodeRange({ ...left, reverse: false, limit: 1 });
      const inside = encodeRowKey({ ...left, clustering });
      const other = encodeRowKey({ ...right, clustering });
      assert.ok(Buffer.compare(from, inside) <= 0 && Buffer.compare(inside, to) < 0);
      if (hex(encodeRowKey({ ...left, clustering: [] })) === hex(encodeRowKey({ ...right, clustering: [] }))) return;
      assert.ok(Buffer.compare(other, from) < 0 || Buffer.compare(other, to) >= 0);
    }),
  );
});

test("mutation and image: any: read back as written; equal images, equal bytes", () => {
  fc.assert(
    fc.property(mutationOf(rowKey), (mutation) => {
      assert.deepEqual(decodeMutation(encodeMutation(mutation)), mutation);
      const image = imageOf(mutation);
      const read = decodeImage(encodeImage(image));
      assert.ok(sameImage(read, image));
      assert.deepEqual(read.key, image.key);
      const turned: RowImage = { ...image, cells: new Map([...image.cells].toReversed()) };
      assert.deepEqual(encodeImage(turned), encodeImage(image));
    }),
  );
});

test("decoding: cut, changed or any bytes: a value or CORRUPT_DATA, nothing else", () => {
  const damaged = fc.tuple(mutationOf(rowKey), fc.nat(), fc.nat(255), fc.boolean()).map(([mutation, at, byte, cut]) => {
    const bytes = Uint8Array.from(encodeMutation(mutation));
    if (cut) return bytes.subarray(0, at % bytes.length);
    bytes[at % bytes.length] = byte;
    return bytes;
  });
  fc.assert(
    fc.property(fc.oneof(damaged, fc.uint8Array({ maxLength: 60 })), (bytes) => {
      for (const decode of [decodeMutation, decodeImage, decodeRowKey, mutationRowKey, imageRowKey]) {
        try {
          decode(bytes);
        } catch (thrown) {
          assert.ok(thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA", String(thrown));
        }
      }
    }),
    { numRuns: 1000 },
  );
});

/** Images of one row, with few timestamps so that ties are common. */
const image = fc
  .array(mutationOf(fc.constant(KEY), 5), { minLength: 1, maxLength: 5 })
  .map((mutations) => mutations.map(imageOf).reduce(mergeImages));

test("decoding: a negative timestamp of a mutation, a tombstone, a marker or a cell: CORRUPT_DATA", () => {
  const key = encodeRowKey(KEY);
  const image = (deletedAtUs: bigint, markerUs: bigint, cellUs: bigint): Uint8Array => {
    const writer = new ByteWriter().bytes(key).i64(deletedAtUs).i64(markerUs).varint(1).text("a").i64(cellUs);
    writeCellValue(writer, null);
    return writer.finish();
  };
  assert.equal(decodeImage(image(-1n, -1n, 1n)).deletedAtUs, undefined);
  for (const bytes of [image(-2n, -1n, 1n), image(-1n, -2n, 1n), image(-1n, -1n, -1n)]) {
    assert.throws(() => decodeImage(bytes), { code: "CORRUPT_DATA", message: /a timestamp is/ });
  }
  const mutation = encodeMutation(GOLDEN);
  mutation[1]! |= 0x80;
  assert.throws(() => decodeMutation(mutation), { code: "CORRUPT_DATA", message: /a timestamp is/ });
});

test("[TX7] merge: any images: commutative, associative, idempotent (I1)", () => {
  fc.assert(
    fc.property(image, image, image, (a, b, c) => {
      assert.ok(sameImage(mergeImages(a, b), mergeImages(b, a)), "commutative");
      assert.ok(sameImage(mergeImages(mergeImages(a, b), c), mergeImages(a, mergeImages(b, c))), "associative");
      assert.ok(sameImage(mergeImages(a, a), a), "idempotent");
      const merged = mergeImages(a, b);
      assert.ok(sameImage(mergeImages(merged, a), merged), "nothing is lost by merging a part again");
    }),
    { numRuns: 1000 },
  );
});

test("[TX7] merge: the later of two writes: its cells win; a later delete leaves nothing", () => {
  fc.assert(
    fc.property(image, (before) => {
      const later: Mutation = {
        kind: "insert",
        key: KEY,
        columns: [{ column: "a", value: { kind: "int", value: 1 } }],
        timestampUs: timestampUsOf(9n),
      };
      assert.deepEqual(liveRow(mergeImages(before, imageOf(later)))?.columns.get("a"), { kind: "int", value: 1 });
      assert.equal(liveRow(mergeImages(before, imageOf({ kind: "delete", key: KEY, timestampUs: timestampUsOf(9n) }))), undefined);
    }),
  );
});

test("rows of an entry: written and read again; none in no bytes; another version: CORRUPT_DATA", () => {
  const images = [1n, 2n, 3n].map((us) => imageOf({ kind: "delete", key: KEY, timestampUs: timestampUsOf(us) }));
  const rows = joinRows([encodeRowsPart(images.slice(0, 2)), encodeRowsPart([]), encodeRowsPart(images.slice(2))]);
  const encoded = images.map((one) => encodeImage(one));
  const hex = encoded.map((one) => one.length.toString(16).padStart(2, "0") + Buffer.from(one).toString("hex"));
  assert.equal(Buffer.from(rows).toString("hex"), `01${hex.join("")}`);
  assert.deepEqual(
    readRows(rows).map((one) => Uint8Array.from(one)),
    encoded,
  );
  assert.deepEqual(readRows(new Uint8Array()), []);
  const keys = rowPlaces(rows).map(({ keyFrom, keyTo }) => rows.slice(keyFrom, keyTo));
  assert.deepEqual(keys, Array(3).fill(encodeRowKey(KEY)));
  assert.throws(() => readRows(Uint8Array.of(2, 1, 7)), { code: "CORRUPT_DATA" });
  const spoilt = [rows.subarray(0, -1), Uint8Array.of(1, 3, 3, 8, 9), Uint8Array.of(1, 0, 1, 0)];
  for (const each of spoilt) {
    assert.throws(() => readRows(each), { code: "CORRUPT_DATA" });
  }
});
