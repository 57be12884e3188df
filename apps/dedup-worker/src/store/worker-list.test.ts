import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { toHex } from "@concord/runtime";
import { decodeWorkerList, encodeWorkerList, foundingWorkers, placedFrom, unitOf, type WorkerList } from "./worker-list.ts";

const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
const worker = (name: string): { name: string; datacenter: string; address: string } => ({
  name,
  datacenter: `dc-${name}`,
  address: `${name}:1`,
});
const PARTITIONS = 12;

const ownersOf = ({ placement }: WorkerList): readonly string[] =>
  Array.from({ length: PARTITIONS }, (_, partition) => placement.get(unitOf(partition))![0]!);

/** The version after this one, with these members. */
function next(before: WorkerList, ...names: readonly string[]): WorkerList {
  const members = names.map((name, place) => ({ ...worker(name), place, state: "member" as const }));
  return placedFrom(before, { version: before.version + 1, founders: before.founders, members });
}

test("[TX32] list of workers: added and removed: as few partitions move as balance allows; version 0 keeps an earlier placement", () => {
  const three = foundingWorkers(["a", "b", "c"].map(worker), PARTITIONS, undefined);
  const four = next(three, "a", "b", "c", "d");
  assert.equal(ownersOf(four).filter((owner, at) => owner !== ownersOf(three)[at]).length, 3, "the share of the new one");
  const two = next(four, "b", "d");
  assert.deepEqual(
    ownersOf(two).map((owner, at) => owner === ownersOf(four)[at]),
    ownersOf(four).map((owner) => owner === "b" || owner === "d"),
    "those of the workers that stay stay",
  );
  assert.deepEqual(foundingWorkers(["b", "d"].map(worker), PARTITIONS, two.placement).placement, two.placement);
});

test("[TX32] list of workers: one that arrives or leaves is assigned nothing", () => {
  const before = foundingWorkers(["a", "b"].map(worker), PARTITIONS, undefined);
  const members = [...before.members.slice(0, 1), { ...before.members[1]!, state: "leaving" as const }];
  assert.deepEqual([...new Set(ownersOf(placedFrom(before, { ...before, version: 1, members })))], ["a"]);
});

test("list of workers: format version 1 as bytes, and what was changed: CORRUPT_DATA", () => {
  const list: WorkerList = {
    version: 3,
    founders: ["a"],
    members: [
      { ...worker("a"), place: 0, state: "member" },
      { ...worker("c"), place: 2, state: "leaving" },
    ],
    placement: new Map([["p0", ["a"]]]),
  };
  const bytes = encodeWorkerList(list, checksum);
  assert.equal(toHex(bytes), "012f1717a8030101610201610464632d6103613a31000101630464632d6303633a31020201027030010161");
  assert.deepEqual(decodeWorkerList(bytes, checksum), list);
  bytes[bytes.length - 1]! ^= 1;
  assert.throws(() => decodeWorkerList(bytes, checksum), { code: "CORRUPT_DATA" });
});
