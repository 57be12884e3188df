// Three nodes as `npm start -- --nodes 3` runs them, with objects and messages in load: one is killed, another is paused for 3 s and wakes as a
// zombie. Nothing acknowledged is lost, nothing comes twice, leaks or dangles; the times until the others have taken over are printed.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { connect, type ConcordClient } from "@concord/client";
import { nodeClock } from "@concord/adapter-node-runtime";
import { ObjectAdminService } from "@concord/protos-object";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { s3Client } from "./clients/s3.ts";
import { startConstellation, type Constellation } from "./constellation.ts";

const BUCKET = "nodes";
const [FIRST, SECOND, THIRD] = ["concord-1", "concord-2", "concord-3"] as const;
const PAUSE_MS = 3_000;
/** Generous: the machine of the tests may be busy with others. */
const TAKEN_OVER_MS = 60_000;
const AHEAD_MS = 30n * 24n * 3_600_000n;
const BATCH = 20;
const SIZES = [300, 40_000, 200_000];

let folder: string;
let constellation: Constellation;
let db: ConcordClient;
let gateways: readonly S3Client[];
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-nodes-"));
  constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { concord: 3 },
    config: { concord: { collectIntervalMs: 1_000 } },
  });
  db = await connect({ dedupWorker: constellation.dedupWorkers, timeoutMs: 30_000 });
  gateways = constellation.s3Endpoints.map((endpoint) => s3Client(endpoint, constellation.tokens.accessKeys[0]!, 1));
});

after(async () => {
  db?.close();
  for (const gateway of gateways ?? []) gateway.destroy();
  await constellation?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** What was answered. */
class Load {
  readonly objects = new Map<string, string>();
  readonly messages = new Set<string>();
  readonly #stopping = new AbortController();
  readonly #work: Promise<void>[] = [];

  start(): void {
    gateways.forEach((gateway, at) => this.#work.push(this.#put(gateway, at)));
    for (let at = 0; at < 3; at += 1) this.#work.push(this.#ingest(at));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#work);
  }

  /** New keys only: what was answered must be there. */
  async #put(gateway: S3Client, at: number): Promise<void> {
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const Key = `${at}/${n}`;
      const Body = randomBytes(SIZES[n % SIZES.length]!);
      await gateway
        .send(new PutObjectCommand({ Bucket: BUCKET, Key, Body }), { abortSignal: AbortSignal.timeout(10_000) })
        .then(() => this.objects.set(Key, hashOf(Body)))
        .catch(() => sleep(50));
    }
  }

  /** Each batch has the newest messages of the one before again. */
  async #ingest(at: number): Promise<void> {
    let before: string[] = [];
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const fresh = Array.from({ length: BATCH }, (_, one) => `m-${at}-${n}-${one}`);
      const ids = [...before.slice(-5), ...fresh];
      await db.messages
        .ingest(ids.map((id) => ({ id, value: id })))
        .then((results) => results.forEach(({ id }) => this.messages.add(id)))
        .catch(() => sleep(50));
      before = fresh;
    }
  }
}

const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** The sum of a metric's samples at a node; undefined while it does not answer. */
async function metric(node: string, name: string): Promise<number | undefined> {
  try {
    const response = await fetch(`http://${constellation.process(node).plan.adminAddress}/metrics`, { signal: AbortSignal.timeout(2_000) });
    const lines = (await response.text()).split("\n").filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  } catch {
    return undefined;
  }
}

/** How long it takes until it is so. */
async function until(what: string, ask: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now();
  while (!(await ask())) {
    if (performance.now() - startMs > TAKEN_OVER_MS) throw new Error(`${what}: not after ${TAKEN_OVER_MS / 1000} s`);
    await sleep(10);
  }
  return performance.now() - startMs;
}

const isTakenOver =
  (nodes: readonly string[], epochs: number): (() => Promise<boolean>) =>
  async () => {
    const counts = await Promise.all(nodes.map((node) => metric(node, "objects_takeover_seconds_count")));
    return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0) >= epochs;
  };

/** Every partition runs at one of these. */
const areOpen =
  (nodes: readonly string[]): (() => Promise<boolean>) =>
  async () => {
    const counts = await Promise.all(nodes.map((node) => metric(node, "dedup_partition_running{")));
    return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0) === 4;
  };

/** Each acknowledged message once, and no other twice. */
async function judgeMessages(load: Load): Promise<void> {
  const times = new Map<string, number>();
  const { partitions } = await db.messages.bounds(0);
  for (let partition = 0; partition < partitions; partition += 1) {
    for (let from = 0n; ;) {
      const page = await db.messages.read(partition, { from });
      for (const { id } of page.messages) times.set(id, (times.get(id) ?? 0) + 1);
      if (page.messages.length === 0) break;
      from = page.next;
    }
  }
  assert.deepEqual(
    [...times].filter(([, count]) => count > 1),
    [],
    "each message once",
  );
  assert.deepEqual(
    [...load.messages].filter((id) => !times.has(id)),
    [],
    "no acknowledged message is lost",
  );
}

async function judgeObjects(load: Load): Promise<void> {
  const reader = gateways[2]!;
  for (const [Key, hash] of load.objects) {
    const { Body } = await reader.send(new GetObjectCommand({ Bucket: BUCKET, Key }));
    assert.equal(hashOf(await Body!.transformToByteArray()), hash, `${Key} has the bytes that were acknowledged`);
  }
  const channel = transport.connect(constellation.process(THIRD).plan.address);
  const options = { timeoutMs: 60_000, metadata: bearer(constellation.tokens.operator) };
  const { CheckConsistency, CollectGarbage, GetStatus } = ObjectAdminService.methods;
  await until("recovery", async () => (await callUnary(channel, GetStatus, {}, options)).inDoubt === 0);
  await callUnary(channel, CollectGarbage, { aheadMs: AHEAD_MS }, options);
  const found = await callUnary(channel, CheckConsistency, {}, options);
  assert.deepEqual([found.leaked, found.dangling], [[], []]);
  channel.close();
}

test("[OGD3, OGD16, DDD4] three nodes: SIGKILL of one and SIGSTOP of another in mid-load: all acknowledged is there, each message once, nothing leaks", async (context: TestContext) => {
  await gateways[0]!.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await until("all partitions open", areOpen([FIRST, SECOND, THIRD]));
  const load = new Load();
  load.start();
  await sleep(2_000);
  const [recovered, open] = await Promise.all([
    constellation.kill(FIRST).then(() => until("the epoch of the dead node", isTakenOver([SECOND, THIRD], 1))),
    until("all partitions", areOpen([SECOND, THIRD])),
  ]);
  context.diagnostic(`SIGKILL: epoch recovered after ${Math.round(recovered)} ms, all partitions open after ${Math.round(open)} ms`);
  await constellation.restart(FIRST);
  await until("all partitions open again", areOpen([FIRST, SECOND, THIRD]));
  const paused = constellation.process(SECOND).pid!;
  const begun = performance.now();
  process.kill(paused, "SIGSTOP");
  const elsewhere = await until("all partitions elsewhere", areOpen([FIRST, THIRD]));
  await sleep(Math.max(0, PAUSE_MS - (performance.now() - begun)));
  process.kill(paused, "SIGCONT");
  context.diagnostic(
    `SIGSTOP: all partitions open elsewhere after ${Math.round(elsewhere)} ms, woken after ${Math.round(performance.now() - begun)} ms`,
  );
  await until("all partitions open at last", areOpen([FIRST, SECOND, THIRD]));
  await sleep(1_000);
  await load.stop();
  context.diagnostic(`${load.objects.size} objects and ${load.messages.size} messages acknowledged`);
  assert.ok(load.objects.size > 0 && load.messages.size > 0);
  await judgeMessages(load);
  await judgeObjects(load);
});
