// The real program: its own process, files on disk, both fronts on free ports of loopback.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { ANN } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign } from "./test/signing.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-object-gateway-"));
const children: ChildProcess[] = [];
const main = join(import.meta.dirname, "main.ts");

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

/** Resolves with the process once it logs `message`. */
async function start(args: readonly string[] = [], message = "serving"): Promise<{ child: ChildProcess; address: string }> {
  const all = ["--data-folder", folder, "--access-keys", JSON.stringify([ANN]), ...args];
  const child = spawn(process.execPath, [main, ...all], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout! })) {
    const entry = JSON.parse(line) as { message: string; httpAddress: string };
    if (entry.message === message) return { child, address: entry.httpAddress };
  }
  throw new Error(`the process ended before it logged: ${message}`);
}

const call = (address: string, method: string, path: string, body?: string): Promise<Answer> =>
  send(address, sign({ method, path, ...(body === undefined ? {} : { body }) }, { key: ANN, host: address }));

test("[OG18] process: killed with SIGKILL after an acknowledged put: there after the restart; SIGTERM: ends with 0", async () => {
  const large = "x".repeat(100_000);
  const first = await start();
  await call(first.address, "PUT", "/bucket");
  for (const [key, body] of [
    ["small", "kept"],
    ["large", large],
  ] as const)
    assert.equal((await call(first.address, "PUT", `/bucket/${key}`, body)).status, 200);
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  const second = await start();
  assert.equal((await call(second.address, "GET", "/bucket/small")).body, "kept");
  assert.equal((await call(second.address, "GET", "/bucket/large")).body, large);
  second.child.kill("SIGTERM");
  const [code] = (await once(second.child, "exit")) as [number];
  assert.equal(code, 0);
});

test("[OPS3] process: SIGTERM with lame-duck time: requests are answered, and each answer ends its connection; SIGTERM again: ends with 1", async () => {
  const { child, address } = await start(["--data-folder", join(folder, "lame-duck"), "--lame-duck-ms", "60000"]);
  const put = (path: string): Promise<Answer> =>
    send(address, sign({ method: "PUT", path, headers: { connection: "keep-alive" } }, { key: ANN, host: address }));
  const before = await put("/bucket");
  assert.deepEqual([before.status, before.headers["connection"]], [200, "keep-alive"]);
  child.kill("SIGTERM");
  // The signal takes a moment. A server that never says so keeps this loop for as long as the test may run.
  let answer = before;
  for (let at = 0; answer.headers["connection"] === "keep-alive"; at += 1) answer = await put(`/bucket/${at}`);
  assert.deepEqual([answer.status, answer.headers["connection"]], [200, "close"]);
  assert.deepEqual((await put("/bucket/last")).headers["connection"], "close");
  child.kill("SIGTERM");
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 1);
});

/** Another address of this machine: on Linux all of 127.0.0.0/8 is loopback. */
const NEIGHBOUR = "127.0.0.2";
const IDLE_CONNECTIONS = 4_096;

test(
  "[OPS8] process: one address opens as many idle connections as the server takes from all: another address is served; the first one's are given back when they close",
  { skip: process.platform === "linux" ? false : `${NEIGHBOUR} is no address of this machine: only on Linux` },
  async () => {
    const { child, address } = await start(["--data-folder", join(folder, "idle-connections")]);
    const [host, port] = address.split(":") as [string, string];
    const open = (): Promise<Socket> =>
      new Promise((resolve, reject) => {
        const socket = connect({ host, port: Number(port), localAddress: NEIGHBOUR }, () => resolve(socket));
        socket.on("error", reject);
      });
    const sockets: Socket[] = [];
    for (let from = 0; from < IDLE_CONNECTIONS; from += 128) {
      // Those beyond its share are closed at once, some before they were open here.
      const opened = await Promise.allSettled(Array.from({ length: 128 }, open));
      sockets.push(...opened.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])));
    }
    for (const socket of sockets) socket.removeAllListeners("error").on("error", () => undefined);
    assert.equal((await call(address, "PUT", "/bucket")).status, 200, "another address has its share");
    assert.equal((await call(address, "PUT", "/bucket/key", "kept")).status, 200);
    for (const socket of sockets) socket.destroy();
    // Each of these may come before the server has seen the last one close.
    let again = await open().catch(() => undefined);
    while (again === undefined || !(await isServed(again))) again = await open().catch(() => undefined);
    child.kill("SIGKILL");
  },
);

/** The connection is one of those that the server takes: it answers. */
function isServed(socket: Socket): Promise<boolean> {
  return new Promise((resolve) => {
    socket
      .once("data", () => resolve(true))
      .once("close", () => resolve(false))
      .on("error", () => resolve(false));
    socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  });
}

test("[OPS1] process: SIGTERM while it waits for txn-coordinators: ends with 0", async () => {
  const args = ["--metadata", "transactions", "--coordinators", "127.0.0.1:1", "--data-folder", join(folder, "waiting")];
  const { child } = await start(args, "the start waits");
  child.kill("SIGTERM");
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 0);
});

test("[OPS7] process: a second one on the same data folder, rows in transactions: refused by its lock", async () => {
  const args = ["--metadata", "transactions", "--coordinators", "127.0.0.1:1", "--data-folder", join(folder, "taken")];
  const { child: first } = await start(args, "the start waits");
  // One that had the folder would wait as the first one does.
  await assert.rejects(start(args), /the process ended before it logged/);
  first.kill("SIGTERM");
  await once(first, "exit");
});

test("[SEC5] process: no access keys: says how to give them, exit 2; a secret that is too short is not shown", async () => {
  const outputOf = async (args: readonly string[]): Promise<string> => {
    const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "ignore", "pipe"] });
    let output = "";
    child.stderr.on("data", (bytes: Buffer) => (output += bytes.toString()));
    const [code] = (await once(child, "close")) as [number];
    assert.equal(code, 2);
    return output;
  };
  assert.match(await outputOf([]), /CONCORD_ACCESS_KEYS/);
  const short = await outputOf(["--access-keys", JSON.stringify([{ ...ANN, secretAccessKey: "hush" }]), "--nonsense", "1"]);
  assert.match(short, /secretAccessKey/);
  assert.match(short, /nonsense/);
  assert.ok(!short.includes("hush"));
});
