import assert from "node:assert/strict";
import { test } from "node:test";
import { TOKEN_MAX, tokenOf } from "@concord/values";
import { tokenOfKey } from "./index.ts";
import { bigint, int, photoKey, text, timestamp } from "./test/albums.ts";

test("[TX2] tokenOf: one entity id in master and detail rows: the same token", () => {
  const album = { table: "albums", partition: [bigint(42)], clustering: [] };
  assert.equal(tokenOfKey(album), tokenOfKey(photoKey(42, 1)));
  assert.equal(tokenOfKey(photoKey(42, 1)), tokenOfKey(photoKey(42, 2)));
  assert.notEqual(tokenOfKey(photoKey(42, 1)), tokenOfKey(photoKey(43, 1)));
});

test("tokenOf: the same content in another type: another token", () => {
  const tokens = [bigint(1), int(1), timestamp(1), text("1")].map(tokenOf);
  assert.equal(new Set(tokens).size, tokens.length);
});

test("[TX2] tokenOf: 20 000 ids in sequence: 16 groups of nearly equal size", () => {
  const counts = Array.from({ length: 16 }, () => 0);
  for (let id = 0; id < 20_000; id += 1) {
    const token = tokenOf(bigint(id));
    assert.ok(token >= 0n && token <= TOKEN_MAX);
    counts[Number(token >> 60n)]! += 1;
  }
  for (const count of counts) assert.ok(count > 1050 && count < 1450, counts.join(" "));
});
