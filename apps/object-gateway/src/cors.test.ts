// Cross-origin requests: rules as two generations of the official client put them, and what browsers are answered, by raw requests.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const ORIGIN = "https://app.example";
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start()));
after(() => gateway.remove());

interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const call = (key: AccessKey, method: string, path: string, asked: Asked = {}): Promise<Answer> =>
  send(gateway.address, sign({ method, path, ...asked }, { key, host: gateway.address }));

const unsigned = (method: string, target: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  send(gateway.address, { method, target, headers: { host: gateway.address, ...headers }, body: new Uint8Array(0) });

const preflight = (target: string, origin = ORIGIN, method = "PUT", more: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  unsigned("OPTIONS", target, { origin, "access-control-request-method": method, ...more });

/** Headers of CORS alone. */
const corsOf = ({ headers }: Answer): object =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("access-control-") || name === "vary"));

const VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
const RULE =
  `<CORSRule><AllowedOrigin>${ORIGIN}</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>` +
  "<AllowedHeader>x-amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule>";
const FOR_ALL = "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod></CORSRule>";
const CORS = [["cors", ""]] as const;

async function bucketOf(name: string, ...rules: readonly string[]): Promise<string> {
  assert.equal((await call(ANN, "PUT", `/${name}`)).status, 200);
  assert.equal((await call(ANN, "PUT", `/${name}/k`, { body: "of ann" })).status, 200);
  const body = `<CORSConfiguration>${rules.join("")}</CORSConfiguration>`;
  if (rules.length > 0) assert.equal((await call(ANN, "PUT", `/${name}`, { query: CORS, body })).status, 200);
  return name;
}

for (const generation of ["2026", "2024"] as const) {
  describe(`CORS, client of ${generation}`, () => {
    const sdk = SDKS[generation];

    test("rules: put, read, in effect, removed", async () => {
      const Bucket = await bucketOf(`cors-${generation}`);
      const ann = generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN);
      await assert.rejects(ann.send(new sdk.GetBucketCorsCommand({ Bucket })), { name: "NoSuchCORSConfiguration" });
      const CORSRules = [
        {
          ID: "app",
          AllowedHeaders: ["x-amz-*"],
          AllowedMethods: ["GET", "PUT"],
          AllowedOrigins: [ORIGIN],
          ExposeHeaders: ["ETag"],
          MaxAgeSeconds: 60,
        },
        { AllowedMethods: ["HEAD"], AllowedOrigins: ["*"] },
      ];
      await ann.send(new sdk.PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules } }));
      assert.deepEqual((await ann.send(new sdk.GetBucketCorsCommand({ Bucket }))).CORSRules, CORSRules);
      assert.equal((await preflight(`/${Bucket}/k`)).status, 200);
      const bob = generation === "2026" ? gateway.client(BOB) : gateway.client2024(BOB);
      await assert.rejects(bob.send(new sdk.GetBucketCorsCommand({ Bucket })), { name: "AccessDenied" });
      await assert.rejects(bob.send(new sdk.DeleteBucketCorsCommand({ Bucket })), { name: "AccessDenied" });
      await ann.send(new sdk.DeleteBucketCorsCommand({ Bucket }));
      assert.equal((await preflight(`/${Bucket}/k`)).status, 403);
    });
  });
}

test("preflight: what the first fitting rule says; nothing without an origin or a method", async () => {
  const bucket = await bucketOf("preflights", RULE, FOR_ALL);
  const asked = { "access-control-request-headers": "X-Amz-Date, x-amz-content-sha256" };
  assert.deepEqual(corsOf(await preflight(`/${bucket}/new/key`, ORIGIN, "PUT", asked)), {
    "access-control-allow-origin": ORIGIN,
    "access-control-allow-credentials": "true",
    "access-control-allow-methods": "PUT, GET",
    "access-control-allow-headers": "x-amz-date, x-amz-content-sha256",
    "access-control-expose-headers": "ETag",
    "access-control-max-age": "60",
    vary: VARY,
  });
  assert.deepEqual(corsOf(await preflight(`/${bucket}`, "https://other.example", "HEAD")), {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "HEAD",
    vary: VARY,
  });
  const refused: readonly (readonly [headers: Readonly<Record<string, string>>, expected: string])[] = [
    [{ "access-control-request-method": "PUT" }, "400 BadRequest"],
    [{ origin: ORIGIN }, "400 BadRequest"],
    [{ origin: ORIGIN, "access-control-request-method": "PATCH" }, "400 BadRequest"],
    [{ origin: ORIGIN, "access-control-request-method": "PUT", "access-control-request-headers": "a b" }, "400 BadRequest"],
    [{ origin: ORIGIN, "access-control-request-method": "PUT", "access-control-request-headers": "cookie" }, "403 AccessForbidden"],
    [{ origin: ORIGIN, "access-control-request-method": "DELETE" }, "403 AccessForbidden"],
    [{ origin: "https://other.example", "access-control-request-method": "PUT" }, "403 AccessForbidden"],
  ];
  for (const [headers, expected] of refused) {
    const { status, code } = await unsigned("OPTIONS", `/${bucket}/k`, headers);
    assert.equal(`${status} ${code}`, expected, JSON.stringify(headers));
  }
});

test("preflight: a refusal is the same for a bucket without such a rule, without rules, and one that is not there", async () => {
  const names = [await bucketOf("with-rules", RULE), await bucketOf("without-rules"), "not-there", "No_Bucket", "x".repeat(300)];
  const answers = await Promise.all(names.map((name) => preflight(`/${name}/k`, "https://other.example")));
  const seen = answers.map(({ status, body, headers }, at) => ({
    status,
    names: Object.keys(headers).toSorted(),
    body: body.replaceAll(names[at]!, "NAME").replace(/<RequestId>\w+/, ""),
  }));
  for (const one of seen) assert.deepEqual(one, seen[0]);
  assert.equal(seen[0]!.status, 403);
});

test("other requests: headers for the page of an allowed origin, on errors too; vary for all; a page is allowed nothing more", async () => {
  const bucket = await bucketOf("pages", RULE, FOR_ALL);
  const allowed = {
    "access-control-allow-origin": ORIGIN,
    "access-control-allow-credentials": "true",
    "access-control-allow-methods": "PUT, GET",
    "access-control-expose-headers": "ETag",
    "access-control-max-age": "60",
    vary: VARY,
  };
  const headers = { origin: ORIGIN };
  assert.deepEqual(corsOf(await call(ANN, "GET", `/${bucket}/k`, { headers })), allowed);
  assert.deepEqual(corsOf(await call(ANN, "PUT", `/${bucket}/new`, { headers, body: "x" })), allowed);
  const missing = await call(ANN, "GET", `/${bucket}/none`, { headers });
  assert.deepEqual([missing.status, corsOf(missing)], [404, allowed]);
  const denied = await unsigned("GET", `/${bucket}/k`, headers);
  assert.deepEqual([denied.status, corsOf(denied)], [403, allowed]);
  assert.deepEqual(corsOf(await call(ANN, "DELETE", `/${bucket}/none`, { headers })), { vary: VARY });
  assert.deepEqual(corsOf(await call(ANN, "GET", `/${bucket}/k`)), { vary: VARY });
  const plain = await bucketOf("no-pages");
  assert.deepEqual(corsOf(await call(ANN, "GET", `/${plain}/k`, { headers })), {});
});

test("refusals leave rows and blobs as they were", async () => {
  const bucket = await bucketOf("cors-untouched", RULE);
  await gateway.settled();
  const start = await gateway.contents();
  const body = `<CORSConfiguration>${FOR_ALL}</CORSConfiguration>`;
  const refused: readonly (readonly [pending: Promise<Answer>, expected: string])[] = [
    [call(ANN, "PUT", `/${bucket}`, { query: CORS, body: "<CORSConfiguration/>" }), "400 MalformedXML"],
    [call(ANN, "PUT", `/${bucket}`, { query: CORS, body: body.replace("HEAD", "PATCH") }), "400 InvalidRequest"],
    [call(ANN, "PUT", `/${bucket}`, { query: CORS }), "400 MissingRequestBodyError"],
    [call(BOB, "PUT", `/${bucket}`, { query: CORS, body }), "403 AccessDenied"],
    [call(BOB, "DELETE", `/${bucket}`, { query: CORS }), "403 AccessDenied"],
    [unsigned("DELETE", `/${bucket}?cors`), "403 AccessDenied"],
    [preflight(`/${bucket}/k`, "https://other.example"), "403 AccessForbidden"],
    [call(ANN, "PUT", "/not-there", { query: CORS, body }), "404 NoSuchBucket"],
  ];
  for (const [pending, expected] of refused) {
    const { status, code } = await pending;
    assert.equal(`${status} ${code}`, expected);
  }
  assert.deepEqual(await gateway.contents(), start);
});
