// The real program on a real file system that takes no writes: it serves what is there, refuses the rest, says so, and changes nothing.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { MountedDisk } from "@concord/adapter-node-runtime/testing";
import { ANN } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign } from "./test/signing.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const LARGE = "x".repeat(100_000);

const disk = new MountedDisk({ mib: 256 });
const temporary = await mkdtemp(join(tmpdir(), "concord-read-only-test-"));
const { skip } = disk;
const children: ChildProcess[] = [];

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  disk.remove();
  await rm(temporary, { recursive: true, force: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly s3: string;
  readonly admin: string;
  readonly log: readonly string[];
}

function run(args: readonly string[]): { readonly child: ChildProcess; readonly lines: AsyncIterable<string> } {
  const flags = ["--data-folder", join(disk.folder, "data"), "--admin-address", "127.0.0.1:0", "--access-keys", JSON.stringify([ANN])];
  flags.push("--low-space-bytes", "0", "--reserve-bytes", "0", ...args);
  const child = spawn(process.execPath, [MAIN, ...flags], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TMPDIR: temporary },
  });
  children.push(child);
  return { child, lines: createInterface({ input: child.stdout! }) };
}

/** Resolves once it serves. */
async function start(): Promise<Started> {
  const { child, lines } = run([]);
  const log: string[] = [];
  let admin = "";
  for await (const line of lines) {
    log.push(line);
    const { message, address, httpAddress } = JSON.parse(line) as { message: string; address: string; httpAddress: string };
    if (message === "admin") admin = address;
    if (message !== "serving") continue;
    child.stdout!.resume();
    return { child, s3: httpAddress, admin, log };
  }
  throw new Error(`the process ended before it served:\n${log.join("\n")}`);
}

async function end({ child }: Started, signal: NodeJS.Signals): Promise<number | null> {
  child.kill(signal);
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

const call = (
  { s3 }: Started,
  method: string,
  path: string,
  body?: string,
  query: readonly (readonly [string, string])[] = [],
): Promise<Answer> => send(s3, sign({ method, path, query, ...(body === undefined ? {} : { body }) }, { key: ANN, host: s3 }));

test("a start on a read-only disk: reads and lists are answered, writes get 503 with the reason, /readyz and the log say so, nothing changes", async (t) => {
  if (skip !== false) return t.skip(skip);
  const before = await start();
  assert.equal((await call(before, "PUT", "/photos")).status, 200);
  for (const [key, body] of [
    ["small", "kept"],
    ["large", LARGE],
  ] as const) {
    assert.equal((await call(before, "PUT", `/photos/${key}`, body)).status, 200);
  }
  await end(before, "SIGKILL");
  disk.remount("read-only");
  const found = disk.contents();
  const reading = await start();
  assert.equal((await call(reading, "GET", "/photos/small")).body, "kept");
  assert.equal((await call(reading, "GET", "/photos/large")).body, LARGE);
  assert.match((await call(reading, "GET", "/photos", undefined, [["list-type", "2"]])).body, /<Key>large<\/Key>.*<Key>small<\/Key>/su);
  for (const [method, path, body, query = []] of [
    ["PUT", "/photos/small", "new"],
    ["DELETE", "/photos/small", undefined],
    ["PUT", "/others", undefined],
    ["POST", "/photos/parts", "", [["uploads", ""]]],
  ] as const) {
    const { status, body: text } = await call(reading, method, path, body, query);
    assert.equal(status, 503, `${method} ${path}`);
    assert.match(text, /Only reads are served: .*takes no writes/u);
  }
  const ready = await fetch(`http://${reading.admin}/readyz`);
  assert.deepEqual([ready.status, /reads only: .*takes no writes/u.test(await ready.text())], [200, true]);
  assert.match(await (await fetch(`http://${reading.admin}/metrics`)).text(), /^objects_read_only 1$/mu);
  assert.ok(reading.log.some((line) => line.includes("mount its data folder for writing")));
  assert.equal((await call(reading, "GET", "/photos/small")).body, "kept");
  assert.equal(await end(reading, "SIGTERM"), 0);
  assert.deepEqual(disk.contents(), found);
  assert.deepEqual(await readdir(temporary), [], "the copies of logs are gone");
});

test("a disk that takes writes again: all there, and new ones are taken", async (t) => {
  if (skip !== false) return t.skip(skip);
  disk.remount("writable");
  const again = await start();
  assert.equal((await call(again, "GET", "/photos/large")).body, LARGE);
  assert.equal((await call(again, "PUT", "/photos/small", "new")).status, 200);
  assert.equal((await call(again, "GET", "/photos/small")).body, "new");
  assert.equal(await end(again, "SIGTERM"), 0);
});

test("a gateway of shared data on a read-only disk: refused, with what to do", async (t) => {
  if (skip !== false) return t.skip(skip);
  disk.remount("read-only");
  const { child, lines } = run(["--data-store-folder", join(temporary, "shared")]);
  let output = "";
  for await (const line of lines) output += line;
  if (child.exitCode === null) await once(child, "exit");
  assert.equal(child.exitCode, 1);
  assert.match(output, /takes no writes.*mount it for writing/u);
});
