// A gateway over its life: restarts, replies that get lost, a second gateway beside it, what operators see.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  UploadPartCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { nodeDisk } from "@concord/adapter-node-runtime";
import { MemoryObjectMetadata } from "@concord/port-contracts";
import type { ObjectMetadata } from "@concord/ports";
import { ConcordError, type HttpRequest, type HttpServer } from "@concord/runtime";
import { ANN, TestGateway } from "./test/gateway.ts";
import { send, sendRaw, rawOf } from "./test/http-client.ts";
import { presign, sign } from "./test/signing.ts";

const MIB = 1024 * 1024;
const Bucket = "bucket";
const running: TestGateway[] = [];

afterEach(async () => {
  for (const gateway of running.splice(0)) await gateway.remove();
});

async function start(options: Parameters<typeof TestGateway.start>[0] = {}): Promise<TestGateway> {
  const gateway = await TestGateway.start(options);
  running.push(gateway);
  return gateway;
}

async function bytesOf(s3: S3Client, Key: string): Promise<Buffer> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return Buffer.from(await Body!.transformToByteArray());
}

interface Report {
  readonly pieces: bigint;
  readonly referenced: bigint;
  readonly garbage: bigint;
  readonly leaked: readonly string[];
  readonly danglingRefs: bigint;
}

test("[OG18] gateway: stopped and started again: objects, uploads and what was in garbage are there", async () => {
  const gateway = await start();
  const Body = randomBytes(6 * MIB);
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of ["small", "large"])
    await s3.send(new PutObjectCommand({ Bucket, Key, Body: Key === "small" ? "abc" : Body, Metadata: { m: Key } }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "gone", Body }));
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "gone" }));
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "parts" }));
  const part = await s3.send(new UploadPartCommand({ Bucket, Key: "parts", UploadId, PartNumber: 1, Body }));
  const epoch = (await gateway.admin<{ epoch: number }>("GetStatus")).epoch;
  await gateway.stop();
  await gateway.start();
  const again = gateway.client();
  assert.deepEqual(await bytesOf(again, "large"), Body);
  assert.equal((await bytesOf(again, "small")).toString(), "abc");
  assert.deepEqual((await again.send(new HeadObjectCommand({ Bucket, Key: "large" }))).Metadata, { m: "large" });
  const parts = await again.send(new ListPartsCommand({ Bucket, Key: "parts", UploadId }));
  assert.deepEqual(
    parts.Parts!.map(({ ETag }) => ETag),
    [part.ETag],
  );
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: part.ETag }] };
  await again.send(new CompleteMultipartUploadCommand({ Bucket, Key: "parts", UploadId, MultipartUpload }));
  assert.deepEqual(await bytesOf(again, "parts"), Body);
  const status = await gateway.admin<{ epoch: number; instance: string }>("GetStatus");
  assert.ok(status.epoch > epoch);
  const report = await gateway.admin<Report>("CheckConsistency");
  assert.deepEqual([report.pieces, report.referenced, report.garbage, report.danglingRefs], [3n, 2n, 1n, 0n]);
});

/** Loses the first answer to what `pick` picks: the work is done, the client hears nothing. */
function losing(pick: (request: HttpRequest) => boolean): { lost: () => number; wrap: (server: HttpServer) => HttpServer } {
  let lost = 0;
  const broken = async function* (): AsyncGenerator<Uint8Array> {
    yield await Promise.reject(new ConcordError("CONNECTION_LOST", "the test lost the answer"));
  };
  const wrap = (server: HttpServer): HttpServer => ({
    serve: (address, handler) =>
      server.serve(address, async (request) => {
        const response = await handler(request);
        if (lost > 0 || !pick(request)) return response;
        lost += 1;
        return { status: 200, headers: [], body: broken() };
      }),
  });
  return { lost: () => lost, wrap };
}

test("[OGD11] complete: its first answer is lost: the client's repetition gets the same answer, one object, nothing leaks", async () => {
  const { lost, wrap } = losing(({ method, target }) => method === "POST" && target.includes("uploadId"));
  const gateway = await start({ http: wrap });
  const s3 = gateway.client(ANN, { maxAttempts: 3 });
  await s3.send(new CreateBucketCommand({ Bucket }));
  const target = { Bucket, Key: "k" };
  const Body = randomBytes(5 * MIB);
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(target));
  const { ETag } = await s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body }));
  const done = await s3.send(
    new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } }),
  );
  assert.equal(lost(), 1);
  const md5 = createHash("md5").update(createHash("md5").update(Body).digest()).digest("hex");
  assert.equal(done.ETag, `"${md5}-1"`);
  assert.deepEqual(await bytesOf(s3, "k"), Body);
  const report = await gateway.admin<Report>("CheckConsistency");
  assert.deepEqual([report.pieces, report.referenced, report.leaked], [1n, 1n, []]);
});

test("[OGD4] put: its first answer is lost: the client's repetition replaces it, the first blob is garbage and then gone", async () => {
  const { lost, wrap } = losing(({ method, target }) => method === "PUT" && target.startsWith("/bucket/k"));
  const gateway = await start({ http: wrap });
  const s3 = gateway.client(ANN, { maxAttempts: 3 });
  await s3.send(new CreateBucketCommand({ Bucket }));
  const Body = randomBytes(MIB);
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body }));
  assert.equal(lost(), 1);
  assert.deepEqual(await bytesOf(s3, "k"), Body);
  assert.equal((await s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount, 1);
  const before = await gateway.admin<Report>("CheckConsistency");
  assert.deepEqual([before.pieces, before.referenced, before.garbage, before.leaked], [2n, 1n, 1n, []]);
  const now = await gateway.admin<{ pieces: bigint; pending: bigint }>("CollectGarbage", { aheadMs: 0n });
  assert.deepEqual([now.pieces, now.pending], [0n, 1n], "a reader may still have it (OGD10)");
  const ahead = await gateway.admin<{ pieces: bigint; bytes: bigint; kept: bigint; pending: bigint }>("CollectGarbage", {
    aheadMs: 3_600_001n,
  });
  assert.deepEqual([ahead.pieces, ahead.bytes, ahead.kept, ahead.pending], [1n, BigInt(MIB), 0n, 0n]);
  assert.equal((await gateway.admin<Report>("CheckConsistency")).pieces, 1n);
  assert.deepEqual(await bytesOf(s3, "k"), Body);
});

test("[OG3] put: the client breaks off in the middle: nothing is left", async () => {
  const gateway = await start();
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  const before = await gateway.contents();
  const headers = { "content-length": String(MIB) };
  const signed = sign({ method: "PUT", path: "/bucket/k", headers, body: Buffer.alloc(MIB) }, { key: ANN, host: gateway.address });
  await sendRaw(gateway.address, rawOf({ ...signed, body: signed.body.subarray(0, MIB / 2) }), 200);
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), before);
  const report = await gateway.admin<Report>("CheckConsistency");
  assert.deepEqual([report.pieces, report.leaked], [0n, []]);
});

test("[OG13] two gateways over the same rows and blobs: parts sent to both, read from both, each with its own epoch", async () => {
  const metadata = new MemoryObjectMetadata();
  const shared = await mkdtemp(join(tmpdir(), "concord-blobs-"));
  const both = { metadata, dataDisk: nodeDisk(shared) };
  const [one, two] = [await start({ ...both, config: { nodeName: "one" } }), await start({ ...both, config: { nodeName: "two" } })];
  const [first, second] = [one.client(), two.client()];
  await first.send(new CreateBucketCommand({ Bucket }));
  await second.send(new PutObjectCommand({ Bucket, Key: "small", Body: "abc" }));
  assert.equal((await bytesOf(first, "small")).toString(), "abc");
  const target = { Bucket, Key: "large" };
  const Body = randomBytes(11 * MIB);
  const sections = [Body.subarray(0, 5 * MIB), Body.subarray(5 * MIB, 10 * MIB), Body.subarray(10 * MIB)];
  const { UploadId } = await first.send(new CreateMultipartUploadCommand(target));
  const Parts = await Promise.all(
    sections.map(async (section, at) => {
      const { ETag } = await [first, second][at % 2]!.send(
        new UploadPartCommand({ ...target, UploadId, PartNumber: at + 1, Body: section }),
      );
      return { ETag, PartNumber: at + 1 };
    }),
  );
  await second.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }));
  assert.deepEqual(await bytesOf(first, "large"), Body);
  assert.deepEqual(await bytesOf(second, "large"), Body);
  const { reservations } = await one.admin<{ reservations: readonly { instance: string; closed: boolean; epoch: number }[] }>(
    "ListReservations",
  );
  assert.deepEqual(
    reservations.map(({ instance, closed }) => [instance, closed]),
    [
      ["two", false],
      ["one", false],
    ],
  );
  const races = await Promise.allSettled(
    Array.from({ length: 8 }, (_, at) =>
      [first, second][at % 2]!.send(new PutObjectCommand({ Bucket, Key: "race", Body: randomBytes(50_000), IfNoneMatch: "*" })),
    ),
  );
  assert.equal(races.filter(({ status }) => status === "fulfilled").length, 1, "one of all conditional puts wins");
  const report = await two.admin<Report>("CheckConsistency");
  assert.deepEqual([report.leaked, report.danglingRefs], [[], 0n]);
  await rm(shared, { recursive: true });
});

test("[SEC2] operators: status, reservations, usage; a caller without a token is refused", async () => {
  const gateway = await start({ config: { journal: "per-transaction" } });
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "a", Body: "12345" }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "b", Body: randomBytes(100_000) }));
  const status = await gateway.admin("GetStatus");
  assert.deepEqual(
    [status["instance"], status["journalMode"], status["inDoubt"], status["uploadsInFlight"], status["httpAddress"]],
    ["object-gateway", "JOURNAL_MODE_PER_TRANSACTION", 0, 0, gateway.address],
  );
  const expected = { buckets: [{ bucket: Bucket, objects: 2n, bytes: 100_005n }] };
  assert.deepEqual(await gateway.admin("GetUsage", { bucket: Bucket }), expected);
  assert.deepEqual(await gateway.admin("GetUsage"), expected);
  const codeOf = (call: Promise<unknown>): Promise<string> =>
    call.then(
      () => "no failure",
      (thrown: unknown) => (thrown as ConcordError).code,
    );
  assert.equal(await codeOf(gateway.admin("GetUsage", { bucket: "absent" })), "BUCKET_UNKNOWN");
  assert.equal(await codeOf(gateway.admin("CollectGarbage", { aheadMs: 2n ** 60n })), "LIMIT_EXCEEDED");
  for (const method of ["GetStatus", "CollectGarbage", "ListReservations", "GetUsage", "CheckConsistency"]) {
    assert.equal(await codeOf(gateway.admin(method, {}, "")), "PERMISSION_DENIED", method);
    assert.equal(await codeOf(gateway.admin(method, {}, "guess")), "UNAUTHENTICATED", method);
  }
});

test("drain: a download in flight ends well, a new connection is refused", async () => {
  const gateway = await start();
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  const Body = randomBytes(20 * MIB);
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body }));
  const { Body: stream } = await s3.send(new GetObjectCommand({ Bucket, Key: "k" }));
  const stopping = gateway.service.stop();
  assert.deepEqual(Buffer.from(await stream!.transformToByteArray()), Body);
  await stopping;
  await assert.rejects(send(gateway.address, sign({ method: "GET", path: "/" }, { key: ANN, host: gateway.address })));
});

test("uploads: more at once than there is room for: refused with SlowDown; afterwards there is room again", async () => {
  const gateway = await start({ config: { uploadsInFlightMax: 1 } });
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  const options = { key: ANN, host: gateway.address };
  const slow = sign({ method: "PUT", path: "/bucket/slow", headers: { "content-length": "4" }, body: "abcd" }, options);
  const first = sendRaw(gateway.address, rawOf({ ...slow, body: slow.body.subarray(0, 2) }), 1500);
  await gateway.until(async () => (await gateway.admin<{ uploadsInFlight: number }>("GetStatus")).uploadsInFlight === 1);
  const second = await send(gateway.address, sign({ method: "PUT", path: "/bucket/k", body: "x" }, options));
  assert.deepEqual([second.status, second.code, second.headers["retry-after"]], [503, "SlowDown", "1"]);
  await first;
  await gateway.until(async () => (await gateway.admin<{ uploadsInFlight: number }>("GetStatus")).uploadsInFlight === 0);
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
});

test("metrics: operations and codes are counted, keys and buckets are in no label", async () => {
  const gateway = await start();
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket: "named-bucket" }));
  await s3.send(new PutObjectCommand({ Bucket: "named-bucket", Key: "named-key", Body: "12345" }));
  await bytesOf(s3, "none").catch(() => undefined);
  const text = await gateway.metrics.text();
  assert.match(text, /s3_requests_total\{operation="PutObject",code="OK"\} 1/);
  assert.match(text, /s3_requests_total\{operation="GetObject",code="NoSuchBucket"\} 1/);
  assert.match(text, /s3_received_bytes_total 5/);
  assert.ok(!text.includes("named-"));
});

test("log: a request that fails inside is logged with its id; a client cannot inject a line", async () => {
  const gateway = await start();
  const answer = await send(
    gateway.address,
    sign({ method: "GET", path: '/bucket/x\n{"level":"info"}\u001b[31m' }, { key: ANN, host: gateway.address }),
  );
  assert.equal(answer.code, "NoSuchBucket");
  const line = gateway.lines.find(({ message }) => message === "request");
  assert.equal(line!.fields["requestId"], answer.headers["x-amz-request-id"]);
  assert.ok(!JSON.stringify(gateway.lines).includes("[31m"));
});

test("presigned: metadata in the query that no header can hold is kept as its bytes", async () => {
  const gateway = await start();
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  const options = { key: ANN, host: gateway.address };
  const put = await send(
    gateway.address,
    presign({ method: "PUT", path: "/bucket/k", body: "x", query: [["x-amz-meta-a", "ü😀"]] }, options),
  );
  assert.equal(put.status, 200, put.body);
  const head = await send(gateway.address, sign({ method: "HEAD", path: "/bucket/k" }, options));
  assert.equal(Buffer.from(head.headers["x-amz-meta-a"]!, "latin1").toString(), "ü😀");
});

test("answers: 304 and 416 say what there is", async () => {
  const gateway = await start();
  const s3 = gateway.client();
  await s3.send(new CreateBucketCommand({ Bucket }));
  const { ETag } = await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "12345" }));
  const get = (headers: Record<string, string>): ReturnType<typeof send> =>
    send(gateway.address, sign({ method: "GET", path: "/bucket/k", headers }, { key: ANN, host: gateway.address }));
  const same = await get({ "if-none-match": ETag! });
  assert.deepEqual([same.status, same.body, same.headers["etag"]], [304, "", ETag]);
  const behind = await get({ range: "bytes=5-" });
  assert.deepEqual([behind.status, behind.code, behind.headers["content-range"]], [416, "InvalidRange", "bytes */5"]);
});

test("hosts: a bucket as a name below the domain, and in the path", async () => {
  const gateway = await start({ config: { domain: "s3.local" } });
  const ask = (host: string, path: string, method = "GET"): ReturnType<typeof send> =>
    send(gateway.address, sign({ method, path, ...(method === "PUT" ? { body: "x" } : {}) }, { key: ANN, host }));
  await gateway.client().send(new CreateBucketCommand({ Bucket }));
  assert.equal((await ask("bucket.s3.local", "/a/b", "PUT")).status, 200);
  assert.equal((await ask("s3.local", "/bucket/a/b")).body, "x");
  assert.match((await ask("bucket.s3.local", "/")).body, /<Key>a\/b<\/Key>/);
  assert.equal((await ask("other.example", "/bucket/a/b")).body, "x");
});

test("[OGD13] gateway: recovery cannot go on: it serves all the same, and is recovered when it could", async () => {
  const memory = new MemoryObjectMetadata();
  const gate = Promise.withResolvers<void>();
  let serving = false;
  const EPOCHS = 0x50;
  const metadata: ObjectMetadata = {
    read: (partition, keys) => memory.read(partition, keys),
    range: async (partition, range) => {
      if (serving && partition === "" && range.from[0] === EPOCHS) await gate.promise;
      return memory.range(partition, range);
    },
    readCounters: (partition, key) => memory.readCounters(partition, key),
    commit: (commit) => memory.commit(commit),
  };
  const before = await start({ metadata });
  await before.client().send(new CreateBucketCommand({ Bucket }));
  await before.stop();
  const serve = (server: HttpServer): HttpServer => ({
    serve: (address, handler) => {
      serving = true;
      return server.serve(address, handler);
    },
  });
  const gateway = await start({ metadata, http: serve });
  const s3 = gateway.client();
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: randomBytes(100_000) }));
  assert.equal((await bytesOf(s3, "k")).length, 100_000);
  assert.ok(gateway.service.ready);
  assert.equal((await gateway.admin<{ recovered: boolean }>("GetStatus")).recovered, false);
  gate.resolve();
  await gateway.until(async () => (await gateway.admin<{ recovered: boolean }>("GetStatus")).recovered);
});

test("[OG18] gateway: rows of others do not answer any more: it ends after the grace all the same, and what was stored is there after the next start", async () => {
  const memory = new MemoryObjectMetadata();
  const gate = Promise.withResolvers<void>();
  let isAway = false;
  const answered = async <Answer>(answer: () => Promise<Answer>): Promise<Answer> => {
    if (isAway) await gate.promise;
    return answer();
  };
  const metadata: ObjectMetadata = {
    read: (partition, keys) => answered(() => memory.read(partition, keys)),
    range: (partition, range) => answered(() => memory.range(partition, range)),
    readCounters: (partition, key) => answered(() => memory.readCounters(partition, key)),
    commit: (commit) => answered(() => memory.commit(commit)),
  };
  const config = { metadata: "transactions" as const, coordinators: ["127.0.0.1:1"], drainGraceMs: 0 };
  const gateway = await start({ metadata, config });
  const Body = randomBytes(100_000);
  await gateway.client().send(new CreateBucketCommand({ Bucket }));
  await gateway.client().send(new PutObjectCommand({ Bucket, Key: "k", Body }));
  isAway = true;
  await gateway.stop();
  isAway = false;
  gate.resolve();
  await gateway.start();
  assert.deepEqual(await bytesOf(gateway.client(), "k"), Body);
});
