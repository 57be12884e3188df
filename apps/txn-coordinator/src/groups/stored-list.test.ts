import assert from "node:assert/strict";
import { test } from "node:test";
import type { RecordedList } from "@concord/ownership";
import { listFromJson, listOfRow, listToJson } from "./stored-list.ts";

const LIST: RecordedList = {
  version: 3,
  founders: ["a", "b"],
  members: [
    { name: "a", datacenter: "d1", place: 0, address: "a:1", state: "member" },
    { name: "c", datacenter: "d2", place: 2, address: "c:1", state: "leaving" },
  ],
};
const GOLDEN =
  '{"formatVersion":1,"version":3,"founders":["a","b"],"members":[{"name":"a","datacenter":"d1","place":0,"address":"a:1","state":"member"},' +
  '{"name":"c","datacenter":"d2","place":2,"address":"c:1","state":"leaving"}]}';

test("[TX32] stored list: format version 1: as it was first written, and read back", () => {
  assert.equal(listToJson(LIST), GOLDEN);
  assert.deepEqual(listFromJson(GOLDEN), LIST);
  assert.equal(listOfRow(undefined), undefined);
});

const corrupt: Readonly<Record<string, string>> = {
  "not JSON": "{",
  "a later format": GOLDEN.replace('"formatVersion":1', '"formatVersion":2'),
  "a state of its own": GOLDEN.replace("leaving", "gone"),
  "an unknown field": GOLDEN.replace('"founders"', '"more":1,"founders"'),
  "version 0": GOLDEN.replace('"version":3', '"version":0'),
};

for (const [what, text] of Object.entries(corrupt)) {
  test(`stored list: ${what}: CORRUPT_DATA`, () => {
    assert.notEqual(text, GOLDEN);
    assert.throws(() => listFromJson(text), { code: "CORRUPT_DATA" });
  });
}
