import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { MemoryDisk } from "@concord/port-contracts";
import { toHex, type Random } from "@concord/runtime";
import { agreeOnView, decodeView, encodeView, newestView, unitOf, type ViewsOptions } from "./views.ts";

const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
const member = (name: string): { name: string; datacenter: string } => ({ name, datacenter: `dc-${name}` });
const PARTITIONS = 12;

function optionsOn(disk: MemoryDisk): ViewsOptions {
  let drawn = 0;
  const random: Random = { bytes: (length) => new Uint8Array(length).fill((drawn += 1)), below: () => 0, float: () => 0 };
  return { disk, checksum, random };
}

const ownersOf = async (options: ViewsOptions, names: readonly string[]): Promise<readonly string[]> => {
  const { placement } = await agreeOnView(options, names.map(member), PARTITIONS);
  return Array.from({ length: PARTITIONS }, (_, partition) => placement.get(unitOf(partition))![0]!);
};

test("[TX32] views: workers added and removed: as few partitions move as balance allows; the same list changes nothing, also in another order", async () => {
  const options = optionsOn(new MemoryDisk());
  const three = await ownersOf(options, ["a", "b", "c"]);
  assert.deepEqual(await ownersOf(options, ["c", "a", "b"]), three);
  const four = await ownersOf(options, ["a", "b", "c", "d"]);
  assert.equal(four.filter((owner, at) => owner !== three[at]).length, 3, "the share of the new one");
  const two = await ownersOf(options, ["b", "d"]);
  assert.deepEqual(
    two.map((owner, at) => owner === four[at]),
    four.map((owner) => owner === "b" || owner === "d"),
    "those of the workers that stay stay",
  );
  assert.equal((await newestView(options))!.version, 3n);
});

test("views: workers that start at the same time agree on one; it survives a power cut", async () => {
  const disk = new MemoryDisk();
  const views = await Promise.all(["a", "b", "c"].map(() => agreeOnView(optionsOn(disk), ["a", "b", "c"].map(member), PARTITIONS)));
  disk.crash();
  const found = await newestView(optionsOn(disk));
  for (const view of views) assert.deepEqual(view, found);
  assert.equal(found!.version, 1n);
});

test("views: version 1 as bytes, and what was changed: CORRUPT_DATA", () => {
  const view = { version: 2n, members: [member("a")], placement: new Map([["p0", ["a"]]]) };
  const bytes = encodeView(view, checksum);
  assert.equal(toHex(bytes), "01749f246c00000000000000020101610464632d6101027030010161");
  assert.deepEqual(decodeView(bytes, checksum), view);
  bytes[bytes.length - 1]! ^= 1;
  assert.throws(() => decodeView(bytes, checksum), { code: "CORRUPT_DATA" });
});
