// ACLs of buckets and objects as two generations of the official client see them, and by raw requests: grants are enforced, and what is refused
// leaves rows and blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { OPERATION_ACTIONS } from "./http/actions.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { postForm } from "./test/forms.ts";
import { send, type Answer } from "./test/http-client.ts";
import { encodePath, sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const EVERYONE = "http://acs.amazonaws.com/groups/global/AllUsers";
let gateway: TestGateway;
let closed: TestGateway;
before(async () => {
  [gateway, closed] = await Promise.all([TestGateway.start(), TestGateway.start({ config: { publicAccess: false } })]);
});
after(() => Promise.all([gateway.remove(), closed.remove()]));

type Headers = Readonly<Record<string, string>>;
interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly headers?: Headers;
  readonly body?: string;
}

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

async function failureOf(pending: Promise<unknown>): Promise<string> {
  try {
    await pending;
  } catch (thrown) {
    const { name, $metadata } = thrown as { name: string; $metadata: { httpStatusCode: number } };
    return `${$metadata.httpStatusCode} ${name}`;
  }
  return "no failure";
}

const OWNERSHIP: Asked["query"] = [["ownershipControls", ""]];
const ACL: Asked["query"] = [["acl", ""]];
const BLOCK: Asked["query"] = [["publicAccessBlock", ""]];
const controls = (ownership: string): string =>
  `<OwnershipControls><Rule><ObjectOwnership>${ownership}</ObjectOwnership></Rule></OwnershipControls>`;
const setOwnership = (bucket: string, ownership: string): Promise<string> =>
  outcome(call(ANN, "PUT", `/${bucket}`, { query: OWNERSHIP, body: controls(ownership) }));

/** With ACLs, and an object "k" of ann's. */
async function bucketOf(name: string, headers: Headers = {}, ownership = "ObjectWriter"): Promise<string> {
  assert.equal(await outcome(call(ANN, "PUT", `/${name}`, { headers: { "x-amz-object-ownership": ownership, ...headers } })), "200");
  assert.equal(await outcome(call(ANN, "PUT", `/${name}/k`, { body: "of ann" })), "200");
  return name;
}

for (const generation of ["2026", "2024"] as const) {
  describe(`ACLs, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const of = (key: AccessKey): S3Client => (generation === "2026" ? gateway.client(key) : gateway.client2024(key));
    type Shown = Pick<sdk2026.GetBucketAclCommandOutput, "Grants">;
    const grantsIn = ({ Grants }: Shown): readonly string[] =>
      (Grants ?? []).map(({ Grantee, Permission }) => `${Grantee?.ID ?? Grantee?.URI?.split("/").at(-1)} ${Permission}`);

    test("of a bucket and its objects: put in every form, read, enforced, meaningless under enforced ownership, and back", async () => {
      const [ann, bob] = [of(ANN), of(BOB)];
      const Bucket = `granted-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket, ObjectOwnership: "ObjectWriter", ACL: "public-read" }));
      const ownership = await ann.send(new sdk.GetBucketOwnershipControlsCommand({ Bucket }));
      assert.equal(ownership.OwnershipControls?.Rules?.[0]?.ObjectOwnership, "ObjectWriter");
      assert.deepEqual(grantsIn(await ann.send(new sdk.GetBucketAclCommand({ Bucket }))), ["ann FULL_CONTROL", "AllUsers READ"]);
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "public", Body: "for all", ACL: "public-read" }));
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "private", Body: "for ann" }));
      assert.equal(await outcome(call(undefined, "GET", `/${Bucket}`)), "200");
      assert.equal((await call(undefined, "GET", `/${Bucket}/public`)).body, "for all");
      assert.equal(await outcome(call(undefined, "GET", `/${Bucket}/private`)), "403 AccessDenied");
      assert.equal(await outcome(call(undefined, "GET", `/${Bucket}/none`)), "404 NoSuchKey", "who may list learns what is not there");
      assert.equal(await failureOf(bob.send(new sdk.GetObjectCommand({ Bucket, Key: "private" }))), "403 AccessDenied");

      const grants = [
        { Grantee: { ID: "ann", Type: "CanonicalUser" as const }, Permission: "FULL_CONTROL" as const },
        { Grantee: { ID: "bob", Type: "CanonicalUser" as const }, Permission: "READ" as const },
        { Grantee: { ID: "bob", Type: "CanonicalUser" as const }, Permission: "READ_ACP" as const },
      ];
      const AccessControlPolicy = { Owner: { ID: "ann" }, Grants: grants };
      await ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "private", AccessControlPolicy }));
      assert.equal(await (await bob.send(new sdk.GetObjectCommand({ Bucket, Key: "private" }))).Body!.transformToString(), "for ann");
      assert.equal((await bob.send(new sdk.HeadObjectCommand({ Bucket, Key: "private" }))).ContentLength, 7);
      const shown = ["ann FULL_CONTROL", "bob READ", "bob READ_ACP"];
      assert.deepEqual(grantsIn(await bob.send(new sdk.GetObjectAclCommand({ Bucket, Key: "private" }))), shown);
      const taken = bob.send(new sdk.PutObjectAclCommand({ Bucket, Key: "private", ACL: "public-read" }));
      assert.equal(await failureOf(taken), "403 AccessDenied");

      assert.equal(await setOwnership(Bucket, "BucketOwnerEnforced"), "400 InvalidBucketAclWithObjectOwnership");
      await ann.send(new sdk.PutBucketAclCommand({ Bucket, ACL: "private" }));
      assert.equal(await setOwnership(Bucket, "BucketOwnerEnforced"), "200");
      assert.equal(await failureOf(bob.send(new sdk.GetObjectCommand({ Bucket, Key: "private" }))), "403 AccessDenied");
      assert.equal(await outcome(call(undefined, "GET", `/${Bucket}/public`)), "403 AccessDenied");
      const plain = await ann.send(new sdk.GetObjectAclCommand({ Bucket, Key: "private" }));
      assert.deepEqual(grantsIn(plain), ["ann FULL_CONTROL"]);
      const grant = ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "private", GrantRead: 'id="bob"' }));
      assert.equal(await failureOf(grant), "400 AccessControlListNotSupported");
      assert.equal(await setOwnership(Bucket, "BucketOwnerPreferred"), "200");
      assert.equal(await failureOf(bob.send(new sdk.GetObjectCommand({ Bucket, Key: "private" }))), "no failure");
    });

    test("WRITE of another tenant: new objects are its own; what is another's is neither replaced nor deleted", async () => {
      const [ann, bob] = [of(ANN), of(BOB)];
      const Bucket = await bucketOf(`written-${generation}`);
      await ann.send(new sdk.PutBucketAclCommand({ Bucket, GrantWrite: 'id="bob"', GrantRead: "id=bob", GrantFullControl: "id=ann" }));
      await bob.send(new sdk.PutObjectCommand({ Bucket, Key: "b", Body: "of bob" }));
      await bob.send(new sdk.PutObjectCommand({ Bucket, Key: "b", Body: "of bob, again" }));
      assert.equal(await failureOf(ann.send(new sdk.GetObjectCommand({ Bucket, Key: "b" }))), "403 AccessDenied");
      assert.equal(await failureOf(ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "b", ACL: "private" }))), "403 AccessDenied");
      const listed = await ann.send(new sdk.ListObjectsV2Command({ Bucket, FetchOwner: true }));
      assert.deepEqual(
        listed.Contents?.map(({ Key, Owner }) => `${Key} ${Owner?.ID}`),
        ["b bob", "k ann"],
      );
      for (const refuse of [
        () => bob.send(new sdk.PutObjectCommand({ Bucket, Key: "k", Body: "of bob" })),
        () => bob.send(new sdk.DeleteObjectCommand({ Bucket, Key: "k" })),
        () => bob.send(new sdk.CopyObjectCommand({ Bucket, Key: "k", CopySource: `${Bucket}/b` })),
        () => bob.send(new sdk.GetObjectCommand({ Bucket, Key: "k" })),
      ])
        assert.equal(await failureOf(refuse()), "403 AccessDenied");
      await bob.send(new sdk.PutObjectAclCommand({ Bucket, Key: "b", ACL: "bucket-owner-read" }));
      assert.equal(await (await ann.send(new sdk.GetObjectCommand({ Bucket, Key: "b" }))).Body!.transformToString(), "of bob, again");
      const Delete = { Objects: [{ Key: "b" }, { Key: "k" }, { Key: "none" }] };
      const deleted = await bob.send(new sdk.DeleteObjectsCommand({ Bucket, Delete }));
      assert.deepEqual(
        [deleted.Deleted?.map(({ Key }) => Key).toSorted(), deleted.Errors?.map(({ Key, Code }) => `${Key} ${Code}`)],
        [["b", "none"], ["k AccessDenied"]],
      );
      await bob.send(new sdk.PutObjectCommand({ Bucket, Key: "b", Body: "of bob" }));
      await ann.send(new sdk.DeleteObjectCommand({ Bucket, Key: "b" }));
    });

    test("multipart by another tenant: the object is its own, with the ACL it was begun with; its uploads are not others'", async () => {
      const [ann, bob] = [of(ANN), of(BOB)];
      const Bucket = await bucketOf(`parts-${generation}`);
      await ann.send(new sdk.PutBucketAclCommand({ Bucket, ACL: "public-read-write" }));
      const begin = async (Key: string, client = bob): Promise<{ Bucket: string; Key: string; UploadId: string }> => {
        const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key, ACL: "public-read" }));
        return { Bucket, Key, UploadId: UploadId! };
      };
      const upload = await begin("m");
      const part = await bob.send(new sdk.UploadPartCommand({ ...upload, PartNumber: 1, Body: "part" }));
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: part.ETag }] };
      const ofAnn = await begin("m", ann);
      for (const refuse of [() => bob.send(new sdk.AbortMultipartUploadCommand(ofAnn)), () => bob.send(new sdk.ListPartsCommand(ofAnn))])
        assert.equal(await failureOf(refuse()), "403 AccessDenied");
      assert.equal(
        await outcome(call(undefined, "DELETE", `/${Bucket}/m`, { query: [["uploadId", upload.UploadId]] })),
        "403 AccessDenied",
      );
      assert.equal((await bob.send(new sdk.ListPartsCommand(upload))).Owner?.ID, "bob");
      const uploads = await bob.send(new sdk.ListMultipartUploadsCommand({ Bucket }));
      assert.deepEqual(uploads.Uploads?.map(({ Owner }) => Owner?.ID).toSorted(), ["ann", "bob"]);
      await bob.send(new sdk.CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
      assert.equal((await call(undefined, "GET", `/${Bucket}/m`)).body, "part");
      assert.deepEqual(grantsIn(await bob.send(new sdk.GetObjectAclCommand({ Bucket, Key: "m" }))), ["bob FULL_CONTROL", "AllUsers READ"]);

      const over = await begin("k");
      const second = await bob.send(new sdk.UploadPartCommand({ ...over, PartNumber: 1, Body: "over" }));
      const Parts = [{ PartNumber: 1, ETag: second.ETag }];
      const completing = bob.send(new sdk.CompleteMultipartUploadCommand({ ...over, MultipartUpload: { Parts } }));
      assert.equal(await failureOf(completing), "403 AccessDenied");
      await bob.send(new sdk.AbortMultipartUploadCommand(over));
      await ann.send(new sdk.AbortMultipartUploadCommand(ofAnn));
      assert.equal((await call(ANN, "GET", `/${Bucket}/k`)).body, "of ann");
    });

    test("versions: each has its own ACL", async () => {
      const ann = of(ANN);
      const Bucket = await bucketOf(`versions-${generation}`);
      await ann.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
      const first = await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "v", Body: "public", ACL: "public-read" }));
      const second = await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "v", Body: "private" }));
      const read = (id: string | undefined): Promise<string> =>
        outcome(call(undefined, "GET", `/${Bucket}/v`, { query: [["versionId", id!]] }));
      assert.deepEqual([await read(first.VersionId), await read(second.VersionId)], ["200", "403 AccessDenied"]);
      assert.equal(await outcome(call(undefined, "GET", `/${Bucket}/v`)), "403 AccessDenied");
      await ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "v", VersionId: first.VersionId, ACL: "private" }));
      await ann.send(new sdk.PutObjectAclCommand({ Bucket, Key: "v", VersionId: second.VersionId, ACL: "public-read" }));
      assert.deepEqual([await read(first.VersionId), await read(second.VersionId)], ["403 AccessDenied", "200"]);
      const acl = await ann.send(new sdk.GetObjectAclCommand({ Bucket, Key: "v", VersionId: second.VersionId }));
      assert.deepEqual(grantsIn(acl), ["ann FULL_CONTROL", "AllUsers READ"]);
      const { Versions } = await ann.send(new sdk.ListObjectVersionsCommand({ Bucket }));
      assert.deepEqual(new Set(Versions?.map(({ Owner }) => Owner?.ID)), new Set(["ann"]));
    });
  });
}

test("given to the bucket's owner: only with bucket-owner-full-control, only where that is preferred", async () => {
  const bucket = await bucketOf("preferred", { "x-amz-grant-write": "id=bob" }, "BucketOwnerPreferred");
  const headers = { "x-amz-acl": "bucket-owner-full-control" };
  assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/given`, { headers, body: "given" })), "200");
  assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/own`, { body: "own" })), "200");
  assert.equal((await call(ANN, "GET", `/${bucket}/given`)).body, "given");
  assert.equal(await outcome(call(BOB, "GET", `/${bucket}/given`)), "403 AccessDenied");
  assert.equal(await outcome(call(ANN, "GET", `/${bucket}/own`)), "403 AccessDenied");
  assert.equal((await call(BOB, "GET", `/${bucket}/own`)).body, "own");
});

test("everyone may write: what anonymous callers put is the bucket owner's, and is theirs to make once", async () => {
  const bucket = await bucketOf("dropbox", { "x-amz-acl": "public-read-write" });
  assert.equal(await outcome(call(undefined, "PUT", `/${bucket}/new`, { body: "from anyone" })), "200");
  assert.equal((await call(ANN, "GET", `/${bucket}/new`)).body, "from anyone");
  assert.equal(await outcome(call(undefined, "PUT", `/${bucket}/new`, { body: "again" })), "403 AccessDenied");
  assert.equal(await outcome(call(undefined, "DELETE", `/${bucket}/new`)), "403 AccessDenied");
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/new`)), "403 AccessDenied");
  const headers = { "x-amz-acl": "public-read" };
  assert.equal(await outcome(call(undefined, "PUT", `/${bucket}/shown`, { headers, body: "x" })), "403 AccessDenied");
});

test("copies: the source is judged by its own ACL, the copy gets the one that is asked for", async () => {
  const [bucket, others] = [await bucketOf("copied"), "copies-of-bob"];
  assert.equal(await outcome(call(BOB, "PUT", `/${others}`, { headers: { "x-amz-object-ownership": "ObjectWriter" } })), "200");
  const headers = { "x-amz-copy-source": `/${bucket}/k` };
  assert.equal(await outcome(call(BOB, "PUT", `/${others}/k`, { headers })), "403 AccessDenied");
  const begun = await call(BOB, "POST", `/${others}/m`, { query: [["uploads", ""]] });
  const uploadId = /<UploadId>([^<]+)/.exec(begun.body)![1]!;
  const part: Asked = {
    query: [
      ["partNumber", "1"],
      ["uploadId", uploadId],
    ],
    headers,
  };
  assert.equal(await outcome(call(BOB, "PUT", `/${others}/m`, part)), "403 AccessDenied");
  assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, { query: ACL, headers: { "x-amz-acl": "authenticated-read" } })), "200");
  assert.equal(await outcome(call(BOB, "PUT", `/${others}/m`, part)), "200");
  assert.equal(await outcome(call(BOB, "PUT", `/${others}/k`, { headers })), "200");
  assert.equal(await outcome(call(ANN, "GET", `/${others}/k`)), "403 AccessDenied", "not the ACL of its source");
  assert.equal(await outcome(call(BOB, "PUT", `/${others}/k`, { headers: { ...headers, "x-amz-grant-read": "id=ann" } })), "200");
  assert.equal((await call(ANN, "GET", `/${others}/k`)).body, "of ann");
});

test("forms: the field acl is the ACL of what they store", async () => {
  const bucket = await bucketOf("posted");
  const fields = { key: "f", acl: "public-read" };
  const conditions = [{ key: "f" }, { acl: "public-read" }];
  assert.equal((await postForm(gateway.address, bucket, { fields, conditions, file: "by form", key: ANN })).status, 204);
  assert.equal((await call(undefined, "GET", `/${bucket}/f`)).body, "by form");
});

test("public ACLs: refused where blocked, without effect where ignored; not at all on a gateway without public access", async () => {
  const bucket = await bucketOf("blocked", { "x-amz-acl": "public-read" });
  const publicly: Asked = { headers: { "x-amz-acl": "public-read" }, body: "x" };
  const block = (name: string): Promise<string> => {
    const body = `<PublicAccessBlockConfiguration><${name}>true</${name}></PublicAccessBlockConfiguration>`;
    return outcome(call(ANN, "PUT", `/${bucket}`, { query: BLOCK, body }));
  };
  assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/p`, publicly)), "200");
  assert.equal(await block("BlockPublicAcls"), "200");
  await gateway.settled();
  const start = await gateway.contents();
  for (const [method, path, asked] of [
    ["PUT", "/p", publicly],
    ["PUT", "/q", { headers: { "x-amz-grant-read": `uri="${EVERYONE}"` }, body: "x" }],
    ["PUT", "/p", { ...publicly, query: ACL, body: "" }],
    ["PUT", "", { ...publicly, query: ACL, body: "" }],
    ["POST", "/m", { headers: publicly.headers!, query: [["uploads", ""]] }],
    ["PUT", "/c", { headers: { ...publicly.headers, "x-amz-copy-source": `/${bucket}/p` } }],
  ] as const satisfies readonly (readonly [string, string, Asked])[])
    assert.equal(await outcome(call(ANN, method, `/${bucket}${path}`, asked)), "403 AccessDenied", `${method} ${path}`);
  assert.deepEqual(await gateway.contents(), start);
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/p`)), "200", "what was granted before still holds");
  assert.equal(await block("IgnorePublicAcls"), "200");
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}/p`)), "403 AccessDenied");
  assert.equal(await outcome(call(undefined, "GET", `/${bucket}`)), "403 AccessDenied");

  const ownership = { "x-amz-object-ownership": "ObjectWriter" };
  assert.equal(
    await outcome(call(ANN, "PUT", "/open", { headers: { ...ownership, "x-amz-acl": "public-read" } }, closed)),
    "403 AccessDenied",
  );
  assert.equal(await outcome(call(ANN, "PUT", "/named", { headers: { ...ownership, "x-amz-grant-read": "id=bob" } }, closed)), "200");
  assert.equal(await outcome(call(ANN, "PUT", "/named/p", publicly, closed)), "403 AccessDenied");
  assert.equal(await outcome(call(ANN, "PUT", "/named/p", { headers: { "x-amz-grant-read": "id=bob" }, body: "x" }, closed)), "200");
  assert.deepEqual(
    [await outcome(call(BOB, "GET", "/named/p", {}, closed)), await outcome(call(BOB, "GET", "/named", {}, closed))],
    ["200", "200"],
  );
  assert.equal(await outcome(call(undefined, "GET", "/named/p", {}, closed)), "403 AccessDenied");
});

/** Every operation on what is there, by one who may write new objects only: of ann's object, of ann's upload. */
const ON_WHAT_IS_THERE: Readonly<Record<string, (uploadId: string) => readonly [method: string, asked: Asked]>> = {
  GetObject: () => ["GET", {}],
  HeadObject: () => ["HEAD", {}],
  GetObjectAttributes: () => ["GET", { query: [["attributes", ""]], headers: { "x-amz-object-attributes": "ETag" } }],
  GetObjectAcl: () => ["GET", { query: ACL }],
  PutObjectAcl: () => ["PUT", { query: ACL, headers: { "x-amz-acl": "public-read" } }],
  PutObject: () => ["PUT", { body: "over" }],
  CopyObject: () => ["PUT", { headers: { "x-amz-copy-source": "/judged/of-bob" } }],
  DeleteObject: () => ["DELETE", {}],
  GetObjectTagging: () => ["GET", { query: [["tagging", ""]] }],
  DeleteObjectTagging: () => ["DELETE", { query: [["tagging", ""]] }],
  CompleteMultipartUpload: (uploadId) => [
    "POST",
    {
      query: [["uploadId", uploadId]],
      body: `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>9dd4e461268c8034f5c8564e155c67a6</ETag></Part></CompleteMultipartUpload>`,
    },
  ],
  AbortMultipartUpload: (uploadId) => ["DELETE", { query: [["uploadId", uploadId]] }],
  ListParts: (uploadId) => ["GET", { query: [["uploadId", uploadId]] }],
};

test("every operation on what is another's: judged by it, refused, and rows and blobs are as they were", async () => {
  const bucket = await bucketOf("judged", { "x-amz-grant-write": "id=bob" });
  assert.equal(await outcome(call(BOB, "PUT", `/${bucket}/of-bob`, { body: "x" })), "200");
  const begun = await call(ANN, "POST", `/${bucket}/k`, { query: [["uploads", ""]] });
  const uploadId = /<UploadId>([^<]+)/.exec(begun.body)![1]!;
  const part: Asked = {
    query: [
      ["partNumber", "1"],
      ["uploadId", uploadId],
    ],
    body: "x",
  };
  assert.equal(await outcome(call(ANN, "PUT", `/${bucket}/k`, part)), "200");
  await gateway.settled();
  const start = await gateway.contents();
  const judged = Object.entries(OPERATION_ACTIONS).flatMap(([operation, { object }]) => (object === "judged" ? [operation] : []));
  // Forms have a request of their own.
  assert.deepEqual(Object.keys(ON_WHAT_IS_THERE).toSorted(), judged.filter((operation) => operation !== "PostObject").toSorted());
  for (const [operation, make] of Object.entries(ON_WHAT_IS_THERE)) {
    const [method, asked] = make(uploadId);
    const { status } = await call(BOB, method, `/${bucket}/k`, asked);
    assert.equal(status, 403, operation);
  }
  const posted = await postForm(gateway.address, bucket, { fields: { key: "k" }, conditions: [{ key: "k" }], file: "over", key: BOB });
  assert.equal(posted.status, 403);
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), start);
});

test("requests that say nonsense of ACLs: refused, and rows and blobs are as they were", async () => {
  const bucket = await bucketOf("nonsense");
  await gateway.settled();
  const start = await gateway.contents();
  const grant = (owner: string, id: string): string =>
    `<AccessControlPolicy><Owner><ID>${owner}</ID></Owner><AccessControlList><Grant><Grantee><ID>${id}</ID></Grantee>` +
    `<Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>`;
  for (const [asked, expected] of [
    [{ query: ACL }, "400 MissingSecurityHeader"],
    [{ query: ACL, headers: { "x-amz-acl": "private" }, body: grant("ann", "bob") }, "400 UnexpectedContent"],
    [{ query: ACL, headers: { "x-amz-acl": "public" } }, "400 InvalidArgument"],
    [{ query: ACL, headers: { "x-amz-grant-read": "id=stranger" } }, "400 InvalidArgument"],
    [{ query: ACL, headers: { "x-amz-acl": "private", "x-amz-grant-read": "id=bob" } }, "400 InvalidRequest"],
    [{ query: ACL, body: grant("ann", "stranger") }, "400 InvalidArgument"],
    [{ query: ACL, body: grant("bob", "bob") }, "403 AccessDenied"],
    [{ query: ACL, body: "<AccessControlPolicy/>" }, "400 MalformedACLError"],
    [{ query: ACL, headers: { "x-amz-acl": "log-delivery-write" } }, "501 NotImplemented"],
  ] as const satisfies readonly (readonly [Asked, string])[])
    for (const path of [`/${bucket}`, `/${bucket}/k`])
      assert.equal(await outcome(call(ANN, "PUT", path, asked)), expected, `${path} ${JSON.stringify(asked)}`);
  for (const [path, headers, expected] of [
    [`/${bucket}`, { "x-amz-object-ownership": "BucketOwnerPreferred" }, "409 BucketAlreadyOwnedByYou"],
    ["/never-made", { "x-amz-object-ownership": "Mine" }, "400 InvalidArgument"],
    ["/never-made", { "x-amz-acl": "public-read" }, "400 InvalidBucketAclWithObjectOwnership"],
    ["/never-made", { "x-amz-object-ownership": "ObjectWriter", "x-amz-grant-read": "id=stranger" }, "400 InvalidArgument"],
  ] as const satisfies readonly (readonly [string, Headers, string])[])
    assert.equal(await outcome(call(ANN, "PUT", path, { headers })), expected, JSON.stringify(headers));
  assert.equal(
    await outcome(call(BOB, "PUT", `/${bucket}`, { query: OWNERSHIP, body: controls("BucketOwnerEnforced") })),
    "403 AccessDenied",
  );
  assert.equal(await outcome(call(ANN, "GET", `/${bucket}/none`, { query: ACL })), "404 NoSuchKey");
  assert.deepEqual(await gateway.contents(), start);
});
