// Buckets as websites: settings by two generations of the official client, pages by raw requests as browsers send them; what is refused leaves rows
// and blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const SITES = "web.example";
const INDEX = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";
const ERROR = "<ErrorDocument><Key>error.html</Key></ErrorDocument>";
let gateway: TestGateway;
let closed: TestGateway;
before(async () => {
  const config = { domain: "s3.example", websiteDomain: SITES };
  [gateway, closed] = await Promise.all([TestGateway.start({ config }), TestGateway.start({ config: { ...config, publicAccess: false } })]);
});
after(() => Promise.all([gateway.remove(), closed.remove()]));

interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const call = (key: AccessKey, method: string, path: string, asked: Asked = {}, at = gateway): Promise<Answer> =>
  send(at.address, sign({ method, path, ...asked }, { key, host: at.address }));

const outcome = async (pending: Promise<Answer>): Promise<string> => {
  const { status, code } = await pending;
  return code === "" ? String(status) : `${status} ${code}`;
};

const setWebsite = (bucket: string, inner: string, key = ANN, at = gateway): Promise<Answer> =>
  call(key, "PUT", `/${bucket}`, { query: [["website", ""]], body: `<WebsiteConfiguration>${inner}</WebsiteConfiguration>` }, at);

/** What a browser sees. */
interface Page {
  readonly status: number;
  readonly body: string;
  readonly location: string | undefined;
  readonly type: string | undefined;
}

async function visit(
  bucket: string,
  target: string,
  more: Readonly<Record<string, string>> = {},
  method = "GET",
  at = gateway,
): Promise<Page> {
  const headers = { host: `${bucket}.${SITES}`, ...more };
  const { status, body, headers: said } = await send(at.address, { method, target, headers, body: new Uint8Array(0) });
  return { status, body, location: said["location"], type: said["content-type"] };
}

/** Everyone may get its objects, or also list them. */
async function siteOf(bucket: string, inner: string, actions: readonly string[] = ["s3:GetObject"], at = gateway): Promise<void> {
  assert.equal(await outcome(call(ANN, "PUT", `/${bucket}`, {}, at)), "200");
  const resources = [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`];
  const statement = actions.map((Action) => ({
    Effect: "Allow",
    Principal: "*",
    Action,
    Resource: Action === "s3:ListBucket" ? resources[0] : resources[1],
  }));
  const policy = JSON.stringify({ Version: "2012-10-17", Statement: statement });
  if (at === gateway) assert.equal(await outcome(call(ANN, "PUT", `/${bucket}`, { query: [["policy", ""]], body: policy }, at)), "204");
  for (const key of ["index.html", "error.html", "docs/index.html", "a b/ü.html"]) {
    const headers = { "content-type": "text/html" };
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/${key}`, { body: `page ${key}`, headers }, at)), "200");
  }
  assert.equal(await outcome(setWebsite(bucket, inner, ANN, at)), "200");
}

for (const generation of ["2026", "2024"] as const) {
  describe(`websites, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    test("settings: put, read as they were put, removed; a bucket without any says so", async () => {
      const ann = generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN);
      const Bucket = `settings-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      const none = { name: "NoSuchWebsiteConfiguration" };
      await assert.rejects(ann.send(new sdk.GetBucketWebsiteCommand({ Bucket })), none);
      const all: readonly sdk2026.WebsiteConfiguration[] = [
        { IndexDocument: { Suffix: "index.html" } },
        { RedirectAllRequestsTo: { HostName: "other.example", Protocol: "https" } },
        {
          IndexDocument: { Suffix: "i" },
          ErrorDocument: { Key: "e/404.html" },
          RoutingRules: [
            { Condition: { KeyPrefixEquals: "old/" }, Redirect: { ReplaceKeyPrefixWith: "new/", HttpRedirectCode: "302" } },
            {
              Condition: { HttpErrorCodeReturnedEquals: "404" },
              Redirect: { HostName: "x.example:81", Protocol: "http", ReplaceKeyWith: "k&", HttpRedirectCode: "307" },
            },
          ],
        },
      ];
      for (const WebsiteConfiguration of all) {
        await ann.send(new sdk.PutBucketWebsiteCommand({ Bucket, WebsiteConfiguration }));
        const { $metadata: _, ...read } = await ann.send(new sdk.GetBucketWebsiteCommand({ Bucket }));
        const present = Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined));
        assert.deepEqual(JSON.parse(JSON.stringify(present)), JSON.parse(JSON.stringify(WebsiteConfiguration)));
      }
      await ann.send(new sdk.DeleteBucketWebsiteCommand({ Bucket }));
      await ann.send(new sdk.DeleteBucketWebsiteCommand({ Bucket }));
      await assert.rejects(ann.send(new sdk.GetBucketWebsiteCommand({ Bucket })), none);
    });
  });
}

test("pages: index documents, folders without their slash, ranges, conditions, HEAD; queries change nothing", async () => {
  await siteOf("pages", `${INDEX}${ERROR}`, ["s3:GetObject", "s3:ListBucket"]);
  const page = { status: 200, type: "text/html", location: undefined };
  assert.deepEqual(await visit("pages", "/"), { ...page, body: "page index.html" });
  assert.deepEqual(await visit("pages", "/docs/"), { ...page, body: "page docs/index.html" });
  assert.deepEqual(await visit("pages", "/a%20b/%C3%BC.html"), { ...page, body: "page a b/ü.html" });
  assert.deepEqual(await visit("pages", "/?versionId=x&acl&response-content-type=text/evil"), { ...page, body: "page index.html" });
  assert.deepEqual(await visit("pages", "/docs"), { status: 302, body: "", location: "/docs/", type: undefined });
  assert.deepEqual(await visit("pages", "/index.html", { range: "bytes=0-3" }), { ...page, status: 206, body: "page" });
  const { headers } = await call(ANN, "HEAD", "/pages/index.html");
  assert.equal((await visit("pages", "/", { "if-none-match": headers["etag"]! })).status, 304);
  assert.deepEqual(await visit("pages", "/", {}, "HEAD"), { ...page, body: "" });
  // A signature does not count here: the page is the one that everyone sees.
  assert.deepEqual(await visit("pages", "/", { authorization: "AWS4-HMAC-SHA256 nonsense" }), { ...page, body: "page index.html" });
});

test("errors: the owner's page under the status of what failed; without one a page that says it, markup escaped", async () => {
  await siteOf("failing", `${INDEX}${ERROR}`, ["s3:GetObject", "s3:ListBucket"]);
  const own = { status: 404, body: "page error.html", type: "text/html", location: undefined };
  assert.deepEqual(await visit("failing", "/none"), own);
  assert.deepEqual(await visit("failing", "/none", { range: "bytes=0-3", "if-match": '"x"' }), own);
  // Who may not list does not learn which keys there are, as with every request.
  await siteOf("secretive", `${INDEX}${ERROR}`);
  assert.deepEqual(await visit("secretive", "/none"), { ...own, status: 403 });
  await siteOf("plain", INDEX, ["s3:GetObject", "s3:ListBucket"]);
  const plain = await visit("plain", "/<script>");
  assert.deepEqual([plain.status, plain.type], [404, "text/html; charset=utf-8"]);
  assert.match(plain.body, /Code: NoSuchKey/);
  assert.doesNotMatch(plain.body, /<script>/);
  await setWebsite("plain", `${INDEX}<ErrorDocument><Key>gone</Key></ErrorDocument>`);
  assert.match((await visit("plain", "/none")).body, /Code: NoSuchKey/);
});

test("redirects: all requests, by prefix, after an error; never to another host than the rule's", async () => {
  await siteOf("moved", "<RedirectAllRequestsTo><HostName>new.example</HostName><Protocol>https</Protocol></RedirectAllRequestsTo>");
  assert.deepEqual(await visit("moved", "/a%20b?q=1"), { status: 301, body: "", location: "https://new.example/a%20b", type: undefined });
  const rule = (condition: string, redirect: string): string =>
    `<RoutingRule>${condition === "" ? "" : `<Condition>${condition}</Condition>`}<Redirect>${redirect}</Redirect></RoutingRule>`;
  const rules = [
    rule(
      "<KeyPrefixEquals>old/</KeyPrefixEquals>",
      "<ReplaceKeyPrefixWith>docs/</ReplaceKeyPrefixWith><HttpRedirectCode>302</HttpRedirectCode>",
    ),
    rule("<KeyPrefixEquals>strip/</KeyPrefixEquals>", "<ReplaceKeyPrefixWith></ReplaceKeyPrefixWith>"),
    rule("<KeyPrefixEquals>up/</KeyPrefixEquals>", "<Protocol>https</Protocol>"),
    rule(
      "<KeyPrefixEquals>lost/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>",
      "<HostName>x.example</HostName><ReplaceKeyWith>found</ReplaceKeyWith><HttpRedirectCode>307</HttpRedirectCode>",
    ),
  ];
  await siteOf("routed", `${INDEX}${ERROR}<RoutingRules>${rules.join("")}</RoutingRules>`, ["s3:GetObject", "s3:ListBucket"]);
  const location = async (target: string): Promise<string> => {
    const { status, location: to } = await visit("routed", target);
    return `${status} ${to}`;
  };
  assert.equal(await location("/old/x"), "302 /docs/x");
  assert.equal(await location("/strip//evil.example/x"), "301 /%2Fevil.example/x");
  assert.equal(await location("/up/x"), `301 https://routed.${SITES}/up/x`);
  assert.equal(await location("/lost/x"), "307 http://x.example/found");
  assert.equal(await location("/other"), "404 undefined");
  assert.equal(await location("/old/a%0d%0aset-cookie:x"), "302 /docs/a%0D%0Aset-cookie%3Ax");
});

test("visitors: private buckets, buckets that are none, other methods, a gateway without public access: refused, nothing is changed", async () => {
  await siteOf("private", `${INDEX}${ERROR}`, ["s3:GetObject"]);
  assert.equal(await outcome(call(ANN, "DELETE", "/private", { query: [["policy", ""]] })), "204");
  assert.equal((await visit("private", "/")).status, 403);
  assert.match((await visit("private", "/")).body, /Code: AccessDenied/);
  assert.equal(await outcome(call(ANN, "PUT", "/no-site")), "200");
  const [known, unknown] = [await visit("no-site", "/"), await visit("no-bucket", "/")];
  assert.deepEqual(known, unknown);
  assert.deepEqual([known.status, /Code: NoSuchWebsiteConfiguration/.test(known.body)], [404, true]);
  const contents = await gateway.contents();
  for (const method of ["PUT", "DELETE", "POST"]) assert.equal((await visit("private", "/index.html", {}, method)).status, 405);
  assert.deepEqual(await gateway.contents(), contents);
  await siteOf("shut", INDEX, ["s3:GetObject"], closed);
  assert.equal((await visit("shut", "/", {}, "GET", closed)).status, 403);
});

const rule = (inner: string): string => `${INDEX}<RoutingRules><RoutingRule>${inner}</RoutingRule></RoutingRules>`;
const REFUSED: readonly (readonly [what: string, inner: string, answer: string])[] = [
  ["nothing", "", "400 InvalidArgument"],
  ["an index with a slash", "<IndexDocument><Suffix>a/b</Suffix></IndexDocument>", "400 InvalidArgument"],
  ["an index without a suffix", "<IndexDocument/>", "400 MalformedXML"],
  ["an unknown element", `${INDEX}<Other/>`, "400 MalformedXML"],
  ["an element twice", `${INDEX}${INDEX}`, "400 MalformedXML"],
  ["both kinds", `${INDEX}<RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo>`, "400 InvalidRequest"],
  ["a redirect without a host", "<RedirectAllRequestsTo><Protocol>http</Protocol></RedirectAllRequestsTo>", "400 MalformedXML"],
  [
    "a host that ends the header",
    "<RedirectAllRequestsTo><HostName>h&#13;&#10;set-cookie:x</HostName></RedirectAllRequestsTo>",
    "400 InvalidRequest",
  ],
  ["a host with a path", "<RedirectAllRequestsTo><HostName>h/p</HostName></RedirectAllRequestsTo>", "400 InvalidRequest"],
  [
    "a protocol of scripts",
    "<RedirectAllRequestsTo><HostName>h</HostName><Protocol>javascript</Protocol></RedirectAllRequestsTo>",
    "400 InvalidRequest",
  ],
  ["a rule without a redirect", rule("<Condition><KeyPrefixEquals>a</KeyPrefixEquals></Condition>"), "400 MalformedXML"],
  ["an empty redirect", rule("<Redirect/>"), "400 MalformedXML"],
  ["an empty condition", rule("<Condition/><Redirect><HostName>h</HostName></Redirect>"), "400 InvalidRequest"],
  [
    "an error code of success",
    rule(
      "<Condition><HttpErrorCodeReturnedEquals>200</HttpErrorCodeReturnedEquals></Condition><Redirect><HostName>h</HostName></Redirect>",
    ),
    "400 InvalidRequest",
  ],
  ["a redirect code of success", rule("<Redirect><HttpRedirectCode>200</HttpRedirectCode></Redirect>"), "400 InvalidRequest"],
  [
    "two replacements",
    rule("<Redirect><ReplaceKeyWith>a</ReplaceKeyWith><ReplaceKeyPrefixWith>b</ReplaceKeyPrefixWith></Redirect>"),
    "400 InvalidRequest",
  ],
  [
    "51 rules",
    `${INDEX}<RoutingRules>${"<RoutingRule><Redirect><HostName>h</HostName></Redirect></RoutingRule>".repeat(51)}</RoutingRules>`,
    "400 InvalidRequest",
  ],
];

test("settings: what S3 refuses is refused, and by another tenant: nothing is stored; 50 rules are taken", async () => {
  assert.equal(await outcome(call(ANN, "PUT", "/refusing")), "200");
  const contents = await gateway.contents();
  for (const [what, inner, answer] of REFUSED) assert.equal(await outcome(setWebsite("refusing", inner)), answer, what);
  assert.equal(await outcome(setWebsite("refusing", INDEX, BOB)), "403 AccessDenied");
  assert.equal(await outcome(call(BOB, "GET", "/refusing", { query: [["website", ""]] })), "403 AccessDenied");
  assert.equal(await outcome(call(BOB, "DELETE", "/refusing", { query: [["website", ""]] })), "403 AccessDenied");
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), contents);
  const most = "<RoutingRule><Redirect><HostName>h</HostName></Redirect></RoutingRule>".repeat(50);
  assert.equal(await outcome(setWebsite("refusing", `${INDEX}<RoutingRules>${most}</RoutingRules>`)), "200");
});
