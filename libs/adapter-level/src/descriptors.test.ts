// A process that may open no more files: what the store answers, and what is on disk afterwards.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { copyAtOneMoment } from "./test/copy-at-one-moment.ts";
import { openLevel } from "./test/levels.ts";

const root = await mkdtemp(join(tmpdir(), "concord-level-descriptors-"));
after(() => rm(root, { recursive: true }));

const LIMIT = 128;
const script = join(import.meta.dirname, "test", "starved-level.ts");
const key = (number: number): Uint8Array => Buffer.from(`k${String(number).padStart(6, "0")}`);
const onLinux = { skip: process.platform !== "linux" };

async function inStarvedProcess(situation: string): Promise<unknown> {
  const folder = await mkdtemp(join(root, `${situation}-`));
  const command = `ulimit -n ${LIMIT}; exec "$0" "$@"`;
  const printed = execFileSync("sh", ["-c", command, process.execPath, script, situation, folder], { encoding: "utf8" });
  return JSON.parse(printed);
}

test("descriptors: none for a read: OVERLOADED, applied no, after a wait; once there are, every row", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("reads"), ["OVERLOADED/no", true, 6]);
});

test("descriptors: none but those of the reserve: reads, batches and flushes go on without a wait", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("reserve"), ["resolved", 0, 7]);
});

test("flush: no descriptor for the next log, which LevelDB does not report: resolves when it is on disk (I3)", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("flush"), ["resolved", 2, 2]);
});

test("batch: no descriptor for the log that it has to begin: waits for one, every batch there (I7)", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("fullLog"), [true, true, true]);
});

test("batch: LevelDB failed in the background for want of a descriptor: opened again, every batch there (I7)", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("background"), [true, true, true]);
});

test(
  "flush: opened again without the log: what was not flushed is written again, in order; later evidence holds (I7)",
  onLinux,
  async () => {
    assert.deepEqual(await inStarvedProcess("lostLog"), ["resolved", ["k000002: 20", "k000003: 10"], 2, true]);
  },
);

test(
  "flush: no descriptor for ten minutes: waits for one, and so does the batch behind it; then both are there (I7)",
  onLinux,
  async () => {
    assert.deepEqual(await inStarvedProcess("tenMinutes"), ["resolved", "resolved", true, 2, 2]);
  },
);

test(
  "flush: no descriptor until the store is to be closed: OVERLOADED, applied unknown; the next opening has every batch (I7)",
  onLinux,
  async () => {
    assert.deepEqual(await inStarvedProcess("leaving"), ["OVERLOADED/unknown", "STORE_FAILED/no", 1]);
  },
);

test("openLevel: no descriptor: OVERLOADED, applied no; once there are, it opens, waiting for them", onLinux, async () => {
  assert.deepEqual(await inStarvedProcess("opening"), ["OVERLOADED/no", "OVERLOADED/no", 1]);
});

test("flush: LevelDB cannot make its next log and does not report it: opened again, on disk when it resolves (I3)", async () => {
  const folder = join(root, "blocked-log");
  const store = await openLevel(folder);
  await store.batch([{ kind: "put", key: key(1), value: Uint8Array.of(1) }]);
  const next = 1 + Math.max(...(await readdir(folder)).map((name) => Number(/\d+/.exec(name)?.[0] ?? 0)));
  await mkdir(join(folder, `${String(next).padStart(6, "0")}.log`));
  await store.flush();
  await copyAtOneMoment(folder, `${folder}-copy`, (path) => !path.endsWith(".log"));
  await store.close();
  const copy = await openLevel(`${folder}-copy`);
  assert.equal((await copy.range({ from: key(0), to: key(9), limit: 9 })).length, 1);
  await copy.close();
});

test("range: one of the tables cannot be opened: STORE_FAILED for each page that others fill, not their rows alone", async () => {
  const folder = join(root, "absent-table");
  const store = await openLevel(folder);
  for (const part of [0, 1]) {
    const rows = Array.from({ length: 4_000 }, (_, number) => ({
      kind: "put" as const,
      key: key(2 * number + part),
      value: Uint8Array.of(part),
    }));
    await store.batch(rows);
    await store.flush();
  }
  await store.close();
  const later = await openLevel(folder);
  const tables = (await readdir(folder)).filter((name) => name.endsWith(".ldb") && statSync(join(folder, name)).size > 4_000);
  assert.equal(tables.length, 2);
  await rename(join(folder, tables[1]!), join(root, "moved.ldb"));
  const all = { from: key(0), to: key(9_000) };
  for (const page of [
    { limit: 1 },
    { limit: 10 },
    { limit: 2_000 },
    { limit: 9_000 },
    { limit: 100, reverse: true },
    { limit: 9_000, bytesMax: 500 },
  ]) {
    await assert.rejects(later.range({ ...all, ...page }), { code: "STORE_FAILED" }, JSON.stringify(page));
  }
  await rename(join(root, "moved.ldb"), join(folder, tables[1]!));
  assert.equal((await later.range({ ...all, limit: 9_000 })).length, 8_000);
  assert.equal((await later.range({ ...all, limit: 1_000 })).length, 1_000);
  await later.close();
});
