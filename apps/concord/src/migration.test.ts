// A data folder that the program of an earlier commit wrote (test/before-the-journal) is migrated at the start, by the real program, killed
// in the middle of it again and again: every row, object and message is there.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { FAILPOINT_VARIABLE } from "@concord/adapter-node-runtime";
import { connect, type ConcordClient } from "@concord/client";
import { ACCESS_KEY } from "./test/memory-node.ts";
import { ended, Processes } from "./test/process.ts";

const ARCHIVE = join(import.meta.dirname, "test/before-the-journal/folder.tar.gz");
const [NOTES, PAGES, OBJECTS, MESSAGES] = [300, 60, 15, 30] as const;
/** A point that is not passed by then fails the test. */
const KILL_MS_MAX = 60_000;
/** The stores of a node: rows, the worker's own, the objects' metadata. Each is migrated when it is first opened. */
const STORES = ["storage/store", "messages/meta", "objects/metadata"];

const root = await mkdtemp(join(tmpdir(), "concord-migration-"));
const processes = new Processes();
after(async () => {
  processes.end();
  await rm(root, { recursive: true });
});

/** A copy of the folder as that program left it. */
async function unpacked(name: string): Promise<string> {
  const folder = join(root, name);
  await mkdir(folder);
  const { status, stderr } = spawnSync("tar", ["-xzf", ARCHIVE, "-C", folder], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return folder;
}

const argsOf = (folder: string): string[] => ["--data-folder", folder, "--partitions", "2"];

/** Runs the program until the failpoint kills it. */
async function killedAt(folder: string, point: string): Promise<void> {
  const child = processes.spawn(argsOf(folder), { [FAILPOINT_VARIABLE]: point });
  for (const stream of [child.stdout!, child.stderr!]) stream.resume();
  const limit = setTimeout(() => child.kill("SIGTERM"), KILL_MS_MAX);
  const [, signal] = (await once(child, "exit")) as [number | null, string | null];
  clearTimeout(limit);
  assert.equal(signal, "SIGKILL", `it was to be killed at ${point}`);
}

const migrated = (folder: string): boolean[] => STORES.map((store) => existsSync(join(folder, store, "checkpoint")));
const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

async function checkRows(db: ConcordClient): Promise<void> {
  const notes = await db.readMany(
    "notes",
    numbers(NOTES).map((n) => ({ id: BigInt(n) })),
  );
  const expected = numbers(NOTES).map((n) => (n % 10 === 0 ? undefined : { id: BigInt(n), body: `note ${n}` }));
  assert.deepEqual(notes, expected);
  const pages = numbers(PAGES).map((n) => ({ page: `/page-${n}` }));
  assert.deepEqual(
    await db.readMany("visits", pages),
    pages.map((key, n) => ({ ...key, visits: n })),
  );
  const last = { page: `/page-${PAGES - 1}` };
  const locked = await db.runTransaction({ table: "visits", key: last }, (txn) => txn.lock("visits", last));
  assert.deepEqual(locked, { ...last, visits: PAGES - 1 });
}

/** With today's program: everything that the program of then acknowledged, then a clean end. */
async function checkAll(folder: string): Promise<void> {
  const { child, address, httpAddress } = await processes.start(argsOf(folder));
  const db = await connect({ coordinators: [address], dedupWorker: address });
  const endpoint = `http://${httpAddress}`;
  const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY } });
  await checkRows(db);
  for (const n of numbers(OBJECTS)) {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: "photos", Key: `object-${n}` }));
    assert.equal(await Body!.transformToString(), `object ${n} `.repeat(n * 400 + 1));
  }
  const sent = await db.messages.ingest(numbers(MESSAGES).map((n) => ({ id: `message-${n}`, value: `message ${n}` })));
  assert.deepEqual(
    sent.map(({ verdict }) => verdict),
    numbers(MESSAGES).map(() => "duplicate"),
  );
  db.close();
  s3.destroy();
  assert.equal(await ended(child, "SIGTERM"), 0);
}

test("[TX27] [OPS25] migration: the folder of a program without a journal: all there, also after another start", async () => {
  const folder = await unpacked("once");
  assert.deepEqual(migrated(folder), [false, false, false]);
  await checkAll(folder);
  assert.deepEqual(migrated(folder), [true, true, true]);
  await checkAll(folder);
});

for (const [at, store] of ["first", "second", "third"].entries()) {
  test(`[TX27] [OPS25] migration: killed when the ${store} store gets its journal, and again: all there`, async () => {
    const folder = await unpacked(store);
    await killedAt(folder, `store:migrating:${at + 1}`);
    assert.notDeepEqual(migrated(folder), [true, true, true]);
    await killedAt(folder, "store:migrating");
    await checkAll(folder);
  });
}

test("[TX27] migration: killed in the first checkpoints behind it: all there", async () => {
  const folder = await unpacked("checkpoints");
  for (const point of ["store:intended", "store:rows-written", "store:flushed"]) await killedAt(folder, point);
  await checkAll(folder);
});
