import assert from "node:assert/strict";
import { test } from "node:test";
import { toHex } from "@concord/runtime";
import { testCipher } from "../test/cipher.ts";
import { countingRandom, encryptionOf, keyOf } from "../test/encryption.ts";
import { newDataKey, openDataKey, rewrapped } from "./data-keys.ts";
import { fingerprintOf, unwrapKey, wrapKey } from "./key-wrap.ts";
import { LocalKeys } from "./local-keys.ts";

const A = { id: "a", key: keyOf(1) };
const B = { id: "b", key: keyOf(2) };
const B_OLD = { id: "b", key: keyOf(3) };
const dataKey = keyOf(7);
const bound = Uint8Array.of(1, 2);
const keys = (list: readonly { id: string; key: Uint8Array }[], rotation: "over-all-ids" | "within-an-id" = "over-all-ids") =>
  new LocalKeys(testCipher, countingRandom(), list, rotation);

test("wrapped key: golden bytes of version 1: version, fingerprint, salt, encrypted key and tag", () => {
  const wrapped = wrapKey(testCipher, countingRandom(), A.key, dataKey, bound);
  assert.equal(
    toHex(wrapped),
    "016582b52e1f262d343b424950575e656c737a81881b11c43d18ae504f582ef25d54a03a325093b464cb4a3bfad413ae32ea86f0510671d2f934f89c3fdd65a7cfe6c0ee3b",
  );
  assert.deepEqual(unwrapKey(testCipher, A.key, wrapped, bound), dataKey);
  assert.equal(toHex(fingerprintOf(testCipher, A.key)), toHex(wrapped.subarray(1, 5)));
});

test("wrapped key: another key, other associated data, any flipped byte: refused", () => {
  const wrapped = wrapKey(testCipher, countingRandom(), A.key, dataKey, bound);
  assert.equal(unwrapKey(testCipher, B.key, wrapped, bound), undefined);
  assert.equal(unwrapKey(testCipher, A.key, wrapped, Uint8Array.of(1)), undefined);
  for (let at = 5; at < wrapped.length; at += 1) {
    const flipped = Uint8Array.from(wrapped);
    flipped[at]! ^= 1;
    assert.equal(unwrapKey(testCipher, A.key, flipped, bound), undefined, `byte ${at}`);
  }
  const other = Uint8Array.from(wrapped);
  other[0] = 2;
  assert.throws(() => unwrapKey(testCipher, A.key, other, bound), { code: "CORRUPT_DATA" });
});

test("local keys: the first is the default; a named one wraps; an unknown one: NOT_FOUND", async () => {
  const service = keys([A, B], "within-an-id");
  assert.equal((await service.wrap(undefined, dataKey, bound)).keyId, "a");
  const wrapped = await service.wrap("b", dataKey, bound);
  assert.equal(wrapped.keyId, "b");
  assert.deepEqual(await service.unwrap(wrapped, bound), dataKey);
  await assert.rejects(service.wrap("c", dataKey, bound), { code: "NOT_FOUND" });
  await assert.rejects(service.unwrap({ ...wrapped, keyId: "c" }, bound), { code: "NOT_FOUND" });
  await assert.rejects(service.unwrap({ ...wrapped, keyId: "a" }, bound), { code: "NOT_FOUND" });
  await assert.rejects(service.unwrap(wrapped, Uint8Array.of(9)), { code: "CORRUPT_DATA" });
  await assert.rejects(keys([]).wrap(undefined, dataKey, bound), { code: "NOT_FOUND" });
});

test("local keys: several keys of one id: the first wraps, all unwrap", async () => {
  const before = await keys([B_OLD]).wrap("b", dataKey, bound);
  const both = keys([B, B_OLD], "within-an-id");
  assert.deepEqual(await both.unwrap(before, bound), dataKey);
  const after = await both.wrap("b", dataKey, bound);
  await assert.rejects(keys([B_OLD]).unwrap(after, bound), { code: "NOT_FOUND" });
  assert.deepEqual([both.isCurrent(before), both.isCurrent(after)], [false, true]);
});

test("local keys: current: the first of all for master keys, the first of its id for a service's", async () => {
  const a = await keys([A]).wrap("a", dataKey, bound);
  const b = await keys([B]).wrap("b", dataKey, bound);
  assert.deepEqual([keys([B, A]).isCurrent(a), keys([B, A]).isCurrent(b)], [false, true]);
  const within = keys([B, A], "within-an-id");
  assert.deepEqual([within.isCurrent(a), within.isCurrent(b)], [true, true]);
  assert.equal(keys([A], "within-an-id").isCurrent(b), true, "there is none to take its place");
});

test("[OGD23] data keys: rotation: wrapped anew under the newest key, the same data key; the old key is not needed any more", async () => {
  const owner = { bucket: "photos", key: "k" };
  const old = { encryption: encryptionOf({ managed: [A], service: [B_OLD] }) };
  const next = { encryption: encryptionOf({ managed: [B, A], service: [B, B_OLD] }) };
  const after = { encryption: encryptionOf({ managed: [B], service: [B] }) };
  for (const request of [{ kind: "managed" }, { kind: "service", keyId: "b", context: "{}" }] as const) {
    const made = await newDataKey(old, request, owner, 5n);
    assert.equal(await rewrapped(old, made.encryption, owner), undefined, "it is current");
    const anew = await rewrapped(next, made.encryption, owner);
    assert.ok(anew !== undefined);
    assert.deepEqual((await openDataKey(after, anew, owner, undefined)).bytes, made.bytes);
    assert.equal(await rewrapped(next, anew, owner), undefined);
    await assert.rejects(openDataKey(after, made.encryption, owner, undefined));
    for (const other of [
      { ...owner, key: "x" },
      { ...owner, bucket: "videos" },
    ])
      await assert.rejects(openDataKey(after, anew, other, undefined), { code: "CORRUPT_DATA" });
    await assert.rejects(openDataKey(after, { ...anew, guid: 6n }, owner, undefined), { code: "CORRUPT_DATA" });
  }
  const customers = await newDataKey(old, { kind: "customer", key: keyOf(9) }, owner, 5n);
  assert.equal(await rewrapped(next, customers.encryption, owner), undefined);
});
