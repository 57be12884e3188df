// Messages through a dedup-worker over gRPC, many and one per call: what the server's process pays for each, end to end.
import { randomUUID, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type ConcordClient } from "@concord/client";
import { cpuSeconds, memoryMiB, startConstellation } from "@concord/constellation";
import type { BenchOptions } from "./options.ts";
import { closedLoop, type LoadResult } from "./load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const NODE = "dedup-worker-1";
const VALUE_BYTES = 200;
/** Calls of one client on one session; the goals are us of server CPU per message. */
const LOADS = [
  { perCall: 100, inFlight: 16, goalUs: 10 },
  { perCall: 1, inFlight: 64, goalUs: 60 },
  { perCall: 1, inFlight: 256, goalUs: 60 },
] as const;

interface Line extends LoadResult {
  readonly perCall: number;
  readonly inFlight: number;
  readonly goalUs: number;
  readonly cpuUsPerMessage: number;
  readonly memoryMiB: number;
}

export async function ingestBench(options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-ingest-"));
  const profile = options.profileFolder;
  const constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { "dedup-worker": 1 },
    config: { "dedup-worker": { logLevel: "warn" } },
    ...(profile === undefined ? {} : { nodeArguments: { [NODE]: ["--cpu-prof", `--cpu-prof-dir=${profile}`] } }),
  });
  const client = await connect({ dedupWorker: constellation.nodes[0]!.address });
  const lines: Line[] = [];
  try {
    for (const load of LOADS) lines.push(await measure(client, constellation.process(NODE).pid!, load, options.seconds));
  } finally {
    client.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  report(options, lines);
}

async function measure(client: ConcordClient, pid: number, load: (typeof LOADS)[number], seconds: number): Promise<Line> {
  const { perCall, inFlight, goalUs } = load;
  const value = randomBytes(VALUE_BYTES);
  const work = async (): Promise<void> => {
    await client.messages.ingest(Array.from({ length: perCall }, () => ({ id: randomUUID(), value })));
  };
  let [usedSeconds, memory] = [0, 0];
  const result = await closedLoop({ inFlight, seconds, warmUpSeconds: Math.ceil(seconds / 4) }, work, () => {
    const before = cpuSeconds(pid);
    return () => {
      usedSeconds = cpuSeconds(pid) - before;
      memory = memoryMiB([pid]);
    };
  });
  const messages = result.perSecond * seconds * perCall;
  return { ...result, perCall, inFlight, goalUs, cpuUsPerMessage: (usedSeconds * 1e6) / messages, memoryMiB: memory };
}

function report(options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const head = ["per call", "in flight", "messages/s", "p50 ms", "p99 ms", "server CPU us/message", "goal", "memory MiB"];
  const rows = lines.map((line) => [
    String(line.perCall),
    String(line.inFlight),
    (line.perSecond * line.perCall).toFixed(0),
    line.p50Ms.toFixed(2),
    line.p99Ms.toFixed(2),
    line.cpuUsPerMessage.toFixed(1),
    String(line.goalUs),
    line.memoryMiB.toFixed(0),
  ]);
  console.log(`\nMessages of ${VALUE_BYTES} bytes through one dedup-worker over gRPC; ${machineLine(on)}\n`);
  console.log(renderTable([head, ...rows]));
  writeReport(options.out, { bench: "ingest", machine: on, seconds: options.seconds, lines });
}
