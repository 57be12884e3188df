// Encryption at rest by two generations of the official client, by raw requests, by policies and by forms; refusals change nothing that is stored.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { postForm } from "./test/forms.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { presign, sign, type Unsigned } from "./test/signing.ts";

const base64 = (fill: number): string => Buffer.alloc(32, fill).toString("base64");
const MASTER = { id: "master-1", key: base64(0xa1) };
const KMS = [
  { id: "first", key: base64(0xb1) },
  { id: "arn:aws:kms:us-east-1:1:key/second", key: base64(0xb2) },
];
const config = { encryptionKeys: [MASTER], kmsKeys: KMS };
let gateway: TestGateway;
/** For large uploads: refusals elsewhere compare everything that is stored. */
let large: TestGateway;
before(async () => {
  gateway = await TestGateway.start({ config });
  large = await TestGateway.start({ config });
});
after(async () => {
  await gateway.remove();
  await large.remove();
});

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
let buckets = 0;
const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("base64");
const CUSTOMER_KEY = Buffer.alloc(32, 0xc1);
const customer = (key: Uint8Array = CUSTOMER_KEY) => ({
  SSECustomerAlgorithm: "AES256",
  SSECustomerKey: Buffer.from(key).toString("base64"),
  SSECustomerKeyMD5: md5(key),
});
const ofSource = (key: Uint8Array = CUSTOMER_KEY) => ({
  CopySourceSSECustomerAlgorithm: "AES256",
  CopySourceSSECustomerKey: Buffer.from(key).toString("base64"),
  CopySourceSSECustomerKeyMD5: md5(key),
});
const MODES = ["none", "managed", "service", "customer"] as const;
type Mode = (typeof MODES)[number];
const asked = (mode: Mode): Partial<sdk2026.PutObjectCommandInput> => {
  if (mode === "managed") return { ServerSideEncryption: "AES256" };
  if (mode === "service") return { ServerSideEncryption: "aws:kms", SSEKMSKeyId: KMS[1]!.id };
  return mode === "customer" ? customer() : {};
};
/** To read it. */
const keyOf = (mode: Mode) => (mode === "customer" ? customer() : {});

interface Said {
  readonly ServerSideEncryption?: string | undefined;
  readonly SSEKMSKeyId?: string | undefined;
  readonly SSECustomerAlgorithm?: string | undefined;
  readonly SSECustomerKeyMD5?: string | undefined;
}
const said = ({ ServerSideEncryption, SSEKMSKeyId, SSECustomerAlgorithm, SSECustomerKeyMD5 }: Said) =>
  [ServerSideEncryption, SSEKMSKeyId, SSECustomerAlgorithm, SSECustomerKeyMD5] as const;
const EXPECTED: Readonly<Record<Mode, readonly (string | undefined)[]>> = {
  none: [undefined, undefined, undefined, undefined],
  managed: ["AES256", undefined, undefined, undefined],
  service: ["aws:kms", KMS[1]!.id, undefined, undefined],
  customer: [undefined, undefined, "AES256", md5(CUSTOMER_KEY)],
};

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
async function refused(expected: string, attempt: () => Promise<unknown>, of = gateway): Promise<void> {
  const start = await of.contents();
  assert.equal(await failureOf(attempt()), expected);
  await of.settled();
  assert.deepEqual(await of.contents(), start);
}

const outcome = async (answer: Promise<Answer>): Promise<string> => {
  const { status, code } = await answer;
  return code === "" ? String(status) : `${status} ${code}`;
};
const call = (method: string, path: string, more: Partial<Unsigned> = {}, of = gateway): Promise<Answer> =>
  send(of.address, sign({ method, path, ...more }, { key: ANN, host: of.address }));

async function newBucket(of = gateway): Promise<string> {
  const bucket = `sse-${(buckets += 1)}`;
  assert.equal(await outcome(call("PUT", `/${bucket}`, {}, of)), "200");
  return bucket;
}

/** Every file of the gateway: rows, journal, blobs. */
async function filesOf(folder: string): Promise<Buffer> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Buffer.concat(await Promise.all(files.map((file) => readFile(file))));
}

for (const generation of ["2026", "2024"] as const) {
  describe(`[OGD24] encryption, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const client = (of = gateway): S3Client => (generation === "2026" ? of.client(ANN) : of.client2024(ANN));
    const read = async (s3: S3Client, input: sdk2026.GetObjectCommandInput): Promise<Buffer> =>
      Buffer.from(await (await s3.send(new sdk.GetObjectCommand(input))).Body!.transformToByteArray());

    for (const mode of MODES) {
      test(`${mode}: objects in rows and in blobs: stored, whole and in ranges, head, attributes; each answer says how`, async () => {
        const s3 = client();
        const Bucket = await newBucket();
        for (const size of [0, 10, 300_000]) {
          const Body = Buffer.alloc(size, `${mode} ${size} `);
          const Key = `k${size}`;
          const put = await s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body, ...asked(mode), ChecksumAlgorithm: "SHA256" }));
          assert.deepEqual(said(put), EXPECTED[mode]);
          const digest = createHash("md5").update(Body).digest("hex");
          assert.equal(put.ETag === `"${digest}"`, mode === "none" || mode === "managed");
          const get = await s3.send(new sdk.GetObjectCommand({ Bucket, Key, ChecksumMode: "ENABLED", ...keyOf(mode) }));
          assert.deepEqual(said(get), EXPECTED[mode]);
          assert.deepEqual(Buffer.from(await get.Body!.transformToByteArray()), Body);
          assert.equal(get.ETag, put.ETag);
          assert.equal(get.ChecksumSHA256, createHash("sha256").update(Body).digest("base64"));
          const head = await s3.send(new sdk.HeadObjectCommand({ Bucket, Key, ChecksumMode: "ENABLED", ...keyOf(mode) }));
          assert.deepEqual(said(head), EXPECTED[mode]);
          assert.deepEqual([head.ContentLength, head.ChecksumSHA256], [size, get.ChecksumSHA256]);
          const { Checksum, ObjectSize } = await s3.send(
            new sdk.GetObjectAttributesCommand({ Bucket, Key, ObjectAttributes: ["Checksum", "ObjectSize"], ...keyOf(mode) }),
          );
          assert.deepEqual([Checksum?.ChecksumSHA256, ObjectSize], [get.ChecksumSHA256, size]);
        }
        const ranged = await read(s3, { Bucket, Key: "k300000", Range: "bytes=65530-131080", ...keyOf(mode) });
        assert.deepEqual(ranged, Buffer.alloc(300_000, `${mode} 300000 `).subarray(65_530, 131_081));
        const { Contents } = await s3.send(new sdk.ListObjectsV2Command({ Bucket }));
        assert.deepEqual(
          Contents?.map(({ Size }) => Size),
          [0, 10, 300_000],
          "listings are of the plaintext",
        );
      });

      test(`${mode}: an upload in parts: one sent, one copied out of each mode's object`, async () => {
        const s3 = client(large);
        const Bucket = await newBucket(large);
        const Key = "parts";
        const first = Buffer.alloc(5 * 1024 * 1024 + 7, "part one ");
        for (const [at, from] of MODES.entries()) {
          const source = Buffer.alloc(100_000, `source ${at} `);
          await s3.send(new sdk.PutObjectCommand({ Bucket, Key: from, Body: source, ...asked(from) }));
          const made = await s3.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key, ...asked(mode) }));
          assert.deepEqual(said(made), EXPECTED[mode]);
          const upload = { Bucket, Key, UploadId: made.UploadId, ...keyOf(mode) };
          const one = await s3.send(new sdk.UploadPartCommand({ ...upload, PartNumber: 1, Body: first }));
          assert.deepEqual(said(one), EXPECTED[mode]);
          const CopySource = `${Bucket}/${from}`;
          const key = from === "customer" ? ofSource() : {};
          const copy = { ...upload, ...key, PartNumber: 2, CopySource, CopySourceRange: "bytes=10-70000" };
          const two = await s3.send(new sdk.UploadPartCopyCommand(copy));
          assert.deepEqual(said(two), EXPECTED[mode]);
          assert.equal((await s3.send(new sdk.ListPartsCommand(upload))).Parts?.length, 2);
          const Parts = [
            { PartNumber: 1, ETag: one.ETag },
            { PartNumber: 2, ETag: two.CopyPartResult?.ETag },
          ];
          const { ETag } = await s3.send(new sdk.CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }));
          const expected = Buffer.concat([first, source.subarray(10, 70_001)]);
          const get = await s3.send(new sdk.GetObjectCommand({ Bucket, Key, ...keyOf(mode) }));
          assert.deepEqual([...said(get), get.ETag], [...EXPECTED[mode], ETag]);
          assert.ok(Buffer.from(await get.Body!.transformToByteArray()).equals(expected));
          const part = await read(s3, { Bucket, Key, PartNumber: 2, ...keyOf(mode) });
          assert.ok(part.equals(source.subarray(10, 70_001)));
        }
      });
    }

    test("copies between all modes, also onto the object itself", async () => {
      const s3 = client();
      const Bucket = await newBucket();
      const Body = Buffer.alloc(70_000, "copied ");
      for (const from of MODES) {
        await s3.send(new sdk.PutObjectCommand({ Bucket, Key: from, Body, ...asked(from) }));
        const source = { Bucket, CopySource: `${Bucket}/${from}`, ...(from === "customer" ? ofSource() : {}) };
        for (const to of MODES) {
          const copied = await s3.send(new sdk.CopyObjectCommand({ ...source, Key: `${from}-${to}`, ...asked(to) }));
          assert.deepEqual(said(copied), EXPECTED[to]);
          assert.ok((await read(s3, { Bucket, Key: `${from}-${to}`, ...keyOf(to) })).equals(Body));
        }
        await refused("400 InvalidRequest", () => s3.send(new sdk.CopyObjectCommand({ ...source, Key: from })));
        await s3.send(new sdk.CopyObjectCommand({ ...source, Key: from, ...asked("managed") }));
        assert.deepEqual(said(await s3.send(new sdk.HeadObjectCommand({ Bucket, Key: from }))), EXPECTED.managed);
      }
    });

    test("a bucket's default: of uploads that ask for nothing, from its answer on; others as they ask", async () => {
      const s3 = client();
      const Bucket = await newBucket();
      const configured = async () =>
        (await s3.send(new sdk.GetBucketEncryptionCommand({ Bucket }))).ServerSideEncryptionConfiguration?.Rules?.[0];
      const set = (rule: sdk2026.ServerSideEncryptionByDefault) => {
        const Rules = [{ ApplyServerSideEncryptionByDefault: rule }];
        return s3.send(new sdk.PutBucketEncryptionCommand({ Bucket, ServerSideEncryptionConfiguration: { Rules } }));
      };
      const put = async (mode: Mode = "none") =>
        said(await s3.send(new sdk.PutObjectCommand({ Bucket, Key: "k", Body: "body", ...asked(mode) })));
      assert.equal(await failureOf(configured()), "404 ServerSideEncryptionConfigurationNotFoundError");
      assert.deepEqual(await put(), EXPECTED.none);
      await set({ SSEAlgorithm: "AES256" });
      assert.deepEqual(await configured(), { ApplyServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" }, BucketKeyEnabled: false });
      assert.deepEqual(await put(), EXPECTED.managed);
      assert.deepEqual(await put("customer"), EXPECTED.customer);
      await set({ SSEAlgorithm: "aws:kms", KMSMasterKeyID: KMS[1]!.id });
      assert.deepEqual(await put(), EXPECTED.service);
      assert.deepEqual(await put("managed"), EXPECTED.managed);
      const made = await s3.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "parts" }));
      assert.deepEqual(said(made), EXPECTED.service);
      const copied = await s3.send(new sdk.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/k` }));
      assert.deepEqual(said(copied), EXPECTED.service);
      await set({ SSEAlgorithm: "aws:kms" });
      assert.deepEqual(await put(), ["aws:kms", "first", undefined, undefined]);
      await refused("400 KMS.NotFoundException", () => set({ SSEAlgorithm: "aws:kms", KMSMasterKeyID: "other" }));
      await s3.send(new sdk.DeleteBucketEncryptionCommand({ Bucket }));
      await s3.send(new sdk.DeleteBucketEncryptionCommand({ Bucket }));
      assert.equal(await failureOf(configured()), "404 ServerSideEncryptionConfigurationNotFoundError");
      assert.deepEqual(await put(), EXPECTED.none);
      const bob = generation === "2026" ? gateway.client(BOB) : gateway.client2024(BOB);
      await refused("403 AccessDenied", () => bob.send(new sdk.GetBucketEncryptionCommand({ Bucket })));
      await refused("403 AccessDenied", () => bob.send(new sdk.DeleteBucketEncryptionCommand({ Bucket })));
    });

    test("tags, ACL, retention and legal hold: read and set without the customer's key, which no client sends there", async () => {
      const s3 = client();
      const Bucket = `locked-${(buckets += 1)}`;
      await s3.send(new sdk.CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
      const ObjectOwnership = generation === "2026" ? ("BucketOwnerEnforced" as const) : ("ObjectWriter" as const);
      await s3.send(new sdk.PutBucketOwnershipControlsCommand({ Bucket, OwnershipControls: { Rules: [{ ObjectOwnership }] } }));
      const RetainUntilDate = new Date(Date.now() + 86_400_000);
      const lock = { ObjectLockMode: "GOVERNANCE", ObjectLockRetainUntilDate: RetainUntilDate, ObjectLockLegalHoldStatus: "ON" } as const;
      const { VersionId } = await s3.send(
        new sdk.PutObjectCommand({ Bucket, Key: "k", Body: "x", Tagging: "a=b", ...lock, ...customer() }),
      );
      for (const at of [
        { Bucket, Key: "k" },
        { Bucket, Key: "k", VersionId },
      ]) {
        assert.deepEqual((await s3.send(new sdk.GetObjectTaggingCommand(at))).TagSet, [{ Key: "a", Value: "b" }]);
        const { Retention } = await s3.send(new sdk.GetObjectRetentionCommand(at));
        assert.deepEqual(Retention, { Mode: "GOVERNANCE", RetainUntilDate });
        assert.equal((await s3.send(new sdk.GetObjectLegalHoldCommand(at))).LegalHold?.Status, "ON");
        assert.deepEqual(
          (await s3.send(new sdk.GetObjectAclCommand(at))).Grants?.map(({ Permission }) => Permission),
          ["FULL_CONTROL"],
        );
      }
      await s3.send(new sdk.PutObjectTaggingCommand({ Bucket, Key: "k", Tagging: { TagSet: [] } }));
      await s3.send(new sdk.PutObjectLegalHoldCommand({ Bucket, Key: "k", LegalHold: { Status: "OFF" } }));
      await s3.send(new sdk.PutObjectAclCommand({ Bucket, Key: "k", ACL: "bucket-owner-full-control" }));
      assert.deepEqual((await s3.send(new sdk.GetObjectTaggingCommand({ Bucket, Key: "k" }))).TagSet, []);
      assert.equal((await s3.send(new sdk.GetObjectLegalHoldCommand({ Bucket, Key: "k" }))).LegalHold?.Status, "OFF");
    });

    test("refusals: without the customer's key, with another one, with one where there is none, keys that are not there", async () => {
      const s3 = client();
      const Bucket = await newBucket();
      const Body = Buffer.alloc(100, "secret ");
      for (const mode of MODES) await s3.send(new sdk.PutObjectCommand({ Bucket, Key: mode, Body, ...asked(mode) }));
      const other = Buffer.alloc(32, 9);
      for (const [Key, key, expected] of [
        ["customer", {}, "400 InvalidRequest"],
        ["customer", customer(other), "403 AccessDenied"],
        ["none", customer(), "400 InvalidRequest"],
        ["managed", customer(), "400 InvalidRequest"],
      ] as const) {
        await refused(expected, () => s3.send(new sdk.GetObjectCommand({ Bucket, Key, ...key })));
        // HEAD has no body that could name the error.
        const status = expected.slice(0, 3);
        assert.equal((await failureOf(s3.send(new sdk.HeadObjectCommand({ Bucket, Key, ...key })))).slice(0, 3), status);
        const source = "SSECustomerKey" in key ? ofSource(Buffer.from(key.SSECustomerKey, "base64")) : {};
        await refused(expected, () => s3.send(new sdk.CopyObjectCommand({ Bucket, Key: "x", CopySource: `${Bucket}/${Key}`, ...source })));
      }
      const put = (more: Partial<sdk2026.PutObjectCommandInput>) => s3.send(new sdk.PutObjectCommand({ Bucket, Key: "x", Body, ...more }));
      await refused("400 KMS.NotFoundException", () => put({ ServerSideEncryption: "aws:kms", SSEKMSKeyId: "other" }));
      await refused("501 NotImplemented", () => put({ ServerSideEncryption: "aws:kms:dsse" }));
      await refused("501 NotImplemented", () => put({ ServerSideEncryption: "AES256", BucketKeyEnabled: true }));
      const { UploadId } = await s3.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "p", ...customer() }));
      const part = (key: object) => s3.send(new sdk.UploadPartCommand({ Bucket, Key: "p", UploadId, PartNumber: 1, Body, ...key }));
      await refused("400 InvalidRequest", () => part({}));
      await refused("400 InvalidRequest", () => part(customer(other)));
      await part(customer());
    });
  });
}

test("[OGD23] encryption: presigned requests and forms: as any other", async () => {
  const s3 = gateway.client(ANN);
  const Bucket = await newBucket();
  const headers = { "x-amz-server-side-encryption": "AES256" };
  const url = presign({ method: "PUT", path: `/${Bucket}/k`, headers, body: "presigned" }, { key: ANN, host: gateway.address });
  const put = await send(gateway.address, url);
  assert.deepEqual([put.status, put.headers["x-amz-server-side-encryption"]], [200, "AES256"]);
  const fields = { key: "form", "x-amz-server-side-encryption": "aws:kms" };
  const conditions = [
    ["starts-with", "$key", ""],
    ["starts-with", "$x-amz-server-side-encryption", ""],
  ];
  const posted = await postForm(gateway.address, Bucket, { key: ANN, conditions, fields });
  assert.deepEqual([posted.status, posted.headers["x-amz-server-side-encryption"]], [204, "aws:kms"]);
  const head = await s3.send(new sdk2026.HeadObjectCommand({ Bucket, Key: "form" }));
  assert.deepEqual([head.ServerSideEncryption, head.SSEKMSKeyId], ["aws:kms", "first"]);
});

test("[OGD23] encryption: a policy can demand it: of uploads without it, or with a customer's key", async () => {
  const s3 = gateway.client(ANN);
  const Bucket = await newBucket();
  const deny = (Condition: object) => ({
    Effect: "Deny",
    Principal: "*",
    Action: "s3:PutObject",
    Resource: `arn:aws:s3:::${Bucket}/*`,
    Condition,
  });
  const Policy = JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      deny({ StringNotEquals: { "s3:x-amz-server-side-encryption-aws-kms-key-id": "first" } }),
      deny({ Null: { "s3:x-amz-server-side-encryption-customer-algorithm": "false" } }),
    ],
  });
  await s3.send(new sdk2026.PutBucketPolicyCommand({ Bucket, Policy }));
  const put = (more: object) => s3.send(new sdk2026.PutObjectCommand({ Bucket, Key: "k", Body: "b", ...more }));
  for (const more of [{}, asked("managed"), asked("service"), customer()]) await refused("403 AccessDenied", () => put(more));
  await put({ ServerSideEncryption: "aws:kms", SSEKMSKeyId: "first" });
});

test("[OGD23] encryption: a customer's key: refused without TLS, but from this machine; a proxy is believed when it is named", async () => {
  const headers = {
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-server-side-encryption-customer-key": CUSTOMER_KEY.toString("base64"),
    "x-amz-server-side-encryption-customer-key-md5": md5(CUSTOMER_KEY),
  };
  const behind = await TestGateway.start({ config: { ...config, trustedProxies: ["127.0.0.1"] } });
  try {
    await call("PUT", "/bucket", {}, behind);
    const put = (more: Record<string, string>) => call("PUT", "/bucket/k", { body: "b", headers: { ...headers, ...more } }, behind);
    const start = await behind.contents();
    assert.equal(await outcome(put({})), "400 InvalidRequest", "of a proxy that says nothing");
    assert.equal(await outcome(put({ "x-forwarded-proto": "http" })), "400 InvalidRequest");
    await behind.settled();
    assert.deepEqual(await behind.contents(), start);
    assert.equal(await outcome(put({ "x-forwarded-proto": "https" })), "200");
    const get = (more: Record<string, string>) => call("GET", "/bucket/k", { headers: { ...headers, ...more } }, behind);
    assert.equal(await outcome(get({})), "400 InvalidRequest");
    assert.equal(await outcome(get({ "x-forwarded-proto": "https" })), "200");
  } finally {
    await behind.remove();
  }
});

test("[OGD23] encryption: no keys are configured: refused, never stored in plaintext; a customer's key needs none", async () => {
  const bare = await TestGateway.start();
  try {
    const s3 = bare.client(ANN);
    await s3.send(new sdk2026.CreateBucketCommand({ Bucket: "bucket" }));
    for (const mode of ["managed", "service"] as const) {
      const object = { Bucket: "bucket", Key: "k", ...asked(mode) };
      await refused("501 NotImplemented", () => s3.send(new sdk2026.PutObjectCommand({ ...object, Body: "b" })), bare);
      await refused("501 NotImplemented", () => s3.send(new sdk2026.CreateMultipartUploadCommand(object)), bare);
      const rule = { SSEAlgorithm: mode === "managed" ? ("AES256" as const) : ("aws:kms" as const) };
      const ServerSideEncryptionConfiguration = { Rules: [{ ApplyServerSideEncryptionByDefault: rule }] };
      const set = new sdk2026.PutBucketEncryptionCommand({ Bucket: "bucket", ServerSideEncryptionConfiguration });
      await refused("501 NotImplemented", () => s3.send(set), bare);
    }
    await s3.send(new sdk2026.PutObjectCommand({ Bucket: "bucket", Key: "k", Body: "b", ...customer() }));
  } finally {
    await bare.remove();
  }
});

test("[OGD23] encryption: restarts: keys and plaintext in no file, no log line and no answer; without its master key nothing is served", async () => {
  const marked = Buffer.from("this text is nowhere in plaintext ".repeat(1000));
  const one = await TestGateway.start({ config });
  let removed = false;
  try {
    const s3 = one.client(ANN);
    await s3.send(new sdk2026.CreateBucketCommand({ Bucket: "bucket" }));
    for (const mode of ["managed", "service", "customer"] as const)
      for (const Body of [marked, marked.subarray(0, 200)])
        await s3.send(new sdk2026.PutObjectCommand({ Bucket: "bucket", Key: `${mode}-${Body.length}`, Body, ...asked(mode) }));
    const headers = { "x-amz-server-side-encryption-customer-key": CUSTOMER_KEY.toString("base64") };
    const key = { ...ANN, secretAccessKey: "not-the-secret" };
    const wrong = await send(one.address, sign({ method: "GET", path: "/bucket/k", headers }, { key, host: one.address }));
    assert.match(wrong.body, /SignatureDoesNotMatch/);
    assert.ok(!wrong.body.includes(CUSTOMER_KEY.toString("base64")));
    await one.stop();
    const files = await filesOf(one.folder);
    const secrets = [CUSTOMER_KEY, ...[MASTER, ...KMS].map(({ key }) => Buffer.from(key, "base64"))];
    for (const secret of secrets)
      for (const form of [secret, Buffer.from(secret.toString("base64")), Buffer.from(secret.toString("hex"))])
        assert.ok(!files.includes(form), "a key in a file");
    assert.ok(!files.includes("is nowhere in plaintext"));
    const lines = JSON.stringify(one.lines);
    for (const secret of secrets) assert.ok(!lines.includes(secret.toString("base64")), "a key in the log");
    const after = new TestGateway(one.folder, { config: { encryptionKeys: [{ id: "master-2", key: base64(0xa2) }] } });
    await after.start();
    try {
      const get = (Key: string, key: object = {}) =>
        after.client(ANN).send(new sdk2026.GetObjectCommand({ Bucket: "bucket", Key, ...key }));
      await refused("500 InternalError", () => get("managed-200"), after);
      await refused("400 KMS.NotFoundException", () => get("service-200"), after);
      assert.equal((await get("customer-200", customer())).ContentLength, 200);
      assert.ok(
        after.lines.some(({ level, fields }) => level === "error" && JSON.stringify(fields).includes("master-1")),
        "the operator reads which",
      );
    } finally {
      await after.remove();
      removed = true;
    }
  } finally {
    if (!removed) await one.remove();
  }
});
