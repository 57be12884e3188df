// Openings of a store whose journal may lack its end, or that had none.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, contentsOf, FOLDER, Machine, NONE, put, remove, segmentsOf, StopError, writes } from "./test/machine.ts";

test("opening: the last segment of the journal is empty: reported like a torn tail, since it may have held values", async () => {
  const machine = new Machine();
  const limits = { journal: { segmentBytes: 200 } };
  const store = await machine.open(limits);
  for (const key of ["a", "b", "c", "d"]) await store.write(writes(put(key, "v".repeat(60))), NONE);
  machine.crash("nothing");
  const segments = await segmentsOf(machine);
  assert.ok(segments.length > 1);
  const file = (await machine.disk.open(`${FOLDER}/journal/${segments.at(-1)!.name}`))!;
  await file.truncate(0);
  await file.close();
  const second = await machine.open(limits);
  assert.equal(second.cutTail, true);
  assert.equal(await second.get(bytes("d")), undefined);
});

test("opening: the header of the journal's last segment rots: every opening refuses, not only the first", async () => {
  const machine = new Machine();
  const limits = { journal: { segmentBytes: 200 } };
  const store = await machine.open(limits);
  for (const key of ["a", "b", "c", "d"]) await store.write(writes(put(key, "v".repeat(60))), NONE);
  machine.crash("nothing");
  const segments = await segmentsOf(machine);
  const file = (await machine.disk.open(`${FOLDER}/journal/${segments.at(-1)!.name}`))!;
  await file.write(20, [Uint8Array.of((await file.read(20, 1))[0]! ^ 1)]);
  await file.sync();
  await file.close();
  for (let opening = 0; opening < 3; opening += 1) await assert.rejects(machine.open(limits), { code: "CORRUPT_DATA" });
  assert.deepEqual(await segmentsOf(machine), segments);
});

test("opening: a backing store without a journal: its values are the first checkpoint, whatever crash interrupts that", async () => {
  const POINTS = ["store:migrating", "journal:segment-written", "journal:segment-made", undefined];
  for (const point of POINTS) {
    const machine = new Machine();
    machine.model.apply([put("old", "1"), put("older", "2")]);
    machine.model.flush();
    machine.stopAt = point;
    if (point !== undefined) await assert.rejects(machine.open(), StopError);
    machine.crash("nothing");
    const store = await machine.open();
    assert.deepEqual(await contentsOf(store), { old: "1", older: "2" }, point);
    await store.write(writes(put("new", "3"), remove("old")), NONE);
    machine.crash("nothing");
    assert.deepEqual(await contentsOf(await machine.open()), { new: "3", older: "2" }, point);
  }
});
