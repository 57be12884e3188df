import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  GUID_END_MS,
  GUID_EPOCH_MS,
  GUID_MAX,
  guidFromText,
  guidToText,
  makeGuid,
  partsOfGuid,
  SEQUENCES_PER_MS,
  WORKER_ID_MAX,
} from "./index.ts";

const guid = fc.bigInt({ min: 0n, max: GUID_MAX });

test("[S8] text: any id: comes back exactly, also above 2^53", () => {
  fc.assert(fc.property(guid, (id) => assert.equal(guidFromText(guidToText(id)), id)));
  for (const id of [0n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, GUID_MAX]) assert.equal(guidFromText(guidToText(id)), id);
});

test("text: two ids: sort as their texts (I6)", () => {
  fc.assert(fc.property(guid, guid, (a, b) => assert.equal(guidToText(a) < guidToText(b), a < b)));
});

test("text: golden: the format of 2026", () => {
  const id = makeGuid({ timeMs: 1_800_000_000_000, workerId: 1023, sequence: 4095 });
  assert.equal(id, 931_819_998_416_994_303n);
  assert.equal(guidToText(id), "0SVKXB803ZZZZ");
  assert.equal(guidToText(0n), "0000000000000");
  assert.equal(guidToText(GUID_MAX), "7ZZZZZZZZZZZZ");
  assert.equal(guidToText(31n), "000000000000Z");
});

for (const [what, text] of [
  ["nothing", ""],
  ["twelve letters", "000000000000"],
  ["fourteen letters", "00000000000000"],
  ["above 63 bits", "8000000000000"],
  ["lower case", "000000000000a"],
  ["a letter that is none", "000000000000U"],
  ["a letter read as another one", "000000000000O"],
  ["a space", " 000000000000"],
  ["a sign", "-000000000001"],
  ["two halves of a character", "00000000000😀"],
] as const) {
  test(`text: ${what}: MALFORMED_REQUEST`, () => assert.throws(() => guidFromText(text), { code: "MALFORMED_REQUEST" }));
}

test("layout: any parts: come back, and ids sort by time, then worker, then sequence", () => {
  const parts = fc.record({
    timeMs: fc.integer({ min: GUID_EPOCH_MS, max: GUID_END_MS - 1 }),
    workerId: fc.integer({ min: 0, max: WORKER_ID_MAX }),
    sequence: fc.integer({ min: 0, max: SEQUENCES_PER_MS - 1 }),
  });
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      assert.deepEqual(partsOfGuid(makeGuid(a)), { ...a });
      const order = a.timeMs - b.timeMs || a.workerId - b.workerId || a.sequence - b.sequence;
      assert.equal(makeGuid(a) < makeGuid(b), order < 0);
    }),
  );
});

test("layout: limits: below and at them an id, above an assertion", () => {
  const good = { timeMs: GUID_END_MS - 1, workerId: WORKER_ID_MAX, sequence: SEQUENCES_PER_MS - 1 };
  assert.equal(makeGuid(good), GUID_MAX);
  assert.equal(makeGuid({ timeMs: GUID_EPOCH_MS, workerId: 0, sequence: 0 }), 0n);
  for (const bad of [{ timeMs: GUID_END_MS }, { timeMs: GUID_EPOCH_MS - 1 }, { workerId: 1024 }, { workerId: -1 }, { sequence: 4096 }])
    assert.throws(() => makeGuid({ ...good, ...bad }));
  assert.throws(() => partsOfGuid(GUID_MAX + 1n));
});
