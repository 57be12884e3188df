// What the verifier refuses, row by row, and with which code. Every row differs from a request that is accepted in one thing only.
import assert from "node:assert/strict";
import { test } from "node:test";
import { S3Error, type S3ErrorCode } from "./index.ts";
import {
  ACCESS_KEY,
  EMPTY_SHA256,
  NOW_MS,
  presigned,
  scopeOf,
  SECRET,
  signed,
  verify,
  type Header,
  type Plan,
  type Request,
} from "./test/signer.ts";

const MINUTE_MS = 60_000;

function outcome(request: () => Request, nowMs = NOW_MS): S3ErrorCode | "accepted" {
  try {
    verify(request(), nowMs);
    return "accepted";
  } catch (error) {
    if (!(error instanceof S3Error)) throw error;
    assert.ok(!JSON.stringify([error.message, error.elements]).includes(SECRET), "a secret in an error");
    return error.code;
  }
}

const without = (request: Request, name: string): Request => ({ ...request, headers: request.headers.filter(([other]) => other !== name) });
const withHeader = (request: Request, ...headers: Header[]): Request => ({ ...request, headers: [...request.headers, ...headers] });
const replaced = (request: Request, name: string, value: string): Request => ({
  ...request,
  headers: request.headers.map((header) => (header[0] === name ? [name, value] : header)),
});
const authorized = (authorization: Plan["authorization"] & object): Request => signed({ authorization });

const HEADER_ROWS: readonly (readonly [what: string, request: () => Request, code: S3ErrorCode | "accepted", nowMs?: number])[] = [
  ["as it is", () => signed({}), "accepted"],
  ["no Authorization", () => without(signed({}), "authorization"), "AccessDenied"],
  ["empty Authorization", () => authorized(() => ""), "InvalidRequest"],
  ["Authorization twice", () => withHeader(signed({}), ["authorization", "AWS4-HMAC-SHA256 x"]), "InvalidArgument"],
  ["version 2", () => authorized(() => `AWS ${ACCESS_KEY}:c2lnbmF0dXJl`), "InvalidRequest"],
  ["Basic", () => authorized(() => "Basic QUtJRDpz"), "InvalidRequest"],
  ["another algorithm", () => authorized((value) => value.replace("SHA256", "SHA1")), "InvalidRequest"],
  ["the asymmetric algorithm", () => authorized((value) => value.replace("AWS4-HMAC", "AWS4-ECDSA-P256")), "InvalidRequest"],
  ["the algorithm in lower case", () => authorized((value) => value.replace("AWS4-HMAC-SHA256", "aws4-hmac-sha256")), "InvalidRequest"],
  ["no Credential", () => authorized((value) => value.replace(/Credential=[^,]+, /, "")), "AuthorizationHeaderMalformed"],
  ["no SignedHeaders", () => authorized((value) => value.replace(/SignedHeaders=[^,]+, /, "")), "AuthorizationHeaderMalformed"],
  ["no Signature", () => authorized((value) => value.replace(/, Signature=.+/, "")), "AuthorizationHeaderMalformed"],
  ["Signature twice", () => authorized((value) => `${value}, Signature=${"0".repeat(64)}`), "AuthorizationHeaderMalformed"],
  ["an unknown field", () => authorized((value) => `${value}, Extra=1`), "AuthorizationHeaderMalformed"],
  ["no blanks behind the commas", () => authorized((value) => value.replaceAll(", ", ",")), "accepted"],
  [
    "a signature in upper case",
    () => authorized((value) => value.replace(/[0-9a-f]{64}$/, (hex) => hex.toUpperCase())),
    "SignatureDoesNotMatch",
  ],
  ["a signature too short", () => authorized((value) => value.slice(0, -1)), "SignatureDoesNotMatch"],
  ["a signature too long", () => authorized((value) => `${value}0`), "SignatureDoesNotMatch"],
  ["a signature of zeros", () => authorized((value) => value.replace(/[0-9a-f]{64}$/, "0".repeat(64))), "SignatureDoesNotMatch"],
  ["a credential with four parts", () => authorized((value) => value.replace("/s3/", "/")), "AuthorizationHeaderMalformed"],
  ["a credential with six parts", () => authorized((value) => value.replace("/s3/", "/s3/x/")), "AuthorizationHeaderMalformed"],
  [
    "a credential with something behind its end",
    () => authorized((value) => value.replace("aws4_request", "aws4_request/x")),
    "AuthorizationHeaderMalformed",
  ],
  [
    "a credential with another end",
    () => authorized((value) => value.replace("aws4_request", "aws4_requests")),
    "AuthorizationHeaderMalformed",
  ],
  ["a credential without a key", () => signed({ accessKey: "" }), "AuthorizationHeaderMalformed"],
  ["an unknown key", () => signed({ accessKey: "AKIDNOBODY" }), "InvalidAccessKeyId"],
  ["a key that is a property of objects", () => signed({ accessKey: "__proto__" }), "InvalidAccessKeyId"],
  ["the key of another tenant, my secret", () => signed({ accessKey: "AKIDOTHER" }), "SignatureDoesNotMatch"],
  ["a wrong secret", () => signed({ secret: "guess" }), "SignatureDoesNotMatch"],
  ["a wrong region", () => signed({ region: "us-east-1" }), "AuthorizationHeaderMalformed"],
  ["a wrong service", () => signed({ service: "sqs" }), "AuthorizationHeaderMalformed"],
  ["a request of STS", () => signed({ service: "sts" }), "NotImplemented"],
  ["a scope of yesterday", () => signed({ date: "20261120" }), "AuthorizationHeaderMalformed"],
  ["a scope date that is none", () => signed({ date: "2026112" }), "AuthorizationHeaderMalformed"],
  ["no date", () => without(signed({}), "x-amz-date"), "AccessDenied"],
  ["two dates", () => withHeader(signed({}), ["x-amz-date", "20261121T093000Z"]), "InvalidArgument"],
  ["a date that is none", () => replaced(signed({}), "x-amz-date", "2026-11-21T09:30:00Z"), "AccessDenied"],
  ["a date that does not exist", () => replaced(signed({}), "x-amz-date", "20261131T093000Z"), "AccessDenied"],
  ["a date as HTTP writes it", () => signed({ dateSent: "Sat, 21 Nov 2026 09:30:00 GMT" }), "accepted"],
  ["a date as HTTP writes it, of another second", () => signed({ dateSent: "Sat, 21 Nov 2026 09:30:01 GMT" }), "SignatureDoesNotMatch"],
  ["14:59 behind", () => signed({}), "accepted", NOW_MS + 15 * MINUTE_MS - 1000],
  ["15:00 behind", () => signed({}), "accepted", NOW_MS + 15 * MINUTE_MS],
  ["15:00.001 behind", () => signed({}), "RequestTimeTooSkewed", NOW_MS + 15 * MINUTE_MS + 1],
  ["15:01 behind", () => signed({}), "RequestTimeTooSkewed", NOW_MS + 15 * MINUTE_MS + 1000],
  ["14:59 ahead", () => signed({}), "accepted", NOW_MS - 15 * MINUTE_MS + 1000],
  ["15:00 ahead", () => signed({}), "accepted", NOW_MS - 15 * MINUTE_MS],
  ["15:01 ahead", () => signed({}), "RequestTimeTooSkewed", NOW_MS - 15 * MINUTE_MS - 1000],
  ["no host", () => without(signed({}), "host"), "SignatureDoesNotMatch"],
  ["an unsigned host", () => signed({ signedHeaders: "x-amz-content-sha256;x-amz-date" }), "AccessDenied"],
  ["an unsigned date", () => signed({ signedHeaders: "host;x-amz-content-sha256" }), "AccessDenied"],
  ["an unsigned payload hash", () => signed({ signedHeaders: "host;x-amz-date" }), "AccessDenied"],
  ["an unsigned x-amz-meta", () => signed({ unsigned: [["x-amz-meta-a", "b"]] }), "AccessDenied"],
  ["an unsigned x-amz-copy-source", () => signed({ method: "PUT", unsigned: [["x-amz-copy-source", "other/key"]] }), "AccessDenied"],
  [
    "an unsigned header of a proxy",
    () =>
      signed({
        unsigned: [
          ["x-amzn-trace-id", "Root=1"],
          ["x-forwarded-for", "::1"],
        ],
      }),
    "accepted",
  ],
  ["an unsigned content-type", () => signed({ unsigned: [["content-type", "a/b"]] }), "accepted"],
  [
    "a signed header that is not there",
    () => signed({ signedHeaders: "host;range;x-amz-content-sha256;x-amz-date" }),
    "SignatureDoesNotMatch",
  ],
  ["signed headers out of order", () => signed({ signedHeaders: "x-amz-date;host;x-amz-content-sha256" }), "AuthorizationHeaderMalformed"],
  ["a signed header twice", () => signed({ signedHeaders: "host;host;x-amz-content-sha256;x-amz-date" }), "AuthorizationHeaderMalformed"],
  ["signed headers in upper case", () => signed({ signedHeaders: "HOST;x-amz-content-sha256;x-amz-date" }), "AuthorizationHeaderMalformed"],
  [
    "no signed headers",
    () => authorized((value) => value.replace(/SignedHeaders=[^,]+/, "SignedHeaders=")),
    "AuthorizationHeaderMalformed",
  ],
  ["an empty signed header", () => signed({ signedHeaders: ";host;x-amz-content-sha256;x-amz-date" }), "AuthorizationHeaderMalformed"],
  ["a session token", () => signed({ headers: [["x-amz-security-token", "t"]] }), "InvalidToken"],
  ["no payload hash", () => without(signed({}), "x-amz-content-sha256"), "SignatureDoesNotMatch"],
  ["no payload hash, nor signed", () => without(signed({ signedHeaders: "host;x-amz-date" }), "x-amz-content-sha256"), "InvalidRequest"],
  ["another payload hash", () => replaced(signed({}), "x-amz-content-sha256", EMPTY_SHA256.replace("e", "f")), "SignatureDoesNotMatch"],
  ["UNSIGNED-PAYLOAD", () => signed({ payload: "UNSIGNED-PAYLOAD" }), "accepted"],
  ["signed hash, UNSIGNED-PAYLOAD sent", () => replaced(signed({}), "x-amz-content-sha256", "UNSIGNED-PAYLOAD"), "SignatureDoesNotMatch"],
  ["an empty payload hash", () => signed({ payload: "" }), "InvalidArgument"],
  ["a payload hash in upper case", () => signed({ payload: EMPTY_SHA256.toUpperCase() }), "InvalidArgument"],
  ["an unknown STREAMING word", () => signed({ payload: "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD" }), "InvalidArgument"],
  ["a STREAMING word in lower case", () => signed({ payload: "streaming-unsigned-payload-trailer" }), "InvalidArgument"],
  ["a STREAMING word that is not S3's", () => signed({ payload: "STREAMING-UNSIGNED-PAYLOAD" }), "InvalidArgument"],
  ["another method", () => ({ ...signed({}), method: "DELETE" }), "SignatureDoesNotMatch"],
  ["the method in lower case", () => ({ ...signed({}), method: "get" }), "SignatureDoesNotMatch"],
  ["another path", () => ({ ...signed({}), target: "/bucket/kex" }), "SignatureDoesNotMatch"],
  ["a path with a double slash", () => ({ ...signed({}), target: "/bucket//key" }), "SignatureDoesNotMatch"],
  ["a path with a dot", () => ({ ...signed({}), target: "/bucket/./key" }), "SignatureDoesNotMatch"],
  ["an escape of an unreserved character", () => ({ ...signed({}), target: "/bucket/%6bey" }), "accepted"],
  ["an escape in lower case", () => ({ ...signed({ target: "/bucket/%C3%BC" }), target: "/bucket/%c3%bc" }), "accepted"],
  ["an added parameter", () => ({ ...signed({}), target: "/bucket/key?acl" }), "SignatureDoesNotMatch"],
  ["a changed parameter", () => ({ ...signed({ target: "/b?a=1&b=2" }), target: "/b?a=1&b=3" }), "SignatureDoesNotMatch"],
  ["a parameter less", () => ({ ...signed({ target: "/b?a=1&b=2" }), target: "/b?a=1" }), "SignatureDoesNotMatch"],
  ["a parameter twice", () => ({ ...signed({ target: "/b?a=1&b=2" }), target: "/b?a=1&b=2&b=2" }), "SignatureDoesNotMatch"],
  ["a parameter's name in other case", () => ({ ...signed({ target: "/b?prefix=1" }), target: "/b?Prefix=1" }), "SignatureDoesNotMatch"],
  ["parameters in another order", () => ({ ...signed({ target: "/b?a=1&b=2" }), target: "/b?b=2&a=1" }), "accepted"],
  ["values of a parameter in another order", () => ({ ...signed({ target: "/b?a=2&a=1" }), target: "/b?a=1&a=2" }), "accepted"],
  ["a parameter without a value", () => ({ ...signed({ target: "/b?uploads" }), target: "/b?uploads=" }), "accepted"],
  [
    "a signed header changed",
    () => replaced(signed({ headers: [["range", "bytes=0-9"]] }), "range", "bytes=0-99"),
    "SignatureDoesNotMatch",
  ],
  [
    "a signed header twice, the second added",
    () => withHeader(signed({ headers: [["range", "a"]] }), ["range", "b"]),
    "SignatureDoesNotMatch",
  ],
  [
    "double spaces in a signed value",
    () => replaced(signed({ headers: [["x-amz-meta-a", "x y"]] }), "x-amz-meta-a", "  x   y "),
    "accepted",
  ],
  [
    "the case of a signed value",
    () => replaced(signed({ headers: [["x-amz-meta-a", "x"]] }), "x-amz-meta-a", "X"),
    "SignatureDoesNotMatch",
  ],
  ["an Authorization of 9 KiB", () => authorized((value) => value.padEnd(9 * 1024)), "AuthorizationHeaderMalformed"],
  ["both ways at once", () => ({ ...signed({}), target: `${presigned({}).target}` }), "InvalidArgument"],
  ["a header and X-Amz-Signature", () => signed({ target: "/bucket/key?X-Amz-Signature=0" }), "InvalidArgument"],
  ["a header and x-amz-credential", () => signed({ target: "/bucket/key?x-amz-credential=0" }), "InvalidArgument"],
  [
    "a header and version 2 in the query",
    () => signed({ target: "/bucket/key?AWSAccessKeyId=a&Signature=b&Expires=1" }),
    "InvalidArgument",
  ],
];

for (const [what, request, code, nowMs] of HEADER_ROWS) {
  test(`[SEC5] verifier: signed in the header, ${what}: ${code}`, () => assert.equal(outcome(request, nowMs), code));
}

const QUERY_ERROR = "AuthorizationQueryParametersError";
const QUERY_ROWS: readonly (readonly [what: string, request: () => Request, code: S3ErrorCode | "accepted", nowMs?: number])[] = [
  ["as it is", () => presigned({}), "accepted"],
  ["at its last second", () => presigned({}), "accepted", NOW_MS + 60_000],
  ["expired by a second", () => presigned({}), "AccessDenied", NOW_MS + 61_000],
  ["Expires 0", () => presigned({ expires: "0" }), QUERY_ERROR],
  ["Expires 1", () => presigned({ expires: "1" }), "accepted"],
  ["Expires -1", () => presigned({ expires: "-1" }), QUERY_ERROR],
  ["Expires 604800", () => presigned({ expires: "604800" }), "accepted"],
  ["Expires 604801", () => presigned({ expires: "604801" }), QUERY_ERROR],
  ["Expires 1e3", () => presigned({ expires: "1e3" }), QUERY_ERROR],
  ["Expires 60.0", () => presigned({ expires: "60.0" }), QUERY_ERROR],
  ["Expires with a blank", () => presigned({ expires: "%2060" }), QUERY_ERROR],
  ["Expires twice", () => presigned({ query: "X-Amz-Expires=604800" }), QUERY_ERROR],
  ["no Expires", () => presigned({ drop: "X-Amz-Expires" }), QUERY_ERROR],
  ["no Date", () => presigned({ drop: "X-Amz-Date" }), QUERY_ERROR],
  ["no Algorithm", () => presigned({ drop: "X-Amz-Algorithm" }), QUERY_ERROR],
  ["no Credential", () => presigned({ drop: "X-Amz-Credential" }), QUERY_ERROR],
  ["no SignedHeaders", () => presigned({ drop: "X-Amz-SignedHeaders" }), QUERY_ERROR],
  ["two signatures", () => ({ ...presigned({}), target: `${presigned({}).target}&X-Amz-Signature=${"0".repeat(64)}` }), QUERY_ERROR],
  ["a name in another case", () => ({ ...presigned({}), target: presigned({}).target.replace("X-Amz-Date", "x-amz-date") }), QUERY_ERROR],
  ["all names in lower case", () => ({ ...presigned({}), target: presigned({}).target.replaceAll("X-Amz-", "x-amz-") }), QUERY_ERROR],
  ["14:59 too early", () => presigned({}), "accepted", NOW_MS - 15 * MINUTE_MS + 1000],
  ["15:01 too early", () => presigned({}), "AccessDenied", NOW_MS - 15 * MINUTE_MS - 1000],
  ["PUT with the URL of a GET", () => ({ ...presigned({}), method: "PUT" }), "SignatureDoesNotMatch"],
  ["an added parameter", () => ({ ...presigned({}), target: `${presigned({}).target}&acl` }), "SignatureDoesNotMatch"],
  [
    "an added response-content-type",
    () => ({ ...presigned({}), target: `${presigned({}).target}&response-content-type=text/html` }),
    "SignatureDoesNotMatch",
  ],
  [
    "a longer life",
    () => ({ ...presigned({}), target: presigned({}).target.replace("Expires=60", "Expires=600") }),
    "SignatureDoesNotMatch",
  ],
  [
    "another key",
    () => ({ ...presigned({}), target: presigned({}).target.replace("/bucket/key", "/bucket/kex") }),
    "SignatureDoesNotMatch",
  ],
  ["a wrong region", () => presigned({ region: "us-east-1" }), QUERY_ERROR],
  ["a wrong service", () => presigned({ service: "ec2" }), QUERY_ERROR],
  ["a scope of another day", () => presigned({ date: "20261120" }), QUERY_ERROR],
  ["an unknown key", () => presigned({ accessKey: "AKIDNOBODY" }), "InvalidAccessKeyId"],
  ["an unsigned x-amz header", () => presigned({ unsigned: [["x-amz-acl", "public-read"]] }), "AccessDenied"],
  ["a signed x-amz header", () => presigned({ headers: [["x-amz-meta-a", "b"]] }), "accepted"],
  ["an unsigned content-type", () => presigned({ unsigned: [["content-type", "text/html"]] }), "accepted"],
  ["a host that is not signed", () => presigned({ headers: [["range", "a"]], signedHeaders: "range" }), "AccessDenied"],
  ["a session token", () => presigned({ query: "X-Amz-Security-Token=t" }), "InvalidToken"],
  ["a payload hash of its own", () => presigned({ query: `X-Amz-Content-Sha256=${EMPTY_SHA256}`, payload: EMPTY_SHA256 }), "accepted"],
  [
    "two payload hashes",
    () => presigned({ query: "X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", headers: [["x-amz-content-sha256", EMPTY_SHA256]] }),
    QUERY_ERROR,
  ],
  [
    "chunks with a trailer",
    () => presigned({ query: "X-Amz-Content-Sha256=STREAMING-UNSIGNED-PAYLOAD-TRAILER", payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER" }),
    "InvalidArgument",
  ],
  [
    "signed chunks",
    () => presigned({ query: "X-Amz-Content-Sha256=STREAMING-AWS4-HMAC-SHA256-PAYLOAD", payload: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" }),
    "InvalidArgument",
  ],
  [
    "version 2",
    () => ({ ...presigned({}), target: `/bucket/key?AWSAccessKeyId=${ACCESS_KEY}&Expires=9999999999&Signature=a` }),
    "InvalidRequest",
  ],
  ["nothing of it", () => ({ ...presigned({}), target: "/bucket/key" }), "AccessDenied"],
  ["a signature in the query alone", () => ({ ...presigned({}), target: "/bucket/key?X-Amz-Signature=0" }), QUERY_ERROR],
];

for (const [what, request, code, nowMs] of QUERY_ROWS) {
  test(`[SEC5] verifier: presigned, ${what}: ${code}`, () => assert.equal(outcome(request, nowMs), code));
}

test("verifier: a signature that does not match: the client sees what we hashed, not what it should be", () => {
  const request = signed({ authorization: (value) => value.replace(/[0-9a-f]{64}$/, "0".repeat(64)) });
  const right = /Signature=(\w+)/.exec(signed({}).headers.at(-1)![1])![1]!;
  assert.throws(
    () => verify(request),
    (error: S3Error) => {
      assert.match(error.elements["StringToSign"] ?? "", new RegExp(scopeOf({})));
      assert.match(error.elements["CanonicalRequest"] ?? "", /^GET\n\/bucket\/key\n/);
      assert.ok(!JSON.stringify(error.elements).includes(right));
      return true;
    },
  );
});

test("verifier: a key's secret changes: the old signature is refused at once", async () => {
  const { createVerifier, fieldsOf, parseTarget } = await import("./index.ts");
  let secret = SECRET;
  const changing = createVerifier({ region: "eu-test-1", credential: () => ({ secret, tenant: "t" }) });
  const request = signed({});
  const sent = { ...request, headers: fieldsOf(request.headers) };
  changing.verify(sent, parseTarget(request.target, undefined), NOW_MS);
  secret = "rotated";
  assert.throws(() => changing.verify(sent, parseTarget(request.target, undefined), NOW_MS), { code: "SignatureDoesNotMatch" });
});

test("verifier: presigned metadata: stands for headers; sent as well: twice, so refused when it is read", () => {
  const verified = verify(presigned({ method: "PUT", query: "x-amz-meta-a=b", headers: [["x-amz-meta-a", "c"]] }));
  assert.deepEqual(verified.headers.all("x-amz-meta-a"), ["c", "b"]);
  assert.throws(() => verified.headers.one("x-amz-meta-a"), { code: "InvalidArgument" });
});
