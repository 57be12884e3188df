// Uploads and downloads of three sizes, and what each way of preventing leaks costs (OG21, OGD6).
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AccessKey, startConstellation, cpuSeconds, memoryMiB } from "@concord/constellation";
import { MIB, type BenchOptions, type Size } from "./options.ts";
import { closedLoop, type LoadResult } from "./load.ts";
import { startMinio } from "./minio.ts";
import { startRadosgw } from "./radosgw.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";
import { collectionCost, measureOverwrites, overwriteConfig, overwriteTable, type OverwriteLine } from "./s3-overwrites.ts";
import { S3Requests } from "./s3-requests.ts";
import { measureVersions, VERSIONED_OPERATIONS, versionsCost, versionsTable, type VersionsCost, type VersionsLine } from "./s3-versions.ts";

const MODES = ["reservation", "per-transaction", "off"] as const;
const FLOOR = "node http, no work";
const PEERS = ["radosgw", "MinIO"] as const;
const ON_RADOS = "reservation on RADOS";
const BUCKET = "bench";
const BOTH = ["PUT", "GET"] as const;
/** The gateway's collector runs meanwhile, as it would after a while in production. */
const GC_GRACE_MS = 60_000;
const LATE_COLLECTION = { gcGraceMs: GC_GRACE_MS, longestRequestMs: GC_GRACE_MS };

interface Line extends LoadResult {
  readonly system: string;
  readonly operation: "PUT" | "GET";
  readonly size: Size;
  readonly cpuPercent: number;
  readonly cpuMsPerOperation: number;
  readonly memoryMiB: number;
}

interface Target {
  readonly system: string;
  readonly requests: S3Requests;
  readonly pids: readonly number[];
  /** Of a gateway of ours. */
  readonly adminAddress?: string;
}

export async function s3Bench(options: BenchOptions): Promise<void> {
  const { systems } = options.s3;
  const lines: Line[] = [];
  if (systems.includes("floor")) lines.push(...(await withFloor((target) => measureAll(target, options, ["PUT"]))));
  for (const mode of MODES) {
    if (!systems.includes(mode)) continue;
    const operations = mode === MODES[0] ? BOTH : (["PUT"] as const);
    const run = { system: mode, config: { ...LATE_COLLECTION, journal: mode } };
    lines.push(...(await withGateway(run, options, (target) => measureAll(target, options, operations))));
    console.log(`measured ${mode}`);
  }
  if (systems.includes("minio")) lines.push(...(await onMinio(options)));
  if (systems.includes("ceph")) lines.push(...(await onCeph(options)));
  const overwrites = systems.includes("overwrites") ? await overwritten(options) : [];
  const versions = systems.includes("versions") ? await versioned(options) : [];
  report(options, { lines, overwrites, versions });
}

function versioned(options: BenchOptions): Promise<VersionsLine[]> {
  return withGateway({ system: "versions", config: LATE_COLLECTION }, options, (target) => measureVersions(target, options.seconds));
}

async function overwritten(options: BenchOptions): Promise<OverwriteLine[]> {
  const lines: OverwriteLine[] = [];
  for (const collection of ["kept", "collected"] as const) {
    const run = { system: `overwrites, ${collection}`, config: overwriteConfig(collection) };
    const wanted = { bucket: BUCKET, collection, seconds: options.s3.overwriteSeconds };
    const line = await withGateway(run, options, async ({ requests, pids, adminAddress }) => {
      if (adminAddress === undefined) throw new Error("a gateway of ours has an admin address");
      return await measureOverwrites({ requests, pids, adminAddress }, wanted);
    });
    lines.push(line);
    console.log(`measured overwrites, garbage ${collection}`);
  }
  return lines;
}

interface GatewayRun {
  readonly system: string;
  readonly config: object;
  /** Of the processes it stores in. */
  readonly pids?: readonly number[];
}

async function withGateway<Result>(
  { system, config, pids = [] }: GatewayRun,
  options: BenchOptions,
  use: (target: Target) => Promise<Result>,
): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-s3-"));
  const constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { "object-gateway": 1 },
    config: { "object-gateway": { ...config, logLevel: "warn" } },
    ...(options.profileFolder === undefined
      ? {}
      : { nodeArguments: { "object-gateway-1": ["--cpu-prof", `--cpu-prof-dir=${options.profileFolder}`] } }),
    onCrash: (node, exit) => console.error(`${node.plan.name} ended: ${exit.signal ?? exit.code}\n${node.logTail()}`),
  });
  const requests = new S3Requests(constellation.s3Endpoints[0]!, constellation.tokens.accessKeys[0]!);
  try {
    await requests.send("PUT", `/${BUCKET}`);
    const { adminAddress } = constellation.nodes[0]!;
    return await use({ system, requests, pids: [constellation.process("object-gateway-1").pid!, ...pids], adminAddress });
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

/** Nothing where MinIO is not to be had. */
async function onMinio(options: BenchOptions): Promise<Line[]> {
  const minio = await startMinio(console.log);
  if (minio === undefined) return [];
  const requests = new S3Requests(minio.endpoint, minio.key);
  try {
    await requests.send("PUT", `/${BUCKET}`);
    const lines = await measureAll({ system: "MinIO", requests, pids: minio.pids }, options, BOTH);
    console.log(`measured ${minio.version}, one drive`);
    return lines;
  } finally {
    requests.close();
    await minio.stop();
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
    const lines = await measureAll({ system: "radosgw", requests, pids: radosgw.pids }, options, BOTH);
    console.log(`measured ${radosgw.version}, one bluestore OSD`);
    const cluster = radosgw.pids.slice(0, -1);
    const run = { system: ON_RADOS, config: { ...LATE_COLLECTION, ...radosgw.rados }, pids: cluster };
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
  for (const size of options.s3.sizes) {
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
  let [usedSeconds, memory] = [0, 0];
  const load = { inFlight: size.inFlight, seconds, warmUpSeconds: Math.ceil(seconds / 4) };
  const result = await closedLoop(load, work, () => {
    const cpu = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
    const before = cpu();
    return () => {
      usedSeconds = cpu() - before;
      memory = memoryMiB(pids);
    };
  });
  const cpuPercent = (usedSeconds / seconds) * 100;
  const cpuMsPerOperation = (usedSeconds * 1000) / (result.perSecond * seconds);
  return { system, operation, size, ...result, cpuPercent, cpuMsPerOperation, memoryMiB: memory };
}

interface Measured {
  readonly lines: readonly Line[];
  readonly overwrites: readonly OverwriteLine[];
  readonly versions: readonly VersionsLine[];
}

function report(options: BenchOptions, { lines, overwrites, versions }: Measured): void {
  const on = machine();
  console.log(`\nS3 uploads and downloads, durable, one gateway; ${machineLine(on)}\n`);
  if (lines.length > 0) console.log(lineTable(lines));
  const ratios = options.s3.sizes.map((size) => ratiosOf(lines, size));
  console.log("");
  for (const each of ratios) printRatios(each);
  const [kept, collected] = overwrites;
  const collection = kept === undefined || collected === undefined ? undefined : collectionCost(kept, collected);
  if (collection !== undefined) {
    console.log(`\nOverwrites of 64 KiB:\n\n${overwriteTable(overwrites)}\n`);
    console.log(`collection: ${collection.cpuUsPerBlob.toFixed(0)} us of CPU per blob`);
    console.log(`PUT with collection / without = ${collection.byRate.toFixed(2)}x by rate, ${collection.byCpu.toFixed(2)}x by CPU`);
  }
  const versionCosts = versions.length === 0 ? [] : VERSIONED_OPERATIONS.map((operation) => versionsCost(versions, operation));
  if (versions.length > 0) console.log(`\nA bucket that keeps versions beside one that does not, 4 KiB:\n\n${versionsTable(versions)}\n`);
  for (const cost of versionCosts) printVersions(cost);
  const figures = { lines, ratios, overwrites, collection, versions, versionCosts };
  writeReport(options.out, { bench: "s3", machine: on, seconds: options.seconds, ...figures });
}

function printVersions({ operation, off, on }: VersionsCost): void {
  const [rate, cpu] = [on.perSecond / off.perSecond, on.cpuUs / off.cpuUs];
  console.log(
    `${operation} with versions / without = ${rate.toFixed(2)}x by rate, ${cpu.toFixed(2)}x the CPU (${on.cpuUs.toFixed(0)}, ${off.cpuUs.toFixed(0)} us)`,
  );
}

function lineTable(lines: readonly Line[]): string {
  const head = ["system", "operation", "size", "in flight", "per s", "MiB/s", "p50 ms", "p99 ms", "CPU %", "CPU ms/op", "memory MiB"];
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
    line.cpuMsPerOperation.toFixed(2),
    line.memoryMiB.toFixed(0),
  ]);
  return renderTable([head, ...rows]);
}

interface Ratios {
  readonly size: string;
  /** By rate, of the journal that is off. */
  readonly reservation: number;
  readonly perTransaction: number;
  readonly toPeers: readonly ToPeer[];
}

interface ToPeer {
  readonly ours: string;
  readonly peer: (typeof PEERS)[number];
  /** By rate, and by CPU per operation (above 1: ours takes less). */
  readonly ratios: Readonly<Record<Line["operation"], { readonly rate: number; readonly cpu: number }>>;
}

function ratiosOf(lines: readonly Line[], size: Size): Ratios {
  const find = (system: string, operation: Line["operation"] = "PUT"): Line | undefined =>
    lines.find((line) => line.system === system && line.operation === operation && line.size === size);
  const rate = (system: string): number => (find(system)?.perSecond ?? NaN) / (find("off")?.perSecond ?? NaN);
  const ratio = (ours: string, peer: string, operation: Line["operation"]): { readonly rate: number; readonly cpu: number } => {
    const [own, other] = [find(ours, operation), find(peer, operation)];
    if (own === undefined || other === undefined) return { rate: NaN, cpu: NaN };
    return { rate: own.perSecond / other.perSecond, cpu: other.cpuMsPerOperation / own.cpuMsPerOperation };
  };
  const toPeers = ["reservation", ON_RADOS].flatMap((ours) =>
    PEERS.map((peer) => ({ ours, peer, ratios: { PUT: ratio(ours, peer, "PUT"), GET: ratio(ours, peer, "GET") } })),
  );
  return { size: size.name, reservation: rate("reservation"), perTransaction: rate("per-transaction"), toPeers };
}

function printRatios({ size, reservation, perTransaction, toPeers }: Ratios): void {
  if (!Number.isNaN(reservation))
    console.log(`PUT ${size}: reservation / off = ${reservation.toFixed(2)}x, per-transaction / off = ${perTransaction.toFixed(2)}x`);
  for (const { ours, peer, ratios } of toPeers) {
    if (Number.isNaN(ratios.PUT.rate)) continue;
    const said = BOTH.map((operation) => `${operation} ${ratios[operation].rate.toFixed(2)}x (CPU ${ratios[operation].cpu.toFixed(2)}x)`);
    console.log(`${size}: Concord, ${ours} / ${peer} = ${said.join(", ")}`);
  }
}
