import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeMark, encodeMark, storedMark } from "./index.ts";

const KEY = Uint8Array.of(1, 2);
const GOLDEN = "01" + "000001a3185c5000" + "fffffe5ce7a3afff";
const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, "hex"));

test("stored mark: golden: the format of version 1", () => {
  assert.equal(Buffer.from(encodeMark(1_800_000_000_000)).toString("hex"), GOLDEN);
  assert.equal(decodeMark(bytes(GOLDEN)), 1_800_000_000_000);
});

for (const [what, hex] of [
  ["empty", ""],
  ["cut", GOLDEN.slice(0, -2)],
  ["too long", GOLDEN + "00"],
  ["a flipped bit", "01" + "000001a3185c5001" + "fffffe5ce7a3afff"],
  ["a newer version", "02" + GOLDEN.slice(2)],
  ["zeros", "00".repeat(17)],
  ["above a safe number", "01" + "0020000000000000" + "ffdfffffffffffff"],
] as const) {
  test(`stored mark: ${what}: CORRUPT_DATA, never a guess`, () => assert.throws(() => decodeMark(bytes(hex)), { code: "CORRUPT_DATA" }));
}

test("stored mark: raised, then loaded: the same; never raised: none", async () => {
  const values = new Map<string, Uint8Array>();
  const store = {
    get: async (key: Uint8Array) => values.get(String(key)),
    put: async (key: Uint8Array, value: Uint8Array) => void values.set(String(key), value),
  };
  const mark = storedMark(store, KEY);
  assert.equal(await mark.load(), undefined);
  await mark.raise(1_800_000_001_000);
  assert.equal(await storedMark(store, KEY).load(), 1_800_000_001_000);
  assert.equal(await storedMark(store, Uint8Array.of(9)).load(), undefined);
});
