// Pages of large rows from replicas whose answers take the time of their bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowRange } from "@concord/ports";
import { ROW_BYTES_MAX } from "./limits.ts";
import { insert, keyOf, RANGE, settled } from "./test/notes.ts";
import { testRing, type TestRing } from "./test/ring.ts";

/** A disk or a network that large writes have the time for: `WRITE_BYTES_PER_MS` of ports is a sixth of it. */
const BYTES_PER_MS = 1536;
/** The default time-out of a storage-proxy's reads. */
const READ = { timeoutMs: 2_000 };
const STEP_MS = 100;
const LARGE = "x".repeat(ROW_BYTES_MAX - 1_000);

/** Two of three replicas answer at this speed; the coordinator's own is as fast as memory. */
function slowed(ring: TestRing): TestRing {
  const taking = async (bytes: number): Promise<void> =>
    new Promise((resolve) => void ring.clock.setTimer(Math.ceil(bytes / BYTES_PER_MS), resolve));
  for (const replica of ring.replicas.slice(1)) {
    const { readRows, readRowRange } = replica;
    replica.readRows = async (...call) => {
      const rows = await readRows.apply(replica, call);
      await taking(rows.reduce((sum, { length }) => sum + length, 0));
      return rows;
    };
    replica.readRowRange = async (...call) => {
      const page = await readRowRange.apply(replica, call);
      await taking(page.rows.reduce((sum, { length }) => sum + length, 0));
      return page;
    };
  }
  return ring;
}

/** Time moves until the answer is there. */
async function passing<Value>(ring: TestRing, reading: Promise<Value>): Promise<Value> {
  while ((await settled(reading)) === "waiting") await ring.clock.pass(STEP_MS);
  return reading;
}

test("range: a listing of rows of 2 MiB from disks that give 1.5 MiB/s was READ_TIMEOUT for ever: pages end once half of their time is used", async () => {
  const ring = testRing(3);
  for (const at of [1, 2, 3]) await ring.rows.apply([insert(LARGE, 1, keyOf(at))], READ);
  slowed(ring);
  const listed: number[] = [];
  for (let after: RowRange["after"], isLast = false; !isLast;) {
    const page = await passing(ring, ring.rows.readRange({ ...RANGE, ...(after === undefined ? {} : { after }) }, READ));
    listed.push(...page.rows.map(({ key }) => Number(key.clustering[0]!.value)));
    isLast = page.next === undefined;
    after = page.next;
  }
  assert.deepEqual(listed, [1, 2, 3]);
});
