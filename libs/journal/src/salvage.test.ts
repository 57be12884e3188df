// Damage that is passed over (row 15), read around (row 16), and what a repair makes of the sound rest.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk } from "@concord/port-contracts";
import { salvageJournal } from "./index.ts";
import { checksum, everything, findingsOn, flip, openOn, optionsOn, rot, segmentPaths, text } from "./test/memory-journal.ts";

const RECORDS = ["a", "b", "c", "d"];

/** Four records of a group each; the second one flips. */
async function damagedDisk(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  const journal = await openOn(disk);
  for (const record of RECORDS) await journal.append(text(`${record}-record`));
  await journal.close();
  const [path] = segmentPaths(disk);
  const at = Buffer.from(disk.files.contents().get(path!)!).indexOf("b-record");
  await rot(disk, path!, flip(at));
  return disk;
}

test("row 15: damage before processedTo: passed over and reported, appends go on; damage at processedTo: refused", async () => {
  const disk = await damagedDisk();
  await assert.rejects(openOn(disk, { strict: true, processedTo: 1n }), { code: "CORRUPT_DATA" });
  assert.equal((await findingsOn(disk, { strict: true, processedTo: 2n })).quarantined.length, 1);
  const journal = await openOn(disk, { strict: true, processedTo: 2n });
  assert.equal(await journal.append(text("e-record")), 4n);
  assert.deepEqual(await everything(journal), ["0:a-record", "2:c-record", "3:d-record", "4:e-record"]);
});

test("row 15: the journal ends before processedTo: it goes on there, at each opening", async () => {
  const disk = await damagedDisk();
  for (const _ of [1, 2]) {
    const journal = await openOn(disk, { strict: true, processedTo: 9n });
    assert.equal(journal.durableSequence, 9n);
    await journal.close();
  }
  const journal = await openOn(disk, { strict: true, processedTo: 9n });
  assert.equal(await journal.append(text("z")), 9n);
});

test("row 16: readsDamaged: sound records are read, appends and trims are refused, no byte changes", async () => {
  const disk = await damagedDisk();
  const before = disk.files.contents();
  const journal = await openOn(disk, { strict: true, readsDamaged: true });
  assert.equal(journal.damage?.code, "CORRUPT_DATA");
  assert.deepEqual(await everything(journal), ["0:a-record", "2:c-record", "3:d-record"]);
  await assert.rejects(journal.append(text("x")), { code: "CORRUPT_DATA" });
  await assert.rejects(journal.trim(3n), { code: "CORRUPT_DATA" });
  await journal.close();
  assert.deepEqual(disk.files.contents(), before);
});

test("salvage: sound records keep their sequences, a filler takes what is lost, the damaged journal stays as it is", async () => {
  const disk = await damagedDisk();
  const before = disk.files.contents();
  const target = new MemoryDisk();
  const { records, lost } = await salvageJournal(optionsOn(disk), { disk: target, folder: "journal" }, (record) =>
    text(`after ${record?.length}`),
  );
  assert.deepEqual([records, lost], [3, [{ from: 1n, to: 2n }]]);
  assert.deepEqual(await everything(await openOn(target, { strict: true, checksum })), [
    "0:a-record",
    "1:after 8",
    "2:c-record",
    "3:d-record",
  ]);
  assert.deepEqual(disk.files.contents(), before);
});
