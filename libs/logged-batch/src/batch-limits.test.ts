// Limits of batches, and counts of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BATCH_BYTES_MAX, BATCH_ROWS_MAX } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, timestampUsOf } from "@concord/runtime";
import { EXECUTING_BATCHES_MAX, LARGE_BATCH_LOG_EVERY_MS } from "./limits.ts";
import { inserts, MemoryRing, WRITE_TIMEOUT_MS } from "./test/memory-ring.ts";
import { failure, requestOf } from "./test/requests.ts";

test("batch: writes nothing: BATCH_INVALID", async () => {
  const ring = await MemoryRing.open(3);
  assert.equal((await failure(ring, ring.process(0).executor.execute(requestOf(ring, { mutationsAt: () => [] })))).code, "BATCH_INVALID");
});

test("[LBD11] batch: rows at the limit: executed; one more: LIMIT_EXCEEDED with the limit named", async () => {
  const ring = await MemoryRing.open(3);
  const partitions = Array.from({ length: BATCH_ROWS_MAX + 1 }, (_, at) => `q${at}`);
  await ring.process(0).executor.execute(requestOf(ring, { mutationsAt: inserts(partitions.slice(1), "v") }));
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring, { mutationsAt: inserts(partitions, "v") })));
  assert.deepEqual([error.code, error.metadata["limit"], error.applied], ["LIMIT_EXCEEDED", "BATCH_ROWS_MAX", "no"]);
});

test("[LBD11] batch: bytes above the limit: LIMIT_EXCEEDED with the limit named", async () => {
  const ring = await MemoryRing.open(3);
  const mutationsAt = inserts(["p1", "p2"], "x".repeat(BATCH_BYTES_MAX / 2));
  const error = await failure(ring, ring.process(0).executor.execute(requestOf(ring, { mutationsAt })));
  assert.deepEqual([error.code, error.metadata["limit"]], ["LIMIT_EXCEEDED", "BATCH_BYTES_MAX"]);
});

test("[LBD11] batch: above a quarter of a limit, rows or bytes: executed, counted, and said once in a while", async () => {
  const said: string[] = [];
  let large = 0;
  const log = { ...silentLog, warn: (line: string) => void said.push(line) };
  const count = (name: string): void => void (large += name === "batch_large_total" ? 1 : 0);
  const ring = await MemoryRing.open(3);
  ring.observed = { log, metrics: { ...silentMetrics, count } };
  ring.crash(ring.node(0));
  await ring.start(ring.node(0));
  const { executor } = ring.process(0);
  const partitions = Array.from({ length: BATCH_ROWS_MAX / 4 + 1 }, (_, at) => `q${at}`);
  const bytes = "x".repeat(BATCH_BYTES_MAX / 8);
  await executor.execute(requestOf(ring, { mutationsAt: inserts(partitions.slice(1), "v") }));
  assert.deepEqual([large, said], [0, []]);
  await executor.execute(requestOf(ring, { mutationsAt: inserts(partitions, "v") }));
  await executor.execute(requestOf(ring, { mutationsAt: inserts(["p1", "p2"], bytes) }));
  assert.deepEqual([large, said.length], [2, 1]);
  await ring.clock.advance(LARGE_BATCH_LOG_EVERY_MS);
  await executor.execute(requestOf(ring, { mutationsAt: inserts(["p1", "p2"], bytes) }));
  assert.deepEqual([large, said.length], [3, 2]);
});

test("batch: rows had newer cells, of a clock that stands ahead: acknowledged without effect, and counted once, at its coordinator", async () => {
  let superseded = 0;
  const count = (name: string): void => void (superseded += name === "batch_superseded_total" ? 1 : 0);
  const ring = await MemoryRing.open(3);
  ring.observed = { log: silentLog, metrics: { ...silentMetrics, count } };
  const { executor } = ring.process(0);
  const aheadUs = timestampUsOf(ring.clock.nowUs() + 59n * 60_000_000n);
  await executor.execute(requestOf(ring, { timestampUs: aheadUs, mutationsAt: inserts(["p1", "p2"], "ahead") }));
  await ring.clock.advance(WRITE_TIMEOUT_MS);
  assert.equal(superseded, 0);
  const before = ring.nodes.map((node) => node.contents());
  await executor.execute(requestOf(ring, { timestampUs: timestampUsOf(ring.clock.nowUs()), mutationsAt: inserts(["p1", "p2"], "right") }));
  await ring.clock.advance(WRITE_TIMEOUT_MS);
  assert.deepEqual(
    ring.nodes.map((node) => node.contents()),
    before,
  );
  assert.equal(superseded, 1);
});

test("batch: more at the same time than the limit: OVERLOADED, applied no", async () => {
  const ring = await MemoryRing.open(3);
  ring.links.set("node-0>node-1", "stuck").set("node-0>node-2", "stuck");
  const { executor } = ring.process(0);
  const running = Array.from({ length: EXECUTING_BATCHES_MAX }, () => executor.execute(requestOf(ring)).catch(() => undefined));
  const error = await executor.execute(requestOf(ring)).catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ConcordError);
  assert.deepEqual([error.code, error.applied], ["OVERLOADED", "no"]);
  await ring.clock.advance(2 * WRITE_TIMEOUT_MS);
  await Promise.all(running);
  assert.equal(executor.executing, 0);
});
