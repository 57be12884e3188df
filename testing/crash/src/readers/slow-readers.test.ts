// What slow consumers, slow downloads and the memory of a process are judged by.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Constellation, PlainGrpc } from "@concord/constellation";
import { newTally, problems } from "../subject.ts";
import { Downloads } from "./downloads.ts";
import { OutputConsumers } from "./output-consumers.ts";
import { peakIn, peakMiB, RESIDENT_MIB_MAX, ResidentMemory } from "./resident-memory.ts";

const MIB = 1024 * 1024;

interface Consumers {
  readonly consumers: OutputConsumers;
  readonly tally: ReturnType<typeof newTally>;
  readonly output: { end: bigint };
}

/** On a worker of one partition with `end` messages. */
async function consumersOf(): Promise<Consumers> {
  const [tally, output] = [newTally(), { end: 100n }];
  const call = async (method: string): Promise<object> =>
    method === "Ingest" ? {} : { startOffset: 0n, endOffset: output.end, partitions: 1 };
  const grpc = (() => ({ call, close: () => undefined })) as unknown as PlainGrpc;
  const consumers = new OutputConsumers({ constellation: { dedupWorkers: ["worker"] }, grpc, tally, notes: [] });
  await consumers.prepare();
  return { consumers, tally, output };
}

const page = (...offsets: readonly number[]): { messages: { offset: bigint; id: string }[]; nextOffset: bigint } => ({
  messages: offsets.map((offset) => ({ offset: BigInt(offset), id: `id ${offset}` })),
  nextOffset: BigInt((offsets.at(-1) ?? -1) + 1),
});
const published = (count: number): Set<string> => new Set(Array.from({ length: count }, (_, n) => `id ${n}`));

test("slow consumer: pages that follow each other over two lives, all published: nothing wrong", async () => {
  const { consumers, tally } = await consumersOf();
  const [consumer] = consumers.slow;
  consumers.take(consumer!, page(0, 1, 2));
  consumers.take(consumer!, page(3, 4));
  await consumers.judge(published(5));
  assert.equal(problems(tally), 0);
});

test("slow consumer: a page begins behind the next offset: lost; one comes again: duplicated", async () => {
  const { consumers, tally } = await consumersOf();
  const [consumer] = consumers.slow;
  consumers.take(consumer!, page(0, 1));
  consumers.take(consumer!, page(3));
  assert.deepEqual([tally.lost, tally.duplicated], [1, 0]);
  consumers.take(consumer!, page(3));
  assert.deepEqual([tally.lost, tally.duplicated], [1, 1]);
});

test("slow consumer: it has read what the output does not have: dirty; the output ends before it: lost", async () => {
  const { consumers, tally, output } = await consumersOf();
  consumers.take(consumers.slow[0]!, page(0, 1));
  await consumers.judge(published(1));
  assert.deepEqual([tally.dirty, tally.lost], [1, 0]);
  output.end = 1n;
  await consumers.judge(published(2));
  assert.deepEqual([tally.dirty, tally.lost], [1, 1]);
});

function downloads(t: TestContext): { readonly all: Downloads; readonly tally: ReturnType<typeof newTally> } {
  const tally = newTally();
  const constellation = { s3Endpoints: ["http://127.0.0.1:1"], tokens: { accessKeys: [{ accessKeyId: "a", secretAccessKey: "b" }] } };
  const all = new Downloads({ constellation: constellation as unknown as Constellation, bucket: "b", tally, notes: [] });
  t.after(() => all.close());
  return { all, tally };
}

async function* chunks(bytes: Uint8Array, failure?: Error): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += MIB) yield bytes.subarray(at, at + MIB);
  if (failure !== undefined) throw failure;
}

const noPause = async (): Promise<void> => undefined;

test("slow download: whole, or broken off so that the client sees it: nothing wrong", async (t) => {
  const { all, tally } = downloads(t);
  assert.equal(await all.compare(chunks(all.stored), noPause), true);
  assert.equal(await all.compare(chunks(all.stored.subarray(0, 3 * MIB), new Error("reset")), noPause), false);
  assert.equal(problems(tally), 0);
});

test("slow download: it ends well before its end: lost; other bytes: dirty", async (t) => {
  const { all, tally } = downloads(t);
  await all.compare(chunks(all.stored.subarray(0, 3 * MIB)), noPause);
  assert.deepEqual([tally.lost, tally.dirty], [1, 0]);
  const other = Uint8Array.from(all.stored);
  other[2 * MIB]! ^= 1;
  await all.compare(chunks(other), noPause);
  assert.deepEqual([tally.lost, tally.dirty], [1, 1]);
});

test("memory: one look above the limit is a problem that names it, also after the process has ended", (t) => {
  const peaks: (number | undefined)[] = [RESIDENT_MIB_MAX, RESIDENT_MIB_MAX + 1, undefined];
  t.mock.timers.enable({ apis: ["setInterval"] });
  const memory = new ResidentMemory(
    () => [1, undefined],
    () => peaks.shift(),
  );
  t.after(() => memory.close());
  assert.equal(memory.problem("dedup-worker"), undefined);
  t.mock.timers.tick(100);
  assert.match(memory.problem("dedup-worker")!, /^dedup-worker had \d+ MiB, more than RESIDENT_MIB_MAX \(\d+\)/);
});

test("memory: the kernel's figure of this process; none of a process that has ended", { skip: process.platform !== "linux" }, () => {
  assert.equal(peakIn("Name:\tnode\nVmHWM:\t  204800 kB\n"), 200);
  assert.equal(peakIn("Name:\tkthreadd\n"), undefined);
  assert.ok(peakMiB(process.pid)! > 10);
  assert.equal(peakMiB(2 ** 30), undefined);
});
