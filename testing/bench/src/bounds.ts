// Bounds of one gateway's work: a page of 1000 versions, 10 000 policies, a pass of lifecycle rules over --ids objects. Each runs alone in this process, on
// the real store, library and engine; how long the event loop was kept, and how much memory it took, is what counts.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { KeyValueMetadata } from "@concord/adapter-key-value-metadata";
import { openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDisk, nodeEnvironment } from "@concord/adapter-node-runtime";
import { Engine } from "@concord/engine";
import {
  createObjectStore,
  LIFECYCLE_DOCUMENT,
  LifecycleEngine,
  objectStoreContext,
  type LifecycleRule,
  type ObjectStore,
  type ObjectStoreContext,
  type UploadBody,
  type UploadJournal,
} from "@concord/objects";
import type { MetadataRow } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, toConcordError } from "@concord/runtime";
import { authorize, listVersionsXml, readPolicy, type BucketAccess, type ConditionFacts } from "@concord/s3";
import { openStore } from "@concord/store";
import type { BenchOptions } from "./bench.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

/** The goal of each line. */
const DELAY_P99_MS_MAX = 50;
const PAGE = 1000;
const KEYS_OF_PAGE = 400;
const VERSIONS_PER_KEY = 5;
const VERSIONS_OF_ONE_KEY = 2000;
const POLICIES = 10_000;
const STATEMENTS = 10;
const CONDITIONS = 10;
/** Of the objects of the pass one in so many is due. */
const DUE_ONE_IN = 100;
const COPIES_PER_COMMIT = 2000;
const PUTS_AT_ONCE = 64;
const SAMPLE_MS = 100;

interface Line {
  readonly what: string;
  readonly units: number;
  readonly seconds: number;
  readonly cpuMsPerUnit: number;
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
  readonly delayMaxMs: number;
  readonly rssGrowthMiB: number;
  readonly heapMaxMiB: number;
}

export async function boundsBench(options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const { context, close } = await openContext(folder);
  const store = createObjectStore(context);
  const lines: Line[] = [];
  try {
    await fillVersions(store);
    for (const bucket of ["many-keys", "one-key"] as const)
      lines.push(await measured(`a page of ${PAGE} versions, ${bucket}`, () => pages(store, bucket, options.seconds)));
    lines.push(...(await policies()));
    await fillObjects(context, store, options.ids);
    for (const rowsPerSecond of [Number.MAX_SAFE_INTEGER, 2000]) lines.push(await measured(...lifecycle(context, options, rowsPerSecond)));
  } finally {
    await close();
    rmSync(folder, { recursive: true, force: true });
  }
  report(lines, options);
}

/** A gateway's rows as the program has them without other services; small objects are in their rows, so no blob is written. */
async function openContext(folder: string): Promise<{ readonly context: ObjectStoreContext; close(): Promise<void> }> {
  const environment = nodeEnvironment({ transport: undefined as never, log: silentLog, metrics: silentMetrics, env: {} });
  const disk = nodeDisk(folder);
  const rows = await openStore({ ...environment, disk, folder: "rows", backing: await openLevel(join(folder, "rows")) });
  const engine = new Engine({ store: rows, clock: nodeClock, metrics: silentMetrics, onFailed: (cause) => void Promise.reject(cause) });
  let guid = 0n;
  const shared = { clock: nodeClock, log: silentLog, metrics: silentMetrics, failpoint: () => undefined };
  const context = objectStoreContext({
    ...shared,
    metadata: new KeyValueMetadata({ store: engine, checksum: nodeChecksum, log: silentLog }),
    data: new FilesystemObjectData({ disk, checksum: nodeChecksum, failpoint: () => undefined }),
    guids: { next: () => Promise.resolve((guid += 1n)) },
    journal: NO_BLOBS,
    unresolved: { add: () => undefined },
    shards: 1,
  });
  const close = async (): Promise<void> => {
    await engine.whenIdle();
    await rows.close();
  };
  return { context, close };
}

const NO_BLOBS: UploadJournal = {
  mode: "off",
  begin: () => Promise.reject(new ConcordError("INTERNAL", "objects of this benchmark are in their rows")),
  fenced: () => undefined,
  beginDelete: () => Promise.resolve({ resolve: () => Promise.resolve() }),
};

async function measured(what: string, run: () => Promise<number>): Promise<Line> {
  const before = process.memoryUsage().rss;
  let [rssMax, heapMax] = [before, 0];
  const sample = (): void => {
    const { rss, heapUsed } = process.memoryUsage();
    [rssMax, heapMax] = [Math.max(rssMax, rss), Math.max(heapMax, heapUsed)];
  };
  const timer = setInterval(sample, SAMPLE_MS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const [from, cpu] = [performance.now(), process.cpuUsage()];
  delay.enable();
  const units = await run();
  delay.disable();
  sample();
  clearInterval(timer);
  const { user, system } = process.cpuUsage(cpu);
  const line: Line = {
    what,
    units,
    seconds: (performance.now() - from) / 1000,
    cpuMsPerUnit: (user + system) / 1000 / units,
    delayP50Ms: delay.percentile(50) / 1e6,
    delayP99Ms: delay.percentile(99) / 1e6,
    delayMaxMs: delay.max / 1e6,
    rssGrowthMiB: (rssMax - before) / 2 ** 20,
    heapMaxMiB: heapMax / 2 ** 20,
  };
  console.log(`${what}: ${units} in ${line.seconds.toFixed(1)} s, event loop delay p99 ${line.delayP99Ms.toFixed(1)} ms`);
  return line;
}

// Versions

async function fillVersions(store: ObjectStore): Promise<void> {
  for (const bucket of ["many-keys", "one-key"]) {
    await store.createBucket({ bucket, tenant: "t", region: "r" });
    await store.setBucketVersioning(bucket, "enabled");
  }
  const keys = Array.from({ length: KEYS_OF_PAGE }, (_, at) => keyOf("k/", at));
  for (let version = 0; version < VERSIONS_PER_KEY; version += 1) await putAll(store, "many-keys", keys);
  for (let version = 0; version < VERSIONS_OF_ONE_KEY; version += 1) await putOne(store, "one-key", "k");
}

/** As ListObjectVersions answers, one after the other without a pause. */
async function pages(store: ObjectStore, bucket: string, seconds: number): Promise<number> {
  const until = performance.now() + seconds * 1000;
  let count = 0;
  for (; performance.now() < until; count += 1) {
    const page = { bucket, prefix: "", delimiter: undefined, limit: PAGE };
    const listing = await store.listVersions({ ...page, after: undefined });
    if (listing.versions.length !== PAGE) throw new Error(`a page of ${bucket} has ${listing.versions.length} versions`);
    const said = { ...page, ...listing, maxKeys: PAGE, encoding: undefined, keyMarker: "", versionIdMarker: "", owner: { id: "t" } };
    if (listVersionsXml(said).length < PAGE * 100) throw new Error("a page is too short");
  }
  return count;
}

// Policies

const BUCKET = "a-bucket";
const TENANT = { kind: "tenant", tenant: "another" } as const;
/** As a request says it: every condition is looked at, and only the last statement holds. */
const FACTS: ConditionFacts = {
  "aws:sourceip": "192.0.2.77",
  "s3:prefix": "photos/2026/",
  "aws:useragent": "a client/1.2",
  "aws:securetransport": "true",
};

/** Ten statements of ten values in four conditions, of which the last statement allows what is asked. */
function policyText(seed: number): string {
  const statement = (at: number): object => ({
    Sid: `s${at}`,
    Effect: at % 3 === 0 ? "Deny" : "Allow",
    Principal: { AWS: "another" },
    Action: ["s3:GetObject", "s3:PutObject"],
    Resource: `arn:aws:s3:::${BUCKET}/*`,
    Condition: {
      StringLike: { "s3:prefix": values((one) => (at === STATEMENTS - 2 ? "photos/*" : `${seed}-${at}-${one}/*/x`)) },
      IpAddress: { "aws:SourceIp": [...values((one) => `10.${at}.${one}.0/24`), "192.0.2.0/24"] },
      StringNotEquals: { "aws:UserAgent": values((one) => `agent ${seed} ${one}`) },
      Bool: { "aws:SecureTransport": "true" },
    },
  });
  return JSON.stringify({ Version: "2012-10-17", Statement: Array.from({ length: STATEMENTS }, (_, at) => statement(at)) });
}

const values = (of: (at: number) => string): string[] => Array.from({ length: CONDITIONS }, (_, at) => of(at));

/** Each of 10 000 policies is another bucket's: read and judged as by a gateway that has none of them in its cache; then judged again, kept. */
async function policies(): Promise<Line[]> {
  const texts = Array.from({ length: POLICIES }, (_, at) => new TextEncoder().encode(policyText(at)));
  const read: BucketAccess[] = [];
  const cold = await measured(`${POLICIES} policies of ${STATEMENTS * 4} conditions, read and judged`, async () => {
    for (const text of texts) {
      const access = accessBy(text);
      judge(access);
      if (read.length < POLICIES / 10) read.push(access);
      await nextTurn();
    }
    return texts.length;
  });
  const warm = await measured(`${POLICIES} requests by kept policies`, async () => {
    for (let at = 0; at < POLICIES; at += 1) {
      judge(read[at % read.length]!);
      await nextTurn();
    }
    return POLICIES;
  });
  return [cold, warm];
}

function accessBy(text: Uint8Array): BucketAccess {
  const block = { blockPublicAcls: false, ignorePublicAcls: false, blockPublicPolicy: false, restrictPublicBuckets: false };
  const policy = readPolicy(text, BUCKET, () => true);
  const ownership = "BucketOwnerEnforced";
  return { bucket: BUCKET, owner: "owner", policy, block, ownership, grants: [], publicAccess: "refused" };
}

function judge(access: BucketAccess): void {
  const { kind } = authorize(access, { caller: TENANT, action: "s3:GetObject", key: "photos/2026/1", facts: FACTS });
  if (kind !== "allowed") throw new Error(`a policy that allows it says ${kind}`);
}

// Lifecycle

const RULES: readonly LifecycleRule[] = [
  { id: "due", isEnabled: true, form: "filter", prefix: "due/", tags: {}, expiration: { kind: "days", days: 1 } },
  { id: "tagged", isEnabled: true, form: "filter", prefix: "kept/", tags: { is: "temporary" }, expiration: { kind: "days", days: 1 } },
];

/** What is due is put as clients put it. The others are copies of one row under other keys: a million puts would take longer than all the rest. */
async function fillObjects(context: ObjectStoreContext, store: ObjectStore, objects: number): Promise<void> {
  const bucket = "expiring";
  await store.createBucket({ bucket, tenant: "t", region: "r" });
  const due = Math.ceil(objects / DUE_ONE_IN);
  const startedAt = performance.now();
  await putAll(
    store,
    bucket,
    Array.from({ length: due }, (_, at) => keyOf("due/", at)),
  );
  await putOne(store, bucket, keyOf("kept/", 0));
  const partition = `${bucket}/0`;
  const to = new Uint8Array(64).fill(0xff);
  const first = Buffer.from(keyOf("kept/", 0));
  const all = await context.metadata.range(partition, { from: new Uint8Array(0), to, limit: due + 10 });
  const original = all.find(({ key }) => Buffer.from(key).subarray(1).equals(first));
  if (original === undefined) throw new Error("the row of an object is at its key");
  for (let at = 1; at < objects - due; at += COPIES_PER_COMMIT) {
    const rows = Array.from({ length: Math.min(COPIES_PER_COMMIT, objects - due - at) }, (_, one) =>
      copyOf(original, keyOf("kept/", at + one)),
    );
    const outcome = await context.metadata.commit({ partition, conditions: [], writes: rows.map((row) => ({ kind: "put", row })) });
    if (outcome.kind !== "committed") throw new Error(`copies: ${outcome.kind}`);
  }
  await store.setBucketDocument({ bucket, name: LIFECYCLE_DOCUMENT, text: JSON.stringify(RULES) });
  console.log(`${objects} objects written in ${((performance.now() - startedAt) / 1000).toFixed(0)} s, ${due} of them due`);
}

const copyOf = (row: MetadataRow, key: string): MetadataRow => ({ ...row, key: Buffer.concat([row.key.subarray(0, 1), Buffer.from(key)]) });

/** Without its pace a whole pass, then, for `seconds`, one at its pace over what is left. */
function lifecycle(context: ObjectStoreContext, options: BenchOptions, rowsPerSecond: number): [what: string, run: () => Promise<number>] {
  const engine = new LifecycleEngine({ context, dayMs: 1, rowsPerSecond, intervalMs: 1 });
  if (rowsPerSecond === Number.MAX_SAFE_INTEGER) {
    const due = Math.ceil(options.ids / DUE_ONE_IN);
    const run = async (): Promise<number> => {
      const { looked, current, kept } = await engine.pass();
      if (looked !== options.ids || current !== due || kept !== 0)
        throw new Error(`a pass looked at ${looked}, removed ${current}, left ${kept}`);
      return looked;
    };
    return [`a pass over ${options.ids} objects, ${due} due, without its pace`, run];
  }
  const paced = async (): Promise<number> => {
    engine.start();
    await new Promise((resolve) => setTimeout(resolve, options.seconds * 1000));
    await engine.stop().catch((thrown: unknown) => {
      if (toConcordError(thrown).code !== "CANCELLED") throw thrown;
    });
    return (await engine.status())?.counts.looked ?? 0;
  };
  return [`a pass at ${rowsPerSecond} rows a second`, paced];
}

// Puts

const keyOf = (prefix: string, at: number): string => `${prefix}${String(at).padStart(9, "0")}`;

async function putAll(store: ObjectStore, bucket: string, keys: readonly string[]): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < keys.length) await putOne(store, bucket, keys[next++]!);
  };
  await Promise.all(Array.from({ length: PUTS_AT_ONCE }, worker));
}

async function putOne(store: ObjectStore, bucket: string, key: string): Promise<void> {
  const attributes = { headers: { "content-type": "image/jpeg" }, metadata: { camera: "a small one" }, tags: { is: "kept" } };
  await store.putObject({ bucket, key, body: smallBody(), attributes, precondition: {} });
}

function smallBody(): UploadBody {
  const bytes = Buffer.from("the bytes of a small object");
  // oxlint-disable-next-line require-await
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    yield bytes;
  }
  return {
    lengthBytes: bytes.length,
    chunks: chunks(),
    finish: () => ({ md5Hex: "d41d8cd98f00b204e9800998ecf8427e", checksum: undefined }),
  };
}

function report(lines: readonly Line[], options: BenchOptions): void {
  const on = machine();
  console.log(`\nevent loop delay with the 1 ms of its probe; ${machineLine(on)}\n`);
  const head = ["what", "units", "s", "CPU ms/unit", "delay p50 ms", "p99 ms", "max ms", "RSS growth MiB", "heap max MiB"];
  const rows = lines.map((line) => [
    line.what,
    String(line.units),
    line.seconds.toFixed(1),
    line.cpuMsPerUnit.toFixed(4),
    ...[line.delayP50Ms, line.delayP99Ms, line.delayMaxMs, line.rssGrowthMiB, line.heapMaxMiB].map((figure) => figure.toFixed(1)),
  ]);
  console.log(renderTable([head, ...rows]));
  const over = lines.filter(({ delayP99Ms }) => delayP99Ms >= DELAY_P99_MS_MAX);
  console.log(
    over.length === 0
      ? `\nall below ${DELAY_P99_MS_MAX} ms`
      : `\nNOT below ${DELAY_P99_MS_MAX} ms: ${over.map(({ what }) => what).join("; ")}`,
  );
  if (over.length > 0) process.exitCode = 1;
  writeReport(options.out, { bench: "bounds", machine: on, seconds: options.seconds, objects: options.ids, lines });
}
