import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { MemoryDisk } from "@concord/port-contracts";
import { storedPlacement } from "./views.ts";

const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
/** Version 1 of the format, as it was written: one member, one partition. */
const GOLDEN = Uint8Array.from(Buffer.from("01749f246c00000000000000020101610464632d6101027030010161", "hex"));

async function diskWith(bytes: Uint8Array, name: string): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.makeFolder(`views/${name}`);
  const file = await disk.create(`views/${name}/view`);
  assert.ok(file !== "exists");
  await file.write(0, [bytes]);
  await file.close();
  return disk;
}

test("[TX32] views of before: the newest one's placement; none: undefined; what was changed: CORRUPT_DATA", async () => {
  assert.equal(await storedPlacement(new MemoryDisk(), checksum), undefined);
  assert.deepEqual(await storedPlacement(await diskWith(GOLDEN, "view-00000002"), checksum), new Map([["p0", ["a"]]]));
  const changed = Uint8Array.from(GOLDEN);
  changed[changed.length - 1]! ^= 1;
  await assert.rejects(storedPlacement(await diskWith(changed, "view-00000002"), checksum), { code: "CORRUPT_DATA" });
});
