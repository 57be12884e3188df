// What holds for every type of the table: golden bytes and tokens, one order, round trips, hostile input refused. A new type is in here
// by its samples and its arbitrary.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteReader, ByteWriter, compareBytes } from "@concord/codec";
import { ConcordError } from "@concord/runtime";
import fc from "fast-check";
import {
  canonicalValue,
  CELL_TYPES,
  cellFromWire,
  cellToWire,
  compareValues,
  encodeKeyValue,
  fromJavaScript,
  javaScriptToWire,
  keyProblem,
  readCellValue,
  readKeyValue,
  tokenOf,
  toJavaScript,
  valueBytes,
  valueProblem,
  valueText,
  writeCellValue,
  type CellMessage,
  type CellValue,
} from "./index.ts";
import { TABLE } from "./table.ts";
import { anyValue, refusedMessages, SAMPLES, sampleCells, VALUES } from "./test/index.ts";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
/** As a oneof is decoded: `kind` names the field that is set. */
const received = (wire: CellMessage): CellMessage => ({ ...wire, kind: Object.keys(wire)[0] as NonNullable<CellMessage["kind"]> });
const stored = (value: CellValue | null): Uint8Array => {
  const writer = new ByteWriter();
  writeCellValue(writer, value);
  return writer.finish();
};
const read = <Value>(from: (reader: ByteReader) => Value, bytes: Uint8Array): Value => {
  const reader = new ByteReader(bytes);
  const value = from(reader);
  reader.end();
  return value;
};

test("tags: of all types: distinct, none that of null, none ever changed", () => {
  const tags = CELL_TYPES.map((type) => TABLE[type].tag);
  assert.equal(new Set(tags).size, tags.length);
  assert.ok(!tags.includes(stored(null)[0]!));
  const { bigint, int, text, blob, boolean, double, timestamp, uuid, date, inet, decimal } = TABLE;
  assert.deepEqual(
    [bigint, int, text, blob, boolean, double, timestamp, uuid, date, inet, decimal].map((type) => type.tag),
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12],
  );
});

for (const type of CELL_TYPES) {
  const cells = sampleCells(type);

  test(`${type}: samples: golden key bytes and tokens`, () => {
    SAMPLES[type].forEach(({ key, token }, at) => {
      assert.equal(hex(encodeKeyValue(cells[at]!)), key);
      assert.equal(tokenOf(cells[at]!).toString(), token);
    });
  });

  test(`${type}: samples: ascending, storable, in one form, told apart`, () => {
    const texts = cells.map(valueText);
    assert.equal(new Set(texts).size, texts.length);
    cells.forEach((cell, at) => {
      assert.equal(valueProblem(cell) ?? keyProblem(cell), undefined);
      assert.equal(canonicalValue(cell), cell);
      if (at > 0) assert.ok(compareValues(cells[at - 1]!, cell) < 0, `${texts[at - 1]} before ${texts[at]}`);
    });
  });

  test(`${type}: samples: given to JavaScript as documented, and taken back`, () => {
    SAMPLES[type].forEach(({ given }, at) => {
      assert.deepEqual(toJavaScript(cells[at]!), given);
      assert.deepEqual(fromJavaScript(type, given), cells[at]);
    });
  });

  test(`[TX2] ${type}: any two values: ordered as their stored bytes; equal ones share bytes, text and token (I1)`, () => {
    const near = fc.tuple(VALUES[type] as fc.Arbitrary<CellValue>, fc.oneof(VALUES[type], fc.constantFrom(...cells)));
    const check = ([left, right]: readonly CellValue[]): void => {
      const order = Math.sign(compareValues(left!, right!));
      assert.ok(order === Math.sign(compareBytes(encodeKeyValue(left!), encodeKeyValue(right!))), "as the bytes");
      assert.ok(order === -Math.sign(compareValues(right!, left!)), "the same the other way round");
      assert.equal(valueText(left!) === valueText(right!), order === 0);
      if (order === 0) assert.equal(tokenOf(left!), tokenOf(right!));
    };
    fc.assert(
      fc.property(near, (pair) => (check(pair), check([pair[0], pair[0]]))),
      { numRuns: 500 },
    );
  });

  test(`${type}: any value: the same back from keys, cells, messages and JavaScript; its size is counted`, () => {
    fc.assert(
      fc.property(fc.oneof(VALUES[type] as fc.Arbitrary<CellValue>, fc.constantFrom(...cells)), (value) => {
        assert.equal(valueProblem(value), undefined);
        assert.deepEqual(read(readKeyValue, encodeKeyValue(value)), value);
        assert.deepEqual(read(readCellValue, stored(value)), value);
        assert.deepEqual(cellFromWire(received(cellToWire(value))), value);
        assert.deepEqual(fromJavaScript(type, toJavaScript(value)), value);
        assert.deepEqual(javaScriptToWire(type, toJavaScript(value)), cellToWire(value));
        assert.ok(Number.isInteger(valueBytes(value)) && valueBytes(value) >= 0);
      }),
    );
  });

  test(`${type}: a value beside others in a key: no value's bytes are the beginning of another's (I1)`, () => {
    fc.assert(
      fc.property(VALUES[type] as fc.Arbitrary<CellValue>, VALUES[type] as fc.Arbitrary<CellValue>, (left, right) => {
        const [first, second] = [encodeKeyValue(left), encodeKeyValue(right)];
        if (hex(first) !== hex(second)) assert.ok(!hex(second).startsWith(hex(first)));
      }),
    );
  });

  test(`${type}: what is no value of it: not taken from JavaScript`, () => {
    const others = [undefined, null, Symbol("x"), {}, [], () => 1, Number.NaN, new Date(Number.NaN), "\u0000no value\u0000"];
    others.forEach((value, at) => {
      const taken = fromJavaScript(type, value);
      assert.ok(taken === undefined || (type === "text" && typeof value === "string"), `value ${at}`);
      assert.deepEqual(javaScriptToWire(type, value), taken === undefined ? undefined : cellToWire(taken));
    });
  });
}

test("javaScriptToWire: any text of a uuid's length: taken exactly when fromJavaScript takes it, as the same bytes", () => {
  const spelled = fc.string({ unit: fc.constantFrom(...Array.from("0123456789abcdefABCDEF-g\u0130")), minLength: 30, maxLength: 38 });
  const near = fc
    .tuple(fc.uuid(), fc.nat(36), fc.constantFrom("", "-", "0", "F", "g", "é"))
    .map(([uuid, at, put]) => uuid.slice(0, at) + put + uuid.slice(at + 1));
  fc.assert(
    fc.property(fc.oneof(spelled, near, fc.uuid()), (text) => {
      const taken = fromJavaScript("uuid", text);
      assert.deepEqual(javaScriptToWire("uuid", text), taken === undefined ? undefined : cellToWire(taken));
    }),
  );
});

test("compareValues: null last, kinds by name, NaN last of the doubles", () => {
  const bigint: CellValue = { kind: "bigint", value: 1n };
  assert.ok(compareValues(null, bigint) > 0 && compareValues(bigint, null) < 0 && compareValues(null, null) === 0);
  assert.ok(compareValues(bigint, { kind: "blob", value: Uint8Array.of() }) < 0);
  const [nan, infinite]: CellValue[] = [
    { kind: "double", value: Number.NaN },
    { kind: "double", value: Infinity },
  ];
  assert.ok(compareValues(nan!, infinite!) > 0 && compareValues(infinite!, nan!) < 0 && compareValues(nan!, nan!) === 0);
});

test("canonicalValue, fromJavaScript: minus zero: zero", () => {
  assert.ok(Object.is(canonicalValue({ kind: "double", value: -0 }).value, 0));
  assert.ok(Object.is(fromJavaScript("double", -0)?.value, 0));
});

test("reading: any bytes: a value that can be stored again, or CORRUPT_DATA; nothing else", () => {
  const damaged = fc.tuple(anyValue, fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
    const bytes = encodeKeyValue(value);
    bytes[at % bytes.length] = byte;
    return bytes;
  });
  fc.assert(
    fc.property(fc.oneof(damaged, fc.uint8Array({ maxLength: 30 })), (bytes) => {
      for (const from of [readKeyValue, readCellValue]) {
        try {
          from(new ByteReader(bytes));
        } catch (thrown) {
          assert.ok(thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA", String(thrown));
        }
      }
    }),
    { numRuns: 2000 },
  );
});

test("messages: without a kind, of an unknown one or no value of their type: MALFORMED_REQUEST", () => {
  for (const message of [null, {}, { kind: "" }, { kind: "toString" }, { kind: "noSuchValue" }]) {
    assert.throws(() => cellFromWire(message as CellMessage | null), { code: "MALFORMED_REQUEST", message: "a value has no kind" });
  }
  for (const { message } of refusedMessages()) assert.throws(() => cellFromWire(message), { code: "MALFORMED_REQUEST" });
  assert.equal(cellFromWire({ kind: "nullValue", nullValue: true }), null);
});
