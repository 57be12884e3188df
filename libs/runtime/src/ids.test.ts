import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, fromHex, newTimeId, timeIdFromBytes, timeIdMs, timeIdToBytes, toHex, type Clock, type Random } from "./index.ts";

function clockAt(ms: number): Clock {
  const none = (): never => {
    throw new Error("not used");
  };
  return { nowMs: () => ms, nowUs: () => BigInt(ms) * 1000n, monotonicMs: () => ms, setTimer: none, defer: none };
}

const countingRandom = (): Random => {
  let next = 0;
  return { bytes: (length) => Uint8Array.from({ length }, () => (next += 37) % 256), below: () => 0, float: () => 0 };
};

test("[TXD7] time id: made at a time: carries that time and is a UUIDv7", () => {
  const ms = Date.UTC(2026, 10, 21);
  const id = newTimeId(clockAt(ms), countingRandom());
  assert.equal(timeIdMs(id), ms);
  assert.match(id, /^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
});

test("time id: bytes and back: the same id", () => {
  const id = newTimeId(clockAt(1_700_000_000_123), countingRandom());
  assert.equal(timeIdFromBytes(timeIdToBytes(id)), id);
});

test("time id: made later: sorts later", () => {
  const random = countingRandom();
  assert.ok(newTimeId(clockAt(1_000), random) < newTimeId(clockAt(1_001), random));
});

test("time id: wrong length, version or variant: MALFORMED_REQUEST", () => {
  const good = timeIdToBytes(newTimeId(clockAt(1), countingRandom()));
  const wrongVersion = good.slice();
  wrongVersion[6] = 0x40;
  const wrongVariant = good.slice();
  wrongVariant[8] = 0xc0;
  for (const bytes of [new Uint8Array(0), good.subarray(1), wrongVersion, wrongVariant]) {
    assert.throws(
      () => timeIdFromBytes(bytes),
      (error) => error instanceof ConcordError && error.code === "MALFORMED_REQUEST",
    );
  }
});

test("hex: all bytes: round trip", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  assert.deepEqual(fromHex(toHex(bytes)), bytes);
});
