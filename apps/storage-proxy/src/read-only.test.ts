// The real program on a real file system that takes no writes: a node alone serves reads, refuses the rest and changes nothing; a node of
// three refuses to start, since it would promise what it forgets.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { MountedDisk } from "@concord/adapter-node-runtime/testing";
import { BatchService, RowsService, SchemaService } from "@concord/protos-storage";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics, type Channel } from "@concord/runtime";

const MAIN = join(import.meta.dirname, "main.ts");
const CALL = { timeoutMs: 30_000 };
const ROWS = 50;
const REFUSED = { code: "STORE_FAILED", applied: "no", message: /only reads are served: .*takes no writes/u };

const disk = new MountedDisk({ mib: 256 });
const temporary = await mkdtemp(join(tmpdir(), "concord-read-only-test-"));
const { skip } = disk;
const children: ChildProcess[] = [];
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  disk.remove();
  await rm(temporary, { recursive: true, force: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly channel: Channel;
  readonly admin: string;
}

function run(args: readonly string[]): { readonly child: ChildProcess; readonly lines: AsyncIterable<string> } {
  const flags = [
    "--data-folder",
    join(disk.folder, "data"),
    "--admin-address",
    "127.0.0.1:0",
    "--low-space-bytes",
    "0",
    "--reserve-bytes",
    "0",
  ];
  const env = { ...process.env, TMPDIR: temporary };
  const child = spawn(process.execPath, [MAIN, ...flags, ...args], { stdio: ["ignore", "pipe", "inherit"], env });
  children.push(child);
  return { child, lines: createInterface({ input: child.stdout! }) };
}

/** Resolves once it serves. */
async function start(): Promise<Started> {
  const { child, lines } = run(["--node-name", "node-1", "--listen-address", "127.0.0.1:0"]);
  let admin = "";
  for await (const line of lines) {
    const { message, address } = JSON.parse(line) as { message: string; address: string };
    if (message === "admin") admin = address;
    if (message !== "serving") continue;
    child.stdout!.resume();
    return { child, channel: transport.connect(address), admin };
  }
  throw new Error("the process ended before it served");
}

async function end({ child, channel }: Started, signal: NodeJS.Signals): Promise<number | null> {
  channel.close();
  child.kill(signal);
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

async function query({ channel }: Started, text: string): Promise<number> {
  const { rows } = await callUnary(channel, RowsService.methods.Query, { statement: { text, binds: [] } }, CALL);
  return rows?.length ?? 0;
}

const insert = (n: number): string => `INSERT INTO notes (owner, at, body) VALUES ('ann', ${n}, 'text')`;
const selected = (node: Started): Promise<number> => query(node, "SELECT * FROM notes WHERE owner = 'ann'");

test("a start on a read-only disk: a node alone answers reads, refuses writes with the reason, /readyz says so, nothing changes", async (t) => {
  if (skip !== false) return t.skip(skip);
  const before = await start();
  await query(before, "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
  await Promise.all(Array.from({ length: ROWS }, (_, n) => query(before, insert(n))));
  await end(before, "SIGKILL");
  disk.remount("read-only");
  const found = disk.contents();
  const reading = await start();
  assert.equal(await selected(reading), ROWS);
  for (const text of [insert(ROWS), "DELETE FROM notes WHERE owner = 'ann' AND at = 0", "CREATE TABLE others (id bigint PRIMARY KEY)"]) {
    await assert.rejects(query(reading, text), REFUSED, text);
  }
  const key = { table: "notes", partition: [{ textValue: "ann" }], clustering: [{ bigintValue: 99n }] };
  const writes = [{ kind: "WRITE_KIND_INSERT", key, columns: [{ name: "body", value: { textValue: "x" } }] }] as never;
  await assert.rejects(callUnary(reading.channel, BatchService.methods.ExecuteBatch, { writes }, CALL), REFUSED);
  await assert.rejects(callUnary(reading.channel, SchemaService.methods.CreateTables, { statements: [] }, CALL), REFUSED);
  const ready = await fetch(`http://${reading.admin}/readyz`);
  assert.deepEqual([ready.status, /reads only: .*takes no writes/u.test(await ready.text())], [200, true]);
  assert.equal(await selected(reading), ROWS);
  assert.equal(await end(reading, "SIGTERM"), 0);
  assert.deepEqual(disk.contents(), found);
  assert.deepEqual(await readdir(temporary), [], "the copies of logs are gone");
});

test("a node of three on a read-only disk: refused, with what to do, and nothing changes", async (t) => {
  if (skip !== false) return t.skip(skip);
  const found = disk.contents();
  const ring = [1, 2, 3].map((n) => ({ name: `node-${n}`, address: `127.0.0.1:${n}`, datacenter: "local" }));
  const { child, lines } = run([
    "--node-name",
    "node-1",
    "--listen-address",
    "127.0.0.1:1",
    "--peer-token",
    "secret",
    "--ring",
    JSON.stringify(ring),
  ]);
  let output = "";
  for await (const line of lines) output += line;
  if (child.exitCode === null) await once(child, "exit");
  assert.equal(child.exitCode, 1);
  assert.match(output, /takes no writes: a node of a ring votes.*mount it for writing/u);
  assert.deepEqual(disk.contents(), found);
});

test("a disk that takes writes again: all there, and new ones are taken", async (t) => {
  if (skip !== false) return t.skip(skip);
  disk.remount("writable");
  const again = await start();
  assert.equal(await selected(again), ROWS);
  await query(again, insert(ROWS));
  assert.equal(await selected(again), ROWS + 1);
  assert.equal(await end(again, "SIGTERM"), 0);
});
