// Objects that a website answers with a redirect (x-amz-website-redirect-location): set and read by two generations of the official client and by raw
// requests, followed as browsers do; what is refused leaves rows and blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { postForm } from "./test/forms.ts";
import { ANN, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { presign, sign } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const SITES = "web.example";
const REDIRECT = "x-amz-website-redirect-location";
const BYTES_MAX = 2048;
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start({ config: { domain: "s3.example", websiteDomain: SITES } })));
after(() => gateway.remove());

interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const call = (method: string, path: string, asked: Asked = {}): Promise<Answer> =>
  send(gateway.address, sign({ method, path, ...asked }, { key: ANN, host: gateway.address }));

async function siteOf(bucket: string): Promise<string> {
  assert.equal((await call("PUT", `/${bucket}`)).status, 200);
  const statement = { Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${bucket}/*` };
  const policy = JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
  assert.equal((await call("PUT", `/${bucket}`, { query: [["policy", ""]], body: policy })).status, 204);
  const documents = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>error.html</Key></ErrorDocument>";
  const website = `<WebsiteConfiguration>${documents}</WebsiteConfiguration>`;
  assert.equal((await call("PUT", `/${bucket}`, { query: [["website", ""]], body: website })).status, 200);
  return bucket;
}

/** What a browser sees: the status, where it is sent, and the bytes. */
async function visit(bucket: string, target: string, more: Readonly<Record<string, string>> = {}, method = "GET"): Promise<string> {
  const headers = { host: `${bucket}.${SITES}`, ...more };
  const { status, body, headers: said } = await send(gateway.address, { method, target, headers, body: new Uint8Array(0) });
  return `${status} ${said["location"] ?? ""} ${body}`.trim();
}

/** Of the object, as HEAD says it. */
const redirectOf = async (path: string): Promise<string | undefined> => (await call("HEAD", path)).headers[REDIRECT];

for (const generation of ["2026", "2024"] as const) {
  describe(`redirects of objects, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const client = (): sdk2026.S3Client => (generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN));

    test("put, read by GET and HEAD, followed on the website, replaced by the next put", async () => {
      const [ann, Bucket, Key] = [client(), await siteOf(`put-${generation}`), "old.html"];
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "moved", WebsiteRedirectLocation: "/new.html" }));
      const got = await ann.send(new sdk.GetObjectCommand({ Bucket, Key }));
      assert.deepEqual([await got.Body!.transformToString(), got.WebsiteRedirectLocation], ["moved", "/new.html"]);
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }))).WebsiteRedirectLocation, "/new.html");
      assert.equal(await visit(Bucket, "/old.html"), "301 /new.html");
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "here" }));
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }))).WebsiteRedirectLocation, undefined);
      assert.equal(await visit(Bucket, "/old.html"), "200  here");
    });

    test("copies: the source's is not inherited, whatever the directive; a copy onto itself may set it", async () => {
      const [ann, Bucket] = [client(), await siteOf(`copy-${generation}`)];
      const source = { Bucket, Key: "a", Metadata: { kept: "yes" }, ContentType: "text/x", WebsiteRedirectLocation: "/a2" };
      await ann.send(new sdk.PutObjectCommand({ ...source, Body: "a" }));
      const copied = async (Key: string, more: Partial<sdk2026.CopyObjectCommandInput>): Promise<unknown> => {
        await ann.send(new sdk.CopyObjectCommand({ Bucket, Key, CopySource: `${Bucket}/a`, ...more }));
        const { WebsiteRedirectLocation, Metadata, ContentType } = await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }));
        return [WebsiteRedirectLocation, Metadata, ContentType];
      };
      assert.deepEqual(await copied("b", {}), [undefined, { kept: "yes" }, "text/x"]);
      assert.deepEqual(await copied("c", { WebsiteRedirectLocation: "https://c.example/" }), [
        "https://c.example/",
        { kept: "yes" },
        "text/x",
      ]);
      const replaced = { MetadataDirective: "REPLACE", Metadata: { other: "1" }, ContentType: "text/y" } as const;
      assert.deepEqual(await copied("d", replaced), [undefined, { other: "1" }, "text/y"]);
      assert.deepEqual(await copied("d", { ...replaced, WebsiteRedirectLocation: "/e" }), ["/e", { other: "1" }, "text/y"]);
      await assert.rejects(copied("a", {}), { name: "InvalidRequest" });
      assert.deepEqual(await copied("a", { WebsiteRedirectLocation: "/a3" }), ["/a3", { kept: "yes" }, "text/x"]);
    });

    test("uploads in parts: named when they are created", async () => {
      const [ann, Bucket, Key] = [client(), await siteOf(`parts-${generation}`), "k"];
      const { UploadId } = await ann.send(
        new sdk.CreateMultipartUploadCommand({ Bucket, Key, WebsiteRedirectLocation: "http://x.example/?a=b" }),
      );
      const { ETag } = await ann.send(new sdk.UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 1, Body: "part" }));
      await ann.send(
        new sdk.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts: [{ ETag, PartNumber: 1 }] } }),
      );
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }))).WebsiteRedirectLocation, "http://x.example/?a=b");
      assert.equal(await visit(Bucket, "/k"), "301 http://x.example/?a=b");
    });

    test("a form's field, which its policy must cover", async () => {
      const [ann, Bucket] = [client(), await siteOf(`form-${generation}`)];
      const fields = { key: "k", [REDIRECT]: "/of-a-form" };
      const plan = { key: ANN, fields, conditions: [{ key: "k" }] };
      assert.equal((await postForm(gateway.address, Bucket, plan)).status, 403);
      const covered = { ...plan, conditions: [{ key: "k" }, ["starts-with", `$${REDIRECT}`, "/"]] };
      assert.equal((await postForm(gateway.address, Bucket, covered)).status, 204);
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key: "k" }))).WebsiteRedirectLocation, "/of-a-form");
    });
  });
}

test("redirects of objects: the website: HEAD, ranges, conditions, index documents, versions; no error document; visitors need the right to read", async () => {
  const bucket = await siteOf("visited");
  const put = async (key: string, headers: Readonly<Record<string, string>>, body = key): Promise<string> =>
    (await call("PUT", `/${bucket}/${key}`, { body, headers })).headers["etag"]!;
  const etag = await put("k", { [REDIRECT]: "//other.example/" });
  const all = [{}, { range: "bytes=0-0" }, { range: "bytes=9-" }, { "if-none-match": etag }, { "if-match": '"x"' }];
  for (const headers of all) assert.equal(await visit(bucket, "/k", headers), "301 //other.example/", JSON.stringify(headers));
  for (const headers of all) assert.equal(await visit(bucket, "/k", headers, "HEAD"), "301 //other.example/", JSON.stringify(headers));
  await put("large", { [REDIRECT]: "/small" }, "l".repeat(300_000));
  assert.equal(await visit(bucket, "/large"), "301 /small");
  await put("docs/index.html", { [REDIRECT]: "/manual/" });
  assert.equal(await visit(bucket, "/docs/"), "301 /manual/");
  assert.equal(await visit(bucket, "/docs"), "302 /docs/");
  // The owner's page of an error is shown, under the status of the error: a redirect would hide it.
  await put("error.html", { [REDIRECT]: "/elsewhere" });
  assert.equal(await visit(bucket, "/none"), "403  error.html");
  assert.equal((await call("PUT", `/${bucket}`, { query: [["versioning", ""]], body: VERSIONED })).status, 200);
  await put("k", {}, "now");
  assert.equal(await visit(bucket, "/k"), "200  now");
  assert.equal((await call("DELETE", `/${bucket}`, { query: [["policy", ""]] })).status, 204);
  assert.match(await visit(bucket, "/large"), /^403 .*AccessDenied/);
});

const VERSIONED = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
const longest = (prefix: string): string => prefix.padEnd(BYTES_MAX, "x");

test("redirects of objects: the value: a path, http or https, up to 2048 bytes, bytes as they came; none if empty", async () => {
  const bucket = await siteOf("values");
  const values = ["/", "/a b?c#d", "http://x", "https://x.example:1/", longest("/"), longest("https://")];
  for (const value of values) {
    assert.equal((await call("PUT", `/${bucket}/k`, { body: "x", headers: { [REDIRECT]: value } })).status, 200, value);
    assert.equal(await redirectOf(`/${bucket}/k`), value);
    assert.equal(await visit(bucket, "/k"), `301 ${value}`);
  }
  assert.equal((await call("PUT", `/${bucket}/k`, { body: "x", headers: { [REDIRECT]: "" } })).status, 200);
  assert.equal(await redirectOf(`/${bucket}/k`), undefined);
  const presigned = presign(
    { method: "PUT", path: `/${bucket}/k`, query: [[REDIRECT, "/\u20ac"]], body: "x" },
    { key: ANN, host: gateway.address },
  );
  assert.equal((await send(gateway.address, presigned)).status, 200);
  assert.equal(await redirectOf(`/${bucket}/k`), Buffer.from("/\u20ac").toString("latin1"));
});

test("redirects of objects: refused values: by header, in a query, in a form, of copies and uploads: nothing is stored", async () => {
  const bucket = await siteOf("refusing");
  assert.equal((await call("PUT", `/${bucket}/k`, { body: "kept" })).status, 200);
  const contents = await gateway.contents();
  const refused = ["page.html", "ftp://x/", "HTTP://x", "javascript:alert(1)", "http:/x", `${longest("/")}x`];
  const copy = { "x-amz-copy-source": `/${bucket}/k` };
  for (const value of refused) {
    const headers = { [REDIRECT]: value };
    const answers = [
      call("PUT", `/${bucket}/k`, { body: "x", headers }),
      call("PUT", `/${bucket}/k`, { headers: { ...headers, ...copy } }),
      call("POST", `/${bucket}/k`, { query: [["uploads", ""]], headers }),
      postForm(gateway.address, bucket, { key: ANN, fields: { key: "k", ...headers }, conditions: [{ key: "k" }, headers] }),
    ];
    for (const { status, code } of await Promise.all(answers)) assert.equal(`${status} ${code}`, "400 InvalidRedirectLocation", value);
  }
  for (const value of ["/a\r\nset-cookie: x", "/\u0000", "/\u007f", `/${"\u20ac".repeat(683)}`]) {
    const presigned = presign(
      { method: "PUT", path: `/${bucket}/k`, query: [[REDIRECT, value]], body: "x" },
      { key: ANN, host: gateway.address },
    );
    const { status, code } = await send(gateway.address, presigned);
    assert.equal(`${status} ${code}`, "400 InvalidRedirectLocation", value);
  }
  const part = {
    query: [
      ["partNumber", "1"],
      ["uploadId", "1"],
    ] as const,
    body: "x",
    headers: { [REDIRECT]: "/" },
  };
  assert.equal((await call("PUT", `/${bucket}/k`, part)).code, "NoSuchUpload", "a part has no redirect: S3 ignores it there");
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), contents);
});
