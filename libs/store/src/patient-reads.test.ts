// A process without a descriptor to spare: what reads of the backing store do to checkpoints, scans and callers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type Clock, type Disk } from "@concord/runtime";
import { patientReads } from "./patient-reads.ts";
import { bytes, contentsOf, Machine, NONE, put, textOf, turns, writes } from "./test/machine.ts";

const BUSY = new ConcordError("OVERLOADED", "no descriptor", { applied: "no" });

/** The named reads of the machine's backing store are refused until the returned function is called. */
function refuseReads({ backing }: Machine, names: readonly ("getMany" | "range" | "evidence")[]): () => void {
  const kept = Object.fromEntries(names.map((name) => [name, backing[name]]));
  Object.assign(backing, Object.fromEntries(names.map((name) => [name, () => Promise.reject(BUSY)])));
  return () => Object.assign(backing, kept);
}

/** Every timer that was set is due. */
async function pass(machine: Machine): Promise<void> {
  for (const action of machine.timers.splice(0)) action();
  await turns();
}

const checkpointsOf = ({ points }: Machine): number => points.filter((point) => point === "store:checkpointed").length;

test("checkpoint: reads of the backing store are OVERLOADED: waits, is made once they are not; the store serves meanwhile", async () => {
  for (const names of [["getMany"], ["evidence"], ["getMany", "range", "evidence"]] as const) {
    const machine = new Machine();
    const store = await machine.open();
    await store.write(writes(put("a", "1"), put("b", "1")), NONE);
    await pass(machine);
    // Keys that were written once: a checkpoint has to read what is under them.
    await store.write(writes(put("a", "2"), put("c", "1")), NONE);
    const release = refuseReads(machine, names);
    const made = checkpointsOf(machine);
    for (let times = 0; times < 5; times += 1) await pass(machine);
    assert.equal(checkpointsOf(machine), made, names.join());
    await store.write(writes(put("d", "1")), NONE);
    assert.equal(textOf(await store.get(bytes("a"))), "2");
    if (names[0] === "getMany") await assert.rejects(store.get(bytes("b")), { code: "OVERLOADED", applied: "no" });
    release();
    for (let times = 0; times < 3; times += 1) await pass(machine);
    assert.ok(checkpointsOf(machine) > made);
    assert.equal(machine.failures, 0);
    await store.close();
    machine.crash("nothing");
    assert.deepEqual(await contentsOf(await machine.open()), { a: "2", b: "1", c: "1", d: "1" });
  }
});

test("scan while serving: a page is OVERLOADED, for however long: read later, the store does not fail", async () => {
  const machine = new Machine();
  const first = await machine.open();
  await first.write(writes(put("a", "1"), put("b", "1")), NONE);
  await first.close();
  machine.nowMs = 0;
  const store = await machine.open();
  const release = refuseReads(machine, ["range"]);
  for (let times = 0; times < 100; times += 1) {
    for (const action of machine.scanTimers.splice(0)) action();
    await turns();
  }
  assert.equal(machine.failures, 0);
  release();
  machine.pagesRead = 0;
  await machine.scan();
  assert.ok(machine.pagesRead > 0, "the scan went on");
  assert.equal(machine.failures, 0);
  assert.deepEqual(await contentsOf(store), { a: "1", b: "1" });
});

/** Calls that open files find no descriptor. */
function starvedDisk(disk: Disk, isStarved: (path: string) => boolean): Disk {
  const guarded = async <Answer>(path: string, act: () => Promise<Answer>): Promise<Answer> => {
    if (isStarved(path)) throw BUSY;
    return await act();
  };
  return {
    ...disk,
    create: (path) => guarded(path, () => disk.create(path)),
    open: (path) => guarded(path, () => disk.open(path)),
    syncFolder: (folder) => guarded(folder, () => disk.syncFolder(folder)),
  };
}

test("descriptors: none for a file of the journal or of a checkpoint for ten minutes: the store serves, does not fail, and goes on", async () => {
  const machine = new Machine();
  let isStarved = false;
  machine.diskOf = (disk) => starvedDisk(disk, () => isStarved);
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  isStarved = true;
  const made = checkpointsOf(machine);
  for (let pauses = 0; pauses < 2_400; pauses += 1) await pass(machine);
  assert.deepEqual([machine.failures, checkpointsOf(machine)], [0, made]);
  assert.equal(textOf(await store.get(bytes("a"))), "1");
  isStarved = false;
  for (let times = 0; times < 5; times += 1) await pass(machine);
  assert.ok(checkpointsOf(machine) > made);
  await store.write(writes(put("b", "1")), NONE);
  assert.equal(machine.failures, 0);
  await store.close();
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1", b: "1" });
});

test("descriptors: none, and the store is to be closed: it closes without a failure, and the next opening has everything", async () => {
  const machine = new Machine();
  let isStarved = false;
  machine.diskOf = (disk) => starvedDisk(disk, () => isStarved);
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  isStarved = true;
  for (let pauses = 0; pauses < 5; pauses += 1) await pass(machine);
  const closed = store.close();
  for (let pauses = 0; pauses < 5; pauses += 1) await pass(machine);
  await closed;
  assert.equal(machine.failures, 0);
  isStarved = false;
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1" });
});

test("patient reads: OVERLOADED for ten minutes: repeated until the store is to be closed, then its error; any other failure: at once", async () => {
  let nowMs = 0;
  const tenMinutes = 600_000;
  const clock = {
    monotonicMs: () => nowMs,
    setTimer: (ms: number, action: () => void) => {
      nowMs += ms;
      queueMicrotask(action);
      return { cancel: () => undefined };
    },
  } as unknown as Clock;
  let thrown: Error = BUSY;
  const refuse = (): Promise<never> => Promise.reject(thrown);
  const reads = patientReads({ getMany: refuse, evidence: refuse }, clock, () => nowMs >= tenMinutes);
  await assert.rejects(reads.getMany([]), { code: "OVERLOADED" });
  assert.equal(nowMs, tenMinutes);
  nowMs = 0;
  thrown = new ConcordError("STORE_FAILED", "EIO");
  await assert.rejects(reads.evidence(), { code: "STORE_FAILED" });
  assert.equal(nowMs, 0);
});
