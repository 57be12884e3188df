// `concord status` against a process of the program.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";

const MAIN = join(import.meta.dirname, "../main.ts");
const FREE_PORTS = ["--listen-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"];
const folder = await mkdtemp(join(tmpdir(), "concord-status-"));
const server = spawn(process.execPath, [MAIN, "start", "--data", folder, ...FREE_PORTS], { stdio: ["ignore", "pipe", "inherit"] });
after(async () => {
  server.kill("SIGTERM");
  await once(server, "exit");
  await rm(folder, { recursive: true });
});

async function adminAddress(): Promise<string> {
  let address = "";
  for await (const line of createInterface({ input: server.stdout })) {
    address = /^admin +http:\/\/(\S+)/.exec(line)?.[1] ?? address;
    if (line.startsWith("ready")) return address;
  }
  throw new Error("the process ended before it was ready");
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function status(...args: readonly string[]): Promise<Ended> {
  const { promise, resolve } = Promise.withResolvers<Ended>();
  execFile(process.execPath, [MAIN, "status", ...args], (error, stdout, stderr) =>
    resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
  );
  return promise;
}

test("concord status: a process that serves: its parts as a table and as JSON, exit code 0", async () => {
  const address = await adminAddress();
  const table = await status("--admin", address);
  assert.equal(table.code, 0, table.stderr);
  const [first, ...parts] = table.stdout.trim().split("\n");
  assert.equal(first, `${address}: ready`);
  const names = ["storage", "transactions", "objects", "messages"];
  assert.deepEqual(
    parts.map((line) => line.split(/ +/)[0]),
    names,
  );
  const { ready, parts: states } = JSON.parse((await status("--admin", address, "--json")).stdout) as {
    readonly ready: boolean;
    readonly parts: object;
  };
  assert.deepEqual([ready, Object.keys(states)], [true, names]);
});

test("concord status: no process answers, or an unknown option: one line and exit code 2", async () => {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const address = `127.0.0.1:${(free.address() as AddressInfo).port}`;
  free.close();
  await once(free, "close");
  const silent = await status("--admin", address);
  assert.deepEqual([silent.code, silent.stdout], [2, ""]);
  assert.match(silent.stderr, new RegExp(`^concord status: no answer from the admin port ${address}: .*ECONNREFUSED.*\n$`));
  const unknown = await status("--nonsense");
  assert.deepEqual([unknown.code, unknown.stdout], [2, ""]);
  assert.match(unknown.stderr, /^concord status: .*--nonsense/);
});

test("concord status: a process that is not ready: why, and which part is out, exit code 1", async () => {
  const parts = {
    storage: { kind: "out", reason: "the disk fails", failures: 2, damaged: false },
    messages: { kind: "waiting", for: "storage" },
  };
  const admin = createHttpServer((request, response) => {
    if (request.url === "/parts") response.end(JSON.stringify(parts));
    else response.writeHead(503).end("not ready: storage is out\n");
  }).listen(0, "127.0.0.1");
  await once(admin, "listening");
  const address = `127.0.0.1:${(admin.address() as AddressInfo).port}`;
  const { code, stdout } = await status("--admin", address);
  admin.close();
  assert.deepEqual(
    [code, stdout],
    [1, `${address}: not ready: storage is out\nstorage   out      the disk fails\nmessages  waiting  storage\n`],
  );
});

test("concord status: --help: usage with examples", async () => {
  const { code, stdout } = await status("--help");
  assert.equal(code, 0);
  assert.match(stdout, /^usage: concord status .*examples:/s);
});
