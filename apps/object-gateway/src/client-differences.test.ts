// What clients of other S3 servers send, each found with a real client or by hand, and what they expect.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { crc32 } from "node:zlib";
import { DeleteObjectCommand, DeleteObjectsCommand, ListObjectsV2Command, PutObjectCommand } from "@aws-sdk/client-s3";
import { signedFields } from "./test/forms.ts";
import { ANN, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type SigningOptions, type Unsigned } from "./test/signing.ts";

let gateway: TestGateway;

before(async () => {
  gateway = await TestGateway.start({ config: { packBytesMax: 0 } });
  assert.equal((await call("PUT", "/box")).status, 200);
});

after(() => gateway.remove());

const call = (method: string, path: string, more: Omit<Unsigned, "method" | "path"> & Partial<SigningOptions> = {}): Promise<Answer> =>
  send(gateway.address, sign({ ...more, method, path }, { key: ANN, host: gateway.address, ...more }));

const crcOf = (body: string | Uint8Array): string => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc32(body));
  return bytes.toString("base64");
};

const PARTS = ["a".repeat(5 * 1024 * 1024), "b"];

/** An upload of both parts, and the document that completes it. */
async function upload(key: string, type: string): Promise<{ readonly query: [string, string][]; readonly body: string }> {
  const headers = { "x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": type };
  const begun = await call("POST", `/box/${key}`, { query: [["uploads", ""]], headers });
  const id = /<UploadId>([^<]+)</.exec(begun.body)![1]!;
  const parts: string[] = [];
  for (const [at, body] of PARTS.entries()) {
    const query: [string, string][] = [
      ["partNumber", String(at + 1)],
      ["uploadId", id],
    ];
    const stored = await call("PUT", `/box/${key}`, { query, body, headers: { "x-amz-checksum-crc32": crcOf(body) } });
    assert.equal(stored.status, 200, stored.body);
    parts.push(`<Part><PartNumber>${at + 1}</PartNumber><ETag>${stored.headers.etag as string}</ETag></Part>`);
  }
  return { query: [["uploadId", id]], body: `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>` };
}

const composite = (): string => crcOf(Buffer.concat(PARTS.map((part) => Buffer.from(crcOf(part), "base64"))));

for (const [what, type, value] of [
  ["of the whole object", "FULL_OBJECT", () => crcOf(PARTS.join(""))],
  ["composite", "COMPOSITE", () => `${composite()}-2`],
  ["composite without the number of parts", "COMPOSITE", composite],
] as const) {
  test(`complete: a checksum ${what} in a header: it is the object's, not the document's`, async () => {
    const { query, body } = await upload("sums", type);
    const wrong = await call("POST", "/box/sums", { query, body, headers: { "x-amz-checksum-crc32": "AAAAAA==" } });
    assert.equal(wrong.status, 400, wrong.body);
    const done = await call("POST", "/box/sums", { query, body, headers: { "x-amz-checksum-crc32": value() } });
    assert.equal(done.status, 200, done.body);
  });
}

test("a part by its number: its own checksum with the kind of the object's, by GET and HEAD, only on request", async () => {
  const checksumOf = async (method: string, key: string, number: number, mode: string): Promise<readonly unknown[]> => {
    const headers: Record<string, string> = mode === "" ? {} : { "x-amz-checksum-mode": mode };
    const { status, headers: found } = await call(method, `/box/${key}`, { query: [["partNumber", String(number)]], headers });
    return [status, found["x-amz-checksum-crc32"], found["x-amz-checksum-type"]];
  };
  for (const type of ["FULL_OBJECT", "COMPOSITE"]) {
    const { query, body } = await upload("by-number", type);
    assert.equal((await call("POST", "/box/by-number", { query, body })).status, 200);
    for (const method of ["GET", "HEAD"]) {
      for (const [at, part] of PARTS.entries())
        assert.deepEqual(await checksumOf(method, "by-number", at + 1, "ENABLED"), [206, crcOf(part), type]);
      assert.deepEqual(await checksumOf(method, "by-number", 1, ""), [206, undefined, undefined]);
      assert.deepEqual(await checksumOf(method, "by-number", 3, "ENABLED"), [416, undefined, undefined]);
    }
  }
  await call("PUT", "/box/alone", { body: "x", headers: { "x-amz-checksum-crc32": crcOf("x") } });
  assert.deepEqual(await checksumOf("GET", "alone", 1, "ENABLED"), [206, crcOf("x"), "FULL_OBJECT"]);
  assert.deepEqual(await checksumOf("HEAD", "alone", 1, "ENABLED"), [206, crcOf("x"), "FULL_OBJECT"]);
});

test("a copy whose source has + for a blank: the key with a blank is copied, also where one with + is there", async () => {
  for (const [key, body] of [
    ["sp ace", "blank"],
    ["sp+ace", "plus"],
  ] as const)
    assert.equal((await call("PUT", `/box/${key}`, { body })).status, 200);
  for (const [source, body] of [
    ["box/sp+ace", "blank"],
    ["box/sp%20ace", "blank"],
    ["box/sp%2Bace", "plus"],
  ] as const) {
    assert.equal((await call("PUT", "/box/copied", { headers: { "x-amz-copy-source": source } })).status, 200);
    assert.equal((await call("GET", "/box/copied")).body, body, source);
  }
});

test("tags that begin with aws: are refused, in any letters, and nothing is stored", async () => {
  for (const name of ["aws:x", "AWS:x"]) {
    const refused = await call("PUT", "/box/tagged", { body: "x", headers: { "x-amz-tagging": `${encodeURIComponent(name)}=1` } });
    assert.deepEqual([refused.status, /<Code>([^<]+)</.exec(refused.body)?.[1]], [400, "InvalidTag"]);
  }
  assert.equal((await call("GET", "/box/tagged")).status, 404);
});

test("a document with attributes, comments and CDATA: read as S3 does", async () => {
  assert.equal((await call("PUT", "/box/commented", { body: "x" })).status, 200);
  const body = '<Delete a="b"><!-- one --><Object><Key><![CDATA[commented]]></Key></Object></Delete>';
  const md5 = createHash("md5").update(body).digest("base64");
  const removed = await call("POST", "/box", { query: [["delete", ""]], body, headers: { "content-md5": md5 } });
  assert.match(removed.body, /<Deleted><Key>commented</);
  assert.equal((await call("GET", "/box/commented")).status, 404);
});

test("GetObjectAttributes: parts with their checksums, in pages; of no part, behind the last, of an object without parts", async () => {
  const { query, body } = await upload("parts", "COMPOSITE");
  assert.equal((await call("POST", "/box/parts", { query, body })).status, 200);
  await call("PUT", "/box/whole", { body: "x" });
  const partsOf = async (key: string, more: Record<string, string> = {}): Promise<string> => {
    const headers = { "x-amz-object-attributes": "ObjectParts,ETag", ...more };
    const answer = await call("GET", `/box/${key}`, { query: [["attributes", ""]], headers });
    return /<ObjectParts>.*<\/ObjectParts>/s.exec(answer.body)?.[0] ?? String(answer.status);
  };
  const part = (at: number): string =>
    `<Part><PartNumber>${at + 1}</PartNumber><Size>${PARTS[at]!.length}</Size><ChecksumCRC32>${crcOf(PARTS[at]!)}</ChecksumCRC32></Part>`;
  const page = (marker: number, next: number, limit: number, isTruncated: boolean, parts: string): string =>
    `<ObjectParts><PartsCount>2</PartsCount><PartNumberMarker>${marker}</PartNumberMarker><NextPartNumberMarker>${next}</NextPartNumberMarker>` +
    `<MaxParts>${limit}</MaxParts><IsTruncated>${isTruncated}</IsTruncated>${parts}</ObjectParts>`;
  assert.equal(await partsOf("parts"), page(0, 2, 1000, false, part(0) + part(1)));
  assert.equal(await partsOf("parts", { "x-amz-max-parts": "1" }), page(0, 1, 1, true, part(0)));
  assert.equal(await partsOf("parts", { "x-amz-max-parts": "1", "x-amz-part-number-marker": "1" }), page(1, 2, 1, false, part(1)));
  assert.equal(await partsOf("parts", { "x-amz-max-parts": "0" }), page(0, 0, 0, true, ""));
  assert.equal(await partsOf("parts", { "x-amz-part-number-marker": "2" }), page(2, 0, 1000, false, ""));
  assert.equal(await partsOf("whole"), "200");
  assert.equal(await partsOf("parts", { "x-amz-max-parts": "-1" }), "400");
  assert.equal(await partsOf("parts", { "if-match": '"another"' }), "412");
  assert.equal(await partsOf("absent"), "404");
});

test("complete: an empty body: MalformedXML", async () => {
  const { query } = await upload("empty", "COMPOSITE");
  const answer = await call("POST", "/box/empty", { query, body: "" });
  assert.match(answer.body, /<Code>MalformedXML</);
});

test("part copy: a range that ends or begins behind the source: 400 with its size, not cut; the upload has no part of it", async () => {
  await call("PUT", "/box/source", { body: "0123456789" });
  const { query } = await upload("copied", "COMPOSITE");
  const part: [string, string][] = [["partNumber", "3"], ...query];
  const copy = (range: string): Promise<Answer> =>
    call("PUT", "/box/copied", { query: part, headers: { "x-amz-copy-source": "/box/source", "x-amz-copy-source-range": range } });
  for (const range of ["bytes=5-10", "bytes=10-10", "bytes=20-30"]) {
    const { status, body } = await copy(range);
    assert.equal(status, 400, range);
    assert.match(body, /<Code>InvalidArgument<\/Code><Message>Range specified is not valid for source object of size: 10<\/Message>/);
    assert.doesNotMatch((await call("GET", "/box/copied", { query })).body, /<PartNumber>3</);
  }
  assert.equal((await copy("bytes=5-9")).status, 200);
  assert.match((await call("GET", "/box/copied", { query })).body, /<PartNumber>3</);
});

test("bucket tags: 200, as clients want", async () => {
  const body = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  assert.equal((await call("PUT", "/box", { query: [["tagging", ""]], body })).status, 200);
});

test("a form as browsers write it, by fetch: signed by a server, stored", async () => {
  const form = new FormData();
  const fields = signedFields("box", { key: ANN, conditions: [["starts-with", "$key", "up/"]] });
  for (const [name, value] of Object.entries({ ...fields, key: "up/${filename}" })) form.append(name, value);
  form.append("file", new File(["of a browser"], "ä.txt"));
  const response = await fetch(`http://${gateway.address}/box`, { method: "POST", body: form });
  assert.equal(response.status, 204, await response.text());
  assert.equal((await call("GET", "/box/up/ä.txt")).body, "of a browser");
});

test("signature version 2: the answer says what to set", async () => {
  const response = await fetch(`http://${gateway.address}/box/k?AWSAccessKeyId=a&Signature=b&Expires=1`);
  assert.match(await response.text(), /signature_version=s3v4/);
});

test("headers come back as clients wrote them: content-encoding, storage class STANDARD accepted", async () => {
  const headers = { "content-encoding": "deflate, gzip", "x-amz-storage-class": "STANDARD" };
  assert.equal((await call("PUT", "/box/encoded", { body: "x", headers })).status, 200);
  assert.equal((await call("HEAD", "/box/encoded")).headers["content-encoding"], "deflate, gzip");
});

test("list: an empty continuation token is none", async () => {
  const query: [string, string][] = [
    ["list-type", "2"],
    ["continuation-token", ""],
  ];
  assert.equal((await call("GET", "/box", { query })).status, 200);
});

test("a range far behind the end of every object: 206 with what is there", async () => {
  await call("PUT", "/box/ranged", { body: "0123456789" });
  const answer = await call("GET", "/box/ranged", { headers: { range: "bytes=4-18446744073709551616" } });
  assert.deepEqual([answer.status, answer.body], [206, "456789"]);
});

test("a damaged first block: an error of its own, and in the log, not a connection that breaks off", async () => {
  await call("PUT", "/box/rotten", { body: "r".repeat(100_000) });
  const root = join(gateway.folder, "pieces");
  for (const name of await readdir(root, { recursive: true })) {
    if (!/[0-9a-f]{8}-[0-9a-f]{12}$/.test(name)) continue;
    const file = await open(join(root, name), "r+");
    const { size } = await file.stat();
    if (size < 200_000) await file.write("!", 50_000);
    await file.close();
  }
  const answer = await call("GET", "/box/rotten");
  assert.deepEqual([answer.status, /<Code>InternalError</.test(answer.body)], [500, true]);
  const logged = gateway.lines.some(({ level, fields }) => level === "error" && fields.key === "rotten");
  assert.ok(logged);
});

test("deletes on conditions, by the SDK: one and many; what fails stays and is named", async () => {
  const [s3, Bucket] = [gateway.client(), "box"];
  const stored = async (Key: string): Promise<string> => (await s3.send(new PutObjectCommand({ Bucket, Key, Body: Key }))).ETag!;
  const [one, two] = [await stored("del/one"), await stored("del/two")];
  await stored("del/three");
  await assert.rejects(s3.send(new DeleteObjectCommand({ Bucket, Key: "del/one", IfMatch: two })), { name: "PreconditionFailed" });
  await assert.rejects(s3.send(new DeleteObjectCommand({ Bucket, Key: "del/none", IfMatch: "*" })), { name: "NoSuchKey" });
  const Objects = [
    { Key: "del/one", ETag: two },
    { Key: "del/two", ETag: two, Size: 7 },
    { Key: "del/three", Size: 8 },
    { Key: "del/none", Size: 1 },
  ];
  const { Deleted = [], Errors = [] } = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  assert.deepEqual(new Set(Deleted.map(({ Key }) => Key)), new Set(["del/none", "del/two"]));
  const refused = Errors.map(({ Key, Code }) => `${Key} ${Code}`);
  assert.deepEqual(new Set(refused), new Set(["del/one PreconditionFailed", "del/three PreconditionFailed"]));
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "del/one", IfMatch: one }));
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix: "del/" }));
  assert.deepEqual(
    Contents.map(({ Key }) => Key),
    ["del/three"],
  );
});

test("names that S3 does not know: C++ SDK, browsers, CloudFront: served, counted; of S3's own a 501", async () => {
  const ignored = async (): Promise<number> =>
    (await gateway.metrics.text())
      .split("\n")
      .reduce((sum, line) => sum + (line.startsWith("s3_ignored_fields_total{") ? Number(line.split(" ").at(-1)) : 0), 0);
  const before = await ignored();
  const versioned = { headers: { "x-amz-api-version": "2006-03-01" } };
  assert.equal((await call("PUT", "/box/cpp", { ...versioned, body: "bytes" })).status, 200);
  assert.equal((await call("HEAD", "/box", versioned)).status, 200);
  assert.equal((await call("GET", "/box", { ...versioned, query: [["list-type", "2"]] })).status, 200);
  const query: [string, string][] = [
    ["v", "1"],
    ["utm_source", "x"],
    ["1699999999", ""],
  ];
  const found = await call("GET", "/box/cpp", { query });
  assert.deepEqual([found.status, found.body], [200, "bytes"]);
  const signed = sign({ method: "GET", path: "/box/cpp" }, { key: ANN, host: gateway.address });
  const byProxy = await send(gateway.address, { ...signed, headers: { ...signed.headers, "x-amz-cf-id": "added on the way" } });
  assert.deepEqual([byProxy.status, byProxy.body], [200, "bytes"]);
  const guarded = await send(gateway.address, { ...signed, headers: { ...signed.headers, "x-amz-checksum-mode": "ENABLED" } });
  assert.equal(guarded.status, 403, "a header with a meaning needs the signature");
  assert.equal((await call("GET", "/box/cpp", { query: [["torrent", ""]] })).status, 501);
  assert.equal((await ignored()) - before, 7);
});

test("lists: an empty continuation token is the first page and comes back, as each token that was sent does", async () => {
  const query = (token: string): [string, string][] => [
    ["list-type", "2"],
    ["max-keys", "1"],
    ["continuation-token", token],
  ];
  assert.equal((await call("PUT", "/tokens")).status, 200);
  for (const key of ["one", "two"]) assert.equal((await call("PUT", `/tokens/${key}`, { body: key })).status, 200);
  const first = (await call("GET", "/tokens", { query: query("") })).body;
  assert.match(first, /<ContinuationToken><\/ContinuationToken>.*<Key>one</s);
  const next = /<NextContinuationToken>([^<]+)</.exec(first)![1]!;
  assert.match((await call("GET", "/tokens", { query: query(next) })).body, new RegExp(`<ContinuationToken>${next}<.*<Key>two<`, "s"));
});

test("lists: encoding-type=url encodes Delimiter, Prefix, Marker, NextMarker and Key of version 1 too", async () => {
  assert.equal((await call("PUT", "/encoded")).status, 200);
  for (const key of ["a b/1 x", "a b/2 x"]) assert.equal((await call("PUT", `/encoded/${key}`, { body: key })).status, 200);
  const query: [string, string][] = [
    ["encoding-type", "url"],
    ["prefix", "a b/"],
    ["delimiter", " "],
    ["marker", "a b/ "],
    ["max-keys", "1"],
  ];
  const { body } = await call("GET", "/encoded", { query });
  for (const [name, value] of [
    ["Prefix", "a%20b/"],
    ["Delimiter", "%20"],
    ["Marker", "a%20b/%20"],
    ["NextMarker", "a%20b/1%20"],
  ])
    assert.match(body, new RegExp(`<${name}>${value}</${name}>`), body);
});
