// Locks of versions by two generations of the official client, by raw requests, by policies and by forms; refusals change nothing that is stored.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { postForm } from "./test/forms.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const DAY = 86_400_000;
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start()));
after(() => gateway.remove());

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
let buckets = 0;
const inDays = (days: number): Date => new Date(Date.now() + days * DAY);

async function failureOf(pending: Promise<unknown>): Promise<string> {
  try {
    await pending;
  } catch (thrown) {
    const { name, $metadata } = thrown as { name: string; $metadata: { httpStatusCode: number } };
    return `${$metadata.httpStatusCode} ${name}`;
  }
  return "no failure";
}

/** Refused so; not a row and not a byte is another afterwards. */
async function refused(expected: string, attempt: () => Promise<unknown>): Promise<void> {
  const before = await gateway.contents();
  assert.equal(await failureOf(attempt()), expected);
  assert.deepEqual(await gateway.contents(), before);
}

for (const generation of ["2026", "2024"] as const) {
  describe(`[OGD21] object lock, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const client = (): S3Client => (generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN));

    async function lockedBucket(s3: S3Client): Promise<string> {
      const Bucket = `locks-${(buckets += 1)}`;
      await s3.send(new sdk.CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
      return Bucket;
    }

    const put = async (s3: S3Client, Bucket: string, more: Partial<sdk2026.PutObjectCommandInput> = {}): Promise<string> =>
      (await s3.send(new sdk.PutObjectCommand({ Bucket, Key: "k", Body: "body", ...more }))).VersionId!;

    test("a bucket with locks: its configuration, versions that stay, and the ways to make one", async () => {
      const s3 = client();
      const Bucket = await lockedBucket(s3);
      assert.equal((await s3.send(new sdk.GetBucketVersioningCommand({ Bucket }))).Status, "Enabled");
      const configuration = async (): Promise<unknown> =>
        (await s3.send(new sdk.GetObjectLockConfigurationCommand({ Bucket }))).ObjectLockConfiguration;
      assert.deepEqual(await configuration(), { ObjectLockEnabled: "Enabled" });
      const ObjectLockConfiguration: sdk2026.ObjectLockConfiguration = {
        ObjectLockEnabled: "Enabled",
        Rule: { DefaultRetention: { Mode: "GOVERNANCE", Days: 3 } },
      };
      await s3.send(new sdk.PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration }));
      assert.deepEqual(await configuration(), ObjectLockConfiguration);
      const suspend = new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Suspended" } });
      await refused("409 InvalidBucketState", () => s3.send(suspend));
      const plain = `plain-${(buckets += 1)}`;
      await s3.send(new sdk.CreateBucketCommand({ Bucket: plain }));
      const enable = new sdk.PutObjectLockConfigurationCommand({
        Bucket: plain,
        ObjectLockConfiguration: { ObjectLockEnabled: "Enabled" },
      });
      await refused("409 InvalidBucketState", () => s3.send(enable));
      await refused("404 ObjectLockConfigurationNotFoundError", () =>
        s3.send(new sdk.GetObjectLockConfigurationCommand({ Bucket: plain })),
      );
      await s3.send(new sdk.PutBucketVersioningCommand({ Bucket: plain, VersioningConfiguration: { Status: "Enabled" } }));
      await s3.send(enable);
      assert.equal(await failureOf(s3.send(new sdk.GetObjectLockConfigurationCommand({ Bucket: plain }))), "no failure");
    });

    test("retention and legal hold of uploads: read back, deletes refused, bypassed, extended; compliance cannot be shortened", async () => {
      const s3 = client();
      const Bucket = await lockedBucket(s3);
      const Key = "k";
      const until = inDays(1);
      const VersionId = await put(s3, Bucket, {
        ObjectLockMode: "GOVERNANCE",
        ObjectLockRetainUntilDate: until,
        ObjectLockLegalHoldStatus: "ON",
      });
      for (const found of [
        await s3.send(new sdk.HeadObjectCommand({ Bucket, Key })),
        await s3.send(new sdk.GetObjectCommand({ Bucket, Key, VersionId })),
      ]) {
        // Of the SDKs the dates in headers have seconds.
        const near = Math.abs((found.ObjectLockRetainUntilDate?.getTime() ?? 0) - until.getTime()) < 1000;
        assert.deepEqual([found.ObjectLockMode, found.ObjectLockLegalHoldStatus, near], ["GOVERNANCE", "ON", true]);
      }
      const remove = (more: Partial<sdk2026.DeleteObjectCommandInput> = {}): Promise<unknown> =>
        s3.send(new sdk.DeleteObjectCommand({ Bucket, Key, VersionId, ...more }));
      await refused("403 AccessDenied", () => remove({ BypassGovernanceRetention: true }));
      const hold = (Status: "ON" | "OFF"): Promise<unknown> =>
        s3.send(new sdk.PutObjectLegalHoldCommand({ Bucket, Key, VersionId, LegalHold: { Status } }));
      await hold("OFF");
      assert.equal((await s3.send(new sdk.GetObjectLegalHoldCommand({ Bucket, Key, VersionId }))).LegalHold?.Status, "OFF");
      await refused("403 AccessDenied", () => remove());
      const retain = (Mode: "GOVERNANCE" | "COMPLIANCE", days: number, BypassGovernanceRetention = false): Promise<unknown> => {
        const Retention = { Mode, RetainUntilDate: inDays(days) };
        return s3.send(new sdk.PutObjectRetentionCommand({ Bucket, Key, VersionId, Retention, BypassGovernanceRetention }));
      };
      await refused("403 AccessDenied", () => retain("COMPLIANCE", 2));
      await retain("GOVERNANCE", 2);
      await retain("GOVERNANCE", 1, true);
      await retain("COMPLIANCE", 2, true);
      for (const [mode, days] of [["COMPLIANCE", 1] as const, ["GOVERNANCE", 3] as const])
        await refused("403 AccessDenied", () => retain(mode, days, true));
      await refused("403 AccessDenied", () => remove({ BypassGovernanceRetention: true }));
      const { Retention } = await s3.send(new sdk.GetObjectRetentionCommand({ Bucket, Key, VersionId }));
      assert.equal(Retention?.Mode, "COMPLIANCE");
      // A delete without a version hides it, no more.
      assert.equal(((await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key }))) as { DeleteMarker?: boolean }).DeleteMarker, true);
      assert.equal(await failureOf(s3.send(new sdk.DeleteBucketCommand({ Bucket }))), "409 BucketNotEmpty");
      assert.equal(await (await s3.send(new sdk.GetObjectCommand({ Bucket, Key, VersionId }))).Body!.transformToString(), "body");
    });

    test("many deletes: each version by its own lock, a bypass for all", async () => {
      const s3 = client();
      const Bucket = await lockedBucket(s3);
      const versions = [
        await put(s3, Bucket),
        await put(s3, Bucket, { ObjectLockMode: "GOVERNANCE", ObjectLockRetainUntilDate: inDays(1) }),
        await put(s3, Bucket, { ObjectLockMode: "COMPLIANCE", ObjectLockRetainUntilDate: inDays(1) }),
      ];
      const remove = async (BypassGovernanceRetention: boolean): Promise<readonly unknown[]> => {
        const Objects = versions.map((VersionId) => ({ Key: "k", VersionId }));
        const { Errors = [] } = await s3.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects }, BypassGovernanceRetention }));
        return Errors.map(({ Code, VersionId }) => `${Code} ${versions.indexOf(VersionId ?? "")}`).sort();
      };
      assert.deepEqual(await remove(false), ["AccessDenied 1", "AccessDenied 2"]);
      assert.deepEqual(await remove(true), ["AccessDenied 2"]);
    });

    test("uploads in parts, copies and defaults: each new version with its own lock or the bucket's", async () => {
      const s3 = client();
      const Bucket = await lockedBucket(s3);
      const Rule = { DefaultRetention: { Mode: "GOVERNANCE", Years: 1 } } as const;
      const ObjectLockConfiguration = { ObjectLockEnabled: "Enabled", Rule } as const;
      await s3.send(new sdk.PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration }));
      const modeOf = async (VersionId: string | undefined): Promise<string> => {
        const { ObjectLockMode, ObjectLockRetainUntilDate } = await s3.send(new sdk.HeadObjectCommand({ Bucket, Key: "k", VersionId }));
        const days = Math.round(((ObjectLockRetainUntilDate?.getTime() ?? 0) - Date.now()) / DAY);
        return `${ObjectLockMode} ${days > 300 ? "a year" : `${days} days`}`;
      };
      const own = { ObjectLockMode: "COMPLIANCE", ObjectLockRetainUntilDate: inDays(2) } as const;
      assert.deepEqual(
        [await modeOf(await put(s3, Bucket)), await modeOf(await put(s3, Bucket, own))],
        ["GOVERNANCE a year", "COMPLIANCE 2 days"],
      );
      for (const [lock, expected] of [
        [{}, "GOVERNANCE a year"],
        [own, "COMPLIANCE 2 days"],
      ] as const) {
        const copy = new sdk.CopyObjectCommand({ Bucket, Key: "k", CopySource: `${Bucket}/k`, MetadataDirective: "REPLACE", ...lock });
        assert.equal(await modeOf((await s3.send(copy)).VersionId), expected);
        const { UploadId } = await s3.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "k", ...lock }));
        const { ETag } = await s3.send(new sdk.UploadPartCommand({ Bucket, Key: "k", UploadId, PartNumber: 1, Body: "part" }));
        const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
        const done = await s3.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key: "k", UploadId, MultipartUpload }));
        assert.equal(await modeOf(done.VersionId), expected);
      }
    });
  });
}

const call = (
  method: string,
  path: string,
  more: {
    readonly query?: string;
    readonly body?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly key?: AccessKey;
  } = {},
): Promise<Answer> => {
  const { query = "", body = "", headers = {}, key = ANN } = more;
  const pairs = [...new URLSearchParams(query)];
  return send(gateway.address, sign({ method, path, query: pairs, body, headers }, { key, host: gateway.address }));
};

const LOCK = "x-amz-object-lock-";
const locked = (mode: string, days: number): Readonly<Record<string, string>> => ({
  [`${LOCK}mode`]: mode,
  [`${LOCK}retain-until-date`]: inDays(days).toISOString(),
});
const BYPASS = { "x-amz-bypass-governance-retention": "true" };
const retention = (mode: string, days: number): string =>
  `<Retention><Mode>${mode}</Mode><RetainUntilDate>${inDays(days).toISOString()}</RetainUntilDate></Retention>`;

async function rawBucket(): Promise<string> {
  const bucket = `raw-locks-${(buckets += 1)}`;
  const { status } = await call("PUT", `/${bucket}`, { headers: { "x-amz-bucket-object-lock-enabled": "True" } });
  assert.equal(status, 200);
  return bucket;
}

test("[OGD21] raw requests: everything that a lock refuses, and its message; the stores are as before", async () => {
  const bucket = await rawBucket();
  const { headers } = await call("PUT", `/${bucket}/k`, { body: "kept", headers: locked("COMPLIANCE", 1) });
  const version = `versionId=${headers["x-amz-version-id"]}`;
  const at = `/${bucket}/k`;
  await call("PUT", "/raw-plain");
  const before = await gateway.contents();
  const attempts: readonly (readonly [expected: string, attempt: () => Promise<Answer>])[] = [
    ["403 AccessDenied", () => call("DELETE", at, { query: version })],
    ["403 AccessDenied", () => call("DELETE", at, { query: version, headers: BYPASS })],
    ["403 AccessDenied", () => call("PUT", at, { query: `retention&${version}`, body: "<Retention/>", headers: BYPASS })],
    ["403 AccessDenied", () => call("PUT", at, { query: `retention&${version}`, body: retention("GOVERNANCE", 5), headers: BYPASS })],
    ["403 AccessDenied", () => call("PUT", at, { query: "retention", body: retention("COMPLIANCE", 0.5), headers: BYPASS })],
    ["400 InvalidArgument", () => call("PUT", at, { query: "retention", body: retention("COMPLIANCE", -1) })],
    ["400 InvalidArgument", () => call("PUT", at, { body: "new", headers: locked("GOVERNANCE", -1) })],
    ["400 InvalidArgument", () => call("PUT", at, { body: "new", headers: locked("OTHER", 1) })],
    ["404 NoSuchObjectLockConfiguration", () => call("GET", at, { query: "legal-hold" })],
    ["404 NoSuchKey", () => call("GET", `/${bucket}/none`, { query: "retention" })],
    ["404 NoSuchKey", () => call("PUT", `/${bucket}/none`, { query: "legal-hold", body: "<LegalHold><Status>ON</Status></LegalHold>" })],
    ["409 InvalidBucketState", () => call("PUT", `/${bucket}`, { query: "versioning", body: SUSPENDED })],
    ["409 BucketAlreadyOwnedByYou", () => call("PUT", "/raw-plain", { headers: { "x-amz-bucket-object-lock-enabled": "true" } })],
  ];
  for (const [expected, attempt] of attempts) {
    const { status, code } = await attempt();
    assert.equal(`${status} ${code}`, expected);
  }
  assert.deepEqual(await gateway.contents(), before);
  // Closes and opens the bucket again: its rows say the same with new numbers.
  assert.equal((await call("DELETE", `/${bucket}`)).code, "BucketNotEmpty");
  assert.equal((await call("GET", at, { query: version })).body, "kept");
  const { body } = await call("DELETE", at, { query: version });
  assert.match(body, /<Message>Access Denied because object protected by object lock\.<\/Message>/);
  const { body: said } = await call("GET", at, { query: `retention&${version}` });
  assert.match(said, /<Mode>COMPLIANCE<\/Mode><RetainUntilDate>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z<\/RetainUntilDate>/);
});

const SUSPENDED = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";

const allow = (bucket: string, actions: readonly string[], condition?: object): object => ({
  Effect: "Allow",
  Principal: { AWS: "bob" },
  Action: actions.map((name) => `s3:${name}`),
  Resource: `arn:aws:s3:::${bucket}/*`,
  ...(condition === undefined ? {} : { Condition: condition }),
});

async function setPolicy(bucket: string, ...statements: readonly object[]): Promise<void> {
  const body = JSON.stringify({ Version: "2012-10-17", Statement: statements });
  assert.equal((await call("PUT", `/${bucket}`, { query: "policy", body })).status, 204);
}

test("[OGD21] policies: retention, legal hold and bypass are rights of their own; conditions bound what may be set", async () => {
  const bucket = await rawBucket();
  const at = `/${bucket}/k`;
  const as = (method: string, more: Parameters<typeof call>[2] = {}): Promise<Answer> => call(method, at, { key: BOB, ...more });
  const statusOf = async (pending: Promise<Answer>): Promise<number> => (await pending).status;
  await setPolicy(bucket, allow(bucket, ["PutObject", "GetObject", "GetObjectVersion", "DeleteObjectVersion"]));
  assert.equal(await statusOf(as("PUT", { body: "x", headers: locked("GOVERNANCE", 1) })), 403);
  assert.equal(await statusOf(as("PUT", { body: "x", headers: { [`${LOCK}legal-hold`]: "ON" } })), 403);
  const { headers } = await call("PUT", at, { body: "x", headers: locked("GOVERNANCE", 1) });
  const version = `versionId=${headers["x-amz-version-id"]}`;
  const read = await as("GET", { query: version });
  assert.deepEqual([read.status, read.headers[`${LOCK}mode`]], [200, undefined]);
  const before = await gateway.contents();
  assert.equal(await statusOf(as("DELETE", { query: version, headers: BYPASS })), 403);
  assert.equal(await statusOf(as("PUT", { query: `retention&${version}`, body: retention("GOVERNANCE", 2) })), 403);
  assert.equal(await statusOf(as("GET", { query: `retention&${version}` })), 403);
  assert.deepEqual(await gateway.contents(), before);
  const bounded = { NumericLessThanEquals: { "s3:object-lock-remaining-retention-days": "10" } };
  await setPolicy(
    bucket,
    allow(bucket, ["PutObject", "DeleteObjectVersion", "GetObject", "GetObjectRetention", "BypassGovernanceRetention"]),
    allow(bucket, ["PutObjectRetention"], bounded),
  );
  assert.equal((await as("GET")).headers[`${LOCK}mode`], "GOVERNANCE");
  assert.equal(await statusOf(as("PUT", { query: `retention&${version}`, body: retention("GOVERNANCE", 11) })), 403);
  assert.equal(await statusOf(as("PUT", { query: `retention&${version}`, body: retention("GOVERNANCE", 9) })), 200);
  assert.equal(await statusOf(as("PUT", { body: "x", headers: locked("COMPLIANCE", 11) })), 403);
  assert.equal(await statusOf(as("PUT", { body: "x", headers: locked("GOVERNANCE", 9) })), 200);
  assert.equal(await statusOf(as("DELETE", { query: version, headers: BYPASS })), 204);
});

test("[OGD21] forms: fields of a lock must be covered by the policy, and lock what is stored", async () => {
  const bucket = await rawBucket();
  const lock: Readonly<Record<string, string>> = { ...locked("COMPLIANCE", 1), [`${LOCK}legal-hold`]: "ON" };
  const fields = { key: "k", ...lock };
  const before = await gateway.contents();
  const uncovered = await postForm(gateway.address, bucket, { key: ANN, conditions: [{ key: "k" }], fields });
  assert.equal(uncovered.status, 403);
  assert.deepEqual(await gateway.contents(), before);
  const conditions = Object.entries(fields).map(([name, value]) => ({ [name]: value }));
  const { status, headers } = await postForm(gateway.address, bucket, { key: ANN, conditions, fields });
  assert.equal(status, 204);
  const version = `versionId=${headers["x-amz-version-id"]}`;
  const head = await call("GET", `/${bucket}/k`);
  assert.deepEqual([head.headers[`${LOCK}mode`], head.headers[`${LOCK}legal-hold`]], ["COMPLIANCE", "ON"]);
  assert.equal(head.headers[`${LOCK}retain-until-date`], lock[`${LOCK}retain-until-date`]);
  assert.equal((await call("DELETE", `/${bucket}/k`, { query: version, headers: BYPASS })).status, 403);
});
