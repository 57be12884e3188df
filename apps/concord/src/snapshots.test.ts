// Snapshots of windows in the object-gateway: over S3 from a dedup-worker of its own, and directly inside the one program.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ListObjectsV2Command, S3Client } from "@aws-sdk/client-s3";
import { nodeClock } from "@concord/adapter-node-runtime";
import { IngestService } from "@concord/protos-dedup";
import { callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { startConcord } from "./index.ts";

const WORKER = fileURLToPath(import.meta.resolve("@concord/dedup-worker/main"));
const WAIT_MS_MAX = 120_000;
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const root = await mkdtemp(join(tmpdir(), "concord-snapshots-"));
const children: ChildProcess[] = [];
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
});

interface Worker {
  readonly child: ChildProcess;
  readonly address: string;
  readonly admin: string;
}

async function startWorker(args: readonly string[]): Promise<Worker> {
  const child = spawn(process.execPath, [WORKER, "--partitions", "1", "--window-ids-max", "256", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const errors: string[] = [];
  child.stderr!.on("data", (bytes: Buffer) => errors.push(bytes.toString()));
  let admin = "";
  for await (const line of createInterface({ input: child.stdout! })) {
    errors.push(line);
    const entry = JSON.parse(line) as { message: string; address: string };
    if (entry.message === "admin") admin = entry.address;
    if (entry.message !== "serving") continue;
    child.stdout!.resume();
    return { child, address: entry.address, admin };
  }
  throw new Error(`the worker ended before it served:\n${errors.join("\n")}`);
}

async function metric(admin: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${admin}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

async function ingest(address: string, from: number, to: number): Promise<readonly string[]> {
  const channel = transport.connect(address);
  const messages = Array.from({ length: to - from }, (_, at) => ({ id: `id ${from + at}`, value: Uint8Array.of(at) }));
  const { results } = await callUnary(channel, IngestService.methods.Ingest, { messages }, { timeoutMs: 30_000 });
  channel.close();
  return results.map(({ verdict }) => verdict);
}

async function snapshotTaken(admin: string): Promise<void> {
  const endMs = performance.now() + WAIT_MS_MAX;
  while ((await metric(admin, 'dedup_snapshots_total{result="taken"}')) === 0) {
    if (performance.now() > endMs) throw new Error("no snapshot was taken");
    await setTimeout(5);
  }
}

const all = (verdict: string, count: number): string[] => Array.from({ length: count }, () => verdict);

test("[DD11] [DD18] process: a worker that lost its window: restored over S3 from the object-gateway, all ids known", async () => {
  await using gateway = await startConcord();
  const { accessKeyId, secretAccessKey } = gateway.s3.credentials;
  const folder = join(root, "worker");
  const s3 = [
    "--snapshot-endpoint",
    gateway.s3.endpoint,
    "--snapshot-access-key-id",
    accessKeyId,
    "--snapshot-secret-access-key",
    secretAccessKey,
  ];
  const args = ["--data-folder", folder, "--snapshots-kept", "2", "--snapshot-every-ms", "100", ...s3];
  const first = await startWorker(args);
  assert.deepEqual(await ingest(first.address, 0, 150), all("VERDICT_ACCEPTED", 150));
  await snapshotTaken(first.admin);
  assert.deepEqual(await ingest(first.address, 150, 160), all("VERDICT_ACCEPTED", 10));
  first.child.kill("SIGKILL");
  await once(first.child, "exit");
  await rm(join(folder, "window"), { recursive: true });
  const second = await startWorker(args);
  assert.ok((await metric(second.admin, 'dedup_restore_seconds{partition="0",from="snapshot"}')) > 0);
  assert.deepEqual(await ingest(second.address, 0, 160), all("VERDICT_DUPLICATE", 160));
  assert.deepEqual(await ingest(second.address, 160, 161), ["VERDICT_ACCEPTED"]);
  second.child.kill("SIGTERM");
  assert.deepEqual(await once(second.child, "exit"), [0, null]);
  // The gateway is not needed to start: without it the output rebuilds the window.
  await gateway.stop();
  await rm(join(folder, "window"), { recursive: true });
  const third = await startWorker(args);
  assert.ok((await metric(third.admin, 'dedup_restore_seconds{partition="0",from="output"}')) > 0);
  assert.deepEqual(await ingest(third.address, 0, 161), all("VERDICT_DUPLICATE", 161));
  third.child.kill("SIGTERM");
  await once(third.child, "exit");
});

test("[DD18] process: moving: a stopped worker's folder under another path and another node's name: it resumes, nothing twice, nothing lost", async () => {
  const [from, to] = [join(root, "here"), join(root, "there")];
  const first = await startWorker(["--data-folder", from, "--node-name", "here"]);
  assert.deepEqual(await ingest(first.address, 0, 100), all("VERDICT_ACCEPTED", 100));
  first.child.kill("SIGTERM");
  assert.deepEqual(await once(first.child, "exit"), [0, null]);
  await rename(from, to);
  const second = await startWorker(["--data-folder", to, "--node-name", "there"]);
  assert.ok((await metric(second.admin, 'dedup_restore_seconds{partition="0",from="local"}')) > 0);
  assert.deepEqual(await ingest(second.address, 0, 101), [...all("VERDICT_DUPLICATE", 100), "VERDICT_ACCEPTED"]);
  second.child.kill("SIGTERM");
  await once(second.child, "exit");
});

test("[DD18] one program: snapshots go to its own gateway without a key, in a bucket no key may read; its start waits for neither", async () => {
  const dataFolder = join(root, "one");
  const config = { snapshotsKept: 2, snapshotEveryMs: 100, windowIdsMax: 256, partitions: 1 };
  {
    await using concord = await startConcord({ dataFolder, config });
    assert.deepEqual(await ingest(concord.address, 0, 100), all("VERDICT_ACCEPTED", 100));
    await snapshotTaken(concord.adminAddress);
    const { endpoint, region, credentials } = concord.s3;
    const s3 = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
    await assert.rejects(s3.send(new ListObjectsV2Command({ Bucket: "concord-snapshots" })), { name: "AccessDenied" });
    s3.destroy();
  }
  await rm(join(dataFolder, "messages", "window"), { recursive: true });
  await using concord = await startConcord({ dataFolder, config });
  assert.deepEqual(await ingest(concord.address, 0, 101), [...all("VERDICT_DUPLICATE", 100), "VERDICT_ACCEPTED"]);
});
