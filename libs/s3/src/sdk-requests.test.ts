// Requests the real SDKs make, of the generation before and after checksums became their default, verified as they are and with one byte changed.
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import * as current from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import * as older from "aws-sdk-client-s3-2024";
import {
  createVerifier,
  fieldsOf,
  parseTarget,
  readBody,
  readCompleteMultipartUpload,
  readDelete,
  readTagging,
  S3Error,
  type Verified,
} from "./index.ts";
import { parseTimestamp } from "./dates.ts";
import { capturing, SDK_CREDENTIALS, type Captured } from "./test/sdk-capture.ts";

const verifier = createVerifier({
  region: "eu-test-1",
  credential: (accessKey) =>
    accessKey === SDK_CREDENTIALS.accessKeyId ? { secret: SDK_CREDENTIALS.secretAccessKey, tenant: "t" } : undefined,
});

function signedMs({ target, headers }: Captured): number {
  const stamp = headers.find(([name]) => name === "x-amz-date")?.[1] ?? /X-Amz-Date=(\w+)/.exec(target)?.[1];
  return parseTimestamp(stamp ?? "") ?? assert.fail("no date");
}

function verify(captured: Captured, nowMs = signedMs(captured)): Verified {
  return verifier.verify({ ...captured, headers: fieldsOf(captured.headers) }, parseTarget(captured.target, undefined), nowMs);
}

function assertMutationsRefused(captured: Captured): void {
  const nowMs = signedMs(captured);
  for (const [what, code, changed] of mutations(captured))
    assert.equal(
      codeOf(() => verify(changed, nowMs)),
      code,
      what,
    );
}

async function bodyOf(captured: Captured): Promise<Uint8Array> {
  return readBody({ body: Readable.from([captured.body]) }, verify(captured), { maxBytes: 1_000_000 });
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof S3Error) return error.code;
    throw error;
  }
  return "accepted";
}

const ODD_KEY = "a//b/../ü +%2F(1)!'*~\u{1F600}";

type Sdk = typeof current;

/** Every kind of request of the first milestone. */
const REQUESTS: Readonly<Record<string, (sdk: Sdk) => object>> = {
  "get with an odd key": ({ GetObjectCommand }) => new GetObjectCommand({ Bucket: "bucket", Key: ODD_KEY, Range: "bytes=0-9" }),
  "get with overrides": ({ GetObjectCommand }) =>
    new GetObjectCommand({ Bucket: "bucket", Key: "k", ResponseContentType: "text/plain; charset=utf-8", IfNoneMatch: '"e"' }),
  head: ({ HeadObjectCommand }) => new HeadObjectCommand({ Bucket: "bucket", Key: "k", ChecksumMode: "ENABLED" }),
  put: ({ PutObjectCommand }) =>
    new PutObjectCommand({ Bucket: "bucket", Key: "k", Body: "hello", Metadata: { a: " x  y " }, IfNoneMatch: "*", Tagging: "a=b%20c" }),
  "put with a SHA-256": ({ PutObjectCommand }) =>
    new PutObjectCommand({ Bucket: "bucket", Key: "k", Body: "hello", ChecksumSHA256: "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=" }),
  delete: ({ DeleteObjectCommand }) => new DeleteObjectCommand({ Bucket: "bucket", Key: "k" }),
  "list v1": ({ ListObjectsCommand }) =>
    new ListObjectsCommand({ Bucket: "bucket", Prefix: "a b+c/ü&=", Delimiter: "/", EncodingType: "url" }),
  "list v2": ({ ListObjectsV2Command }) => new ListObjectsV2Command({ Bucket: "bucket", Prefix: "%20", StartAfter: "~", MaxKeys: 3 }),
  "list buckets": ({ ListBucketsCommand }) => new ListBucketsCommand({}),
  "create bucket": ({ CreateBucketCommand }) =>
    new CreateBucketCommand({ Bucket: "bucket", CreateBucketConfiguration: { LocationConstraint: "eu-test-1" as never } }),
  "create upload": ({ CreateMultipartUploadCommand }) =>
    new CreateMultipartUploadCommand({ Bucket: "bucket", Key: ODD_KEY, ChecksumAlgorithm: "CRC32C", ContentType: "a/b" }),
  "upload part": ({ UploadPartCommand }) =>
    new UploadPartCommand({ Bucket: "bucket", Key: "k", UploadId: "u", PartNumber: 2, Body: Buffer.alloc(100, 1) }),
  "copy part": ({ UploadPartCopyCommand }) =>
    new UploadPartCopyCommand({
      Bucket: "bucket",
      Key: "k",
      UploadId: "u",
      PartNumber: 2,
      CopySource: "b/k%20",
      CopySourceRange: "bytes=0-4",
    }),
  copy: ({ CopyObjectCommand }) => new CopyObjectCommand({ Bucket: "bucket", Key: "k", CopySource: "b/%C3%BC", MetadataDirective: "COPY" }),
  complete: ({ CompleteMultipartUploadCommand }) =>
    new CompleteMultipartUploadCommand({
      Bucket: "bucket",
      Key: "k",
      UploadId: "u",
      MultipartUpload: { Parts: [{ PartNumber: 1, ETag: '"e"' }] },
    }),
  "object attributes": ({ GetObjectAttributesCommand }) =>
    new GetObjectAttributesCommand({ Bucket: "bucket", Key: "k", ObjectAttributes: ["ETag", "ObjectSize"] }),
};

for (const [generation, sdk] of [
  ["3.1161", current],
  ["3.712", older as unknown as Sdk],
] as const) {
  const client = capturing();
  const s3 = new sdk.S3Client(client.config as never);
  const capture = (command: object): Promise<Captured> => client.take(s3.send(command as never));

  for (const [name, make] of Object.entries(REQUESTS)) {
    test(`verifier: ${name} of SDK ${generation}: accepted; any changed byte: refused`, async () => {
      const captured = await capture(make(sdk));
      const { tenant } = verify(captured);
      assert.equal(tenant, "t");
      await bodyOf(captured);
      assertMutationsRefused(captured);
    });
  }

  test(`parseTarget: odd key of SDK ${generation}: the key as it was meant`, async () => {
    const { target } = await capture(new sdk.GetObjectCommand({ Bucket: "bucket", Key: ODD_KEY }));
    assert.equal(parseTarget(target, undefined).key, ODD_KEY);
  });

  test(`readBody: stream with a trailing checksum of SDK ${generation}: the bytes; one changed: BadDigest`, async () => {
    const body = (): Readable => Readable.from([Buffer.alloc(20_000, "a"), Buffer.alloc(5, "b")]);
    const captured = await capture(
      new sdk.PutObjectCommand({ Bucket: "bucket", Key: "k", Body: body(), ContentLength: 20_005, ChecksumAlgorithm: "CRC32C" }),
    );
    assert.equal(verify(captured).payload.kind, "unsigned-chunks");
    assert.deepEqual(await bodyOf(captured), Buffer.concat([Buffer.alloc(20_000, "a"), Buffer.alloc(5, "b")]));
    const changed = Buffer.from(captured.body);
    changed[1000] = 0x41;
    await assert.rejects(bodyOf({ ...captured, body: changed }), { code: "BadDigest" });
  });

  test(`readBody: changed bytes of a signed body of SDK ${generation}: XAmzContentSHA256Mismatch`, async () => {
    const captured = await capture(new sdk.PutObjectCommand({ Bucket: "bucket", Key: "k", Body: "hello" }));
    await assert.rejects(bodyOf({ ...captured, body: Buffer.from("hellO") }), { code: "XAmzContentSHA256Mismatch" });
  });

  test(`readDelete, readTagging, readCompleteMultipartUpload: bodies of SDK ${generation}: what was meant`, async () => {
    const keys = ["a&b<>\"'", ODD_KEY, "line\r\nbreak", " space "];
    const objects = keys.map((Key) => ({ Key }));
    const deletion = await bodyOf(
      await capture(new sdk.DeleteObjectsCommand({ Bucket: "bucket", Delete: { Objects: objects, Quiet: true } })),
    );
    const { quiet, objects: read } = readDelete(deletion);
    assert.deepEqual({ quiet, keys: read.map(({ key }) => key) }, { quiet: true, keys });
    const TagSet = [{ Key: "a", Value: "ü @" }];
    const tagging = await bodyOf(await capture(new sdk.PutObjectTaggingCommand({ Bucket: "bucket", Key: "k", Tagging: { TagSet } })));
    assert.deepEqual(readTagging(tagging, 10), { a: "ü @" });
    const Parts = [{ PartNumber: 1, ETag: '"abc"', ChecksumCRC32: "AAAAAA==" }];
    const complete = await bodyOf(
      await capture(new sdk.CompleteMultipartUploadCommand({ Bucket: "bucket", Key: "k", UploadId: "u", MultipartUpload: { Parts } })),
    );
    assert.deepEqual(readCompleteMultipartUpload(complete), [
      { number: 1, etag: "abc", checksum: { algorithm: "CRC32", value: "AAAAAA==" } },
    ]);
  });

  test(`verifier: URLs presigned with SDK ${generation}: accepted; any changed byte: refused`, async () => {
    const put = new sdk.PutObjectCommand({ Bucket: "bucket", Key: ODD_KEY, Metadata: { a: "b c" } });
    const get = new sdk.GetObjectCommand({ Bucket: "bucket", Key: "k", ResponseContentType: "text/plain" });
    for (const [method, command] of [
      ["PUT", put],
      ["GET", get],
    ] as const) {
      const url = await getSignedUrl(s3 as never, command as never, { expiresIn: 60 });
      const target = url.replace("https://s3.example.test", "");
      const captured: Captured = { method, target, headers: [["host", "s3.example.test"]], body: Buffer.from("a body of its own") };
      const verified = verify(captured);
      assert.equal(verified.via, "query");
      if (method === "PUT") assert.equal(verified.headers.one("x-amz-meta-a"), "b c");
      assertMutationsRefused(captured);
    }
  });

  test(`readBody: URL of SDK ${generation} presigned without a body: any body is accepted`, async () => {
    const url = await getSignedUrl(s3 as never, new sdk.PutObjectCommand({ Bucket: "bucket", Key: "k" }) as never, { expiresIn: 60 });
    const target = url.replace("https://s3.example.test", "");
    const body = Buffer.from("a body of its own");
    const headers: [string, string][] = [
      ["host", "s3.example.test"],
      ["content-length", String(body.length)],
    ];
    assert.deepEqual(await bodyOf({ method: "PUT", target, headers, body }), body);
  });
}

test("readBody: URL presigned with the checksum of a body: another body is BadDigest", async () => {
  const client = capturing();
  const s3 = new current.S3Client(client.config as never);
  const command = new current.PutObjectCommand({ Bucket: "bucket", Key: "k", ChecksumCRC32: "NhCmhg==" });
  const url = await getSignedUrl(s3 as never, command as never, { expiresIn: 60 });
  const put = (text: string): Captured => ({
    method: "PUT",
    target: url.replace("https://s3.example.test", ""),
    headers: [
      ["host", "s3.example.test"],
      ["content-length", "5"],
    ],
    body: Buffer.from(text),
  });
  assert.deepEqual(await bodyOf(put("hello")), Buffer.from("hello"));
  await assert.rejects(bodyOf(put("hellO")), { code: "BadDigest" });
});

/** The request with one byte changed in every part that is signed, and with every signed part left out; what each is refused with. */
function* mutations(captured: Captured): Generator<[what: string, code: string, changed: Captured]> {
  const refused = "SignatureDoesNotMatch";
  yield ["method", refused, { ...captured, method: captured.method === "GET" ? "HEAD" : "GET" }];
  const [path = "", query = ""] = captured.target.split("?");
  const search = query === "" ? "" : `?${query}`;
  if (path !== "/") yield ["path", refused, { ...captured, target: `${flip(path)}${search}` }];
  yield ["path with a dot segment", refused, { ...captured, target: `/.${path}${search}` }];
  yield ["more query", refused, { ...captured, target: `${captured.target}${query === "" ? "?" : "&"}acl` }];
  const parameters = query.split("&").filter((part) => part !== "");
  for (const [i, part] of parameters.entries()) {
    const name = part.split("=")[0] ?? "";
    const changed = parameters.with(i, flip(part));
    yield [`parameter ${part}`, CHANGED[name] ?? refused, { ...captured, target: `${path}?${changed.join("&")}` }];
    yield [`no ${part}`, LEFT_OUT[name] ?? refused, { ...captured, target: `${path}?${parameters.toSpliced(i, 1).join("&")}` }];
  }
  const signed = /SignedHeaders=([^,&]+)/.exec(captured.headers.find(([name]) => name === "authorization")?.[1] ?? "")?.[1] ?? "host";
  const names = new Set([...signed.split(";"), "authorization"]);
  for (const [i, [name, value]] of captured.headers.entries()) {
    if (!names.has(name)) continue;
    yield [`header ${name}`, CHANGED[name] ?? refused, { ...captured, headers: captured.headers.with(i, [name, flip(value)]) }];
    yield [`no header ${name}`, LEFT_OUT[name] ?? refused, { ...captured, headers: captured.headers.toSpliced(i, 1) }];
    yield [`header ${name} twice`, TWICE[name] ?? refused, { ...captured, headers: [...captured.headers, [name, value]] }];
  }
  yield ["one more x-amz header", "AccessDenied", { ...captured, headers: [...captured.headers, ["x-amz-acl", "public-read"]] }];
}

const QUERY_ERROR = "AuthorizationQueryParametersError";
const CHANGED: Readonly<Record<string, string>> = {
  "x-amz-date": "AccessDenied",
  "X-Amz-Algorithm": QUERY_ERROR,
  "X-Amz-Credential": QUERY_ERROR,
  "X-Amz-Date": QUERY_ERROR,
  "X-Amz-SignedHeaders": "AccessDenied",
};
const LEFT_OUT: Readonly<Record<string, string>> = {
  authorization: "AccessDenied",
  "x-amz-date": "AccessDenied",
  "X-Amz-Algorithm": QUERY_ERROR,
  "X-Amz-Credential": QUERY_ERROR,
  "X-Amz-Date": QUERY_ERROR,
  "X-Amz-Expires": QUERY_ERROR,
  "X-Amz-SignedHeaders": QUERY_ERROR,
  "X-Amz-Signature": QUERY_ERROR,
};
const TWICE: Readonly<Record<string, string>> = {
  authorization: "InvalidArgument",
  "x-amz-content-sha256": "InvalidArgument",
  "x-amz-date": "InvalidArgument",
};

/** Another last character of the same kind: still well-formed. */
function flip(text: string): string {
  const last = text.at(-1) ?? "";
  const other = /\d/.test(last) ? String((Number(last) + 1) % 10) : last === "a" ? "b" : "a";
  return `${text.slice(0, -1)}${other}`;
}
