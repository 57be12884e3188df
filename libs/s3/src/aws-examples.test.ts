// Signatures we did not make: the examples AWS publishes for Signature Version 4 with S3.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { checkedBody, createVerifier, fieldsOf, parseTarget, type Verified } from "./index.ts";

const verifier = createVerifier({
  region: "us-east-1",
  credential: (accessKey) =>
    accessKey === "AKIAIOSFODNN7EXAMPLE" ? { secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", tenant: "example" } : undefined,
});
const NOW = Date.UTC(2013, 4, 24);
const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

function authorization(signedHeaders: string, signature: string): [string, string] {
  const credential = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
  return ["authorization", `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${signedHeaders},Signature=${signature}`];
}

function verify(method: string, target: string, headers: [string, string][]): Verified {
  return verifier.verify({ method, headers: fieldsOf(headers) }, parseTarget(target, undefined), NOW);
}

const host: [string, string] = ["host", "examplebucket.s3.amazonaws.com"];

test("verifier: AWS example GET object with a range: accepted", () => {
  const verified = verify("GET", "/test.txt", [
    host,
    ["range", "bytes=0-9"],
    ["x-amz-content-sha256", EMPTY],
    ["x-amz-date", "20130524T000000Z"],
    authorization("host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
  ]);
  assert.equal(verified.tenant, "example");
});

test("verifier: AWS example PUT object with a dollar sign in the key: accepted", () => {
  verify("PUT", "/test$file.text", [
    ["date", "Fri, 24 May 2013 00:00:00 GMT"],
    host,
    ["x-amz-date", "20130524T000000Z"],
    ["x-amz-storage-class", "REDUCED_REDUNDANCY"],
    ["x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"],
    authorization(
      "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
      "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
  ]);
});

test("verifier: AWS example GET bucket lifecycle: accepted", () => {
  verify("GET", "/?lifecycle", [
    host,
    ["x-amz-date", "20130524T000000Z"],
    ["x-amz-content-sha256", EMPTY],
    authorization("host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
  ]);
});

test("verifier: AWS example list objects: accepted", () => {
  verify("GET", "/?max-keys=2&prefix=J", [
    host,
    ["x-amz-date", "20130524T000000Z"],
    ["x-amz-content-sha256", EMPTY],
    authorization("host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
  ]);
});

test("verifier: AWS example presigned URL: accepted, unsigned payload", () => {
  const target =
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request" +
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host" +
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
  const verified = verify("GET", target, [host]);
  assert.deepEqual([verified.via, verified.payload.kind], ["query", "unsigned"]);
});

async function* socket(bytes: Uint8Array, sizeBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += sizeBytes) yield bytes.subarray(at, at + sizeBytes);
}

const CHUNKED_PUT: [string, string][] = [
  ["host", "s3.amazonaws.com"],
  ["x-amz-date", "20130524T000000Z"],
  ["x-amz-storage-class", "REDUCED_REDUNDANCY"],
  ["x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"],
  ["content-encoding", "aws-chunked"],
  ["x-amz-decoded-content-length", "66560"],
  ["content-length", "66824"],
  authorization(
    "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
    "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
  ),
];
const a = (length: number): string => "a".repeat(length);
const CHUNKED_BODY = Buffer.from(
  `10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n${a(65536)}\r\n` +
    `400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n${a(1024)}\r\n` +
    "0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n",
);

for (const size of [7, 1000, 100_000]) {
  test(`checkedBody: AWS example of signed chunks, ${size} bytes at a time: 66560 bytes`, async () => {
    const verified = verify("PUT", "/examplebucket/chunkObject.txt", CHUNKED_PUT);
    const body = checkedBody({ body: socket(CHUNKED_BODY, size) }, verified);
    assert.equal(CHUNKED_BODY.length, 66824);
    let bytes = 0;
    for await (const blob of body.chunks) bytes += blob.length;
    assert.equal(bytes, 66560);
    assert.equal(body.finish().md5Hex, createHash("md5").update(a(66560)).digest("hex"));
  });
}

test("checkedBody: AWS example of signed chunks with a signed trailer: its checksum is that of the bytes", async () => {
  const headers: [string, string][] = [
    ["host", "s3.amazonaws.com"],
    ["x-amz-date", "20130524T000000Z"],
    ["x-amz-storage-class", "REDUCED_REDUNDANCY"],
    ["x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"],
    ["content-encoding", "aws-chunked"],
    ["x-amz-decoded-content-length", "66560"],
    ["x-amz-trailer", "x-amz-checksum-crc32c"],
    authorization(
      "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
      "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    ),
  ];
  const bytes = Buffer.from(
    `10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n${a(65536)}\r\n` +
      `400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n${a(1024)}\r\n` +
      "0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n" +
      "x-amz-checksum-crc32c:sOO8/Q==\r\n" +
      "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n",
  );
  const body = checkedBody({ body: socket(bytes, 10_000) }, verify("PUT", "/examplebucket/chunkObject.txt", headers));
  let length = 0;
  for await (const blob of body.chunks) length += blob.length;
  assert.equal(length, 66560);
  assert.deepEqual(body.finish().checksum, { algorithm: "CRC32C", type: "FULL_OBJECT", value: "sOO8/Q==" });
});
