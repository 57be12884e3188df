// Deduplication on one disk (DDD6): messages per second through a worker's cycle on the embedded log, and what each id costs on disk, in
// memory and in bytes written; beside the two-index layout of the source (DD17) in the same run.
import { createHmac, randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbeddedLog } from "@concord/adapter-embedded-log";
import { flushedKeyValue } from "@concord/store";
import { openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import { createPartitionWorker, ID_HEADER, SourceFigures, type IdHash, type WindowOptions, type WindowStores } from "@concord/dedup";
import type { KeyValue, MessageLog, NewMessage } from "@concord/ports";
import { silentLog, silentMetrics, sleep } from "@concord/runtime";
import { Attempts } from "./attempts.ts";
import type { BenchOptions } from "./options.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";
import { SourceWindow } from "./source-window.ts";

const MIB = 1024 * 1024;
const LAYOUTS = ["segmented", "source"] as const;
const SEGMENTS = 8;
/** The window is turned over this often: ageing runs for a third of the time. */
const TURNS = 1.5;
/** The source's rate, of messages sent before within its window. */
const DUPLICATES = 0.006;
const VALUE_BYTES = 100;
const PAGE = { messages: 1000, bytes: 8 * MIB };
/** All input is there before the clock starts. */
const INPUT_BYTES_MAX = 64 * 1024 * MIB;
const APPENDS_IN_FLIGHT = 8;
const PROGRESS_MS = 5000;

interface Line {
  readonly layout: (typeof LAYOUTS)[number];
  readonly messages: number;
  readonly perSecond: number;
  readonly cpuUsPerMessage: number;
  readonly duplicates: number;
  readonly ids: number;
  readonly diskBytesPerId: number;
  readonly writtenBytesPerId: number;
  readonly indexBytesPerId: number;
  readonly rssMiB: number;
}

export async function dedupBench(options: BenchOptions): Promise<void> {
  const lines: Line[] = [];
  for (const layout of LAYOUTS) {
    const line = await measure(layout, options.ids);
    lines.push(line);
    console.log(`${layout}: ${JSON.stringify(line)}`);
  }
  report(options, lines);
}

async function measure(layout: Line["layout"], ids: number): Promise<Line> {
  const root = mkdtempSync(join(tmpdir(), "concord-bench-dedup-"));
  const environment = {
    clock: nodeClock,
    random: nodeRandom,
    checksum: nodeChecksum,
    log: silentLog,
    metrics: silentMetrics,
    failpoint: () => undefined,
  };
  const log = await openEmbeddedLog({
    ...environment,
    disk: nodeDisk(join(root, "log")),
    folder: "log",
    partitions: 1,
    retention: { outputBytes: 64 * MIB },
    limits: { inputBytes: INPUT_BYTES_MAX },
  });
  const stores = countingStores(join(root, "window"));
  const window: WindowOptions = { idsPerSegment: Math.ceil(ids / SEGMENTS), segmentsMax: SEGMENTS, windowMs: 0 };
  const messages = Math.ceil(ids * TURNS);
  const worker = createPartitionWorker(
    { partition: 0, owner: "bench", idSources: [{ kind: "header", name: ID_HEADER }], missingId: "dead-letter", page: PAGE, window },
    { log, stores, hash: idHash, sources: new SourceFigures(environment.metrics, []), environment },
    layout === "source" ? (...all) => SourceWindow.open(...all) : undefined,
  );
  try {
    await appendAll(log, messages, layout);
    const rssBefore = process.memoryUsage().rss;
    const cpuBefore = process.cpuUsage();
    const startMs = nodeClock.monotonicMs();
    await worker.start();
    const rss = await progress(layout, messages, startMs, async () => (await worker.statistics()).lag);
    const seconds = (nodeClock.monotonicMs() - startMs) / 1000;
    const { user, system } = process.cpuUsage(cpuBefore);
    const { window: statistics, accepted, duplicates } = await worker.statistics();
    await worker.stop();
    return {
      layout,
      messages,
      perSecond: messages / seconds,
      cpuUsPerMessage: (user + system) / messages,
      duplicates,
      ids: statistics.ids,
      diskBytesPerId: folderBytes(join(root, "window")) / statistics.ids,
      writtenBytesPerId: stores.writtenBytes() / accepted,
      indexBytesPerId: statistics.memoryBytes / statistics.ids,
      rssMiB: (rss - rssBefore) / MIB,
    };
  } finally {
    await log.close();
    rmSync(root, { recursive: true, force: true });
  }
}

/** What is measured is the worker, not its producers. */
async function appendAll(log: MessageLog, messages: number, layout: string): Promise<void> {
  let sent = 0;
  let saidMs = nodeClock.monotonicMs();
  const recent: string[] = [];
  const one = async (): Promise<void> => {
    while (sent < messages) {
      const count = Math.min(PAGE.messages, messages - sent);
      sent += count;
      await log.append(
        0,
        Array.from({ length: count }, () => newMessage(recent)),
      );
      if (nodeClock.monotonicMs() - saidMs < PROGRESS_MS) continue;
      saidMs = nodeClock.monotonicMs();
      console.log(`${layout}: ${sent} of ${messages} in the input`);
    }
  };
  await Promise.all(Array.from({ length: APPENDS_IN_FLIGHT }, one));
}

/** A new id, or now and then one of the newest thousands. */
function newMessage(recent: string[]): NewMessage {
  const again = Math.random() < DUPLICATES ? recent[Math.floor(Math.random() * recent.length)] : undefined;
  const id = again ?? randomUUID();
  if (recent.length < 10_000) recent.push(id);
  else recent[Math.floor(Math.random() * recent.length)] = id;
  const headers = [{ name: ID_HEADER, value: Buffer.from(id) }];
  return { key: null, value: VALUE, headers, timestampMs: Date.now() };
}

/** Resolves with the most memory seen, once nothing is left to process. */
async function progress(layout: string, messages: number, startMs: number, lag: () => Promise<bigint>): Promise<number> {
  let rss = 0;
  let saidMs = startMs;
  const attempts = new Attempts(`${layout}: processing`);
  for (let before = messages; ;) {
    const left = Number(await lag());
    if (left < before) attempts.progress();
    else attempts.check();
    before = left;
    rss = Math.max(rss, process.memoryUsage().rss);
    const nowMs = nodeClock.monotonicMs();
    if (left === 0) return rss;
    if (nowMs - saidMs >= PROGRESS_MS) {
      saidMs = nowMs;
      const done = messages - left;
      console.log(`${layout}: ${done} of ${messages}, ${((done / (nowMs - startMs)) * 1000).toFixed(0)} messages/s`);
    }
    await sleep(nodeClock, 20);
  }
}

function countingStores(root: string): WindowStores & { readonly writtenBytes: () => number } {
  let written = 0;
  const disk = nodeDisk(root);
  return {
    writtenBytes: () => written,
    open: async (name) => {
      const store = flushedKeyValue(await openLevel(join(root, name), nodeDescriptors()));
      const batch: KeyValue["batch"] = (operations, options) => {
        for (const each of operations) written += each.key.length + (each.kind === "put" ? each.value.length : 0);
        return store.batch(operations, options);
      };
      return {
        get: (key) => store.get(key),
        getMany: (keys) => store.getMany(keys),
        range: (range) => store.range(range),
        batch,
        close: () => store.close(),
      };
    },
    remove: async (name) => {
      for (const file of await disk.list(name)) await disk.remove(`${name}/${file.name}`);
      await disk.remove(name);
    },
    list: async () => (await disk.list("")).map((entry) => entry.name),
  };
}

function folderBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

const VALUE = Buffer.alloc(VALUE_BYTES, "v");
const idHash: IdHash = (key, bytes) => createHmac("sha256", key).update(bytes).digest().subarray(0, 16);

function report(options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const head = [
    "layout",
    "messages",
    "messages/s",
    "CPU us",
    "duplicates",
    "ids held",
    "disk B/id",
    "written B/id",
    "index B/id",
    "memory MiB",
  ];
  const rows = lines.map((line) => [
    line.layout,
    String(line.messages),
    line.perSecond.toFixed(0),
    line.cpuUsPerMessage.toFixed(1),
    String(line.duplicates),
    String(line.ids),
    line.diskBytesPerId.toFixed(1),
    line.writtenBytesPerId.toFixed(1),
    line.indexBytesPerId.toFixed(1),
    line.rssMiB.toFixed(0),
  ]);
  console.log(
    `\none partition, batches of ${PAGE.messages}, window of ${options.ids} ids turned over ${TURNS} times, input of ${VALUE_BYTES} B values, output synced`,
  );
  console.log(`${machineLine(on)}\n`);
  console.log(renderTable([head, ...rows]));
  console.log(
    "\nwritten = bytes given to the stores; index = filters, fences and active ids; memory = growth of the process at its peak, caches and garbage included",
  );
  writeReport(options.out, { bench: "dedup", machine: on, ids: options.ids, lines });
}
