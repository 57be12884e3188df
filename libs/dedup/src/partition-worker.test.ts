// The cycle of one partition on the reference log: verdicts, order, lost sessions, rebuilding.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "@concord/ports";
import { all, fixture, message, outputValues, processed, utf8 } from "./test/fixture.ts";

test("[DD1] cycle: an id sent twice: published once, both told", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const { from } = await log.append(0, [message("a"), message("b"), message("a")]);
  assert.deepEqual(await Promise.all([0n, 1n, 2n].map((each) => worker.whenProcessed(from + each))), [
    { kind: "accepted", offset: 0n },
    { kind: "accepted", offset: 1n },
    { kind: "duplicate" },
  ]);
  await log.append(0, [message("b"), message("c")]);
  assert.deepEqual(await worker.whenProcessed(from + 3n), { kind: "duplicate" });
  assert.deepEqual(await worker.whenProcessed(from + 4n), { kind: "accepted", offset: 2n });
  assert.deepEqual(await outputValues(log), ["value of a", "value of b", "value of c"]);
  assert.deepEqual(await worker.seen([utf8("a"), utf8("z")]), [true, false]);
  await worker.stop();
});

test("cycle: more than a run and the window: runs are sealed and the oldest dropped", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(
    0,
    Array.from({ length: 200 }, (_, at) => message(`id ${at}`)),
  );
  await processed({ worker });
  await log.append(
    0,
    Array.from({ length: 48 }, (_, at) => message(`id ${152 + at}`)),
  );
  await processed({ worker });
  assert.equal((await all(log, "output")).length, 200);
  const { window } = await worker.statistics();
  assert.equal(window.appliedOutput, 200n);
  assert.ok(
    window.runs <= 3 && window.droppedBySize >= 8,
    JSON.stringify(window, (_, value) => String(value)),
  );
  await worker.stop();
});

test("cycle: publish unknown, applied or not or late: each id once, verdicts true", async () => {
  for (const fault of ["unknown-applied", "unknown-not-applied", "unknown-applied-later", "fenced"] as const) {
    const log = new MemoryMessageLog(1);
    const { worker } = fixture({ log });
    await worker.start();
    log.failNext(0, fault);
    const { from } = await log.append(0, [message("a"), message("a"), message(undefined)]);
    assert.deepEqual(await worker.whenProcessed(from), { kind: "accepted", offset: 0n }, fault);
    assert.deepEqual(await worker.whenProcessed(from + 1n), { kind: "duplicate" }, fault);
    assert.deepEqual(await worker.whenProcessed(from + 2n), { kind: "dead-lettered", offset: 0n }, fault);
    assert.deepEqual(await outputValues(log), ["value of a"], fault);
    await worker.stop();
  }
});
