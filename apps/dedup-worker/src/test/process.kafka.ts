// The real program on real brokers: killed at points of its processing loop, sent everything again, an outage, another worker.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { brokers, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import { callUnary, grpcTransport } from "@concord/rpc";
import { IngestService, OutputService, type IngestResult } from "@concord/protos-dedup";
import { silentLog, silentMetrics, type ConcordError } from "@concord/runtime";

const PARTITIONS = 2;
const root = await mkdtemp(join(tmpdir(), "concord-dedup-kafka-"));
const children: ChildProcess[] = [];
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const { Ingest } = IngestService.methods;
const { Read } = OutputService.methods;

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(root, { recursive: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly address: string;
}

async function start(topics: Topics, folder: string, failpoint?: string): Promise<Started> {
  const names = [
    "--kafka-input-topic",
    topics.input,
    "--kafka-output-topic",
    topics.output,
    "--kafka-dead-letters-topic",
    topics["dead-letters"],
  ];
  const kafka = [
    "--log",
    "kafka",
    "--kafka-brokers",
    brokers.join(","),
    "--kafka-replicas-min",
    "1",
    "--kafka-pipeline",
    topics.input,
    ...names,
  ];
  const args = [join(import.meta.dirname, "../main.ts"), "--data-folder", join(root, folder), "--partitions", String(PARTITIONS), ...kafka];
  const env = { ...process.env, ...(failpoint === undefined ? {} : { CONCORD_KILL_POINT: failpoint }) };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  children.push(child);
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    const entry = JSON.parse(line) as { message: string; address: string };
    if (entry.message === "serving") return { child, address: entry.address };
  }
  throw new Error(`the process ended before it served:\n${lines.join("\n")}`);
}

async function ingest(address: string, ids: readonly string[]): Promise<readonly IngestResult[]> {
  const channel = transport.connect(address);
  try {
    const messages = ids.map((id) => ({ id, value: Buffer.from(id) }));
    return (await callUnary(channel, Ingest, { messages }, { timeoutMs: 30_000 })).results;
  } finally {
    channel.close();
  }
}

async function outputOf(address: string): Promise<string[]> {
  const channel = transport.connect(address);
  const ids: string[] = [];
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    for (let fromOffset = 0n; ;) {
      const page = await callUnary(channel, Read, { partition, fromOffset }, { timeoutMs: 10_000 });
      ids.push(...page.messages.map(({ id }) => id));
      if (page.messages.length === 0) break;
      fromOffset = page.nextOffset;
    }
  }
  channel.close();
  return ids.sort();
}

const ids = (count: number, name: string): string[] => Array.from({ length: count }, (_, at) => `${name}-${String(at).padStart(4, "0")}`);
const statuses = (results: readonly IngestResult[]): Set<string> => new Set(results.map((result) => result.verdict));

test("[DD10] on Kafka: killed at points of its processing loop, everything sent again each time: each id once", async () => {
  const topics = await newTopics();
  const expected: string[] = [];
  for (const [at, failpoint] of ["ingest:appended:2", "dedup:published:2", "dedup:applied:2"].entries()) {
    const { child, address } = await start(topics, "killed", failpoint);
    const exited = once(child, "exit");
    const batch = ids(60, `k${at}`);
    expected.push(...batch);
    let isCut = false;
    for (let from = 0; from < batch.length && !isCut; from += 20) {
      await ingest(address, batch.slice(from, from + 20)).catch((error: ConcordError) => {
        assert.notEqual(error.applied, "yes");
        isCut = true;
      });
    }
    assert.equal((await exited)[1], "SIGKILL", failpoint);
    const next = await start(topics, "killed");
    await ingest(next.address, expected);
    assert.deepEqual(await outputOf(next.address), expected, failpoint);
    assert.deepEqual(statuses(await ingest(next.address, expected)), new Set(["VERDICT_DUPLICATE"]));
    next.child.kill("SIGTERM");
    assert.deepEqual(await once(next.child, "exit"), [0, null]);
  }
  // The window is an index of the output: another folder makes it anew.
  const moved = await start(topics, "elsewhere");
  assert.deepEqual(statuses(await ingest(moved.address, expected)), new Set(["VERDICT_DUPLICATE"]));
  moved.child.kill("SIGTERM");
  await once(moved.child, "exit");
});

test("[DDD4] on Kafka: a second worker comes: it has the partitions, the first one stops and never takes them back", async () => {
  const topics = await newTopics();
  const first = await start(topics, "first");
  assert.deepEqual(statuses(await ingest(first.address, ids(10, "a"))), new Set(["VERDICT_ACCEPTED"]));
  const second = await start(topics, "second");
  // The first one learns of it when it publishes: until then its calls are refused or have no result.
  await assert.rejects(async () => {
    for (;;) await ingest(first.address, ids(10, "b"));
  });
  await assert.rejects(ingest(first.address, ids(10, "b")));
  assert.ok(!statuses(await ingest(second.address, [...ids(10, "a"), ...ids(10, "b")])).has("VERDICT_DEAD_LETTERED"));
  assert.deepEqual(await outputOf(second.address), [...ids(10, "a"), ...ids(10, "b")]);
  for (const { child } of [first, second]) child.kill("SIGTERM");
});
