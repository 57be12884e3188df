// A process without a descriptor to spare: what reads of the backing store do to checkpoints, scans and callers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, DESCRIPTOR_WRITE_WAIT_MS, type Clock } from "@concord/runtime";
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

test("patient reads: OVERLOADED for longer than a write waits: its error; any other failure: at once", async () => {
  let nowMs = 0;
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
  const reads = patientReads({ getMany: refuse, evidence: refuse }, clock);
  await assert.rejects(reads.getMany([]), { code: "OVERLOADED" });
  assert.equal(nowMs, DESCRIPTOR_WRITE_WAIT_MS);
  thrown = new ConcordError("STORE_FAILED", "EIO");
  await assert.rejects(reads.evidence(), { code: "STORE_FAILED" });
  assert.equal(nowMs, DESCRIPTOR_WRITE_WAIT_MS);
});
