// Decimals against exact arithmetic of bigints, and the limits below, at and above them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteReader, ByteWriter } from "@concord/codec";
import fc from "fast-check";
import { decimal } from "./decimal.ts";

const taken = (value: unknown): string => decimal.fromJavaScript(value)!;
const number = fc.tuple(fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n }), fc.integer({ min: -40, max: 40 }));
const textOf = ([unscaled, scale]: readonly [bigint, number]): string => `${unscaled}e${-scale}`;

const texts: readonly (readonly [string, string])[] = [
  ["0", "0"],
  ["-0.00", "0"],
  ["0e9000", "0"],
  ["1.0", "1"],
  ["1.00", "1"],
  ["100", "100"],
  ["1E2", "100"],
  ["-00.50", "-0.5"],
  ["+3.", "3"],
  ["0.00000000000000000000125", "0.00000000000000000000125"],
  ["0.000000000000000000000125", "1.25e-22"],
  ["1e20", "100000000000000000000"],
  ["12e20", "1200000000000000000000"],
  ["1e21", "1e21"],
];

test("decimal: spellings of a number: one text (equality is that of the numbers)", () => {
  for (const [text, form] of texts) assert.equal(taken(text), form, text);
  assert.equal(taken(-42n), "-42");
  assert.equal(taken(7), "7");
});

test("decimal: what is no decimal: not taken", () => {
  for (const value of [
    "",
    ".",
    ".5",
    "-",
    "1.2.3",
    "1e",
    "e5",
    "1_000",
    "0x10",
    "NaN",
    "Infinity",
    " 1",
    "1 ",
    1.5,
    Number.NaN,
    true,
    2 ** 53,
  ]) {
    assert.equal(decimal.fromJavaScript(value), undefined, String(value));
  }
});

test("decimal: any two: ordered as the numbers are", () => {
  fc.assert(
    fc.property(number, number, (left, right) => {
      const scale = Math.max(left[1], right[1]);
      const [a, b] = [left, right].map(([unscaled, own]) => unscaled * 10n ** BigInt(scale - own)) as [bigint, bigint];
      const expected = a < b ? -1 : a > b ? 1 : 0;
      assert.ok(Math.sign(decimal.compare(taken(textOf(left)), taken(textOf(right)))) === expected);
      assert.equal(taken(textOf(left)) === taken(textOf(right)), expected === 0);
    }),
    { numRuns: 2000 },
  );
});

test("decimal: any message, canonical or not: the number it means", () => {
  fc.assert(
    fc.property(number, fc.nat(3), ([unscaled, scale], more) => {
      const content = taken(textOf([unscaled, scale]));
      const zeros = unscaled * 10n ** BigInt(more);
      const bytes = new Uint8Array(20);
      for (let at = 19, rest = BigInt.asUintN(160, zeros); at >= 0; at -= 1, rest >>= 8n) bytes[at] = Number(rest & 255n);
      assert.equal(decimal.fromWire({ decimalValue: { unscaled: bytes, scale: scale + more } }), content);
    }),
  );
});

test("decimal: messages are as few bytes as hold the number", () => {
  const bytesOf = (value: number): number[] => [...decimal.toWire(taken(value)).decimalValue.unscaled];
  const cases: readonly [number, number[]][] = [
    [0, [0]],
    [127, [127]],
    [128, [0, 128]],
    [-128, [128]],
    [-129, [255, 127]],
    [255, [0, 255]],
    [-1, [255]],
    [32_768, [0, 128, 0]],
    [-32_768, [128, 0]],
  ];
  for (const [value, bytes] of cases) assert.deepEqual(bytesOf(value), bytes, String(value));
});

test("decimal: digits and scale: below and at the limit taken, above refused by every entrance", () => {
  const limits: readonly (readonly [string, boolean])[] = [
    ["9".repeat(999), true],
    ["9".repeat(1000), true],
    ["9".repeat(1001), false],
    [`0.${"0".repeat(9999)}1`, true],
    [`0.${"0".repeat(10_000)}1`, false],
    ["1e10000", true],
    ["1e10001", false],
    ["1e-10000", true],
    ["1e-10001", false],
    ["1e999999", false],
    ["1e9999999", false],
    [`1${"0".repeat(20_000)}`, false],
  ];
  for (const [text, fits] of limits) {
    const what = `${text.slice(0, 12)} of ${text.length}`;
    assert.equal(decimal.fromJavaScript(text) !== undefined, fits, what);
    assert.equal(typeof decimal.fromLiteral({ kind: "decimal", text }) === "string", fits, what);
    if (fits) assert.equal(decimal.problemOf(taken(text)), undefined, what);
    else assert.notEqual(decimal.problemOf(text), undefined, what);
  }
  assert.ok(decimal.bytesOf("9".repeat(1000)) <= 1024);
  for (const scale of [10_001, -10_001, 2 ** 31 - 1, -(2 ** 31)]) {
    assert.throws(() => decimal.fromWire({ decimalValue: { unscaled: Uint8Array.of(1), scale } }), { code: "MALFORMED_REQUEST" });
  }
});

test("decimal: stored bytes that are not canonical: CORRUPT_DATA", () => {
  const wrong = ["03", "02800000010000", "0280000001", "02800000010b0100", "028000000102660000", "0280000001010200", "02ffffffff0200"];
  for (const hex of wrong) {
    assert.throws(() => decimal.readKey(new ByteReader(Uint8Array.from(Buffer.from(hex, "hex")))), { code: "CORRUPT_DATA" }, hex);
  }
  const writer = new ByteWriter();
  decimal.writeKey(writer, "9".repeat(1000));
  assert.equal(decimal.readKey(new ByteReader(writer.finish())), "9".repeat(1000));
});
