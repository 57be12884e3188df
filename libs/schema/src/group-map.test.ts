import assert from "node:assert/strict";
import { test } from "node:test";
import { TOKEN_MAX } from "@concord/values";
import fc from "fast-check";
import { evenGroupMap, groupIdOf, groupMapFromJson, groupMapToJson, groupOf, masterOf, SCHEMA_LIMITS, SYSTEM_GROUP } from "./index.ts";
import { bigint } from "./test/albums.ts";

const MAP = evenGroupMap(3, ["a", "b"]);

test("[TX2] evenGroupMap: three groups, two coordinators: equal ranges, masters in turn", () => {
  assert.deepEqual(MAP, {
    version: 1n,
    systemMaster: "a",
    groups: [
      { id: "g0", fromToken: 0n, master: "a" },
      { id: "g1", fromToken: 0x5555555555555555n, master: "b" },
      { id: "g2", fromToken: 0xaaaaaaaaaaaaaaaan, master: "a" },
    ],
  });
});

test("[TX2] groupOf: at and beside every border: the range that begins there", () => {
  const ids = [0n, 0x5555555555555554n, 0x5555555555555555n, 0xaaaaaaaaaaaaaaa9n, 0xaaaaaaaaaaaaaaaan, TOKEN_MAX].map(
    (token) => groupOf(MAP, token).id,
  );
  assert.deepEqual(ids, ["g0", "g0", "g1", "g1", "g2", "g2"]);
  assert.throws(() => groupOf(MAP, TOKEN_MAX + 1n), { code: "INTERNAL" });
});

test("[TX2] groupOf: any map and token: the last group that begins at or before the token", () => {
  const count = fc.integer({ min: 1, max: 100 });
  const token = fc.bigInt({ min: 0n, max: TOKEN_MAX });
  fc.assert(
    fc.property(count, token, (groupCount, wanted) => {
      const map = evenGroupMap(groupCount, ["a"]);
      assert.equal(
        groupOf(map, wanted),
        map.groups.findLast((group) => group.fromToken <= wanted),
      );
    }),
  );
});

test("[TX2] groupIdOf: our own tables: always the system group", () => {
  assert.equal(groupIdOf(MAP, { table: "concord_schema", partition: [bigint(1)], clustering: [] }), SYSTEM_GROUP);
  const user = groupIdOf(MAP, { table: "albums", partition: [bigint(1)], clustering: [] });
  assert.ok(MAP.groups.some((group) => group.id === user));
});

test("masterOf: a group, the system group, an unknown one: its master, the system master, GROUP_MISMATCH", () => {
  assert.deepEqual([masterOf(MAP, "g1"), masterOf(MAP, SYSTEM_GROUP)], ["b", "a"]);
  assert.throws(() => masterOf(MAP, "g9"), { code: "GROUP_MISMATCH" });
});

test("evenGroupMap: no group, too many, no coordinator: an assertion fails", () => {
  for (const [count, names] of [
    [0, ["a"]],
    [SCHEMA_LIMITS.groupsMax + 1, ["a"]],
    [1.5, ["a"]],
    [1, []],
  ] as const) {
    assert.throws(() => evenGroupMap(count, names), { code: "INTERNAL" });
  }
  assert.equal(evenGroupMap(SCHEMA_LIMITS.groupsMax, ["a"]).groups.length, SCHEMA_LIMITS.groupsMax);
});

const GOLDEN =
  '{"formatVersion":1,"version":"1","systemMaster":"a","groups":[{"id":"g0","fromToken":"0","master":"a"},' +
  '{"id":"g1","fromToken":"9223372036854775808","master":"b"}]}';

test("group map as JSON: format version 1: as it was first written, and read back", () => {
  const map = evenGroupMap(2, ["a", "b"]);
  assert.equal(groupMapToJson(map), GOLDEN);
  assert.deepEqual(groupMapFromJson(GOLDEN), map);
});

const corrupt: Readonly<Record<string, string>> = {
  "not JSON": "{",
  "a later format": GOLDEN.replace('"formatVersion":1', '"formatVersion":2'),
  "no groups": GOLDEN.replace(/"groups":.*/, '"groups":[]}'),
  "does not begin at 0": GOLDEN.replace('"fromToken":"0"', '"fromToken":"1"'),
  "not in order": GOLDEN.replace("9223372036854775808", "0"),
  "a token beyond 64 bits": GOLDEN.replace("9223372036854775808", "18446744073709551616"),
  "a group twice": GOLDEN.replace('"g1"', '"g0"'),
  "a group named as the system's": GOLDEN.replace('"g1"', '"system"'),
  "an empty master": GOLDEN.replace('"master":"b"', '"master":""'),
  "an unknown field": GOLDEN.replace('"master":"b"', '"master":"b","slave":"c"'),
  "version 0": GOLDEN.replace('"version":"1"', '"version":"0"'),
};

for (const [what, stored] of Object.entries(corrupt)) {
  test(`group map from JSON: ${what}: CORRUPT_DATA`, () => {
    assert.notEqual(stored, GOLDEN);
    assert.throws(() => groupMapFromJson(stored), { code: "CORRUPT_DATA" });
  });
}
