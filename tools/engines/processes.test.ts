// Real processes of this test's own: a record means one process, and only that one is signalled.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { endRecorded, readRecord, signalRecorded, spawnRecorded, stateOf, type ProcessRecord } from "./processes.ts";

const GRACE_MS = 30_000;
const folder = mkdtempSync(join(tmpdir(), "concord-engines-"));
after(() => rmSync(folder, { recursive: true }));

async function spawned(context: TestContext, script: string): Promise<{ readonly file: string; readonly record: ProcessRecord }> {
  const file = join(folder, `${context.name.replace(/\W+/g, "-")}.json`);
  const options = { command: process.execPath, args: ["-e", script], folder, outFile: `${file}.out` };
  const record = await spawnRecorded(file, options);
  context.after(() => signalRecorded(record, "SIGKILL"));
  return { file, record };
}

const WAIT = "console.log('up'); setInterval(() => undefined, 1000)";

async function printed(file: string): Promise<void> {
  while (!readFileSync(`${file}.out`, "utf8").includes("up")) await new Promise((resolve) => setImmediate(resolve));
}

test("engines: process: recorded, found, ended by SIGTERM: its record is gone", async (context) => {
  const { file, record } = await spawned(context, WAIT);
  assert.deepEqual(readRecord(file), record);
  assert.equal(stateOf(record)?.pid, record.pid);
  assert.equal(stateOf(record)?.isPaused, false);
  assert.equal(await endRecorded(file, "SIGTERM", GRACE_MS), "ended");
  assert.equal(stateOf(record), undefined);
  assert.equal(readRecord(file), undefined);
});

test("engines: process: another one has the id by now: it is neither found nor signalled", async (context) => {
  const { file, record } = await spawned(context, WAIT);
  for (const other of [
    { ...record, startTicks: String(Number(record.startTicks) - 1) },
    { ...record, bootId: "of another boot" },
  ]) {
    writeFileSync(file, JSON.stringify(other));
    assert.equal(stateOf(other), undefined);
    assert.equal(signalRecorded(other, "SIGKILL"), false);
    assert.equal(await endRecorded(file, "SIGKILL", GRACE_MS), "gone");
    assert.equal(stateOf(record)?.pid, record.pid);
  }
});

test("engines: process: paused: says so, and SIGTERM ends it nevertheless", async (context) => {
  const { file, record } = await spawned(context, WAIT);
  assert.equal(signalRecorded(record, "SIGSTOP"), true);
  while (stateOf(record)?.isPaused !== true) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await endRecorded(file, "SIGTERM", GRACE_MS), "ended");
});

test("engines: process: does not end by SIGTERM: SIGKILL", async (context) => {
  const { file } = await spawned(context, `process.on('SIGTERM', () => undefined); ${WAIT}`);
  await printed(file);
  assert.equal(await endRecorded(file, "SIGTERM", 0), "killed");
});

test("engines: process: no such program: rejected, nothing recorded", async () => {
  const file = join(folder, "none.json");
  const options = { command: join(folder, "no-such-program"), args: [], folder, outFile: join(folder, "none.out") };
  await assert.rejects(spawnRecorded(file, options), /ENOENT/);
  assert.equal(readRecord(file), undefined);
});
