// Uploads by browser forms, read back by two generations of the official client; what is refused leaves rows and blobs as they were.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { postForm, signedFields, type FormPlan } from "./test/forms.ts";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start()));
after(() => gateway.remove());

interface Asked {
  readonly query?: readonly (readonly [string, string])[];
  readonly body?: string;
}

const call = (key: AccessKey, method: string, path: string, asked: Asked = {}): Promise<Answer> =>
  send(gateway.address, sign({ method, path, ...asked }, { key, host: gateway.address }));

async function bucketOf(name: string): Promise<string> {
  assert.equal((await call(ANN, "PUT", `/${name}`)).status, 200);
  assert.equal((await call(ANN, "PUT", `/${name}/k`, { body: "of ann" })).status, 200);
  return name;
}

async function allow(bucket: string, principal: unknown, ...actions: readonly string[]): Promise<void> {
  const resources = [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`];
  const statement = { Effect: "Allow", Principal: principal, Action: actions, Resource: resources };
  const body = JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
  assert.equal((await call(ANN, "PUT", `/${bucket}`, { query: [["policy", ""]], body })).status, 204);
}

const ANY_KEY = ["starts-with", "$key", ""];
/** Signed by ann, for any key. */
const post = (bucket: string, plan: FormPlan = {}): Promise<Answer> =>
  postForm(gateway.address, bucket, {
    key: ANN,
    ...plan,
    conditions: [ANY_KEY, ...(plan.conditions ?? [])],
    fields: { key: "k", ...plan.fields },
  });

const outcome = async (pending: Promise<Answer>): Promise<string> => {
  const { status, code } = await pending;
  return code === "" ? String(status) : `${status} ${code}`;
};

for (const generation of ["2026", "2024"] as const) {
  describe(`forms, client of ${generation}`, () => {
    const sdk = SDKS[generation];

    test("an upload with attributes, tags and a checksum, read back", async () => {
      const Bucket = await bucketOf(`form-${generation}`);
      const ann = generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN);
      const fields = {
        key: "up/${filename}",
        "Content-Type": "text/html",
        "Cache-Control": "no-cache",
        "Content-Disposition": "inline; filename=ä",
        "Content-Language": "ä",
        "x-amz-meta-name": "${filename}",
        tagging: "<Tagging><TagSet><Tag><Key>a b</Key><Value>c=d</Value></Tag></TagSet></Tagging>",
        acl: "private",
        "x-amz-checksum-crc32": "NSRBwg==",
        success_action_status: "201",
        "x-ignore-this": "please",
      };
      const conditions = [
        ...["content-type", "cache-control", "content-disposition", "content-language", "x-amz-meta-name", "tagging"].map((name) => [
          "starts-with",
          `$${name}`,
          "",
        ]),
        { acl: "private" },
        { "x-amz-checksum-crc32": "NSRBwg==" },
        { success_action_status: "201" },
        ["content-length-range", 3, 3],
      ];
      const posted = await post(Bucket, { fields, conditions, file: "abc", fileName: "folder\\b c.txt" });
      const etag = '"900150983cd24fb0d6963f7d28e17f72"';
      const location = `http://${gateway.address}/${Bucket}/up/b%20c.txt`;
      assert.deepEqual([posted.status, posted.headers["etag"], posted.headers["location"]], [201, etag, location]);
      for (const [name, value] of Object.entries({ Location: location, Bucket, Key: "up/b c.txt", ETag: etag.replaceAll('"', "&quot;") }))
        assert.ok(posted.body.includes(`<${name}>${value}</${name}>`), posted.body);
      const found = await ann.send(new sdk.GetObjectCommand({ Bucket, Key: "up/b c.txt", ChecksumMode: "ENABLED" }));
      assert.deepEqual(
        [
          await found.Body!.transformToString(),
          found.ContentType,
          found.CacheControl,
          found.ContentDisposition,
          found.Metadata,
          found.ETag,
          found.ChecksumCRC32,
        ],
        ["abc", "text/html", "no-cache", "inline; filename=\u00c3\u00a4", { name: "b c.txt" }, etag, "NSRBwg=="],
      );
      const raw = await call(ANN, "GET", `/${Bucket}/up/b c.txt`);
      assert.equal(Buffer.from(raw.headers["content-language"] ?? "", "latin1").toString(), "ä");
      const tags = await ann.send(new sdk.GetObjectTaggingCommand({ Bucket, Key: "up/b c.txt" }));
      assert.deepEqual(tags.TagSet, [{ Key: "a b", Value: "c=d" }]);
    });

    test("a versioned bucket keeps what a form replaces", async () => {
      const Bucket = await bucketOf(`form-versions-${generation}`);
      const ann = generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN);
      await ann.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
      const posted = await post(Bucket);
      assert.equal(posted.status, 204);
      const { Versions } = await ann.send(new sdk.ListObjectVersionsCommand({ Bucket }));
      assert.deepEqual(
        Versions?.map(({ VersionId }) => VersionId),
        [posted.headers["x-amz-version-id"], "null"],
      );
    });
  });
}

test("a large file in many chunks, with what looks like a boundary", async () => {
  const bucket = await bucketOf("large");
  const file = Buffer.alloc(3 * 1024 * 1024, "\r\n------formBoundary7MA4YWx-");
  assert.equal(await outcome(post(bucket, { file, fields: { key: "large" } })), "204");
  const found = await call(ANN, "GET", `/${bucket}/large`);
  assert.equal(found.body, file.toString());
});

test("answers: 200, 204 for anything unknown, a redirect with what was stored", async () => {
  const bucket = await bucketOf("answers");
  const covered = ["success_action_status", "success_action_redirect", "redirect"].map((name) => ["starts-with", `$${name}`, ""]);
  const answered = (fields: Readonly<Record<string, string>>): Promise<Answer> => post(bucket, { fields, conditions: covered });
  assert.equal((await answered({ success_action_status: "200" })).status, 200);
  assert.equal((await answered({ success_action_status: "404" })).status, 204);
  const sent = await answered({ key: "ü&", success_action_redirect: "https://app.example/done?a=b#top" });
  const etag = sent.headers["etag"]!.replaceAll('"', "%22");
  assert.deepEqual(
    [sent.status, sent.headers["location"]],
    [303, `https://app.example/done?a=b&bucket=${bucket}&key=%C3%BC%26&etag=${etag}#top`],
  );
  assert.match(
    (await answered({ redirect: "http://app.example" })).headers["location"]!,
    /^http:\/\/app\.example\/\?bucket=answers&key=k&etag=/,
  );
});

test("who may: another tenant, and a form without a policy, by the bucket's policy; tags and an acl are rights of their own", async () => {
  const bucket = await bucketOf("shared-forms");
  const as = (key: AccessKey | undefined, fields: Readonly<Record<string, string>> = {}): Promise<string> => {
    const conditions = [ANY_KEY, ["starts-with", "$acl", ""], ["starts-with", "$tagging", ""]];
    const signed = key === undefined ? {} : { key, conditions };
    return outcome(postForm(gateway.address, bucket, { ...signed, fields: { key: "new", ...fields } }));
  };
  const tagging = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
  const acl = "bucket-owner-full-control";
  assert.deepEqual([await as(BOB), await as(undefined)], ["403 AccessDenied", "403 AccessDenied"]);
  await allow(bucket, "*", "s3:PutObject");
  assert.deepEqual([await as(BOB), await as(undefined)], ["204", "204"]);
  for (const key of [BOB, undefined]) {
    assert.equal(await as(key, { tagging }), "403 AccessDenied");
    assert.equal(await as(key, { acl }), "403 AccessDenied");
  }
  await allow(bucket, "*", "s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectAcl");
  assert.equal(await as(undefined, { tagging, acl }), "204");
  assert.equal((await call(ANN, "GET", `/${bucket}/new`)).body, "of a form");
});

test("a PUT that says whose its object is needs the right to", async () => {
  const bucket = await bucketOf("put-acl");
  const put = (): Promise<string> => {
    const headers = { "x-amz-acl": "bucket-owner-full-control" };
    return outcome(
      send(gateway.address, sign({ method: "PUT", path: `/${bucket}/b`, headers, body: "b" }, { key: BOB, host: gateway.address })),
    );
  };
  const bob = { AWS: "arn:aws:iam::bob:root" };
  await allow(bucket, bob, "s3:PutObject");
  assert.equal(await put(), "403 AccessDenied");
  await allow(bucket, bob, "s3:PutObject", "s3:PutObjectAcl");
  assert.equal(await put(), "200");
});

test("refusals leave rows and blobs as they were", async () => {
  const bucket = await bucketOf("form-untouched");
  await gateway.settled();
  const start = await gateway.contents();
  const big = "x".repeat(300_000);
  const signed = signedFields(bucket, { key: ANN, conditions: [ANY_KEY] });
  const any = (...names: readonly string[]): readonly unknown[] => names.map((name) => ["starts-with", `$${name}`, ""]);
  const rows: readonly (readonly [pending: () => Promise<Answer>, expected: string])[] = [
    [() => post(bucket, { expiresMs: Date.now() - 1000 }), "403 AccessDenied"],
    [() => post(bucket, { fields: { "x-amz-meta-a": "b" } }), "403 AccessDenied"],
    [() => post(bucket, { conditions: [{ key: "other" }] }), "403 AccessDenied"],
    [
      () => post(bucket, { conditions: [["starts-with", "$key", "k/"]], fields: { key: "${filename}" }, fileName: "x" }),
      "403 AccessDenied",
    ],
    [() => post("not-signed", { target: `/${bucket}` }), "403 AccessDenied"],
    [() => post(bucket, { fields: { bucket: "other" } }), "400 InvalidArgument"],
    [() => post(bucket, { fields: { "x-amz-signature": "0".repeat(64) } }), "403 SignatureDoesNotMatch"],
    [() => post(bucket, { fields: { "x-amz-signature": "" } }), "400 InvalidArgument"],
    [() => post(bucket, { fields: { policy: `${signed["policy"]}` } }), "403 SignatureDoesNotMatch"],
    [() => post(bucket, { fields: { awsaccesskeyid: "a", signature: "b" } }), "400 InvalidRequest"],
    [() => post(bucket, { key: { ...ANN, accessKeyId: "OTHER" } }), "403 InvalidAccessKeyId"],
    [() => post(bucket, { key: BOB }), "403 AccessDenied"],
    [() => postForm(gateway.address, bucket, { fields: { key: "k" } }), "403 AccessDenied"],
    [() => post(bucket, { fields: { key: "" } }), "400 InvalidArgument"],
    [() => post(bucket, { fields: { key: "k".repeat(1025) } }), "400 KeyTooLongError"],
    [() => post(bucket, { conditions: [["content-length-range", 0, 8]] }), "400 EntityTooLarge"],
    [() => post(bucket, { conditions: [["content-length-range", 0, 299_999]], file: big }), "400 EntityTooLarge"],
    [() => post(bucket, { conditions: [["content-length-range", 300_001, 400_000]], file: big }), "400 EntityTooSmall"],
    [() => post(bucket, { conditions: [["content-length-range", 10, 5]] }), "400 EntityTooLarge"],
    [() => post(bucket, { cutBytes: 4 }), "400 IncompleteBody"],
    [() => post(bucket, { file: big, cutBytes: 100 }), "400 IncompleteBody"],
    [
      () => post(bucket, { conditions: any("success_action_redirect"), fields: { success_action_redirect: "javascript:alert(1)" } }),
      "400 InvalidArgument",
    ],
    [
      () =>
        post(bucket, {
          conditions: any("success_action_redirect"),
          fields: { success_action_redirect: "http://a.example/\r\nset-cookie: a" },
        }),
      "400 InvalidArgument",
    ],
    [() => post(bucket, { conditions: any("content-type"), fields: { "content-type": "a/b\r\nset-cookie: a" } }), "400 InvalidArgument"],
    [() => post(bucket, { conditions: any("x-amz-meta-a"), fields: { "x-amz-meta-a": "a\u0001" } }), "400 InvalidArgument"],
    [() => post(bucket, { conditions: any("acl"), fields: { acl: "public-read" } }), "400 AccessControlListNotSupported"],
    [() => post(bucket, { conditions: any("tagging"), fields: { tagging: "<x/>" } }), "400 MalformedXML"],
    [
      () => post(bucket, { conditions: any("x-amz-server-side-encryption"), fields: { "x-amz-server-side-encryption": "AES256" } }),
      "501 NotImplemented",
    ],
    [
      () => post(bucket, { conditions: any("x-amz-checksum-crc32"), fields: { "x-amz-checksum-crc32": "AAAAAA==" }, file: big }),
      "400 BadDigest",
    ],
    [() => post(bucket, { conditions: any("content-md5"), fields: { "content-md5": "AAAAAAAAAAAAAAAAAAAAAA==" } }), "400 BadDigest"],
    [() => post(bucket, { headers: { "x-amz-meta-a": "b" } }), "400 InvalidArgument"],
    [() => post(bucket, { headers: { authorization: "AWS4-HMAC-SHA256 x" } }), "400 InvalidArgument"],
    [() => post(bucket, { headers: { "content-type": "multipart/form-data" } }), "400 MalformedPOSTRequest"],
    [() => post(bucket, { target: `/${bucket}?acl` }), "501 NotImplemented"],
    [() => post("not-there"), "404 NoSuchBucket"],
    [() => post("Not_Valid"), "400 InvalidBucketName"],
    [() => post(bucket, { conditions: any("x-big"), fields: { "x-big": "b".repeat(30_000) } }), "400 MaxPostPreDataLengthExceeded"],
    [() => call(ANN, "POST", `/${bucket}`, { body: "key=k" }), "412 PreconditionFailed"],
  ];
  for (const [at, [pending, expected]] of rows.entries())
    assert.equal(await outcome(pending()), expected, `row ${at}: ${pending.toString()}`);
  await gateway.settled();
  assert.deepEqual(await gateway.contents(), start);
});
