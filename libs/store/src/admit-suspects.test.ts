// Openings with blocks that are damaged: the checkpoint that names their keys as suspect, and what must be proven before.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import type { KeyValueOperation, SuspectRange } from "@concord/ports";
import { readCheckpoint } from "./checkpoint-file.ts";
import { STORE_LIMITS } from "./limits.ts";
import { namespacesOf, shortened } from "./suspect-ranges.ts";
import { bytes, derived, FOLDER, Machine, NONE, put, remove, StopError, textOf, writes } from "./test/machine.ts";

const checksum = (data: Uint8Array, before?: number): number => crc32(data, before);
const rangeOf = (from: string, to: string): SuspectRange => ({ from: bytes(from), to: bytes(to) });
const FOUND = rangeOf("r3", "r5");
const REFUSED = { code: "CORRUPT_DATA", applied: "no" };

async function checkpointOf({ disk }: Machine): Promise<NonNullable<Awaited<ReturnType<typeof readCheckpoint>>>> {
  return (await readCheckpoint(disk, FOLDER, checksum))!;
}

/** `r1` to `r6` and `g` are below the checkpoint, `r45` was deleted; then a block is lost. */
async function damagedBy(...operations: readonly KeyValueOperation[]): Promise<Machine> {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(
    writes(put("r45", "deleted"), put("g", "vote"), ...["r1", "r2", "r3", "r4", "r5", "r6"].map((key) => put(key, `of ${key}`))),
    NONE,
  );
  await store.close();
  const again = await machine.open();
  await again.write(writes(remove("r45"), put("r4", "newest")), NONE);
  await again.close();
  // A scan makes the note of keys anew, without the deleted one.
  machine.nowMs += STORE_LIMITS.scanEveryMs;
  const last = await machine.open();
  await machine.scan();
  await last.close();
  machine.model.damage(operations, { isNoticed: false });
  machine.model.flush();
  return machine;
}

const LOST = [remove("r3"), put("r4", "of r4"), put("r45", "deleted")];

/** Outside of FOUND all is as it was written, inside all is refused, and the sums are those of what is there. */
async function proves(machine: Machine): Promise<void> {
  const store = await machine.open();
  assert.deepEqual(store.suspects.ranges, [FOUND]);
  for (const key of ["r3", "r4", "r45", "r4x"]) await assert.rejects(store.get(bytes(key)), REFUSED);
  assert.deepEqual((await store.getMany(["g", "r1", "r2", "r5", "r6", "r7"].map(bytes))).map(textOf), [
    "vote",
    "of r1",
    "of r2",
    "of r5",
    "of r6",
    undefined,
  ]);
  await store.write(writes(put("r45", "later"), put("r3", "later"), put("r2", "of r2")), NONE);
  machine.timers[0]!();
  await machine.scan();
  await store.close();
  assert.equal(machine.failures, 0);
  const last = await machine.open();
  await machine.scan();
  assert.equal(machine.failures, 0);
  await last.close();
}

test("admitted suspects: older values and a deleted row come up in a range: the range is refused, the rest served, also after writes to it and a scan", async () => {
  const machine = await damagedBy(...LOST);
  await machine.admit([FOUND]);
  await proves(machine);
});

test("suspects that are not admitted: older values are there: the scan finds that the sums differ", async () => {
  const machine = await damagedBy(...LOST);
  machine.nowMs += STORE_LIMITS.scanEveryMs;
  await machine.open();
  await machine.scan();
  assert.equal(machine.failures, 1);
});

for (const point of ["store:suspects-counted", "store:suspects-noted"]) {
  test(`admitted suspects: a crash at ${point}, and the same damage at the next opening: the same end`, async () => {
    const machine = await damagedBy(...LOST);
    machine.stopAt = point;
    await assert.rejects(machine.admit([FOUND]), StopError);
    machine.crash("nothing");
    await machine.admit([FOUND]);
    await proves(machine);
  });
}

test("suspects that are not all rows are refused, and the checkpoint stays as it was", async () => {
  for (const found of [rangeOf("g", "h"), rangeOf("q", "r1"), rangeOf("r6", "s\0"), rangeOf("", "r1")]) {
    const machine = await damagedBy(...LOST);
    const before = await checkpointOf(machine);
    await assert.rejects(machine.admit([FOUND, found]), REFUSED);
    assert.deepEqual(await checkpointOf(machine), before);
  }
});

test("suspects are refused when something else differs: a row of another namespace, or files that the evidence does not know", async () => {
  const lost = await damagedBy(...LOST, remove("g"));
  await assert.rejects(lost.admit([FOUND]), {
    ...REFUSED,
    message: /keys that begin with byte 103: 1 values were checkpointed, 0 are there/,
  });
  const unproven = await damagedBy(...LOST);
  unproven.model.damage([], { isNoticed: true });
  await assert.rejects(unproven.admit([FOUND]), { ...REFUSED, message: /not proven/ });
  const empty = new Machine();
  await assert.rejects(empty.admit([FOUND]), { ...REFUSED, message: /checkpoint is missing/ });
});

for (const point of ["store:intended", "store:rows-written", "store:flushed"]) {
  for (const keep of ["nothing", "everything"] as const) {
    test(`admitted suspects: the last checkpoint died at ${point} and left ${keep}: keys in the range count as what is there, the others are replayed`, async () => {
      const machine = await damagedBy();
      const store = await machine.open();
      await store.write(
        writes(put("r4", "unfinished"), put("r1", "of r1"), put("g", "vote")),
        derived(put("r3", "derived"), put("r9", "derived")),
      );
      machine.stopAt = point;
      machine.timers[0]!();
      await machine.scan();
      machine.crash(keep);
      machine.failures = 0;
      machine.model.damage(LOST, { isNoticed: false });
      machine.model.flush();
      await machine.admit([FOUND]);
      await proves(machine);
    });
  }
}

test("admitted suspects: a second damage later: both ranges are refused, and the first one stays when only the second is found", async () => {
  const machine = await damagedBy(...LOST);
  await machine.admit([FOUND]);
  await (await machine.open()).close();
  machine.model.damage([remove("r1")], { isNoticed: false });
  machine.model.flush();
  await machine.admit([rangeOf("r1", "r2")]);
  const store = await machine.open();
  assert.deepEqual(store.suspects.ranges, [rangeOf("r1", "r2"), FOUND]);
  assert.equal(textOf(await store.get(bytes("r2"))), "of r2");
  await machine.scan();
  assert.equal(machine.failures, 0);
});

test("namespaces of a range: the first bytes of its keys", () => {
  const of = (from: string, to: string): string => Buffer.from(namespacesOf([rangeOf(from, to)])).toString();
  assert.deepEqual([of("r1", "r2"), of("r", "s"), of("r", "s\0"), of("q", "r1"), of("a", "a")], ["r", "r", "rs", "qr", ""]);
  assert.equal(namespacesOf([{ from: bytes(""), to: bytes("r") }]).length, "r".charCodeAt(0));
});

test("suspect ranges: joined with their neighbours when they take more than a checkpoint file has space for, below, at and above that", () => {
  const ranges = Array.from({ length: 5 }, (_, at) => rangeOf(`r${at}`, `r${at}x`));
  assert.equal(shortened(ranges, 5 * 13), ranges);
  assert.deepEqual(shortened(ranges, 5 * 13 - 1), [rangeOf("r0", "r1x"), rangeOf("r2", "r3x"), rangeOf("r4", "r4x")]);
  assert.deepEqual(shortened(ranges, 13), [rangeOf("r0", "r4x")]);
  assert.equal(shortened(ranges, 12), undefined);
});
