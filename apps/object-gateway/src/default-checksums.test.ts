// Uploads without a checksum get a CRC-64/NVME of the whole object, as S3 adds it since 2024-12; those with one keep that one alone.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { crc32 } from "node:zlib";
import { crc64nvme } from "@concord/checksums";
import { postForm } from "./test/forms.ts";
import { ANN, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type SigningOptions, type Unsigned } from "./test/signing.ts";

let gateway: TestGateway;

before(async () => {
  gateway = await TestGateway.start({ config: { encryptionKeys: [{ id: "master", key: Buffer.alloc(32, 1).toString("base64") }] } });
  assert.equal((await call("PUT", "/box")).status, 200);
});

after(() => gateway.remove());

type More = Omit<Unsigned, "method" | "path"> & Partial<SigningOptions>;

const call = (method: string, path: string, more: More = {}): Promise<Answer> =>
  send(gateway.address, sign({ ...more, method, path }, { key: ANN, host: gateway.address, ...more }));

const base64 = (value: bigint | number, digits: number): string =>
  Buffer.from(value.toString(16).padStart(digits, "0"), "hex").toString("base64");
const crc64Of = (body: string | Uint8Array): string => base64(crc64nvme(Buffer.from(body)), 16);
const crc32Of = (body: string | Uint8Array): string => base64(crc32(body), 8);
const sha256Of = (body: string | Uint8Array): string => createHash("sha256").update(body).digest("base64");

const NAMES = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256", "type"];

/** Every checksum that the answer has. */
function checksumsOf({ headers }: Answer): Record<string, unknown> {
  const found = NAMES.map((name) => [name, headers[`x-amz-checksum-${name}`]] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

const wholeCrc64 = (body: string | Uint8Array) => ({ crc64nvme: crc64Of(body), type: "FULL_OBJECT" });
const ON_REQUEST = { "x-amz-checksum-mode": "ENABLED" };

/** GET and HEAD give it on request only, and never for a range. */
async function assertShown(path: string, expected: Record<string, unknown>, headers: Record<string, string> = {}): Promise<void> {
  for (const method of ["GET", "HEAD"]) {
    assert.deepEqual(checksumsOf(await call(method, path, { headers: { ...headers, ...ON_REQUEST } })), expected, `${method} ${path}`);
    assert.deepEqual(checksumsOf(await call(method, path, { headers })), {}, `${method} ${path} without the mode`);
  }
}

const LONG = randomBytes(4 * 1024 * 1024 + 17);

test("an upload without a checksum: the published CRC-64/NVME of its bytes, in its answer, by GET and HEAD, in attributes and lists", async () => {
  // The check value of the CRC catalogue: ae8b14860a799888.
  const check = { crc64nvme: "rosUhgp5mIg=", type: "FULL_OBJECT" };
  const stored = await call("PUT", "/box/check", { body: "123456789" });
  assert.deepEqual([stored.status, checksumsOf(stored)], [200, check]);
  await assertShown("/box/check", check);
  const attributes = await call("GET", "/box/check", { query: [["attributes", ""]], headers: { "x-amz-object-attributes": "Checksum" } });
  assert.match(attributes.body, /<Checksum><ChecksumCRC64NVME>rosUhgp5mIg=<\/ChecksumCRC64NVME><ChecksumType>FULL_OBJECT</);
  const listed = await call("GET", "/box", {
    query: [
      ["list-type", "2"],
      ["prefix", "check"],
    ],
  });
  assert.match(listed.body, /<ChecksumAlgorithm>CRC64NVME<\/ChecksumAlgorithm><ChecksumType>FULL_OBJECT</);
});

for (const [what, body] of [
  ["empty", ""],
  ["within its row", "x".repeat(200)],
  ["a row of its own", randomBytes(10_000)],
  ["a blob", randomBytes(100_000)],
  ["hashed beside the calling thread", LONG],
] as const) {
  test(`an upload without a checksum: ${what}: signed, unsigned`, async () => {
    for (const payload of [undefined, "UNSIGNED-PAYLOAD"]) {
      const stored = await call("PUT", "/box/sizes", { body, ...(payload === undefined ? {} : { payload }) });
      assert.deepEqual([stored.status, checksumsOf(stored)], [200, wholeCrc64(body)]);
      await assertShown("/box/sizes", wholeCrc64(body));
    }
  });
}

test("an upload with a checksum: that one alone; a form without one: the default", async () => {
  const stored = await call("PUT", "/box/own", { body: "abc", headers: { "x-amz-checksum-crc32": crc32Of("abc") } });
  assert.deepEqual([stored.status, checksumsOf(stored)], [200, { crc32: crc32Of("abc"), type: "FULL_OBJECT" }]);
  await assertShown("/box/own", { crc32: crc32Of("abc"), type: "FULL_OBJECT" });
  const posted = await postForm(gateway.address, "box", {
    key: ANN,
    conditions: [{ key: "form" }],
    fields: { key: "form" },
    file: "of a form",
  });
  assert.deepEqual([posted.status, checksumsOf(posted)], [204, wholeCrc64("of a form")]);
  await assertShown("/box/form", wholeCrc64("of a form"));
});

test("an upload that the gateway encrypts: the checksum of its plain bytes, as a multipart upload and as a copy too", async () => {
  const headers = { "x-amz-server-side-encryption": "AES256" };
  const stored = await call("PUT", "/box/encrypted", { body: "abc", headers });
  assert.deepEqual([stored.status, checksumsOf(stored)], [200, wholeCrc64("abc")]);
  await assertShown("/box/encrypted", wholeCrc64("abc"));
  const { query, document } = await uploadOf("/box/encrypted-parts", () => ({}), headers, {});
  assert.equal((await call("POST", "/box/encrypted-parts", { query, body: document })).status, 200);
  await assertShown("/box/encrypted-parts", wholeCrc64(Buffer.concat(PARTS)));
  const copied = await call("PUT", "/box/encrypted-copy", { headers: { ...headers, "x-amz-copy-source": "box/encrypted-parts" } });
  assert.equal(copied.status, 200, copied.body);
  await assertShown("/box/encrypted-copy", wholeCrc64(Buffer.concat(PARTS)));
});

test("copies: the algorithm of the source, the default where it has none asked or stored, another on request", async () => {
  await call("PUT", "/box/with", { body: "abc", headers: { "x-amz-checksum-sha256": sha256Of("abc") } });
  await call("PUT", "/box/without", { body: "abc" });
  for (const [source, headers, expected] of [
    ["with", {}, { sha256: sha256Of("abc"), type: "FULL_OBJECT" }],
    ["without", {}, wholeCrc64("abc")],
    ["without", { "x-amz-checksum-algorithm": "CRC32" }, { crc32: crc32Of("abc"), type: "FULL_OBJECT" }],
  ] as const) {
    assert.equal((await call("PUT", "/box/copy", { headers: { "x-amz-copy-source": `box/${source}`, ...headers } })).status, 200);
    await assertShown("/box/copy", expected);
  }
});

const PARTS = [randomBytes(5 * 1024 * 1024), Buffer.from("the end")];
const CUSTOMER_KEY = Buffer.alloc(32, 7);
const CUSTOMER: Record<string, string> = {
  "x-amz-server-side-encryption-customer-algorithm": "AES256",
  "x-amz-server-side-encryption-customer-key": CUSTOMER_KEY.toString("base64"),
  "x-amz-server-side-encryption-customer-key-md5": createHash("md5").update(CUSTOMER_KEY).digest("base64"),
};

interface Sent {
  readonly query: [string, string][];
  readonly document: string;
  readonly answers: readonly Answer[];
}

/** An upload that asked for no algorithm, each part with the headers that `partHeaders` gives it. */
async function uploadOf(
  path: string,
  partHeaders: (at: number) => Record<string, string>,
  headers: Record<string, string> = {},
  ofParts = headers,
): Promise<Sent> {
  const begun = await call("POST", path, { query: [["uploads", ""]], headers });
  assert.deepEqual(
    [begun.status, begun.headers["x-amz-checksum-algorithm"]],
    [200, undefined],
    "it shows the algorithm only where one was asked for",
  );
  const id = /<UploadId>([^<]+)</.exec(begun.body)![1]!;
  const answers: Answer[] = [];
  for (const [at, body] of PARTS.entries()) {
    const query: [string, string][] = [
      ["partNumber", String(at + 1)],
      ["uploadId", id],
    ];
    answers.push(await call("PUT", path, { query, body, headers: { ...ofParts, ...partHeaders(at) } }));
    assert.equal(answers.at(-1)!.status, 200, answers.at(-1)!.body);
  }
  const named = answers.map((answer, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${answer.headers.etag as string}</ETag></Part>`);
  return { query: [["uploadId", id]], document: `<CompleteMultipartUpload>${named.join("")}</CompleteMultipartUpload>`, answers };
}

test("multipart without an algorithm: parts, their list and the whole have CRC-64/NVME; a wrong one of the client is refused", async () => {
  const { query, document, answers } = await uploadOf("/box/parts", () => ({}));
  for (const [at, answer] of answers.entries()) assert.deepEqual(checksumsOf(answer), { crc64nvme: crc64Of(PARTS[at]!) });
  const listed = await call("GET", "/box/parts", { query });
  for (const part of PARTS) assert.ok(listed.body.includes(`<ChecksumCRC64NVME>${crc64Of(part)}</ChecksumCRC64NVME>`), listed.body);
  const before = await gateway.contents();
  const wrong = await call("POST", "/box/parts", { query, body: document, headers: { "x-amz-checksum-crc64nvme": crc64Of("other") } });
  assert.equal(wrong.status, 400, wrong.body);
  assert.deepEqual(await gateway.contents(), before);
  const whole = crc64Of(Buffer.concat(PARTS));
  for (const what of ["first", "repeated"]) {
    const done = await call("POST", "/box/parts", { query, body: document, headers: { "x-amz-checksum-crc64nvme": whole } });
    const shown = `<ChecksumCRC64NVME>${whole}</ChecksumCRC64NVME><ChecksumType>FULL_OBJECT<`;
    assert.ok(done.body.includes(shown), `${what}: ${done.body}`);
  }
  await assertShown("/box/parts", { crc64nvme: whole, type: "FULL_OBJECT" });
  const second = await call("HEAD", "/box/parts", { query: [["partNumber", "2"]], headers: ON_REQUEST });
  assert.deepEqual(checksumsOf(second), wholeCrc64(PARTS[1]!));
});

test("multipart without an algorithm: the parts' own CRC-32 make that of the whole; parts of different algorithms, or of SHA-256, make none", async () => {
  const crc32s = (at: number) => ({ "x-amz-checksum-crc32": crc32Of(PARTS[at]!) });
  const sha256s = (at: number) => ({ "x-amz-checksum-sha256": sha256Of(PARTS[at]!) });
  for (const [partHeaders, expected] of [
    [crc32s, { crc32: crc32Of(Buffer.concat(PARTS)), type: "FULL_OBJECT" }],
    [(at: number) => (at === 0 ? crc32s(at) : {}), {}],
    [sha256s, {}],
  ] as const) {
    const { query, document } = await uploadOf("/box/mixed", partHeaders as (at: number) => Record<string, string>);
    const done = await call("POST", "/box/mixed", { query, body: document });
    assert.equal(done.status, 200, done.body);
    await assertShown("/box/mixed", expected);
  }
});

test("a part made by a copy has the checksum of its range, and counts in that of the whole", async () => {
  await call("PUT", "/box/source", { body: "0123456789" });
  const begun = await call("POST", "/box/made", { query: [["uploads", ""]] });
  const id = /<UploadId>([^<]+)</.exec(begun.body)![1]!;
  const headers = { "x-amz-copy-source": "box/source", "x-amz-copy-source-range": "bytes=2-5" };
  const copied = await call("PUT", "/box/made", {
    query: [
      ["partNumber", "1"],
      ["uploadId", id],
    ],
    headers,
  });
  assert.ok(copied.body.includes(`<ChecksumCRC64NVME>${crc64Of("2345")}</ChecksumCRC64NVME>`), copied.body);
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${/<ETag>([^<]+)</.exec(copied.body)![1]!}</ETag></Part></CompleteMultipartUpload>`;
  assert.equal((await call("POST", "/box/made", { query: [["uploadId", id]], body })).status, 200);
  await assertShown("/box/made", wholeCrc64("2345"));
});

test("a customer's key: with it the whole has its checksum; completed without it there is none, and a copy gets one", async () => {
  const whole = Buffer.concat(PARTS);
  for (const [completing, expected] of [
    [CUSTOMER, wholeCrc64(whole)],
    [{}, {}],
  ] as const) {
    const { query, document } = await uploadOf("/box/sealed", () => ({}), CUSTOMER);
    const done = await call("POST", "/box/sealed", { query, body: document, headers: completing });
    assert.equal(done.status, 200, done.body);
    await assertShown("/box/sealed", expected, CUSTOMER);
  }
  const ofSource = Object.fromEntries(
    Object.entries(CUSTOMER).map(([name, value]) => [name.replace("x-amz-", "x-amz-copy-source-"), value]),
  );
  const copied = await call("PUT", "/box/opened", { headers: { "x-amz-copy-source": "box/sealed", ...ofSource } });
  assert.equal(copied.status, 200, copied.body);
  await assertShown("/box/opened", wholeCrc64(whole));
});
