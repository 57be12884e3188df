import assert from "node:assert/strict";
import { test } from "node:test";
import { fromHex, toHex } from "@concord/runtime";
import { nodeCipher } from "./index.ts";

const key = new Uint8Array(32).fill(7);
const nonce = new Uint8Array(12).fill(1);
const associated = Uint8Array.of(1, 2, 3);
const plain = new TextEncoder().encode("a secret of some length");

test("cipher: a sealed text: opened with the same key, nonce and associated data", () => {
  const sealed = nodeCipher.seal(key, nonce, associated, plain);
  assert.equal(sealed.length, plain.length + 16);
  assert.deepEqual(Uint8Array.from(nodeCipher.open(key, nonce, associated, sealed)!), plain);
});

test("cipher: another key, nonce, associated data, any flipped bit, a cut: not opened", () => {
  const sealed = nodeCipher.seal(key, nonce, associated, plain);
  assert.equal(nodeCipher.open(new Uint8Array(32), nonce, associated, sealed), undefined);
  assert.equal(nodeCipher.open(key, new Uint8Array(12), associated, sealed), undefined);
  assert.equal(nodeCipher.open(key, nonce, Uint8Array.of(1, 2), sealed), undefined);
  for (let at = 0; at < sealed.length; at += 1) {
    const flipped = Uint8Array.from(sealed);
    flipped[at]! ^= 1;
    assert.equal(nodeCipher.open(key, nonce, associated, flipped), undefined, `byte ${at}`);
  }
  for (let length = 0; length < sealed.length; length += 1)
    assert.equal(nodeCipher.open(key, nonce, associated, sealed.subarray(0, length)), undefined, `${length} bytes`);
});

test("cipher: the test vectors of NIST's GCM specification (case 16) and of RFC 4231 (case 2): as published", () => {
  const gcm = {
    key: fromHex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
    nonce: fromHex("cafebabefacedbaddecaf888"),
    associated: fromHex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
    plain: fromHex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
    ),
  };
  assert.equal(
    toHex(nodeCipher.seal(gcm.key, gcm.nonce, gcm.associated, gcm.plain)),
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662" +
      "76fc6ece0f4e1768cddf8853bb2d551b",
  );
  const mac = nodeCipher.derive(new TextEncoder().encode("Jefe"), new TextEncoder().encode("what do ya want for nothing?"));
  assert.equal(toHex(mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
});
