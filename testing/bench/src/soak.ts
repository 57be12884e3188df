// Does a living node ever count as dead? Three nodes under the load of txn for minutes; what their majority said of each other is counted.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type ConcordClient } from "@concord/client";
import { metricSamples, metricsPage, type Constellation } from "@concord/constellation";
import { addPhoto, createAlbums } from "./albums.ts";
import type { BenchOptions } from "./options.ts";
import { measured, startForBench, warmUp, type ConcordResult } from "./concord-load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const IN_FLIGHT = 64;
const SECONDS_PER_MINUTE = 60;
/** No node dies: each of these is about one that lives. */
const FALSE_VERDICTS: ReadonlySet<string> = new Set(["gone", "stuck", "lost"]);

interface Figures {
  /** Since the nodes started. */
  readonly falseVerdicts: number;
  /** Pauses of a main loop that were longer than a beat. */
  readonly stalls: number;
  readonly stalledSeconds: number;
}

interface Minute extends Figures {
  readonly perSecond: number;
}

/** `--minutes` of load; it ends with the first false verdict, and what the nodes said about it. */
export async function soakBench(options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  // Verdicts are in the log.
  const constellation = await startForBench(folder, "three", { ...options, config: { logLevel: "info" } });
  const busy = Array.from({ length: options.busy }, () => spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
  const db = await connect({ coordinators: constellation.coordinators });
  try {
    await createAlbums(db);
    await warmUp(() => addPhoto(db));
    const before = await figuresOf(constellation);
    const minutes: Minute[] = [];
    let failed = 0;
    for (let minute = 1; minute <= options.minutes; minute += 1) {
      const { perSecond, failures } = await oneMinute(constellation, db);
      failed += failures;
      const { falseVerdicts, stalls, stalledSeconds } = difference(await figuresOf(constellation), before);
      minutes.push({ perSecond, falseVerdicts, stalls, stalledSeconds });
      console.log(`minute ${minute}: ${perSecond.toFixed(0)} transactions/s; so far ${falseVerdicts} false verdicts, ${stalls} stalls`);
      if (falseVerdicts > 0) break;
    }
    report(options, minutes, failed);
    const { falseVerdicts } = minutes.at(-1)!;
    if (falseVerdicts > 0) throw new Error(`${falseVerdicts} verdicts against living nodes\n${verdictsIn(constellation).join("\n")}`);
  } finally {
    for (const process of busy) process.kill("SIGKILL");
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Changed opinions and stalls as the nodes logged them, by node. */
function verdictsIn(constellation: Constellation): readonly string[] {
  const logs = constellation.nodes.map(({ name }) => readFileSync(constellation.process(name).logFile, "utf8"));
  return logs.flatMap((log) => log.split("\n")).filter((line) => /opinion changed|stood still/.test(line));
}

async function oneMinute(
  constellation: Constellation,
  db: ConcordClient,
): Promise<{ readonly perSecond: ConcordResult["perSecond"]; readonly failures: number }> {
  let failures = 0;
  const load = { inFlight: IN_FLIGHT, seconds: SECONDS_PER_MINUTE, warmUpSeconds: 0 };
  const { perSecond } = await measured(constellation, load, () => addPhoto(db).catch(() => void (failures += 1)));
  return { perSecond, failures };
}

async function figuresOf({ nodes }: Constellation): Promise<Figures> {
  const pages = await Promise.all(nodes.map(({ adminAddress }) => metricsPage(adminAddress)));
  const sum = (name: string, counts: (labels: Readonly<Record<string, string>>) => boolean = () => true): number =>
    pages.flatMap((page) => metricSamples(page, name)).reduce((total, { labels, value }) => total + (counts(labels) ? value : 0), 0);
  return {
    falseVerdicts: sum("coordinator_verdicts_total", ({ verdict }) => FALSE_VERDICTS.has(verdict ?? "")),
    stalls: sum("event_loop_stall_seconds_count"),
    stalledSeconds: sum("event_loop_stall_seconds_sum"),
  };
}

function difference(after: Figures, before: Figures): Figures {
  return {
    falseVerdicts: after.falseVerdicts - before.falseVerdicts,
    stalls: after.stalls - before.stalls,
    stalledSeconds: after.stalledSeconds - before.stalledSeconds,
  };
}

function report(options: BenchOptions, minutes: readonly Minute[], failed: number): void {
  const on = machine();
  const { falseVerdicts, stalls, stalledSeconds } = minutes.at(-1)!;
  const slowest = Math.min(...minutes.map(({ perSecond }) => perSecond));
  const mean = minutes.reduce((sum, { perSecond }) => sum + perSecond, 0) / minutes.length;
  const beside = options.busy === 0 ? "" : `, beside ${options.busy} processes that only take CPU`;
  console.log(`\n${minutes.length} minutes, ${IN_FLIGHT} photos in flight, three nodes, none of which dies${beside}; ${machineLine(on)}\n`);
  console.log(
    renderTable([
      ["false verdicts", "stalls above 50 ms", "their seconds", "transactions/s", "in the slowest minute", "failed"],
      [falseVerdicts, stalls, stalledSeconds, mean, slowest, failed].map((figure) => figure.toFixed(0)),
    ]),
  );
  writeReport(options.out, { bench: "soak", machine: on, busy: options.busy, minutes, failed });
}
