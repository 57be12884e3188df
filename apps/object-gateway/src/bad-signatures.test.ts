// Signatures that must be refused, in headers and in addresses.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { ROUTES, type Route } from "./http/routes.ts";
import { ANN } from "./test/gateway.ts";
import type { Answer } from "./test/http-client.ts";
import { bad, requests, testRefusals, type Case } from "./test/refusals.ts";
import type { Signed } from "./test/signing.ts";

const { call, presigned, raw, host, send, signed } = requests;
const md5Of = (body: string): string => createHash("md5").update(body).digest("base64");
const MINUTE = 60_000;

const SIGV4: readonly Case[] = [
  bad("no signature", "403 AccessDenied", () => raw(["GET /kept/k HTTP/1.1", host()])),
  bad("no signature, an unknown operation", "403 AccessDenied", () => raw(["GET /kept?acl HTTP/1.1", host()])),
  bad("an unknown key", "403 InvalidAccessKeyId", () => call("GET", "/kept/k", { key: { ...ANN, accessKeyId: "UNKNOWN" } })),
  bad("another secret", "403 SignatureDoesNotMatch", () => call("GET", "/kept/k", { key: { ...ANN, secretAccessKey: "guess-and-guess" } })),
  bad("version 2", "400 InvalidRequest", () => raw(["GET /kept/k HTTP/1.1", host(), "Authorization: AWS ANNSKEY:c2lnbmF0dXJl"])),
  bad("another region", "400 AuthorizationHeaderMalformed", () => call("GET", "/kept/k", { region: "eu-west-1" })),
  bad("another service", "400 AuthorizationHeaderMalformed", () => call("GET", "/kept/k", { service: "s4" })),
  bad("16 minutes ago", "403 RequestTimeTooSkewed", () => call("GET", "/kept/k", { nowMs: Date.now() - 16 * MINUTE })),
  bad("in 16 minutes", "403 RequestTimeTooSkewed", () => call("GET", "/kept/k", { nowMs: Date.now() + 16 * MINUTE })),
  bad("an x-amz header that is not signed", "403 AccessDenied", () =>
    call("PUT", "/kept/k", { body: "new", unsigned: { "x-amz-meta-a": "1" } }),
  ),
  bad("another path than was signed", "403 SignatureDoesNotMatch", () => send({ ...signed("GET", "/kept/k"), target: "/kept/large" })),
  bad("another method than was signed", "403 SignatureDoesNotMatch", () => send({ ...signed("GET", "/kept/k"), method: "DELETE" })),
  bad("another query than was signed", "403 SignatureDoesNotMatch", () => send({ ...signed("GET", "/kept"), target: "/kept?prefix=x" })),
  bad("another body than was signed", "400 XAmzContentSHA256Mismatch", () =>
    send({ ...signed("PUT", "/kept/k", { body: "new" }), body: Buffer.from("NEW") }),
  ),
  bad("an unknown payload", "400 InvalidArgument", () => call("PUT", "/kept/k", { body: "new", payload: "STREAMING-WHATEVER" })),
  bad("an unknown payload, another route", "400 InvalidArgument", () => call("GET", "/kept", { payload: "STREAMING-WHATEVER" })),
  bad("trailers with a forged signature", "403 SignatureDoesNotMatch", () =>
    call("PUT", "/kept/k", {
      key: { ...ANN, secretAccessKey: "guess-and-guess" },
      body: "3\r\nnew\r\n0\r\n\r\n",
      payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      headers: { "x-amz-decoded-content-length": "3" },
    }),
  ),
  bad("a trailer without an announcement", "400 MalformedTrailerError", () =>
    call("PUT", "/kept/k", {
      body: "3\r\nnew\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
      payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      headers: { "x-amz-decoded-content-length": "3" },
    }),
  ),
  bad("another checksum in the trailer", "400 BadDigest", () =>
    call("PUT", "/kept/k", {
      body: "3\r\nnew\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
      payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      headers: { "x-amz-decoded-content-length": "3", "x-amz-trailer": "x-amz-checksum-crc32" },
    }),
  ),
  bad("fewer bytes than announced", "400 IncompleteBody", () =>
    call("PUT", "/kept/k", {
      body: "2\r\nne\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
      payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
      headers: { "x-amz-decoded-content-length": "3", "x-amz-trailer": "x-amz-checksum-crc32" },
    }),
  ),
  bad("a digest that is none", "400 InvalidDigest", () => call("PUT", "/kept/k", { body: "new", headers: { "content-md5": "!" } })),
  bad("another digest", "400 BadDigest", () => call("PUT", "/kept/k", { body: "new", headers: { "content-md5": md5Of("old") } })),
  bad("AssumeRole, as clients of STS send it", "501 NotImplemented", () =>
    call("POST", "/", {
      service: "sts",
      body: "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::1:role/r&RoleSessionName=s",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    }),
  ),
  bad("a session token", "400 InvalidToken", () => call("GET", "/kept/k", { headers: { "x-amz-security-token": "t" } })),
];

const PRESIGNED: readonly Case[] = [
  bad("metadata with a line break", "400 InvalidArgument", () =>
    send(presigned("PUT", "/kept/k", { body: "new", query: [["x-amz-meta-a", "b\r\nc: d"]] })),
  ),
  bad("metadata whose name is no header's", "400 InvalidArgument", () =>
    send(presigned("PUT", "/kept/k", { body: "new", query: [["x-amz-meta-a b", "c"]] })),
  ),
  bad("expired by a second", "403 AccessDenied", () =>
    send(presigned("GET", "/kept/k", { nowMs: Date.now() - 11_000, expiresSeconds: 10 })),
  ),
  bad("never valid", "400 AuthorizationQueryParametersError", () => send(presigned("GET", "/kept/k", { expiresSeconds: 0 }))),
  bad("valid backwards", "400 AuthorizationQueryParametersError", () => send(presigned("GET", "/kept/k", { expiresSeconds: -1 }))),
  bad("valid for more than a week", "400 AuthorizationQueryParametersError", () =>
    send(presigned("GET", "/kept/k", { expiresSeconds: 604_801 })),
  ),
  bad("from the future", "403 AccessDenied", () => send(presigned("GET", "/kept/k", { nowMs: Date.now() + 16 * MINUTE }))),
  bad("another method", "403 SignatureDoesNotMatch", () => send({ ...presigned("GET", "/kept/k"), method: "DELETE" })),
  bad("another key", "403 SignatureDoesNotMatch", () =>
    send({ ...presigned("GET", "/kept/k"), target: presigned("GET", "/kept/k").target.replace("/kept/k", "/kept/large") }),
  ),
  bad("a parameter more", "403 SignatureDoesNotMatch", () =>
    send({
      ...presigned("GET", "/kept/k"),
      target: `${presigned("GET", "/kept/k").target}&response-content-type=text%2Fhtml`,
    }),
  ),
  bad("an override with a line break", "400 InvalidArgument", () =>
    send(presigned("GET", "/kept/k", { query: [["response-content-type", "a\r\nset-cookie: b"]] })),
  ),
  bad("both ways", "400 InvalidArgument", () => send({ ...presigned("GET", "/kept/k"), headers: signed("GET", "/kept/k").headers })),
  bad("a header that is not signed", "403 AccessDenied", () =>
    send(presigned("PUT", "/kept/k", { body: "new", unsigned: { "x-amz-acl": "private" } })),
  ),
  bad("a feature in the query", "400 AccessControlListNotSupported", () =>
    send(presigned("PUT", "/kept/k", { body: "new", query: [["x-amz-acl", "public-read"]] })),
  ),
  bad("another checksum in the query", "400 BadDigest", () =>
    send(presigned("PUT", "/kept/k", { body: "new", query: [["x-amz-checksum-crc32", "AAAAAQ=="]] })),
  ),
  bad("a header's parameter in a request that is signed in its header", "501 NotImplemented", () =>
    call("PUT", "/kept/k", { body: "new", query: [["x-amz-acl", "public-read"]] }),
  ),
  bad("no signature", "400 AuthorizationQueryParametersError", () =>
    send({
      ...presigned("GET", "/kept/k"),
      target: presigned("GET", "/kept/k").target.replace(/&X-Amz-Signature=.*/, ""),
    }),
  ),
];

testRefusals({ SIGV4, PRESIGNED });

const PATHS = { service: "/", bucket: "/kept", object: "/kept/k" } as const;
const FORGED = { ...ANN, secretAccessKey: "guess-and-guess" };

/** A request of the operation, signed in its header or in its address. */
function requestOf(one: Route, form: "signed" | "presigned", key = ANN): Signed {
  const path = one.makesBucket ? "/other" : PATHS[one.level];
  const query = one.picks.map((name): [string, string] => [name, name === "partNumber" ? "1" : ""]);
  const headers = one.copies ? { "x-amz-copy-source": "/kept/large" } : {};
  return requests[form](one.method, path, { key, query, headers, ...(one.body ? { body: "x" } : {}) });
}

/** The last digit of the signature is another one. */
function spoiled(request: Signed): Signed {
  const other = (text: string): string =>
    text.replace(/(Signature=[0-9a-f]{63})([0-9a-f])/, (_, first: string, last: string) => `${first}${last === "0" ? "1" : "0"}`);
  const { authorization } = request.headers;
  return {
    ...request,
    target: other(request.target),
    headers: { ...request.headers, ...(authorization === undefined ? {} : { authorization: other(authorization) }) },
  };
}

/** Answers to HEAD have no code. */
const isRefused = (one: Route, { status, code }: Answer): boolean =>
  status === 403 && (one.method === "HEAD" || code === "SignatureDoesNotMatch");

test("[SEC5] signatures: each operation, signed in its header and in its address: refused with another secret, another digit, more query than was signed; nothing changed", async () => {
  const before = await requests.gateway.contents();
  for (const one of ROUTES) {
    for (const form of ["signed", "presigned"] as const) {
      const right = requestOf(one, form);
      const longer = { ...right, target: `${right.target}${right.target.includes("?") ? "&" : "?"}prefix=x` };
      for (const [what, request] of Object.entries({ secret: requestOf(one, form, FORGED), digit: spoiled(right), query: longer })) {
        const answer = await send(request);
        assert.ok(isRefused(one, answer), `${one.operation}, ${form}, another ${what}: ${answer.status} ${answer.code}`);
      }
    }
  }
  assert.deepEqual(await requests.gateway.contents(), before);
  for (const one of ROUTES.filter(({ method }) => method === "GET")) {
    for (const form of ["signed", "presigned"] as const) {
      const answer = await send(requestOf(one, form));
      assert.ok(answer.status !== 403, `${one.operation}, ${form}, as it was signed: ${answer.status} ${answer.code}`);
    }
  }
});
