// One bit of a block of rows is flipped while the real program is stopped: everything serves but the rows that may have been in the block, over restarts, until an
// operator accepts the loss.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect, type ConcordClient } from "@concord/client";
import { repairCommand } from "./fsck/repair.ts";
import { KILLED_CONFIG, makeKilledNode } from "./test/killed-node.ts";
import { ended, Processes } from "./test/process.ts";

const ROWS = 300;
const DAMAGED = 150;
const REFUSED = {
  code: "CORRUPT_DATA",
  applied: "no",
  retryable: false,
  message: /values with keys from .* on and below .* may be older .*concord repair --accept-loss/u,
};

let root: string;
let folder: string;
const processes = new Processes();

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-suspect-rows-"));
  folder = join(root, "copy");
  await cp(await makeKilledNode(root), folder, { recursive: true });
});

after(async () => {
  processes.end();
  await rm(root, { recursive: true, force: true });
});

/** Rows come behind the entries of the log that put them: the last match is the row's own. */
async function damageRow(n: number): Promise<void> {
  const store = join(folder, "storage/store");
  for (const name of (await readdir(store)).filter((one) => one.endsWith(".ldb"))) {
    const content = await readFile(join(store, name));
    const at = content.lastIndexOf(`note ${n} `);
    if (at < 0) continue;
    content[at]! ^= 4;
    await writeFile(join(store, name), content);
    return;
  }
  assert.fail("a table has the row");
}

type Read = "exact" | "refused";

async function readNote(db: ConcordClient, n: number): Promise<Read> {
  try {
    const row = await db.read("notes", { id: BigInt(n) });
    assert.equal(String(row?.["body"]), n === 0 ? "changed" : `note ${n} ${"x".repeat(100)}`);
    return "exact";
  } catch (thrown) {
    if (thrown instanceof assert.AssertionError) throw thrown;
    await assert.rejects(Promise.reject(thrown as Error), REFUSED);
    return "refused";
  }
}

async function withNode<Answer>(ranges: 0 | 1, act: (db: ConcordClient) => Promise<Answer>): Promise<Answer> {
  const { groupCount, partitions } = KILLED_CONFIG;
  const args = ["--data-folder", folder, "--group-count", String(groupCount), "--partitions", String(partitions)];
  const { child, address, adminAddress } = await processes.start(args);
  const ready = await fetch(`http://${adminAddress}/readyz`, { headers: { connection: "close" } });
  assert.equal(ready.status, 200);
  const metrics = await fetch(`http://${adminAddress}/metrics`, { headers: { connection: "close" } });
  assert.match(await metrics.text(), new RegExp(`^storage_suspect_ranges ${ranges}$`, "mu"));
  const db = await connect({ coordinators: [address], dedupWorker: address, timeoutMs: 60_000 });
  try {
    return await act(db);
  } finally {
    db.close();
    assert.equal(await ended(child, "SIGTERM"), 0);
  }
}

async function notesRefused(db: ConcordClient): Promise<readonly number[]> {
  const refused: number[] = [];
  for (let n = 0; n < ROWS; n += 1) if ((await readNote(db, n)) === "refused") refused.push(n);
  return refused;
}

test("[OPS6] process: a block of rows is damaged: its rows are refused, over restarts; every other row, writes and messages are served", async () => {
  await damageRow(DAMAGED);
  const first = await withNode(1, async (db) => {
    const refused = await notesRefused(db);
    assert.ok(refused.includes(DAMAGED) && refused.length < ROWS / 2, `refused: ${refused.join()}`);
    await db.createTables(["CREATE TABLE more (id bigint PRIMARY KEY, body text)"]);
    await db.insert("more", { id: 1n, body: "new" });
    await db.update("notes", { id: 0n, body: "changed" });
    assert.equal((await db.messages.ingest([{ id: "m0", value: "hello" }]))[0]!.verdict, "duplicate");
    return refused;
  });
  await withNode(1, async (db) => {
    assert.deepEqual(await notesRefused(db), first);
    assert.deepEqual(await db.read("more", { id: 1n }), { id: 1n, body: "new" });
  });
  const lines: string[] = [];
  assert.equal(await repairCommand([folder, "--apply", "--accept-loss"], (line) => lines.push(line)), 0, lines.join("\n"));
  await withNode(0, async (db) => {
    for (let n = 0; n < ROWS; n += 1) if (!first.includes(n)) assert.equal(await readNote(db, n), "exact");
    await db.insert("notes", { id: BigInt(DAMAGED), body: "from a backup" });
    assert.deepEqual(await db.read("notes", { id: BigInt(DAMAGED) }), { id: BigInt(DAMAGED), body: "from a backup" });
  });
});
