// The real program: its own process, logs and windows on disk, gRPC on a free port of loopback.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { IngestService, OutputService, type IngestResult } from "@concord/protos-dedup";
import { callUnary, grpcTransport, openStream } from "@concord/rpc";
import { silentLog, silentMetrics, type ConcordError } from "@concord/runtime";

const folder = await mkdtemp(join(tmpdir(), "concord-dedup-worker-"));
const children: ChildProcess[] = [];
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const { Ingest } = IngestService.methods;
const { Read, Consume } = OutputService.methods;
const PARTITIONS = 2;

after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(folder, { recursive: true });
});

interface Started {
  readonly child: ChildProcess;
  readonly address: string;
}

/** Resolves with the process once it serves. */
async function start(failpoint?: string): Promise<Started> {
  const child = run([], failpoint === undefined ? {} : { CONCORD_KILL_POINT: failpoint });
  for await (const line of createInterface({ input: child.stdout! })) {
    const entry = JSON.parse(line) as { message: string; address: string };
    if (entry.message === "serving") return { child, address: entry.address };
  }
  throw new Error("the process ended before it served");
}

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  const all = [join(import.meta.dirname, "main.ts"), "--data-folder", folder, "--partitions", String(PARTITIONS), ...args];
  const child = spawn(process.execPath, all, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  children.push(child);
  return child;
}

async function ingest(address: string, ids: readonly string[]): Promise<readonly IngestResult[]> {
  const channel = transport.connect(address);
  try {
    const messages = ids.map((id) => ({ id, value: Buffer.from(id) }));
    const { results } = await callUnary(channel, Ingest, { messages }, { timeoutMs: 10_000 });
    return results;
  } finally {
    channel.close();
  }
}

async function outputOf(address: string): Promise<string[]> {
  const channel = transport.connect(address);
  const values: string[] = [];
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    for (let fromOffset = 0n; ;) {
      const page = await callUnary(channel, Read, { partition, fromOffset }, { timeoutMs: 5_000 });
      values.push(...page.messages.map(({ id }) => id));
      if (page.messages.length === 0) break;
      fromOffset = page.nextOffset;
    }
  }
  channel.close();
  return values.sort();
}

const ids = (count: number, name: string): string[] => Array.from({ length: count }, (_, at) => `${name}-${String(at).padStart(4, "0")}`);
const statuses = (results: readonly IngestResult[]): Set<string> => new Set(results.map((result) => result.verdict));

test("[DD10] process: killed at points of its processing loop, everything sent again each time: each id once", async () => {
  const expected: string[] = [];
  for (const [at, failpoint] of ["ingest:appended:2", "dedup:looked-up:2", "dedup:published:2", "dedup:applied:2"].entries()) {
    const { child, address } = await start(failpoint);
    const exited = once(child, "exit");
    const batch = ids(200, `k${at}`);
    expected.push(...batch);
    let isCut = false;
    for (let from = 0; from < batch.length && !isCut; from += 20) {
      await ingest(address, batch.slice(from, from + 20)).catch((error: ConcordError) => {
        assert.notEqual(error.applied, "yes");
        isCut = true;
      });
    }
    const [, signal] = (await exited) as [number | null, string | null];
    assert.equal(signal, "SIGKILL", failpoint);
    const next = await start();
    for (let from = 0; from < expected.length; from += 100) await ingest(next.address, expected.slice(from, from + 100));
    assert.deepEqual(await outputOf(next.address), expected, failpoint);
    assert.deepEqual(statuses(await ingest(next.address, expected.slice(0, 100))), new Set(["VERDICT_DUPLICATE"]));
    next.child.kill("SIGTERM");
    assert.deepEqual(await once(next.child, "exit"), [0, null]);
  }
});

test("process: a consumer over a real connection: the messages as they come; SIGTERM: DRAINING, exit 0", async () => {
  const { child, address } = await start();
  const channel = transport.connect(address);
  const stream = openStream(channel, Consume, {});
  const seen: string[] = [];
  let more: () => void = () => undefined;
  stream.onMessage(({ messages }) => {
    seen.push(...messages.map(({ id }) => id));
    more();
  });
  stream.onDrain(() => undefined);
  const ended = new Promise<ConcordError>((resolve) => stream.onEnd((error) => resolve(error as ConcordError)));
  const before = await outputOf(address);
  stream.send({ event: "start", start: { partition: 0, fromOffset: 0n, credits: 10_000 } });
  const results = await ingest(address, ids(50, "consumed"));
  const expected = results.filter(({ partition }) => partition === 0).map(({ id }) => id);
  while (!expected.every((id) => seen.includes(id))) await new Promise<void>((resolve) => (more = resolve));
  assert.equal(new Set(seen).size, seen.length);
  assert.ok(seen.length < before.length + 50);
  child.kill("SIGTERM");
  assert.equal((await ended).code, "DRAINING");
  assert.deepEqual(await once(child, "exit"), [0, null]);
  channel.close();
});

test("process: a second one on the same data folder: refuses to start", async () => {
  const first = await start();
  const second = run([]);
  let output = "";
  second.stdout!.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(second, "exit")) as [number];
  assert.equal(code, 1);
  assert.match(output, /cannot open the store/);
  assert.equal((await ingest(first.address, ["still-served"]))[0]!.verdict, "VERDICT_ACCEPTED");
  first.child.kill("SIGTERM");
  await once(first.child, "exit");
});

test("process: a configuration with mistakes: all of them at once, exit 2", async () => {
  const child = run(["--partitions", "0", "--id-source", "nowhere", "--nonsense", "1"]);
  let output = "";
  child.stderr!.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const [code] = (await once(child, "exit")) as [number];
  assert.equal(code, 2);
  for (const one of [/partitions/, /id-source/, /nonsense/]) assert.match(output, one);
});
