// The real program on a real file system that is full: mounted in memory, filled to its last byte by another program.
import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rm, stat, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { nodeClock } from "@concord/adapter-node-runtime";
import { MountedDisk } from "@concord/adapter-node-runtime/testing";
import { connect, type ConcordClient } from "@concord/client";
import { sleep } from "@concord/runtime";
import { ACCESS_KEY } from "./test/memory-node.ts";
import { ended, Processes, type Ready } from "./test/process.ts";

const MIB = 1024 * 1024;
const RESERVE_BYTES = 32 * MIB;
const LOW_BYTES = 32 * MIB;
const DISK_MIB = 256;
const LOOK_MS = 50;
/** Deadline of a call that is to be refused: its client repeats it until then. */
const REFUSED_MS = 1000;
const NOTE = { table: "notes", key: { owner: "ann" } };
/** Deletions whose records are more than what is left of a journal's last block. */
const FREEING = 20;
const LONG_KEY = 800;

const disk = new MountedDisk({ mib: DISK_MIB });
const { folder } = disk;
const processes = new Processes();
after(() => {
  processes.end();
  disk.remove();
});

interface Clients {
  readonly db: ConcordClient;
  readonly s3: S3Client;
  close(): void;
}

async function clientsOf({ address, httpAddress }: Ready): Promise<Clients> {
  const db = await connect({ coordinators: [address], dedupWorker: address });
  const endpoint = `http://${httpAddress}`;
  const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY }, maxAttempts: 1 });
  return { db, s3, close: () => [db.close(), s3.destroy()] };
}

const object = (Key: string): { Bucket: string; Key: string } => ({ Bucket: "photos", Key });
const put = ({ s3 }: Clients, key: string): Promise<unknown> => s3.send(new PutObjectCommand({ ...object(key), Body: key }));
const remove = ({ s3 }: Clients, key: string): Promise<unknown> => s3.send(new DeleteObjectCommand(object(key)));
const get = ({ s3 }: Clients, key: string): Promise<string> =>
  s3.send(new GetObjectCommand(object(key))).then(({ Body }) => Body!.transformToString());
const listed = async ({ s3 }: Clients): Promise<unknown[]> =>
  ((await s3.send(new ListObjectsV2Command({ Bucket: "photos" }))).Contents ?? []).map(({ Key }) => Key);
const note = ({ db }: Clients, body: string, deadlineMs?: number): Promise<void> =>
  db.runTransaction(NOTE, async (txn) => txn.insert("notes", { ...NOTE.key, body }), deadlineMs === undefined ? {} : { deadlineMs });
const erase = ({ db }: Clients): Promise<void> => db.runTransaction(NOTE, async (txn) => txn.delete("notes", NOTE.key));
const noted = ({ db }: Clients): Promise<{ body: string } | undefined> =>
  db.runTransaction(NOTE, (txn) => txn.read<{ body: string }>("notes", NOTE.key));
const mark = ({ db }: Clients, body: string): Promise<unknown> => db.query("INSERT INTO marks (owner, body) VALUES (?, ?)", ["ann", body]);
const unmark = ({ db }: Clients, owner: string): Promise<unknown> => db.query("DELETE FROM marks WHERE owner = ?", [owner]);
const marked = async ({ db }: Clients): Promise<unknown> =>
  (await db.query("SELECT body FROM marks WHERE owner = ?", ["ann"])).rows[0]?.["body"];
/** The first message of all. */
async function received({ db: { messages } }: Clients): Promise<string | undefined> {
  const { partitions } = await messages.bounds(0);
  for (let partition = 0; partition < partitions; partition += 1) {
    const { start } = await messages.bounds(partition);
    const page = await messages.read(partition, { from: start });
    if (page.messages.length > 0) return page.messages[0]!.id;
  }
  return undefined;
}
const send = ({ db }: Clients, id: string, timeoutMs?: number): Promise<string> =>
  db.messages.ingest([{ id, value: id }], timeoutMs === undefined ? {} : { timeoutMs }).then(([result]) => result!.verdict);

/** The last byte too. */
async function fill(): Promise<void> {
  for (const [name, step] of [
    ["junk", MIB],
    ["crumbs", 4096],
  ] as const) {
    const { bavail, bsize } = await statfs(folder);
    await writeFile(join(folder, name), Buffer.alloc(Math.floor((bavail * bsize) / step) * step, 1));
  }
  const { bavail } = await statfs(folder);
  assert.equal(bavail, 0);
}

async function untilReserved(data: string): Promise<void> {
  const file = join(data, "storage/reserve");
  while ((await stat(file).catch(() => undefined))?.size !== RESERVE_BYTES) await sleep(nodeClock, LOOK_MS);
}

/** Once what is refused is: the disk is measured now and then. */
async function untilRefused(clients: Clients): Promise<void> {
  for (;;) {
    const code = await note(clients, "too much", REFUSED_MS).then(
      () => "stored",
      (thrown: { code: string }) => thrown.code,
    );
    if (code === "STORAGE_FULL") return;
    await sleep(nodeClock, LOOK_MS);
  }
}

for (const metadata of ["local", "transactions"]) {
  test(
    `[OPS11] full disk, metadata ${metadata}: starts on what it had reserved, serves reads and deletes, refuses new data; with space again takes it`,
    { skip: disk.skip },
    async () => {
      const data = join(folder, metadata);
      const space = ["--low-space-bytes", String(LOW_BYTES), "--reserve-bytes", String(RESERVE_BYTES)];
      const args = ["--data-folder", data, "--metadata", metadata, ...space];
      const first = await processes.start(args);
      const before = await clientsOf(first);
      await before.db.createTables(["CREATE TABLE notes (owner text PRIMARY KEY, body text)"]);
      await before.s3.send(new CreateBucketCommand({ Bucket: "photos" }));
      await note(before, "kept");
      for (const key of ["cat", "dog"]) await put(before, key);
      assert.equal(await send(before, "m1"), "accepted");
      await untilReserved(data);
      await ended(first.child, "SIGKILL");
      before.close();
      await fill();

      // Twice: the second start finds no reserve, but what was left of it.
      for (const round of ["first", "second"]) {
        const full = await processes.start(args);
        const clients = await clientsOf(full);
        await untilRefused(clients);
        const code = (thrown: unknown): string => (thrown as { code?: string }).code ?? (thrown as Error).name;
        assert.equal(await put(clients, "owl").then(() => "stored", code), "StorageFull", round);
        assert.equal(await send(clients, "m2", REFUSED_MS).catch(code), "STORAGE_FULL", round);
        if (round === "first") {
          assert.deepEqual(
            [(await noted(clients))?.body, await get(clients, "cat"), await send(clients, "m1", REFUSED_MS).catch(code)],
            ["kept", "cat", "STORAGE_FULL"],
          );
          await erase(clients);
          await remove(clients, "cat");
        }
        assert.deepEqual([await noted(clients), await get(clients, "dog")], [undefined, "dog"]);
        assert.equal(await get(clients, "cat").catch(code), "NoSuchKey");
        await ended(full.child, "SIGKILL");
        clients.close();
      }
      for (const name of ["junk", "crumbs"]) await rm(join(folder, name));
      const last = await processes.start(args);
      const after = await clientsOf(last);
      await note(after, "new");
      await put(after, "owl");
      assert.deepEqual([await send(after, "m1"), await send(after, "m2")], ["duplicate", "accepted"]);
      last.child.kill("SIGTERM");
      assert.deepEqual((await once(last.child, "exit"))[0], 0);
      after.close();
      await rm(data, { recursive: true });
    },
  );
}

/** Resolves when each of the parts has logged that records wait for space. */
async function untilWaiting(child: ChildProcess, parts: readonly string[]): Promise<void> {
  const missing = new Set(parts);
  for await (const line of createInterface({ input: child.stdout! })) {
    const { part, message } = JSON.parse(line) as { part: string; message: string };
    if (message.includes("records of the journal wait for space")) missing.delete(part);
    if (missing.size === 0) break;
  }
  child.stdout!.resume();
}

test(
  "[OPS11] full disk without a reserve: deletions wait, reads are served; SIGTERM ends it with 0; started again it serves reads, and with space writes",
  { skip: disk.skip },
  async () => {
    const data = join(folder, "unreserved");
    const args = ["--data-folder", data, "--low-space-bytes", String(LOW_BYTES), "--reserve-bytes", "0"];
    const first = await processes.start(args);
    const before = await clientsOf(first);
    await before.db.createTables([
      "CREATE TABLE notes (owner text PRIMARY KEY, body text)",
      "CREATE TABLE marks (owner text PRIMARY KEY, body text) WITH kind = 'plain'",
    ]);
    await before.s3.send(new CreateBucketCommand({ Bucket: "photos" }));
    await note(before, "kept");
    await mark(before, "kept");
    await send(before, "m1");
    const names = Array.from({ length: FREEING }, (_, at) => `${at}-`.padEnd(LONG_KEY, "x"));
    await Promise.all(["cat", ...names].map((key) => put(before, key)));
    await fill();
    // Deletions are not refused: they fill what is left of the journals' last blocks.
    const erased = (owner: string): Promise<void> =>
      before.db.runTransaction({ table: "notes", key: { owner } }, async (txn) => txn.delete("notes", { owner }));
    const unmarked = (owner: string): Promise<unknown> => unmark(before, owner);
    const written = Promise.allSettled([...names.map((name) => remove(before, name)), ...names.map(erased), ...names.map(unmarked)]);
    await untilWaiting(first.child, ["objects", "storage"]);
    // In the bucket and the table in which rows wait to be deleted.
    assert.equal(await get(before, "cat"), "cat");
    assert.ok((await listed(before)).includes("cat"));
    assert.equal((await noted(before))?.body, "kept");
    assert.equal(await marked(before), "kept");
    assert.equal(await received(before), "m1");
    first.child.kill("SIGTERM");
    assert.equal((await once(first.child, "exit"))[0], 0);
    before.close();
    await written;
    const second = await processes.start(args);
    const full = await clientsOf(second);
    assert.equal(await get(full, "cat"), "cat");
    for (const name of ["junk", "crumbs"]) await rm(join(folder, name));
    await note(full, "new");
    assert.equal((await noted(full))?.body, "new");
    await put(full, "owl");
    assert.equal(await get(full, "owl"), "owl");
    await ended(second.child, "SIGTERM");
    full.close();
    await rm(data, { recursive: true });
  },
);
