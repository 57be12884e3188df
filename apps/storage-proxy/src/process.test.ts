// The real program: its own process, store on disk, gRPC on a free port of loopback.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { RowsService } from "@concord/protos-storage";
import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";

const folder = await mkdtemp(join(tmpdir(), "concord-storage-proxy-"));
const children: ChildProcess[] = [];
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const { Query } = RowsService.methods;

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

/** Resolves with the process once it logs `message`. */
async function start(message = "serving", args: readonly string[] = []): Promise<{ child: ChildProcess; address: string }> {
  const main = join(import.meta.dirname, "main.ts");
  const child = spawn(process.execPath, [main, "--data-folder", folder, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout! })) {
    const entry = JSON.parse(line) as { message: string; address: string };
    if (entry.message === message) return { child, address: entry.address };
  }
  throw new Error(`the process ended before it logged: ${message}`);
}

async function query(address: string, text: string): Promise<{ rows: { columns: { value: { textValue: string } }[] }[] }> {
  const channel = transport.connect(address);
  try {
    const request = { statement: { text, binds: [] } };
    return (await channel.unary(Query!, request, { timeoutMs: 5000 })) as Awaited<ReturnType<typeof query>>;
  } finally {
    channel.close();
  }
}

test("[TX27] process: killed with SIGKILL after an acknowledged write: there after the restart; SIGTERM: ends with 0", async () => {
  const first = await start();
  await query(first.address, "CREATE TABLE notes (owner text PRIMARY KEY, body text) WITH kind = 'plain'");
  await query(first.address, "INSERT INTO notes (owner, body) VALUES ('ann', 'kept')");
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  const second = await start();
  const { rows } = await query(second.address, "SELECT body FROM notes WHERE owner = 'ann'");
  assert.equal(rows[0]!.columns[0]!.value.textValue, "kept");
  second.child.kill("SIGTERM");
  const [code] = (await once(second.child, "exit")) as [number];
  assert.equal(code, 0);
});

test("[OPS1] process: SIGTERM while it waits for its peers: ends with 0", async () => {
  const ring = [1, 2, 3].map((at) => ({ name: `node-${at}`, address: `127.0.0.1:${at}`, datacenter: "local" }));
  const args = ["--ring", JSON.stringify(ring), "--node-name", "node-1", "--peer-token", "p", "--data-folder", join(folder, "waiting")];
  const { child } = await start("waiting for peers to form the ring", args);
  child.kill("SIGTERM");
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 0);
});

test("[OPS1] process: SIGTERM while it waits for a Cassandra that takes connections and does not answer: ends with 0", async (t) => {
  const silent = createServer().listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  const cassandra = `--backend cassandra --cassandra-datacenter dc1 --cassandra-contact-points 127.0.0.1:${port}`;
  // With the shortest grace the process ends by force 5 s after SIGTERM, unless its stop ended.
  const args = [...cassandra.split(" "), "--drain-grace-ms", "0", "--data-folder", join(folder, "silent")];
  const { child } = await start("the start waits", args);
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("[OPS5] process: a configuration with mistakes: all of them at once, exit 2", async () => {
  const main = join(import.meta.dirname, "main.ts");
  const child = spawn(process.execPath, [main, "--ring", "[]", "--read-timeout-ms", "0", "--nonsense", "1"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(child, "close")) as [number];
  assert.equal(code, 2);
  assert.match(output, /read-timeout-ms/);
  assert.match(output, /nonsense/);
});
