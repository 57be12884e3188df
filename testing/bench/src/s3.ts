// Uploads and downloads of three sizes, and what each way of preventing leaks costs (OG21, OGD6).
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AccessKey, startConstellation, cpuSeconds, memoryMiB } from "@concord/constellation";
import type { BenchOptions } from "./bench.ts";
import { closedLoop, type LoadResult } from "./load.ts";
import { startRadosgw } from "./radosgw.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";
import { S3Requests } from "./s3-requests.ts";

const KIB = 1024;
const MIB = KIB * KIB;

interface Size {
  readonly name: string;
  readonly bytes: number;
  readonly inFlight: number;
  /** Keys that are written in turn: overwrites leave garbage, so the disk does not grow without end. */
  readonly keys: number;
}

const SIZES: readonly Size[] = [
  { name: "4 KiB", bytes: 4 * KIB, inFlight: 16, keys: 2_000 },
  { name: "1 MiB", bytes: MIB, inFlight: 8, keys: 200 },
  { name: "64 MiB", bytes: 64 * MIB, inFlight: 2, keys: 8 },
];
const MODES = ["reservation", "per-transaction", "off"] as const;
const FLOOR = "node http, no work";
const PEER = "radosgw";
const ON_RADOS = "reservation on RADOS";
const BUCKET = "bench";
const BOTH = ["PUT", "GET"] as const;
/** The gateway's collector runs meanwhile, as it would after a while in production. */
const GC_GRACE_MS = 60_000;

interface Line extends LoadResult {
  readonly system: string;
  readonly operation: "PUT" | "GET";
  readonly size: Size;
  readonly cpuPercent: number;
  readonly memoryMiB: number;
}

interface Target {
  readonly system: string;
  readonly requests: S3Requests;
  readonly pids: readonly number[];
}

export async function s3Bench(options: BenchOptions): Promise<void> {
  const lines: Line[] = [];
  lines.push(...(await withFloor((target) => measureAll(target, options, ["PUT"]))));
  for (const mode of MODES) {
    const operations = mode === MODES[0] ? BOTH : (["PUT"] as const);
    lines.push(
      ...(await withGateway({ system: mode, config: { journal: mode } }, options, (target) => measureAll(target, options, operations))),
    );
    console.log(`measured ${mode}`);
  }
  report(options, [...lines, ...(await onCeph(options))]);
}

interface GatewayRun {
  readonly system: string;
  readonly config: object;
  /** Of the processes it stores in. */
  readonly pids?: readonly number[];
}

async function withGateway(
  { system, config, pids = [] }: GatewayRun,
  options: BenchOptions,
  use: (target: Target) => Promise<Line[]>,
): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-s3-"));
  const constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { "object-gateway": 1 },
    config: { "object-gateway": { ...config, logLevel: "warn", gcGraceMs: GC_GRACE_MS, longestRequestMs: GC_GRACE_MS } },
    ...(options.profileFolder === undefined
      ? {}
      : { nodeArguments: { "object-gateway-1": ["--cpu-prof", `--cpu-prof-dir=${options.profileFolder}`] } }),
    onCrash: (node, exit) => console.error(`${node.plan.name} ended: ${exit.signal ?? exit.code}\n${node.logTail()}`),
  });
  const requests = new S3Requests(constellation.s3Endpoints[0]!, constellation.tokens.accessKeys[0]!);
  try {
    await requests.send("PUT", `/${BUCKET}`);
    return await use({ system, requests, pids: [constellation.process("object-gateway-1").pid!, ...pids] });
  } finally {
    requests.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What the client and Node's HTTP alone cost: a server that reads the body and says 200. In this process, so it is no ceiling. */
async function withFloor(use: (target: Target) => Promise<Line[]>): Promise<Line[]> {
  const server: Server = createServer((incoming, outgoing) => {
    incoming.resume();
    incoming.on("end", () => outgoing.end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const key: AccessKey = { accessKeyId: "none", secretAccessKey: "none", tenant: "main" };
  const requests = new S3Requests(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, key);
  try {
    return await use({ system: FLOOR, requests, pids: [process.pid] });
  } finally {
    requests.close();
    server.closeAllConnections();
    server.close();
  }
}

/** radosgw, then a gateway of ours with its objects in the same cluster. Nothing where Ceph is not to be had. */
async function onCeph(options: BenchOptions): Promise<Line[]> {
  const radosgw = await startRadosgw(console.log);
  if (radosgw === undefined) {
    console.log("radosgw: not installed, so there is no peer in this run");
    return [];
  }
  const requests = new S3Requests(radosgw.endpoint, radosgw.key);
  try {
    await requests.send("PUT", `/${BUCKET}`);
    const lines = await measureAll({ system: PEER, requests, pids: radosgw.pids }, options, BOTH);
    console.log(`measured ${radosgw.version}, one bluestore OSD`);
    const cluster = radosgw.pids.slice(0, -1);
    const run = { system: ON_RADOS, config: radosgw.rados, pids: cluster };
    lines.push(...(await withGateway(run, options, (target) => measureAll(target, options, BOTH))));
    console.log(`measured ${ON_RADOS}, the same cluster`);
    return lines;
  } finally {
    requests.close();
    await radosgw.stop();
  }
}

async function measureAll(target: Target, options: BenchOptions, operations: readonly Line["operation"][]): Promise<Line[]> {
  const lines: Line[] = [];
  for (const size of SIZES) {
    const body = randomBytes(size.bytes);
    for (const operation of operations) lines.push(await measure(target, operation, size, body, options.seconds));
  }
  return lines;
}

async function measure(
  { system, requests, pids }: Target,
  operation: Line["operation"],
  size: Size,
  body: Buffer,
  seconds: number,
): Promise<Line> {
  let next = 0;
  let written = 0;
  const path = (at: number): string => `/${BUCKET}/${size.bytes}/${at}`;
  if (operation === "GET") {
    const present = Math.min(size.keys, 16);
    for (; written < present; written += 1) await requests.send("PUT", path(written), body);
  }
  const work = async (): Promise<void> => {
    next += 1;
    if (operation === "PUT") await requests.send("PUT", path(next % size.keys), body);
    else if ((await requests.send("GET", path(next % written))).bytes !== size.bytes) throw new Error(`GET ${size.name} came back short`);
  };
  let [cpuPercent, memory] = [0, 0];
  const load = { inFlight: size.inFlight, seconds, warmUpSeconds: Math.ceil(seconds / 4) };
  const result = await closedLoop(load, work, () => {
    const cpu = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
    const before = cpu();
    return () => {
      cpuPercent = ((cpu() - before) / seconds) * 100;
      memory = memoryMiB(pids);
    };
  });
  return { system, operation, size, ...result, cpuPercent, memoryMiB: memory };
}

function report(options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const head = ["journal", "operation", "size", "in flight", "per s", "MiB/s", "p50 ms", "p99 ms", "CPU %", "memory MiB"];
  const rows = lines.map((line) => [
    line.system,
    line.operation,
    line.size.name,
    String(line.size.inFlight),
    line.perSecond.toFixed(1),
    ((line.perSecond * line.size.bytes) / MIB).toFixed(1),
    line.p50Ms.toFixed(2),
    line.p99Ms.toFixed(2),
    line.cpuPercent.toFixed(0),
    line.memoryMiB.toFixed(0),
  ]);
  console.log(`\nS3 uploads and downloads, durable, one gateway; ${machineLine(on)}\n`);
  console.log(renderTable([head, ...rows]));
  const rate = (system: string, size: Size, operation: Line["operation"] = "PUT"): number =>
    lines.find((line) => line.system === system && line.operation === operation && line.size === size)?.perSecond ?? NaN;
  const ratios = SIZES.map((size) => {
    const off = rate("off", size);
    const peer = (operation: Line["operation"], system = "reservation"): number =>
      rate(system, size, operation) / rate(PEER, size, operation);
    const onRados = { putOnRadosToPeer: peer("PUT", ON_RADOS), getOnRadosToPeer: peer("GET", ON_RADOS) };
    const journal = { reservation: rate("reservation", size) / off, perTransaction: rate("per-transaction", size) / off };
    return { size: size.name, ...journal, putToPeer: peer("PUT"), getToPeer: peer("GET"), ...onRados };
  });
  console.log("");
  for (const each of ratios) {
    const { size, reservation, perTransaction, putToPeer, getToPeer } = each;
    console.log(`PUT ${size}: reservation / off = ${reservation.toFixed(2)}x, per-transaction / off = ${perTransaction.toFixed(2)}x`);
    if (Number.isNaN(putToPeer)) continue;
    console.log(`${size}: Concord on files / radosgw = ${putToPeer.toFixed(2)}x PUT, ${getToPeer.toFixed(2)}x GET`);
    console.log(`${size}: Concord on RADOS / radosgw = ${each.putOnRadosToPeer.toFixed(2)}x PUT, ${each.getOnRadosToPeer.toFixed(2)}x GET`);
  }
  writeReport(options.out, { bench: "s3", machine: on, seconds: options.seconds, lines, ratios });
}
