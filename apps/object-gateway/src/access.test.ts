// Bucket policies, public access and ownership as two generations of the official client see them, and by raw requests: what is refused leaves
// rows and blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { fieldsOf, type Caller } from "@concord/s3";
import { factsOf } from "./http/access.ts";
import { actionsOf, OPERATION_ACTIONS } from "./http/actions.ts";
import { FORM_ROUTE, ROUTES } from "./http/routes.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { encodePath, sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const PROXY = "127.0.0.1";
let gateway: TestGateway;
let closed: TestGateway;
before(async () => {
  [gateway, closed] = await Promise.all([
    TestGateway.start({ config: { trustedProxies: [PROXY] } }),
    TestGateway.start({ config: { publicAccess: false } }),
  ]);
});
after(() => Promise.all([gateway.remove(), closed.remove()]));

type Json = Readonly<Record<string, unknown>>;
type Query = readonly (readonly [string, string])[];
interface Asked {
  readonly query?: Query;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const statement = (bucket: string, more: Json): Json => ({
  Effect: "Allow",
  Principal: "*",
  Action: "s3:GetObject",
  Resource: [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`],
  ...more,
});
const policyText = (...statements: readonly Json[]): string => JSON.stringify({ Version: "2012-10-17", Statement: statements });
const FOR_BOB = { AWS: "arn:aws:iam::bob:root" };

/** Signed, or without a key anonymous. */
function call(key: AccessKey | undefined, method: string, path: string, asked: Asked = {}, at = gateway): Promise<Answer> {
  const host = at.address;
  if (key !== undefined) return send(host, sign({ method, path, ...asked }, { key, host }));
  const query = new URLSearchParams((asked.query ?? []).map(([name, value]): [string, string] => [name, value])).toString();
  const target = `${encodePath(path)}${query === "" ? "" : `?${query}`}`;
  return send(host, { method, target, headers: { host, ...asked.headers }, body: new TextEncoder().encode(asked.body ?? "") });
}

const outcome = async (pending: Promise<Answer>): Promise<string> => {
  const { status, code } = await pending;
  return code === "" ? String(status) : `${status} ${code}`;
};

async function allow(bucket: string, statements: readonly Json[], at = gateway): Promise<string> {
  return await outcome(call(ANN, "PUT", `/${bucket}`, { query: [["policy", ""]], body: policyText(...statements) }, at));
}

async function bucketOf(name: string, at = gateway): Promise<string> {
  assert.equal((await call(ANN, "PUT", `/${name}`, {}, at)).status, 200);
  assert.equal((await call(ANN, "PUT", `/${name}/k`, { body: "of ann" }, at)).status, 200);
  return name;
}

async function failureOf(pending: Promise<unknown>): Promise<string> {
  try {
    await pending;
  } catch (thrown) {
    const { name, $metadata } = thrown as { name: string; $metadata: { httpStatusCode: number } };
    return `${$metadata.httpStatusCode} ${name}`;
  }
  return "no failure";
}

for (const generation of ["2026", "2024"] as const) {
  describe(`bucket policies, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const of = (key: AccessKey): S3Client => (generation === "2026" ? gateway.client(key) : gateway.client2024(key));

    test("policy, its status, public access block, ownership, ACLs: put, read, removed", async () => {
      const Bucket = await bucketOf(`settings-${generation}`);
      const ann = of(ANN);
      assert.equal(await failureOf(ann.send(new sdk.GetBucketPolicyCommand({ Bucket }))), "404 NoSuchBucketPolicy");
      const Policy = policyText(statement(Bucket, {}));
      await ann.send(new sdk.PutBucketPolicyCommand({ Bucket, Policy }));
      assert.equal((await ann.send(new sdk.GetBucketPolicyCommand({ Bucket }))).Policy, Policy);
      assert.equal((await ann.send(new sdk.GetBucketPolicyStatusCommand({ Bucket }))).PolicyStatus?.IsPublic, true);
      assert.equal(await failureOf(ann.send(new sdk.GetPublicAccessBlockCommand({ Bucket }))), "404 NoSuchPublicAccessBlockConfiguration");
      const PublicAccessBlockConfiguration = {
        BlockPublicAcls: true,
        IgnorePublicAcls: false,
        BlockPublicPolicy: true,
        RestrictPublicBuckets: true,
      };
      await ann.send(new sdk.PutPublicAccessBlockCommand({ Bucket, PublicAccessBlockConfiguration }));
      const block = await ann.send(new sdk.GetPublicAccessBlockCommand({ Bucket }));
      assert.deepEqual(block.PublicAccessBlockConfiguration, PublicAccessBlockConfiguration);
      assert.equal(await failureOf(ann.send(new sdk.PutBucketPolicyCommand({ Bucket, Policy }))), "403 AccessDenied");
      await ann.send(new sdk.DeletePublicAccessBlockCommand({ Bucket }));
      await ann.send(new sdk.DeleteBucketPolicyCommand({ Bucket }));
      assert.equal(await failureOf(ann.send(new sdk.GetBucketPolicyStatusCommand({ Bucket }))), "404 NoSuchBucketPolicy");
      const ownership = await ann.send(new sdk.GetBucketOwnershipControlsCommand({ Bucket }));
      assert.equal(ownership.OwnershipControls?.Rules?.[0]?.ObjectOwnership, "BucketOwnerEnforced");
      await ann.send(new sdk.PutBucketOwnershipControlsCommand({ Bucket, OwnershipControls: ownership.OwnershipControls }));
      for (const acl of [
        await ann.send(new sdk.GetBucketAclCommand({ Bucket })),
        await ann.send(new sdk.GetObjectAclCommand({ Bucket, Key: "k" })),
      ])
        assert.deepEqual([acl.Owner?.ID, acl.Grants?.map((one) => [one.Grantee?.ID, one.Permission])], ["ann", [["ann", "FULL_CONTROL"]]]);
      await ann.send(new sdk.PutBucketAclCommand({ Bucket, ACL: "private" }));
      const publicRead = ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "k", ACL: "public-read" }));
      assert.equal(await failureOf(publicRead), "400 AccessControlListNotSupported");
    });

    test("another tenant: what the policy allows, no more; deletes of many are judged by key", async () => {
      const Bucket = await bucketOf(`shared-${generation}`);
      const [ann, bob] = [of(ANN), of(BOB)];
      assert.equal(await failureOf(bob.send(new sdk.GetObjectCommand({ Bucket, Key: "k" }))), "403 AccessDenied");
      const rules = [
        statement(Bucket, { Principal: FOR_BOB, Action: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"] }),
        statement(Bucket, { Effect: "Deny", Action: "s3:DeleteObject", Resource: `arn:aws:s3:::${Bucket}/kept/*` }),
      ];
      await ann.send(new sdk.PutBucketPolicyCommand({ Bucket, Policy: policyText(...rules) }));
      assert.equal((await ann.send(new sdk.GetBucketPolicyStatusCommand({ Bucket }))).PolicyStatus?.IsPublic, false);
      for (const Key of ["kept/a", "b"]) await bob.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "of bob" }));
      assert.equal(await (await bob.send(new sdk.GetObjectCommand({ Bucket, Key: "k" }))).Body!.transformToString(), "of ann");
      const listed = await bob.send(new sdk.ListObjectsV2Command({ Bucket, FetchOwner: true }));
      assert.deepEqual(
        listed.Contents?.map(({ Key, Owner }) => [Key, Owner?.ID]),
        [
          ["b", "ann"],
          ["k", "ann"],
          ["kept/a", "ann"],
        ],
      );
      const Objects = [{ Key: "kept/a" }, { Key: "b" }];
      const deleted = await bob.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
      assert.deepEqual(
        [deleted.Deleted?.map(({ Key }) => Key), deleted.Errors?.map(({ Key, Code }) => [Key, Code])],
        [["b"], [["kept/a", "AccessDenied"]]],
      );
      assert.equal(await failureOf(ann.send(new sdk.DeleteObjectCommand({ Bucket, Key: "kept/a" }))), "403 AccessDenied");
      assert.equal(
        await failureOf(bob.send(new sdk.PutObjectTaggingCommand({ Bucket, Key: "k", Tagging: { TagSet: [] } }))),
        "403 AccessDenied",
      );
      assert.equal(await failureOf(bob.send(new sdk.DeleteBucketPolicyCommand({ Bucket }))), "403 AccessDenied");
    });

    test("conditional writes demanded by a policy: what makes an object needs its condition, parts do not; refusals change nothing", async () => {
      const Bucket = await bucketOf(`once-${generation}`);
      const ann = of(ANN);
      const Condition = { Null: { "s3:if-none-match": "true" }, Bool: { "s3:ObjectCreationOperation": "true" } };
      const rule = statement(Bucket, { Effect: "Deny", Action: "s3:PutObject", Resource: `arn:aws:s3:::${Bucket}/*`, Condition });
      await ann.send(new sdk.PutBucketPolicyCommand({ Bucket, Policy: policyText(rule) }));
      const Key = "parts";
      const { UploadId } = await ann.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key }));
      const part = await ann.send(new sdk.UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 1, Body: "part" }));
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: part.ETag }] };
      const complete = (more: object): Promise<unknown> =>
        ann.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload, ...more }));
      const put = (name: string, more: object): Promise<unknown> =>
        ann.send(new sdk.PutObjectCommand({ Bucket, Key: name, Body: "new", ...more }));
      const before = await gateway.contents();
      assert.equal(await failureOf(put("a", {})), "403 AccessDenied");
      assert.equal(await failureOf(complete({})), "403 AccessDenied");
      const CopySource = `${Bucket}/k`;
      assert.equal(await failureOf(ann.send(new sdk.CopyObjectCommand({ Bucket, Key: "c", CopySource }))), "403 AccessDenied");
      assert.equal(await failureOf(put("k", { IfNoneMatch: "*" })), "412 PreconditionFailed");
      await gateway.settled();
      assert.deepEqual(await gateway.contents(), before);
      await put("a", { IfNoneMatch: "*" });
      await complete({ IfNoneMatch: "*" });
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }))).ContentLength, 4);
    });

    test("copies need the right to read the source, its version and its tags", async () => {
      const Bucket = await bucketOf(`source-${generation}`);
      const [ann, bob] = [of(ANN), of(BOB)];
      const mine = `target-${generation}`;
      await bob.send(new sdk.CreateBucketCommand({ Bucket: mine }));
      const copy = (more: object = {}): Promise<unknown> =>
        bob.send(new sdk.CopyObjectCommand({ Bucket: mine, Key: "c", CopySource: `${Bucket}/k`, ...more }));
      assert.equal(await failureOf(copy()), "403 AccessDenied");
      await ann.send(new sdk.PutBucketPolicyCommand({ Bucket, Policy: policyText(statement(Bucket, { Principal: FOR_BOB })) }));
      await copy();
      const { UploadId } = await bob.send(new sdk.CreateMultipartUploadCommand({ Bucket: mine, Key: "m" }));
      const part = { Bucket: mine, Key: "m", UploadId, PartNumber: 1 };
      await bob.send(new sdk.UploadPartCopyCommand({ ...part, CopySource: `${Bucket}/k` }));
      assert.equal(await failureOf(copy({ CopySource: `${Bucket}/k?versionId=null` })), "403 AccessDenied");
      await ann.send(new sdk.PutObjectTaggingCommand({ Bucket, Key: "k", Tagging: { TagSet: [{ Key: "a", Value: "b" }] } }));
      assert.equal(await failureOf(copy()), "403 AccessDenied");
      await copy({ TaggingDirective: "REPLACE" });
      await ann.send(new sdk.DeleteBucketPolicyCommand({ Bucket }));
      assert.equal(await failureOf(bob.send(new sdk.UploadPartCopyCommand({ ...part, CopySource: `${Bucket}/k` }))), "403 AccessDenied");
    });
  });
}

test("anonymous: refused without a policy, allowed by one; keys that are not there are not told", async () => {
  const bucket = await bucketOf("public");
  const get = (path = `/${bucket}/k`): Promise<string> => outcome(call(undefined, "GET", path));
  assert.deepEqual([await get(), await get("/none/k"), await get("/")], ["403 AccessDenied", "403 AccessDenied", "403 AccessDenied"]);
  assert.equal(await allow(bucket, [statement(bucket, {})]), "204");
  assert.equal((await call(undefined, "GET", `/${bucket}/k`)).body, "of ann");
  assert.equal(await outcome(call(undefined, "HEAD", `/${bucket}/k`)), "200");
  assert.deepEqual([await get(`/${bucket}/none`), await get(`/${bucket}`)], ["403 AccessDenied", "403 AccessDenied"]);
  const all = ["s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:DeleteObject"];
  assert.equal(await allow(bucket, [statement(bucket, { Action: all })]), "204");
  assert.deepEqual([await get(`/${bucket}/none`), await get(`/${bucket}`)], ["404 NoSuchKey", "200"]);
  assert.equal(await outcome(call(undefined, "PUT", `/${bucket}/new`, { body: "from anyone" })), "200");
  assert.equal((await call(ANN, "GET", `/${bucket}/new`)).body, "from anyone");
  assert.equal(await outcome(call(undefined, "DELETE", `/${bucket}/new`)), "204");
});

test("[SEC5] a policy that allows another tenant everything: its policy is still the owner's alone, unchanged; the rest is allowed", async () => {
  const bucket = await bucketOf("handed-over");
  const everything = policyText(statement(bucket, { Principal: FOR_BOB, Action: "s3:*" }));
  assert.equal(await outcome(call(ANN, "PUT", `/${bucket}`, { query: [["policy", ""]], body: everything })), "204");
  const open = policyText(statement(bucket, { Action: "s3:*" }));
  const query = [["policy", ""]] as const;
  assert.equal(await outcome(call(BOB, "PUT", `/${bucket}`, { query, body: open })), "405 MethodNotAllowed");
  assert.equal(await outcome(call(BOB, "DELETE", `/${bucket}`, { query })), "405 MethodNotAllowed");
  assert.equal(await outcome(call(BOB, "GET", `/${bucket}`, { query })), "405 MethodNotAllowed");
  assert.equal((await call(ANN, "GET", `/${bucket}`, { query })).body, everything);
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/k`)), "403 AccessDenied");
  assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/new`, { body: "by bob" })), "200");
});

test("[SEC5] refusals leave rows and blobs as they were", async () => {
  const bucket = await bucketOf("untouched");
  assert.equal(await allow(bucket, [statement(bucket, { Principal: FOR_BOB })]), "204");
  await gateway.settled();
  const start = await gateway.contents();
  const refused: readonly (readonly [AccessKey | undefined, string, string, Asked])[] = [
    [undefined, "PUT", `/${bucket}/x`, { body: "x" }],
    [undefined, "DELETE", `/${bucket}/k`, {}],
    [undefined, "PUT", "/by-anyone", {}],
    [undefined, "PUT", `/${bucket}`, { query: [["policy", ""]], body: policyText(statement(bucket, {})) }],
    [undefined, "POST", `/${bucket}/x`, { query: [["uploads", ""]] }],
    [undefined, "GET", `/${bucket}`, { query: [["torrent", ""]] }],
    [BOB, "PUT", `/${bucket}/k`, { body: "x" }],
    [BOB, "DELETE", `/${bucket}/k`, {}],
    [BOB, "DELETE", `/${bucket}`, {}],
    [BOB, "PUT", `/${bucket}`, { query: [["policy", ""]], body: policyText(statement(bucket, {})) }],
    [BOB, "PUT", `/${bucket}`, { query: [["publicAccessBlock", ""]], body: "<PublicAccessBlockConfiguration/>" }],
    [
      BOB,
      "PUT",
      `/${bucket}`,
      { query: [["versioning", ""]], body: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>" },
    ],
    [BOB, "GET", `/${bucket}/k`, { query: [["tagging", ""]] }],
  ];
  for (const [key, method, path, asked] of refused)
    assert.match(await outcome(call(key, method, path, asked)), /^(403 AccessDenied|501 NotImplemented)$/, `${method} ${path}`);
  const meaningless: readonly (readonly [method: string, path: string, asked: Asked, expected: string])[] = [
    ["PUT", `/${bucket}`, { query: [["policy", ""]], body: "<x/>" }, "400 MalformedPolicy"],
    ["PUT", `/${bucket}`, { query: [["publicAccessBlock", ""]], body: "<x/>" }, "400 MalformedXML"],
    ["PUT", `/${bucket}`, { query: [["ownershipControls", ""]], body: "<x/>" }, "400 MalformedXML"],
    ["PUT", `/${bucket}`, { query: [["acl", ""]], body: "<AccessControlPolicy/>" }, "400 MalformedACLError"],
    ["PUT", `/${bucket}`, { query: [["acl", ""]], headers: { "x-amz-acl": "public-read" } }, "400 AccessControlListNotSupported"],
    ["PUT", `/${bucket}/k`, { query: [["acl", ""]], headers: { "x-amz-grant-read": "id=bob" } }, "400 AccessControlListNotSupported"],
    ["PUT", `/${bucket}/k`, { headers: { "x-amz-acl": "public-read" }, body: "x" }, "400 AccessControlListNotSupported"],
    ["PUT", `/${bucket}/k`, { headers: { "x-amz-grant-read": "id=1" }, body: "x" }, "400 AccessControlListNotSupported"],
    ["GET", `/${bucket}/none`, { query: [["acl", ""]] }, "404 NoSuchKey"],
  ];
  for (const [method, path, asked, expected] of meaningless)
    assert.equal(await outcome(call(ANN, method, path, asked)), expected, `${method} ${path} ${JSON.stringify(asked)}`);
  const malformed = policyText(statement(bucket, { Condition: { StringEquals: { "aws:PrincipalOrgID": "o-1" } } }));
  const idle = policyText(statement(bucket, { Action: "s3:ListBucket", Resource: `arn:aws:s3:::${bucket}/*` }));
  for (const body of [malformed, idle])
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}`, { query: [["policy", ""]], body })), "400 MalformedPolicy");
  assert.deepEqual(await gateway.contents(), start);
});

const tagged = (key: string, value: string): Asked => ({
  query: [["tagging", ""]],
  body: `<Tagging><TagSet><Tag><Key>${key}</Key><Value>${value}</Value></Tag></TagSet></Tagging>`,
});

describe("conditions on tags", () => {
  const ofBob = (bucket: string, more: Json): Json => statement(bucket, { Principal: FOR_BOB, ...more });
  const isOpen = { Condition: { StringEquals: { "s3:ExistingObjectTag/class": "open" } } };

  test("of the object: what is read, by its tags as they are; an absent one is not told", async () => {
    const bucket = await bucketOf("tags-there");
    const actions = ["s3:GetObject", "s3:GetObjectTagging", "s3:GetObjectAcl", "s3:GetObjectAttributes"];
    assert.equal(await allow(bucket, [ofBob(bucket, { Action: actions, ...isOpen })]), "204");
    const key = `/${bucket}/k`;
    const reads = async (): Promise<readonly string[]> => [
      await outcome(call(BOB, "GET", key)),
      await outcome(call(BOB, "HEAD", key)),
      await outcome(call(BOB, "GET", key, { query: [["tagging", ""]] })),
      await outcome(call(BOB, "GET", key, { query: [["acl", ""]] })),
      await outcome(call(BOB, "GET", key, { query: [["attributes", ""]], headers: { "x-amz-object-attributes": "ETag" } })),
      await outcome(call(BOB, "GET", `/${bucket}/none`)),
    ];
    const refused = ["403 AccessDenied", "403", "403 AccessDenied", "403 AccessDenied", "403 AccessDenied", "403 AccessDenied"];
    assert.deepEqual(await reads(), refused);
    assert.equal(await outcome(call(ANN, "PUT", key, tagged("class", "open"))), "200");
    assert.deepEqual(await reads(), ["200", "200", "200", "200", "200", "403 AccessDenied"]);
    assert.equal(await outcome(call(ANN, "DELETE", key, { query: [["tagging", ""]] })), "204");
    assert.deepEqual(await reads(), refused);
  });

  test("of a version: its own", async () => {
    const bucket = await bucketOf("tags-of-versions");
    const on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}`, { query: [["versioning", ""]], body: on })), "200");
    const headers = { "x-amz-tagging": "class=open" };
    const versionId = (await call(ANN, "PUT", `/${bucket}/k`, { headers, body: "open" })).headers["x-amz-version-id"] as string;
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, { body: "closed" })), "200");
    assert.equal(await allow(bucket, [ofBob(bucket, { Action: ["s3:GetObject", "s3:GetObjectVersion"], ...isOpen })]), "204");
    assert.equal(await outcome(call(BOB, "GET", `/${bucket}/k`)), "403 AccessDenied");
    assert.equal((await call(BOB, "GET", `/${bucket}/k`, { query: [["versionId", versionId]] })).body, "open");
    assert.equal(await outcome(call(BOB, "GET", `/${bucket}/k`, { query: [["versionId", "null"]] })), "403 AccessDenied");
  });

  test("refused by a tag: also its owner; tags are changed by what they were; refusals leave rows as they were", async () => {
    const bucket = await bucketOf("tags-refuse");
    const sealed = { Condition: { StringEquals: { "s3:ExistingObjectTag/sealed": "yes" } } };
    const Action = ["s3:GetObject", "s3:PutObjectTagging", "s3:DeleteObjectTagging"];
    assert.equal(await allow(bucket, [statement(bucket, { Effect: "Deny", Action, ...sealed })]), "204");
    assert.equal(await outcome(call(ANN, "GET", `/${bucket}/k`)), "200");
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, tagged("sealed", "yes"))), "200");
    await gateway.settled();
    const start = await gateway.contents();
    assert.equal(await outcome(call(ANN, "GET", `/${bucket}/k`)), "403 AccessDenied");
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, tagged("sealed", "no"))), "403 AccessDenied");
    assert.equal(await outcome(call(ANN, "DELETE", `/${bucket}/k`, { query: [["tagging", ""]] })), "403 AccessDenied");
    assert.equal(
      await outcome(call(ANN, "PUT", `/${bucket}/copy`, { headers: { "x-amz-copy-source": `${bucket}/k` } })),
      "403 AccessDenied",
    );
    assert.deepEqual(await gateway.contents(), start);
  });

  test("of the request: by header, form of many parts and document; refusals leave rows as they were", async () => {
    const bucket = await bucketOf("tags-given");
    const Action = ["s3:PutObject", "s3:PutObjectTagging"];
    const given = {
      StringEquals: { "s3:RequestObjectTag/team": "red" },
      "ForAllValues:StringEquals": { "s3:RequestObjectTagKeys": "team" },
    };
    assert.equal(await allow(bucket, [ofBob(bucket, { Action, Condition: given }), ofBob(bucket, {})]), "204");
    await gateway.settled();
    const start = await gateway.contents();
    const put = (tags: string | undefined, path = "new", more: Asked = {}): Promise<string> => {
      const headers = { ...more.headers, ...(tags === undefined ? {} : { "x-amz-tagging": tags }) };
      return outcome(call(BOB, more.query === undefined ? "PUT" : "POST", `/${bucket}/${path}`, { ...more, headers }));
    };
    const copied: Asked = { headers: { "x-amz-copy-source": `${bucket}/k`, "x-amz-tagging-directive": "REPLACE" } };
    for (const tags of [undefined, "team=blue", "team=red&other=x"]) {
      assert.equal(await put(tags), "403 AccessDenied", tags);
      assert.equal(await put(tags, "new", copied), "403 AccessDenied", tags);
      assert.equal(await put(tags, "new", { query: [["uploads", ""]] }), "403 AccessDenied", tags);
    }
    assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/k`, tagged("team", "blue"))), "403 AccessDenied");
    assert.deepEqual(await gateway.contents(), start);
    assert.equal(await put("team=red"), "200");
    assert.equal(await put("team=red", "copy", copied), "200");
    assert.equal(await put("team=red", "parts", { query: [["uploads", ""]] }), "200");
    assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/k`, tagged("team", "red"))), "200");
  });

  test("a copy: takes its source's tags where the right to read them is by those", async () => {
    const bucket = await bucketOf("tags-copied");
    const reading = ofBob(bucket, { Action: "s3:GetObjectTagging", ...isOpen });
    const rest = ofBob(bucket, { Action: ["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"] });
    assert.equal(await allow(bucket, [reading, rest]), "204");
    const copy = (): Promise<string> => outcome(call(BOB, "PUT", `/${bucket}/copy`, { headers: { "x-amz-copy-source": `${bucket}/k` } }));
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, tagged("class", "closed"))), "200");
    assert.equal(await copy(), "403 AccessDenied");
    assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, tagged("class", "open"))), "200");
    assert.equal(await copy(), "200");
    assert.match((await call(ANN, "GET", `/${bucket}/copy`, { query: [["tagging", ""]] })).body, /<Key>class<\/Key><Value>open</);
  });
});

test("source address: what the named proxy forwards, the last that is no proxy", async () => {
  const bucket = await bucketOf("by-address");
  const inside = { Condition: { IpAddress: { "aws:SourceIp": "198.51.100.0/24" } } };
  assert.equal(await allow(bucket, [statement(bucket, inside)]), "204");
  const get = (forwarded: string): Promise<string> =>
    outcome(call(undefined, "GET", `/${bucket}/k`, { headers: { "x-forwarded-for": forwarded } }));
  assert.deepEqual([await get("198.51.100.7"), await get("203.0.113.9, 198.51.100.7")], ["200", "200"]);
  assert.deepEqual([await get("198.51.100.7, 203.0.113.9"), await get("none")], ["403 AccessDenied", "403 AccessDenied"]);
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/k`)), "403 AccessDenied");
});

test("a gateway without public access: no public policy, no anonymous request; named tenants as elsewhere; forwarded addresses are not believed", async () => {
  const bucket = await bucketOf("closed", closed);
  assert.equal(await allow(bucket, [statement(bucket, {})], closed), "403 AccessDenied");
  const inside = { Condition: { IpAddress: { "aws:SourceIp": "198.51.100.0/24" } } };
  assert.equal(
    await allow(bucket, [statement(bucket, inside), statement(bucket, { Principal: FOR_BOB, Action: "s3:ListBucket" })], closed),
    "204",
  );
  const headers = { "x-forwarded-for": "198.51.100.7" };
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/k`, { headers }, closed)), "403 AccessDenied");
  assert.equal(await outcome(call(BOB, "GET", `/${bucket}/k`, { headers }, closed)), "403 AccessDenied");
  assert.equal(await outcome(call(BOB, "GET", `/${bucket}`, {}, closed)), "200");
});

test("peers: address and port, an IPv4 address in IPv6 form, a name alone", () => {
  const options = { publicAccess: "possible", isProxy: () => false, scheme: "http", isTenant: () => true } as const;
  const none = fieldsOf([]);
  const sourceOf = (peer: string): string | undefined =>
    factsOf({ caller: { kind: "anonymous" }, operation: "GetObject", via: "none", peer, query: none, headers: none, nowMs: 0 }, options)[
      "aws:sourceip"
    ];
  assert.deepEqual(["192.0.2.1:80", "::ffff:192.0.2.1:80", "2001:db8::1:80", "client"].map(sourceOf), [
    "192.0.2.1",
    "192.0.2.1",
    "2001:db8::1",
    undefined,
  ]);
});

test("who asks: a tenant by its account's ARN, anonymous without one; never a service", () => {
  const options = { publicAccess: "possible", isProxy: () => false, scheme: "http", isTenant: () => true } as const;
  const none = fieldsOf([]);
  const said = { operation: "GetObject", via: "none", peer: "client", query: none, headers: none, nowMs: 0 } as const;
  const about = (caller: Caller): readonly unknown[] => {
    const facts = factsOf({ ...said, caller }, options);
    return (["aws:principalarn", "aws:principaltype", "aws:principalisawsservice", "aws:viaawsservice"] as const).map((key) => facts[key]);
  };
  assert.deepEqual(about({ kind: "tenant", tenant: "bob" }), ["arn:aws:iam::bob:root", "Account", "false", "false"]);
  assert.deepEqual(about({ kind: "anonymous" }), [undefined, "Anonymous", "false", "false"]);
});

test("actions: every operation on a bucket has some, but those that ask for themselves", () => {
  const inBuckets = [...ROUTES, FORM_ROUTE]
    .filter(({ level, makesBucket }) => level !== "service" && !makesBucket)
    .map(({ operation }) => operation);
  assert.deepEqual(Object.keys(OPERATION_ACTIONS).toSorted(), inBuckets.toSorted());
  const asked = { version: false, tags: false, acl: false };
  const silent = inBuckets.filter((operation) => Object.values(actionsOf(operation, asked)).every((actions) => actions.length === 0));
  assert.deepEqual(silent, ["DeleteObjects", "PutObjectRetention", "PutObjectLegalHold", "PutObjectTagging"]);
  assert.deepEqual(actionsOf("GetObject", { ...asked, version: true }), { judged: ["s3:GetObjectVersion"], ofNew: [], plain: [] });
  const put = { judged: ["s3:PutObject"], ofNew: [], plain: [] };
  assert.deepEqual(actionsOf("PutObject", { ...asked, tags: true }), { ...put, ofNew: ["s3:PutObjectTagging"] });
  assert.deepEqual(actionsOf("PutObject", { ...asked, acl: true }), { ...put, ofNew: ["s3:PutObjectAcl"] });
  assert.deepEqual(actionsOf("CreateMultipartUpload", { ...asked, acl: true }), {
    judged: [],
    ofNew: ["s3:PutObject", "s3:PutObjectAcl"],
    plain: [],
  });
});
