// Deduplication on Kafka: a worker's processing loop over three topics beside a plain kafkajs program that copies the same input without
// looking at it. Client CPU per message is the figure: brokers and clients share the machine.
import { createHmac, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeTopics, openKafkaLog } from "@concord/adapter-kafka";
import { plainCopy } from "@concord/adapter-kafka/bench";
import { openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import {
  createPartitionWorker,
  ID_HEADER,
  partitionOfId,
  readOrigin,
  SourceFigures,
  type IdHash,
  type PartitionWorker,
} from "@concord/dedup";
import type { MessageLog, NewMessage } from "@concord/ports";
import { silentLog, silentMetrics, sleep } from "@concord/runtime";
import { flushedKeyValue } from "@concord/store";
import type { BenchOptions } from "./options.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const PAGE = { messages: 4_000, bytes: 1024 * 1024 };
const VALUE_BYTES = 200;
const DUPLICATES = 0.006;
const PARTITIONS = [1, 4] as const;
const SEGMENTS = 16;
const RECENT_MAX = 10_000;
const FORMS = ["copy", "copy-transactional", "worker", "worker-single-owner"] as const;

interface Line {
  readonly form: (typeof FORMS)[number];
  readonly partitions: number;
  readonly messages: number;
  readonly perSecond: number;
  readonly cpuUsPerMessage: number;
}

/** One input of `ids` messages per number of partitions; each form reads it whole. */
export async function dedupKafkaBench(options: BenchOptions, brokers: readonly string[]): Promise<void> {
  const lines: Line[] = [];
  for (const partitions of PARTITIONS) {
    const base = `bench-${randomUUID().slice(0, 8)}`;
    const input = `${base}-input`;
    await fill(brokers, topicsOf(base, "fill"), partitions, options.ids);
    for (const form of FORMS) {
      const line = await measure({ form, brokers, base, input, partitions, messages: options.ids });
      console.log(JSON.stringify(line));
      lines.push(line);
    }
  }
  report(options, lines);
}

interface Run {
  readonly form: Line["form"];
  readonly brokers: readonly string[];
  readonly base: string;
  readonly input: string;
  readonly partitions: number;
  readonly messages: number;
}

const topicsOf = (base: string, form: string): Readonly<Record<"input" | "output" | "dead-letters", string>> => ({
  input: `${base}-input`,
  output: `${base}-${form}-output`,
  "dead-letters": `${base}-${form}-letters`,
});

function open(
  brokers: readonly string[],
  topics: ReturnType<typeof topicsOf>,
  partitions: number,
  mode: "transactional" | "single-owner",
): Promise<MessageLog> {
  return openKafkaLog({
    mode,
    brokers,
    clientId: "bench",
    topics,
    pipeline: topics.output,
    partitions,
    replicasMin: 1,
    outputKeptMs: undefined,
    inputOffsetOf: (message) => readOrigin(message)?.inputOffset,
    clock: nodeClock,
    log: silentLog,
  });
}

const making = (brokers: readonly string[], topics: ReturnType<typeof topicsOf>, partitions: number): Promise<void> =>
  makeTopics({ brokers, clientId: "bench", topics, partitions, replicas: 1, clock: nodeClock, log: silentLog });

async function fill(brokers: readonly string[], topics: ReturnType<typeof topicsOf>, partitions: number, messages: number): Promise<void> {
  await making(brokers, topics, partitions);
  const log = await open(brokers, topics, partitions, "transactional");
  const recent: Buffer[] = [];
  for (let sent = 0; sent < messages;) {
    const batches: NewMessage[][] = Array.from({ length: partitions }, () => []);
    for (let count = 0; count < PAGE.messages / 2 && sent < messages; count += 1, sent += 1) {
      const id = newId(recent);
      const headers = [{ name: ID_HEADER, value: id }];
      batches[partitionOfId(id, partitions)]!.push({ key: id, value: VALUE, headers, timestampMs: Date.now() });
    }
    await Promise.all(batches.map((batch, partition) => log.append(partition, batch)));
  }
  await log.close();
}

/** A new id, or now and then one of the newest thousands. */
function newId(recent: Buffer[]): Buffer {
  const again = Math.random() < DUPLICATES ? recent[Math.floor(Math.random() * recent.length)] : undefined;
  const id = again ?? Buffer.from(randomUUID());
  if (recent.length < RECENT_MAX) recent.push(id);
  else recent[Math.floor(Math.random() * recent.length)] = id;
  return id;
}

async function measure(run: Run): Promise<Line> {
  const { form, partitions, messages } = run;
  let [cpu, startMs] = [process.cpuUsage(), nodeClock.monotonicMs()];
  const begun = (): void => void ([cpu, startMs] = [process.cpuUsage(), nodeClock.monotonicMs()]);
  await making(run.brokers, topicsOf(run.base, form), partitions);
  if (form === "worker" || form === "worker-single-owner") await runWorkers(run, begun);
  else {
    const { brokers, input: from, base } = run;
    const to = topicsOf(base, form).output;
    await plainCopy({ brokers, from, to, group: to, messages, isTransactional: form === "copy-transactional" }, begun);
  }
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (nodeClock.monotonicMs() - startMs) / 1000;
  return { form, partitions, messages, perSecond: messages / seconds, cpuUsPerMessage: (user + system) / messages };
}

async function runWorkers({ form, brokers, base, partitions, messages }: Run, begun: () => void): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "concord-bench-dedup-"));
  const log = await open(brokers, topicsOf(base, form), partitions, form === "worker" ? "transactional" : "single-owner");
  const workers = Array.from({ length: partitions }, (_, partition) => newWorker(log, root, partition));
  try {
    begun();
    await Promise.all(workers.map((worker) => worker.start()));
    const left = async (): Promise<bigint> =>
      (await Promise.all(workers.map(async (worker) => (await worker.statistics()).lag))).reduce((sum, lag) => sum + lag);
    while ((await left()) > 0n) await sleep(nodeClock, 20);
    const counts = await Promise.all(workers.map((worker) => worker.statistics()));
    const processed = counts.reduce((sum, { accepted, duplicates }) => sum + accepted + duplicates, 0);
    if (processed !== messages) throw new Error(`the workers processed ${processed} of ${messages} messages`);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await log.close();
    rmSync(root, { recursive: true, force: true });
  }
}

function newWorker(log: MessageLog, root: string, partition: number): PartitionWorker {
  const disk = nodeDisk(root);
  const stores = {
    open: async (name: string) => flushedKeyValue(await openLevel(join(root, `${partition}-${name}`), nodeDescriptors())),
    remove: async (name: string): Promise<void> => {
      for (const file of await disk.list(`${partition}-${name}`)) await disk.remove(`${partition}-${name}/${file.name}`);
      await disk.remove(`${partition}-${name}`);
    },
    list: async (): Promise<string[]> => [],
  };
  const environment = {
    clock: nodeClock,
    random: nodeRandom,
    checksum: nodeChecksum,
    log: silentLog,
    metrics: silentMetrics,
    failpoint: (): undefined => undefined,
  };
  const window = { idsPerSegment: Math.ceil(4_000_000 / SEGMENTS), segmentsMax: SEGMENTS, windowMs: 0 } as const;
  const options = {
    partition,
    owner: "bench",
    idSources: [{ kind: "header", name: ID_HEADER }],
    missingId: "dead-letter",
    page: PAGE,
    window,
  } as const;
  return createPartitionWorker(options, { log, stores, hash: idHash, sources: new SourceFigures(silentMetrics, []), environment });
}

const VALUE = Buffer.alloc(VALUE_BYTES, "v");
const idHash: IdHash = (key, bytes) => createHmac("sha256", key).update(bytes).digest().subarray(0, 16);

function report({ out, ids }: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const rows = lines.map((line) => {
    const peer = lines.find(({ form, partitions }) => form === "copy" && partitions === line.partitions)!;
    const ratio = peer.cpuUsPerMessage / line.cpuUsPerMessage;
    return [String(line.partitions), line.form, line.perSecond.toFixed(0), line.cpuUsPerMessage.toFixed(1), ratio.toFixed(2)];
  });
  console.log(`\n${ids} messages of ${VALUE_BYTES} B, ${DUPLICATES * 100} % sent twice, pages of 1 MiB\n${machineLine(on)}\n`);
  console.log(renderTable([["partitions", "form", "messages/s", "client CPU us", "of the copy"], ...rows]));
  writeReport(out, { bench: "dedup-kafka", machine: on, ids, lines });
}
