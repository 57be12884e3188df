import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { CHECKSUM_ALGORITHMS, checksumStream, combineDigests, copyDigest, type ChecksumAlgorithm } from "./index.ts";

const PARTS = [Buffer.alloc(5_000, 1), Buffer.alloc(70_000, 2), Buffer.from("the end")];

function digestOf(bytes: Uint8Array, algorithm?: ChecksumAlgorithm): ReturnType<ReturnType<typeof copyDigest>["finish"]> {
  const digest = copyDigest(algorithm);
  digest.update(bytes.subarray(0, 3));
  digest.update(bytes.subarray(3));
  return digest.finish();
}

const valueOf = (bytes: Uint8Array, algorithm: ChecksumAlgorithm): string | undefined => digestOf(bytes, algorithm).checksum?.value;

const described = (algorithm?: ChecksumAlgorithm): Parameters<typeof combineDigests>[0] =>
  PARTS.map((part) => ({ ...digestOf(part, algorithm), lengthBytes: part.length }));

test("combineDigests: parts: MD5 of their MD5s and their number", () => {
  const md5s = PARTS.map((part) => createHash("md5").update(part).digest());
  const expected = `${createHash("md5").update(Buffer.concat(md5s)).digest("hex")}-3`;
  assert.deepEqual(combineDigests(described(), undefined), { etag: expected, checksum: undefined });
});

for (const algorithm of ["CRC32", "CRC32C", "CRC64NVME"] as const) {
  test(`combineDigests: ${algorithm} of the whole: as if it had been read in one`, () => {
    const { checksum } = combineDigests(described(algorithm), { algorithm, type: "FULL_OBJECT" });
    assert.deepEqual(checksum, { algorithm, type: "FULL_OBJECT", value: valueOf(Buffer.concat(PARTS), algorithm) });
  });
}

for (const algorithm of ["CRC32", "CRC32C", "SHA1", "SHA256"] as const) {
  test(`combineDigests: composite ${algorithm}: of the parts' checksums, with their number`, () => {
    const stream = checksumStream(algorithm);
    for (const part of described(algorithm)) stream.update(Buffer.from(part.checksum?.value ?? "", "base64"));
    const value = `${Buffer.from(stream.digest()).toString("base64")}-3`;
    assert.deepEqual(combineDigests(described(algorithm), { algorithm, type: "COMPOSITE" }).checksum, {
      algorithm,
      type: "COMPOSITE",
      value,
    });
  });
}

test("combineDigests: one part: composite or whole", () => {
  const one = described("CRC32").slice(0, 1);
  assert.equal(combineDigests(one, { algorithm: "CRC32", type: "FULL_OBJECT" }).checksum?.value, one[0]?.checksum?.value);
  assert.match(combineDigests(one, { algorithm: "CRC32", type: "COMPOSITE" }).checksum?.value ?? "", /==-1$/);
});

test("combineDigests: a part without its checksum, or with that of another algorithm: PART_INVALID", () => {
  for (const parts of [described(), described("SHA1")]) {
    assert.throws(() => combineDigests(parts, { algorithm: "CRC32", type: "FULL_OBJECT" }), { code: "PART_INVALID" });
  }
});

test("combineDigests: nothing asked for: the CRC that all parts have, of the whole; none where one lacks it, has another or SHA", () => {
  for (const algorithm of ["CRC32", "CRC32C", "CRC64NVME"] as const) {
    const value = valueOf(Buffer.concat(PARTS), algorithm);
    assert.deepEqual(combineDigests(described(algorithm), undefined).checksum, { algorithm, type: "FULL_OBJECT", value });
  }
  const [first, ...rest] = described("CRC64NVME");
  for (const parts of [
    described("SHA1"),
    described("SHA256"),
    [...described().slice(0, 1), ...rest],
    [first!, ...described("CRC32").slice(1)],
  ])
    assert.equal(combineDigests(parts, undefined).checksum, undefined);
});

test("combineDigests: 10 000 parts of different lengths: far below the time of a slow request", () => {
  const parts = Array.from({ length: 10_000 }, (_, i) => ({
    md5Hex: "0".repeat(32),
    lengthBytes: 5_242_880 + i * 7919,
    checksum: { algorithm: "CRC64NVME", type: "FULL_OBJECT", value: "AAAAAAAAAAA=" } as const,
  }));
  const before = process.threadCpuUsage();
  combineDigests(parts, { algorithm: "CRC64NVME", type: "FULL_OBJECT" });
  assert.ok(process.threadCpuUsage(before).user < 2_000_000);
});

test("copyDigest: every algorithm: that of the bytes", () => {
  for (const algorithm of CHECKSUM_ALGORITHMS) {
    const stream = checksumStream(algorithm);
    stream.update(PARTS[1]!);
    assert.equal(valueOf(PARTS[1]!, algorithm), Buffer.from(stream.digest()).toString("base64"), algorithm);
  }
  assert.equal(valueOf(Buffer.from("hello"), "SHA256"), "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=");
});
