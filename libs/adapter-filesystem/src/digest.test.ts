import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { test } from "node:test";
import fc from "fast-check";
import { combineCrc32 } from "@concord/checksums";
import type { Checksum } from "@concord/runtime";
import { Digest } from "./digest.ts";
import { BLOCK_BYTES } from "./limits.ts";

const checksum: Checksum = (bytes, previous) => crc32(bytes, previous);

test("digest: the whole's checksum combined from the blocks': that of all bytes, for any chunks", () => {
  const chunk = fc.tuple(fc.integer({ min: 0, max: 2 * BLOCK_BYTES + 1 }), fc.integer({ min: 0, max: 255 }));
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 6 }), (parts) => {
      const chunks = parts.map(([length, byte]) => new Uint8Array(length).fill(byte));
      const [combined, twice] = [new Digest(checksum, combineCrc32), new Digest(checksum)];
      for (const bytes of chunks) {
        combined.update(bytes);
        twice.update(bytes);
      }
      assert.deepEqual(combined.finish(), twice.finish());
      assert.deepEqual(combined.table, twice.table);
    }),
    { numRuns: 100 },
  );
});

test("digest: with a way to combine checksums: each byte is looked at once", () => {
  let looked = 0;
  const counting: Checksum = (bytes, previous) => {
    looked += bytes.length;
    return checksum(bytes, previous);
  };
  const digest = new Digest(counting, combineCrc32);
  for (let chunk = 0; chunk < 20; chunk += 1) digest.update(new Uint8Array(100_000).fill(chunk));
  digest.finish();
  assert.equal(looked, 2_000_000);
});
