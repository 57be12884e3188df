// Every service in processes of its own, which sample nothing by themselves: what the client, or the header of an S3 request, samples is one trace
// from the caller to each disk, at a collector of the test. Nothing of a user's data and no secret is in it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { nodeClock, nodeRandom } from "@concord/adapter-node-runtime";
import { connect, type ConcordClient } from "@concord/client";
import { parseTraceparent, silentLog, silentMetrics } from "@concord/runtime";
import { startTracing, type Tracing } from "@concord/telemetry";
import { s3Client } from "./clients/s3.ts";
import { startConstellation, type Constellation } from "./constellation.ts";
import { startCollector, type CollectedSpan, type Collector } from "./test/otlp-collector.ts";
import { until } from "./until.ts";

const MEMBERS = { "storage-proxy": 3, "txn-coordinator": 3, "object-gateway": 2, "dedup-worker": 1 } as const;
const HEADER = "Bearer of-the-collector";
/** Everything that a user sends is recognizable. */
const PRIVATE = "of-the-user";
const BUCKET = `bucket-${PRIVATE}`;
const TABLES = [
  "CREATE TABLE accounts (id text PRIMARY KEY, note text)",
  "CREATE TABLE notes (id text PRIMARY KEY, note text) WITH kind = 'plain'",
];
const NO_SAMPLE = "00-11111111111111111111111111111111-2222222222222222-00";
const SAMPLE = NO_SAMPLE.replace(/0$/, "1");

let folder: string;
let collector: Collector;
let constellation: Constellation;
let tracing: Tracing;
let db: ConcordClient;
let s3: S3Client;
/** What the next S3 request sends. */
let traceparent = NO_SAMPLE;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-tracing-"));
  collector = await startCollector();
  const config = { traceEndpoint: collector.endpoint, traceSampleRatio: 0, traceHeaders: { Authorization: HEADER } };
  const configs = Object.fromEntries(Object.keys(MEMBERS).map((service) => [service, config]));
  constellation = await startConstellation({ dataFolder: folder, portBase: "free", members: MEMBERS, config: configs });
  const options = { program: "test", version: "1", clock: nodeClock, random: nodeRandom, log: silentLog, metrics: silentMetrics };
  tracing = startTracing({ ...config, traceSampleRatio: 1, nodeName: "client" }, options);
  const { coordinators, storageProxies, dedupWorkers: dedupWorker } = constellation;
  db = await connect({ coordinators, storageProxies, dedupWorker, timeoutMs: 30_000, ...(tracing.tracer && { tracer: tracing.tracer }) });
  s3 = s3Client(constellation.s3Endpoints[0]!, constellation.tokens.accessKeys[0]!, 5);
  const addHeader = (request: { readonly headers: Record<string, string> }): void => void (request.headers["traceparent"] = traceparent);
  s3.middlewareStack.add((next) => (args) => (addHeader(args.request as { readonly headers: Record<string, string> }), next(args)), {
    step: "build",
  });
});

after(async () => {
  s3?.destroy();
  db?.close();
  await tracing?.close();
  await constellation?.stop();
  await collector?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const REPLICAS = 3;
const TRANSACTIONS = "concord.txn.v1.TransactionService";
const APPEND = "concord.storage.v1.GroupLogService/Append";
const REPLICATE = "concord.storage.v1.ReplicaService/Replicate";
/** What a commit is part of on its way to the journals: of the proxy that was asked, and of the other two. */
const TO_JOURNALS = [
  `txn-coordinator: ${TRANSACTIONS}/Commit`,
  "txn-coordinator: log append",
  `txn-coordinator: ${APPEND}`,
  `storage-proxy: ${APPEND}`,
];
const TO_OTHER_JOURNALS = [...TO_JOURNALS, `storage-proxy: ${REPLICATE}`, `storage-proxy: ${REPLICATE}`];
const JOURNAL = "storage-proxy: journal write";

/** From the root down to the spans of this name, "service: name > service: name", each path once: what timed out on a busy machine is tried again. */
function pathsTo(name: string): readonly string[] {
  const byId = new Map(collector.spans.map((span) => [span.spanId, span]));
  const pathTo = (span: CollectedSpan): string => {
    const parent = byId.get(span.parentSpanId);
    return `${parent === undefined ? "" : `${pathTo(parent)} > `}${span.service}: ${span.name}`;
  };
  return [...new Set(collector.spans.filter((span) => span.name === name).map(pathTo))];
}

/** Spans leave once a second, from each process for itself. `root`: other traces have such spans too. */
async function requirePaths(name: string, root: string, expected: readonly (readonly string[])[]): Promise<void> {
  const wanted = expected.map((path) => [root, ...path].join(" > "));
  await until(`paths to ${name}`, () => Promise.resolve(wanted.every((path) => pathsTo(name).includes(path))));
  const seen = pathsTo(name).filter((path) => path.startsWith(`${root} > `));
  assert.deepEqual(seen.toSorted(), wanted.toSorted());
}

/** Of a trace, by the replicas that wrote. */
async function requireWrites(name: string, traceOf: () => string): Promise<void> {
  const replicas = (): ReadonlySet<unknown> =>
    new Set(
      collector.spans.filter((span) => span.name === name && span.traceId === traceOf()).map(({ attributes }) => attributes["replica"]),
    );
  await until(`each replica's ${name}`, () => Promise.resolve(replicas().size === REPLICAS));
}

const traceOf = (name: string): string => collector.spans.find((span) => span.name === name)!.traceId;

test("trace: a transaction: one trace from the client over coordinator and storage-proxy to the journals of all three replicas", async () => {
  await db.createTables(TABLES);
  await db.runTransaction({ table: "accounts", key: { id: PRIVATE } }, (txn) => {
    txn.insert("accounts", { id: PRIVATE, note: PRIVATE });
    return Promise.resolve();
  });
  const client = `test: ${TRANSACTIONS}/Commit`;
  await requirePaths("journal write", "test: transaction", [
    [client, ...TO_JOURNALS, JOURNAL],
    [client, ...TO_OTHER_JOURNALS, JOURNAL],
  ]);
  await requireWrites("journal write", () => traceOf("transaction"));
});

test("trace: an object whose request's traceparent is sampled: body and rows, down to blob and journals; one that is not: none", async () => {
  await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  traceparent = SAMPLE;
  await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: PRIVATE, Body: PRIVATE.repeat(100_000) }));
  await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: PRIVATE })).then(({ Body }) => Body!.transformToByteArray());
  traceparent = NO_SAMPLE;
  const request = "object-gateway: s3 PutObject";
  await requirePaths("blob sync", request, [["object-gateway: object body", "object-gateway: blob sync"]]);
  const rows = ["object-gateway: metadata commit", "object-gateway: transaction", `object-gateway: ${TRANSACTIONS}/Commit`];
  await requirePaths("journal write", request, [
    [...rows, ...TO_JOURNALS, JOURNAL],
    [...rows, ...TO_OTHER_JOURNALS, JOURNAL],
  ]);
  await requireWrites("journal write", () => traceOf("s3 PutObject"));
  await until("the download's span", () => Promise.resolve(collector.spans.some(({ name }) => name === "s3 GetObject")));
  const { traceId, spanId } = parseTraceparent(SAMPLE)!;
  const requests = collector.spans.filter(({ name }) => name.startsWith("s3 "));
  assert.deepEqual([...new Set(requests.map(({ name }) => name))].toSorted(), ["s3 GetObject", "s3 PutObject"]);
  assert.ok(
    requests.every(
      (span) => span.traceId === traceId && span.parentSpanId === spanId && /^[0-9A-F]+$/.test(span.attributes["s3.request_id"]!),
    ),
  );
});

test("trace: a batch and a message: down to the batchlogs, and to the input and the output", async () => {
  await db.batch(["a", "b"].map((id) => ({ insert: "notes", row: { id, note: PRIVATE } })));
  await db.messages.ingest([{ id: PRIVATE, value: PRIVATE, headers: { [PRIVATE]: PRIVATE } }]);
  const execute = "concord.storage.v1.BatchService/ExecuteBatch";
  await requirePaths("batchlog write", "test: executeBatch", [
    [`test: ${execute}`, `storage-proxy: ${execute}`, "storage-proxy: batchlog write"],
  ]);
  await requireWrites("batchlog write", () => traceOf("executeBatch"));
  const ingest = "concord.dedup.v1.IngestService/Ingest";
  for (const step of ["input append", "publish"])
    await requirePaths(step, "test: ingest", [[`test: ${ingest}`, `dedup-worker: ${ingest}`, `dedup-worker: ${step}`]]);
});

test("trace: what reached the collector: with its header, each span once and within its parent's process in its time; no secret, nothing of a user's", () => {
  const { spans, bodies, authorizations } = collector;
  assert.deepEqual([...authorizations], [HEADER]);
  assert.equal(new Set(spans.map(({ spanId }) => spanId)).size, spans.length);
  const byId = new Map(spans.map((span) => [`${span.instance} ${span.spanId}`, span]));
  for (const span of spans) {
    assert.ok(span.endUs >= span.startUs, span.name);
    const parent = byId.get(`${span.instance} ${span.parentSpanId}`);
    if (parent !== undefined) assert.ok(span.startUs >= parent.startUs, `${span.name} in ${parent.name}`);
  }
  const { coordinator, peer, operator, accessKeys } = constellation.tokens;
  const secrets = [
    coordinator,
    peer,
    operator,
    ...accessKeys.flatMap(({ accessKeyId, secretAccessKey }) => [accessKeyId, secretAccessKey]),
  ];
  const all = bodies.join("\n");
  for (const secret of [...secrets, HEADER, PRIVATE]) assert.ok(!all.includes(secret), `${secret.slice(0, 4)}... leaves`);
});
