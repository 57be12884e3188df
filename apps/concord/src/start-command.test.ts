// `concord start`: what a user types first, as a process.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { ListBucketsCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { ended } from "./test/process.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const FREE_PORTS = ["--listen-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"];
const folder = await mkdtemp(join(tmpdir(), "concord-start-command-"));
const children: ChildProcess[] = [];
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

function run(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, "start", ...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
}

async function outputOf(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const child = run(args);
  let output = "";
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, output };
}

interface Started {
  readonly child: ChildProcess;
  /** All that it has printed so far. */
  readonly output: () => string;
  readonly address: string;
  readonly s3: string;
}

async function start(args: readonly string[]): Promise<Started> {
  const child = run(args);
  let output = "";
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
  for await (const line of createInterface({ input: child.stdout! })) {
    if (!line.startsWith("ready")) continue;
    return { child, output: () => output, address: /^gRPC +(\S+)/m.exec(output)![1]!, s3: /^S3 +(\S+)/m.exec(output)![1]! };
  }
  throw new Error(`the process ended before it was ready:\n${output}`);
}

/** Lists buckets with the keys that the credentials file has. */
async function buckets(endpoint: string, credentialsFile: string): Promise<number> {
  const text = await readFile(credentialsFile, "utf8");
  const keyOf = (name: string): string => new RegExp(`^${name} = (\\S+)`, "m").exec(text)![1]!;
  const credentials = { accessKeyId: keyOf("aws_access_key_id"), secretAccessKey: keyOf("aws_secret_access_key") };
  const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials });
  try {
    return (await s3.send(new ListBucketsCommand({}))).Buckets?.length ?? 0;
  } finally {
    s3.destroy();
  }
}

test("concord start: nothing but the verb is needed: rows and S3 serve, with the credentials that it names; the next start finds data and keys", async () => {
  const first = await start(["--data", "data", ...FREE_PORTS]);
  const credentials = join(folder, "data/s3-credentials");
  assert.match(first.output(), new RegExp(`AWS_SHARED_CREDENTIALS_FILE=${credentials}\\)`));
  assert.equal((await stat(credentials)).mode & 0o777, 0o600);
  assert.equal(await buckets(first.s3, credentials), 0);
  const db = await connect({ coordinators: [first.address] });
  await db.createTables(["CREATE TABLE visits (page text PRIMARY KEY, visits int)"]);
  await db.insert("visits", { page: "home", visits: 1 });
  db.close();
  assert.equal(await ended(first.child, "SIGTERM"), 0);

  // Lines of the log may come between the two of its stop, as where the process stands still; on this level they do.
  const second = await start(["--data=data", "--log-level", "info", ...FREE_PORTS]);
  assert.equal(await buckets(second.s3, credentials), 0);
  const again = await connect({ coordinators: [second.address] });
  assert.deepEqual(await again.read("visits", { page: "home" }), { page: "home", visits: 1 });
  again.close();
  const closed = once(second.child, "close");
  assert.equal(await ended(second.child, "SIGINT"), 0);
  await closed;
  assert.match(second.output(), /^draining \.\.\.\n(\{.*\}\n)+stopped\n$/m);
});

test("concord start: options and the configuration file go before its defaults", async () => {
  const config = join(folder, "config.json");
  await writeFile(config, JSON.stringify({ adminAddress: "127.0.0.1:9", logLevel: "info" }));
  const { code, output } = await outputOf(["--data", "other", "--config", config, "--log-level", "error", "--print-config"]);
  assert.equal(code, 0, output);
  const { listenAddress, adminAddress, logLevel, dataFolder } = JSON.parse(output) as Record<string, string>;
  assert.deepEqual([listenAddress, adminAddress, logLevel], ["127.0.0.1:7101", "127.0.0.1:9", "error"]);
  assert.equal(dataFolder, join(folder, "other/concord/store"));
});

test("concord start: an address that is taken, a folder that is missing, help: each ends with its reason and its code", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
  const refused = await outputOf(["--data", "third", ...FREE_PORTS, "--listen-address", address]);
  taken.close();
  assert.equal(refused.code, 1);
  assert.match(refused.output, new RegExp(address));
  const without = await outputOf(["--data"]);
  assert.deepEqual([without.code, without.output], [2, "concord start: --data needs a folder\n"]);
  const help = await outputOf(["--help"]);
  assert.equal(help.code, 0);
  assert.match(help.output, /^usage: concord start /);
});
