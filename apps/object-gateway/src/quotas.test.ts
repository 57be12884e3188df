// How much tenants may store and ask for: quotas by raw requests and by two generations of the official client; what is refused leaves rows and
// blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { Quotas, type Quota } from "./http/quotas.ts";
import { RequestRates } from "./http/request-rates.ts";
import { QUOTA_READ_EVERY_MS } from "./limits.ts";
import { postForm } from "./test/forms.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const KEYS = ["bytes", "objects", "sdk2026", "sdk2024", "busy", "paced"].map((tenant) => ({
  accessKeyId: `KEY-${tenant}`,
  secretAccessKey: "a-secret-of-theirs",
  tenant,
}));
const keyOf = (tenant: string): AccessKey => KEYS.find((key) => key.tenant === tenant)!;
const BYTES = keyOf("bytes");
const OBJECTS = keyOf("objects");
const BUSY = keyOf("busy");
const PACED = keyOf("paced");
const PACED_RATE = 256 * 1024;
const REFUSED = "403 QuotaExceeded";

let gateway: TestGateway;
before(async () => {
  const tenantLimits = [
    { tenant: "bytes", bytesMax: 100 },
    { tenant: "objects", objectsMax: 2 },
    { tenant: "sdk2026", bytesMax: 10_000_000, objectsMax: 3 },
    { tenant: "sdk2024", bytesMax: 10_000_000, objectsMax: 3 },
    { tenant: "busy", requestsPerSecondMax: 2 },
    { tenant: "paced", uploadBytesPerSecondMax: PACED_RATE, downloadBytesPerSecondMax: PACED_RATE },
  ];
  gateway = await TestGateway.start({ config: { accessKeys: [ANN, BOB, ...KEYS], tenantLimits } });
});
after(() => gateway.remove());

interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const call = (key: AccessKey, method: string, path: string, asked: Asked = {}): Promise<Answer> =>
  send(gateway.address, sign({ method, path, ...asked }, { key, host: gateway.address }));

const outcome = async (pending: Promise<Answer>): Promise<string> => {
  const { status, code } = await pending;
  return code === "" ? String(status) : `${status} ${code}`;
};

const put = (key: AccessKey, path: string, bytes: number): Promise<string> => outcome(call(key, "PUT", path, { body: "x".repeat(bytes) }));

async function assertRefused(asking: () => Promise<string>): Promise<void> {
  const contents = await gateway.contents();
  assert.equal(await asking(), REFUSED);
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), contents);
}

test("quota of bytes: below, at and above it, in all buckets together; what is deleted makes room at once", async () => {
  for (const bucket of ["/bytes-one", "/bytes-two"]) assert.equal(await outcome(call(BYTES, "PUT", bucket)), "200");
  assert.equal(await put(BYTES, "/bytes-one/a", 60), "200");
  await assertRefused(() => put(BYTES, "/bytes-two/b", 41));
  assert.equal(await put(BYTES, "/bytes-two/b", 40), "200");
  await assertRefused(() => put(BYTES, "/bytes-two/c", 1));
  assert.equal(await put(BYTES, "/bytes-two/empty", 0), "200");
  assert.equal(await outcome(call(BYTES, "GET", "/bytes-one/a")), "200");
  assert.equal(await outcome(call(BYTES, "DELETE", "/bytes-one/a")), "204");
  assert.equal(await put(BYTES, "/bytes-two/c", 60), "200");
});

test("quota of bytes: copies, parts, completed uploads and forms", async () => {
  const started = await call(BYTES, "POST", "/bytes-one/m", { query: [["uploads", ""]] });
  const uploadId = /<UploadId>([^<]+)</.exec(started.body)![1]!;
  const part = (number: number): NonNullable<Asked["query"]> => [
    ["partNumber", String(number)],
    ["uploadId", uploadId],
  ];
  const headers = { "x-amz-copy-source": "/bytes-two/c" };
  await assertRefused(() => outcome(call(BYTES, "PUT", "/bytes-one/copy", { headers })));
  await assertRefused(() => outcome(call(BYTES, "PUT", "/bytes-one/m", { query: part(1), headers })));
  assert.equal(await outcome(call(BYTES, "DELETE", "/bytes-two/c")), "204");
  await assertRefused(() => outcome(call(BYTES, "PUT", "/bytes-one/m", { query: part(1), body: "x".repeat(61) })));
  const sent = await call(BYTES, "PUT", "/bytes-one/m", { query: part(1), body: "x".repeat(60) });
  assert.equal(sent.status, 200);
  assert.equal(await put(BYTES, "/bytes-one/meanwhile", 10), "200");
  const etag = sent.headers["etag"] as string;
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part></CompleteMultipartUpload>`;
  const complete = (): Promise<string> => outcome(call(BYTES, "POST", "/bytes-one/m", { query: [["uploadId", uploadId]], body }));
  await assertRefused(complete);
  assert.equal(await outcome(call(BYTES, "DELETE", "/bytes-one/meanwhile")), "204");
  assert.equal(await complete(), "200");
  assert.equal(await complete(), "200", "a repetition stores nothing more");
  await assertRefused(() =>
    outcome(postForm(gateway.address, "bytes-one", { key: BYTES, fields: { key: "f" }, conditions: [["starts-with", "$key", ""]] })),
  );
});

test("quota of objects: versions count each, delete markers do not; the caller is another, the owner's quota counts", async () => {
  assert.equal(await outcome(call(OBJECTS, "PUT", "/objects-one")), "200");
  const statement = { Effect: "Allow", Principal: { AWS: "bob" }, Action: "s3:*", Resource: ["arn:aws:s3:::objects-one/*"] };
  const policy = JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
  assert.equal(await outcome(call(OBJECTS, "PUT", "/objects-one", { query: [["policy", ""]], body: policy })), "204");
  const versioning = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  assert.equal(await outcome(call(OBJECTS, "PUT", "/objects-one", { query: [["versioning", ""]], body: versioning })), "200");
  assert.equal(await put(BOB, "/objects-one/k", 1), "200");
  assert.equal(await put(OBJECTS, "/objects-one/k", 1), "200");
  await assertRefused(() => put(BOB, "/objects-one/k", 1));
  assert.equal(await outcome(call(OBJECTS, "DELETE", "/objects-one/k")), "204");
  await assertRefused(() => put(OBJECTS, "/objects-one/other", 0));
});

test("quota: uploads at the same time: exactly as many as fit", async () => {
  const own = keyOf("sdk2024");
  assert.equal(await outcome(call(own, "PUT", "/at-once")), "200");
  const outcomes = await Promise.all(Array.from({ length: 12 }, (_, at) => put(own, `/at-once/${at}`, 10)));
  assert.equal(outcomes.filter((one) => one === "200").length, 3);
  assert.equal(outcomes.filter((one) => one === REFUSED).length, 9);
  for (let at = 0; at < 12; at += 1) assert.equal(await outcome(call(own, "DELETE", `/at-once/${at}`)), "204");
});

for (const generation of ["2026", "2024"] as const) {
  describe(`quotas, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    test("[OPS15] QuotaExceeded with 403 by every operation that stores an object; reads and deletes go on", async () => {
      const key = keyOf(`sdk${generation}`);
      const client = generation === "2026" ? gateway.client(key) : gateway.client2024(key);
      const Bucket = `sdk-${generation}`;
      await client.send(new sdk.CreateBucketCommand({ Bucket }));
      for (const Key of ["a", "b", "c"]) await client.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "text" }));
      const refused = { name: "QuotaExceeded", $metadata: { httpStatusCode: 403 } };
      const isRefused = ({ name, $metadata }: { name: string; $metadata: { httpStatusCode: number } }): boolean =>
        name === refused.name && $metadata.httpStatusCode === refused.$metadata.httpStatusCode;
      const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "m" }));
      const part = { Bucket, Key: "m", UploadId, PartNumber: 1 };
      const { ETag } = await client.send(new sdk.UploadPartCommand({ ...part, Body: "part" }));
      const contents = await gateway.contents();
      await assert.rejects(client.send(new sdk.PutObjectCommand({ Bucket, Key: "d", Body: "text" })), isRefused);
      await assert.rejects(client.send(new sdk.CopyObjectCommand({ Bucket, Key: "d", CopySource: `${Bucket}/a` })), isRefused);
      const Parts = [{ PartNumber: 1, ETag }];
      await assert.rejects(
        client.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key: "m", UploadId, MultipartUpload: { Parts } })),
        isRefused,
      );
      await gateway.settled();
      assert.deepEqual(await gateway.contents(), contents);
      assert.equal(await (await client.send(new sdk.GetObjectCommand({ Bucket, Key: "a" }))).Body!.transformToString(), "text");
      await client.send(new sdk.DeleteObjectCommand({ Bucket, Key: "a" }));
      await client.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key: "m", UploadId, MultipartUpload: { Parts } }));
    });
  });
}

test("[OPS15] rate: more requests than a tenant may send: 503 SlowDown with a time to wait; others are served", async () => {
  const path = "/busy-one";
  assert.equal(await outcome(call(BUSY, "PUT", path)), "200");
  const contents = await gateway.contents();
  const answers = await Promise.all(Array.from({ length: 40 }, (_, at) => call(BUSY, "PUT", `${path}/${at}`)));
  const slowed = answers.filter(({ status, code }) => status === 503 && code === "SlowDown");
  assert.ok(slowed.length > 0);
  assert.ok(slowed.every(({ headers }) => headers["retry-after"] === "1"));
  assert.equal(answers.filter(({ status }) => status === 200).length, 40 - slowed.length);
  assert.equal(await outcome(call(ANN, "GET", "/")), "200");
  assert.ok((await gateway.contents()).length - contents.length <= 4 * (40 - slowed.length));
});

test("rates of bytes: uploads, parts, forms and downloads of a tenant: slowed together, none refused, the bytes as they were", async () => {
  assert.equal(await outcome(call(PACED, "PUT", "/paced")), "200");
  const created = await call(PACED, "POST", "/paced/parts", { query: [["uploads", ""]] });
  const part = [
    ["partNumber", "1"],
    ["uploadId", /<UploadId>(.+?)</.exec(created.body)![1]!],
  ] as const;
  const body = "0123456789abcdef".repeat(PACED_RATE / 16);
  const half = body.slice(PACED_RATE / 2);
  // A second's worth moves at once, so twice as much takes at least a second.
  const leastMs = 950;
  const sentMs = performance.now();
  const answers = await Promise.all([
    outcome(call(PACED, "PUT", "/paced/k", { body })),
    outcome(call(PACED, "PUT", "/paced/parts", { query: part, body: half })),
    outcome(postForm(gateway.address, "paced", { key: PACED, conditions: [{ key: "f" }], fields: { key: "f" }, file: half })),
  ]);
  assert.deepEqual(answers, ["200", "200", "204"]);
  assert.ok(performance.now() - sentMs > leastMs, "uploads are slowed");
  const readMs = performance.now();
  const got = await Promise.all([call(PACED, "GET", "/paced/k"), call(PACED, "GET", "/paced/k")]);
  assert.ok(got.every((one) => one.status === 200 && one.body === body));
  assert.ok(performance.now() - readMs > leastMs, "downloads are slowed");
  const metrics = await gateway.metrics.text();
  for (const direction of ["up", "down"]) assert.match(metrics, new RegExp(`s3_paced_seconds_total\\{direction="${direction}"\\} [0-9.]+`));
});

test("rates: a second's worth at once, then one for each part of a second; a tenant without a rate has no bucket", () => {
  let nowMs = 0;
  let rate: number | undefined = 4;
  const rates = new RequestRates({ rateOf: (tenant) => (tenant === "a" ? rate : undefined), monotonicMs: () => nowMs });
  const taken = (tenant: string): boolean => {
    try {
      rates.take(tenant);
      return true;
    } catch (thrown) {
      assert.equal((thrown as { code: string }).code, "SlowDown");
      return false;
    }
  };
  assert.deepEqual(
    Array.from({ length: 6 }, () => taken("a")),
    [true, true, true, true, false, false],
  );
  assert.ok(Array.from({ length: 100 }, () => taken("b")).every(Boolean));
  nowMs += 249;
  assert.equal(taken("a"), false);
  nowMs += 1;
  assert.deepEqual([taken("a"), taken("a")], [true, false]);
  nowMs += 60_000;
  assert.deepEqual(
    Array.from({ length: 6 }, () => taken("a")),
    [true, true, true, true, false, false],
  );
  rate = undefined;
  assert.ok(taken("a"));
});

/** Rows that say what the test wants, once it lets them. */
class FakeRows {
  usage = { objects: 0n, bytes: 0n };
  reads = 0;
  readonly listBuckets = async (): Promise<never> => [{ name: "b" }] as never;
  readonly bucketUsage = async (): Promise<{ objects: bigint; bytes: bigint }> => {
    this.reads += 1;
    return this.usage;
  };
}

function quotasOf(quota: Quota | undefined): { readonly rows: FakeRows; readonly quotas: Quotas; pass(ms: number): void } {
  const rows = new FakeRows();
  let nowMs = 0;
  const quotas = new Quotas({ quotaOf: () => quota, store: rows, monotonicMs: () => nowMs });
  return { rows, quotas, pass: (ms) => void (nowMs += ms) };
}

const one = { objects: 1, bytes: 10 };
const done = async (): Promise<string> => "done";
const isExceeded = { code: "QuotaExceeded" };

test("quotas: without a quota: rows are not read", async () => {
  const { rows, quotas } = quotasOf({});
  assert.equal(await quotas.during("a", { objects: 1, bytes: Number.MAX_SAFE_INTEGER }, done), "done");
  assert.equal(rows.reads, 0);
});

test("quotas: room is left: rows are read again only when their time is over", async () => {
  const { rows, quotas, pass } = quotasOf({ bytesMax: 1000 });
  await quotas.during("a", one, done);
  await quotas.during("a", one, done);
  pass(QUOTA_READ_EVERY_MS);
  await quotas.during("a", one, done);
  assert.equal(rows.reads, 1);
  pass(1);
  await quotas.during("a", one, done);
  assert.equal(rows.reads, 2);
});

test("quotas: admitted and not yet in the rows, failed, or in the rows already: never counted too little", async () => {
  const { rows, quotas, pass } = quotasOf({ bytesMax: 30 });
  await quotas.during("a", one, async () => {
    await quotas.during("a", one, async () => {
      await quotas.during("a", one, async () => {
        await assert.rejects(quotas.during("a", { objects: 0, bytes: 1 }, done), isExceeded);
      });
      // What ended is in the rows when they are read again, or was not stored.
      await quotas.during("a", { objects: 0, bytes: 10 }, done);
    });
    rows.usage = { objects: 1n, bytes: 20n };
    pass(QUOTA_READ_EVERY_MS + 1);
    await assert.rejects(quotas.during("a", { objects: 0, bytes: 1 }, done), isExceeded);
  });
  await assert.rejects(
    quotas.during("a", one, () => Promise.reject(new Error("the disk"))),
    /the disk/,
  );
  rows.usage = { objects: 3n, bytes: 30n };
  await assert.rejects(quotas.during("a", { objects: 0, bytes: 1 }, done), isExceeded);
  rows.usage = { objects: 2n, bytes: 20n };
  assert.equal(await quotas.during("a", one, done), "done");
});

test("quotas: an amount that is learned on the way: taken against rows of now", async () => {
  const { rows, quotas } = quotasOf({ objectsMax: 1 });
  rows.usage = { objects: 1n, bytes: 0n };
  await assert.rejects(
    quotas.duringLater("a", async (take) => take(one)),
    isExceeded,
  );
  rows.usage = { objects: 0n, bytes: 0n };
  await quotas.duringLater("a", async (take) => {
    take(one);
    await assert.rejects(quotas.during("a", one, done), isExceeded);
  });
});
