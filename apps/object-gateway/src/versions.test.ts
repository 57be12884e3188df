// Versioned buckets as two generations of the official client see them, and the headers that only raw requests show.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { MemoryObjectMetadata } from "@concord/port-contracts";
import type { ObjectMetadata } from "@concord/ports";
import { ANN, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign } from "./test/signing.ts";

const MIB = 1024 * 1024;
let gateway: TestGateway;
before(async () => {
  gateway = await TestGateway.start();
});
after(() => gateway.remove());

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
let buckets = 0;

const call = (method: string, path: string, query: readonly (readonly [string, string])[] = [], body = ""): Promise<Answer> =>
  send(
    gateway.address,
    sign({ method, path, query: query.map(([name, value]) => [name, value]), body }, { key: ANN, host: gateway.address }),
  );

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
  describe(`[OG1] versions, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const client = (): S3Client => (generation === "2026" ? gateway.client(ANN) : gateway.client2024(ANN));

    async function versionedBucket(s3: S3Client): Promise<string> {
      const Bucket = `versions-${(buckets += 1)}`;
      await s3.send(new sdk.CreateBucketCommand({ Bucket }));
      await s3.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
      return Bucket;
    }

    const putText = async (s3: S3Client, Bucket: string, Key: string, Body: string): Promise<string> =>
      (await s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body }))).VersionId!;
    const textOf = async (s3: S3Client, Bucket: string, Key: string, VersionId?: string): Promise<string> =>
      await (await s3.send(new sdk.GetObjectCommand({ Bucket, Key, VersionId }))).Body!.transformToString();

    test("put, get, head, tags, attributes and copy of each version", async () => {
      const s3 = client();
      const Bucket = await versionedBucket(s3);
      assert.equal((await s3.send(new sdk.GetBucketVersioningCommand({ Bucket }))).Status, "Enabled");
      const Key = "a b/ü";
      const [one, two] = [await putText(s3, Bucket, Key, "one"), await putText(s3, Bucket, Key, "number two")];
      assert.deepEqual([await textOf(s3, Bucket, Key), await textOf(s3, Bucket, Key, one)], ["number two", "one"]);
      const head = await s3.send(new sdk.HeadObjectCommand({ Bucket, Key, VersionId: one }));
      assert.deepEqual([head.VersionId, head.ContentLength], [one, 3]);
      assert.equal((await s3.send(new sdk.HeadObjectCommand({ Bucket, Key }))).VersionId, two);
      const attributes = await s3.send(
        new sdk.GetObjectAttributesCommand({ Bucket, Key, VersionId: one, ObjectAttributes: ["ObjectSize"] }),
      );
      assert.deepEqual([attributes.VersionId, attributes.ObjectSize], [one, 3]);
      const TagSet = [{ Key: "t", Value: "1" }];
      await s3.send(new sdk.PutObjectTaggingCommand({ Bucket, Key, VersionId: one, Tagging: { TagSet } }));
      assert.deepEqual((await s3.send(new sdk.GetObjectTaggingCommand({ Bucket, Key, VersionId: one }))).TagSet, TagSet);
      assert.deepEqual((await s3.send(new sdk.GetObjectTaggingCommand({ Bucket, Key }))).TagSet, []);
      await s3.send(new sdk.DeleteObjectTaggingCommand({ Bucket, Key, VersionId: one }));
      assert.deepEqual((await s3.send(new sdk.GetObjectTaggingCommand({ Bucket, Key, VersionId: one }))).TagSet, []);
      const CopySource = `${Bucket}/${encodeURIComponent(Key)}?versionId=${one}`;
      const copied = await s3.send(new sdk.CopyObjectCommand({ Bucket, Key, CopySource }));
      assert.equal(copied.CopySourceVersionId, one);
      assert.deepEqual([await textOf(s3, Bucket, Key), await textOf(s3, Bucket, Key, copied.VersionId)], ["one", "one"]);
      assert.equal(await failureOf(textOf(s3, Bucket, Key, "0".repeat(32))), "404 NoSuchVersion");
    });

    test("deletes: markers, their removal, many at once; a bucket goes when no version is left", async () => {
      const s3 = client();
      const Bucket = await versionedBucket(s3);
      const Key = "k";
      const one = await putText(s3, Bucket, Key, "one");
      const marker = await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key }));
      assert.equal(marker.DeleteMarker, true);
      assert.equal(await failureOf(textOf(s3, Bucket, Key)), "404 NoSuchKey");
      assert.equal(await failureOf(textOf(s3, Bucket, Key, marker.VersionId)), "405 MethodNotAllowed");
      const copy = (more: string): Promise<unknown> =>
        s3.send(new sdk.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/${Key}${more}` }));
      assert.equal(await failureOf(copy("")), "404 NoSuchKey");
      assert.equal(await failureOf(copy(`?versionId=${marker.VersionId}`)), "400 InvalidRequest");
      assert.equal((await s3.send(new sdk.ListObjectsV2Command({ Bucket }))).KeyCount, 0);
      assert.equal(await failureOf(s3.send(new sdk.DeleteBucketCommand({ Bucket }))), "409 BucketNotEmpty");
      const undone = await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key, VersionId: marker.VersionId }));
      assert.deepEqual([undone.DeleteMarker, undone.VersionId], [true, marker.VersionId]);
      assert.equal(await textOf(s3, Bucket, Key), "one");
      const several = await s3.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key }, { Key: "new" }] } }));
      assert.deepEqual(
        several.Deleted!.map(({ DeleteMarker, VersionId }) => [DeleteMarker, VersionId]),
        [
          [true, undefined],
          [true, undefined],
        ],
      );
      const { Versions = [], DeleteMarkers = [] } = await s3.send(new sdk.ListObjectVersionsCommand({ Bucket }));
      assert.deepEqual(
        [Versions.map(({ VersionId, IsLatest }) => [VersionId, IsLatest]), DeleteMarkers.map(({ Key: name }) => name)],
        [[[one, false]], ["k", "new"]],
      );
      const Objects = [...Versions, ...DeleteMarkers].map(({ Key: name, VersionId }) => ({ Key: name!, VersionId }));
      const all = await s3.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects: [...Objects, { Key, VersionId: "none" }] } }));
      assert.deepEqual(
        [all.Deleted!.length, all.Errors!.map(({ Code, VersionId }) => [Code, VersionId])],
        [3, [["InvalidArgument", "none"]]],
      );
      await s3.send(new sdk.DeleteBucketCommand({ Bucket }));
    });

    test("suspended: the null version is replaced, others stay; conditions count a delete marker as absent", async () => {
      const s3 = client();
      const Bucket = await versionedBucket(s3);
      const Key = "k";
      const one = await putText(s3, Bucket, Key, "one");
      await s3.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Suspended" } }));
      assert.equal((await s3.send(new sdk.GetBucketVersioningCommand({ Bucket }))).Status, "Suspended");
      assert.deepEqual([await putText(s3, Bucket, Key, "x"), await putText(s3, Bucket, Key, "y")], ["null", "null"]);
      assert.deepEqual([await textOf(s3, Bucket, Key, "null"), await textOf(s3, Bucket, Key, one)], ["y", "one"]);
      const IfNoneMatch = "*";
      assert.equal(await failureOf(s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "z", IfNoneMatch }))), "412 PreconditionFailed");
      assert.equal((await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key }))).VersionId, "null");
      await s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "z", IfNoneMatch }));
      assert.equal((await s3.send(new sdk.ListObjectVersionsCommand({ Bucket }))).Versions!.length, 2);
    });

    test("multipart: the version of the completed upload, again for a repeated complete; parts copied from a version", async () => {
      const s3 = client();
      const Bucket = await versionedBucket(s3);
      const Key = "large";
      const old = await putText(s3, Bucket, Key, "x".repeat(5 * MIB));
      await putText(s3, Bucket, Key, "new");
      const { UploadId } = await s3.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key }));
      const copied = await s3.send(
        new sdk.UploadPartCopyCommand({ Bucket, Key, UploadId, PartNumber: 1, CopySource: `${Bucket}/${Key}?versionId=${old}` }),
      );
      assert.equal(copied.CopySourceVersionId, old);
      const part = await s3.send(new sdk.UploadPartCommand({ Bucket, Key, UploadId, PartNumber: 2, Body: "end" }));
      const Parts = [
        { PartNumber: 1, ETag: copied.CopyPartResult!.ETag },
        { PartNumber: 2, ETag: part.ETag },
      ];
      const complete = async (): Promise<string | undefined> =>
        (await s3.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts } }))).VersionId;
      const made = await complete();
      await putText(s3, Bucket, Key, "newest");
      assert.equal(await complete(), made);
      assert.equal((await textOf(s3, Bucket, Key, made)).length, 5 * MIB + 3);
      assert.equal(await textOf(s3, Bucket, Key), "newest");
    });

    test("lists of versions: pages of any size say the same, with prefixes", async () => {
      const s3 = client();
      const Bucket = await versionedBucket(s3);
      for (const Key of ["a", "b/1", "b/2", "c"]) for (const Body of ["1", "2", "3"]) await putText(s3, Bucket, Key, Body);
      await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key: "b/1" }));
      for (const Delimiter of [undefined, "/"]) {
        const pages = async (MaxKeys: number): Promise<readonly string[]> => {
          const found: string[] = [];
          let from: { KeyMarker?: string | undefined; VersionIdMarker?: string | undefined } = {};
          for (let more = true; more;) {
            const page = await s3.send(new sdk.ListObjectVersionsCommand({ Bucket, Delimiter, MaxKeys, ...from }));
            const { Versions = [], DeleteMarkers = [], CommonPrefixes = [] } = page;
            assert.ok(Versions.length + DeleteMarkers.length + CommonPrefixes.length <= MaxKeys);
            found.push(...[...Versions, ...DeleteMarkers].map(({ Key, VersionId, IsLatest }) => `${Key} ${VersionId} ${IsLatest}`));
            found.push(...CommonPrefixes.map(({ Prefix }) => Prefix!));
            from = { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker };
            more = page.IsTruncated === true;
          }
          return found.sort();
        };
        const whole = await pages(1000);
        assert.equal(whole.length, Delimiter === undefined ? 13 : 7);
        for (const size of [1, 2, 5]) assert.deepEqual(await pages(size), whole);
      }
    });
  });
}

test("raw: headers of delete markers, of null versions, and none in a bucket without versions", async () => {
  await call("PUT", "/raw");
  await call("PUT", "/raw/k", [], "before");
  assert.equal((await call("GET", "/raw/k")).headers["x-amz-version-id"], undefined);
  assert.equal((await call("GET", "/raw/k", [["versionId", "null"]])).body, "before");
  const on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  assert.equal((await call("PUT", "/raw", [["versioning", ""]], on)).status, 200);
  assert.equal((await call("GET", "/raw/k")).headers["x-amz-version-id"], "null");
  const deleted = await call("DELETE", "/raw/k");
  const id = deleted.headers["x-amz-version-id"]!;
  assert.deepEqual([deleted.status, deleted.headers["x-amz-delete-marker"]], [204, "true"]);
  for (const method of ["GET", "HEAD"]) {
    const gone = await call(method, "/raw/k");
    assert.deepEqual([gone.status, gone.headers["x-amz-delete-marker"], gone.headers["x-amz-version-id"]], [404, "true", id]);
    const itself = await call(method, "/raw/k", [["versionId", id]]);
    assert.deepEqual([itself.status, itself.headers["x-amz-delete-marker"], itself.headers["allow"]], [405, "true", "DELETE"]);
    assert.ok(itself.headers["last-modified"] !== undefined);
  }
  assert.match((await call("GET", "/raw", [["versions", ""]])).body, /<DeleteMarker>.*<Version><Key>k<\/Key><VersionId>null</);
});

test("[OGD5] 1000 versions of a key: a page of current objects reads no more rows than with one, a page of versions has them in two", async () => {
  const memory = new MemoryObjectMetadata();
  let rowsRead = 0;
  const metadata: ObjectMetadata = {
    read: (partition, keys) => memory.read(partition, keys),
    range: async (partition, range) => {
      const rows = await memory.range(partition, range);
      rowsRead += rows.length;
      return rows;
    },
    readCounters: (partition, key) => memory.readCounters(partition, key),
    commit: (commit) => memory.commit(commit),
  };
  const many = await TestGateway.start({ metadata });
  try {
    const s3 = many.client();
    const Bucket = "many";
    await s3.send(new sdk2026.CreateBucketCommand({ Bucket }));
    await s3.send(new sdk2026.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
    for (const Key of ["a", "b", "c"]) await s3.send(new sdk2026.PutObjectCommand({ Bucket, Key, Body: Key }));
    const rowsOfList = async (): Promise<number> => {
      const before = rowsRead;
      const { Contents } = await s3.send(new sdk2026.ListObjectsV2Command({ Bucket }));
      assert.deepEqual(
        Contents!.map(({ Key }) => Key),
        ["a", "b", "c"],
      );
      return rowsRead - before;
    };
    const rowsOfOne = await rowsOfList();
    for (let at = 0; at < 40; at += 1) {
      await Promise.all(
        Array.from({ length: 25 }, (_, n) => s3.send(new sdk2026.PutObjectCommand({ Bucket, Key: "b", Body: `${at}/${n}` }))),
      );
    }
    assert.equal(await rowsOfList(), rowsOfOne);
    const first = await s3.send(new sdk2026.ListObjectVersionsCommand({ Bucket }));
    assert.deepEqual([first.Versions!.length, first.IsTruncated, first.NextKeyMarker], [1000, true, "b"]);
    const from = { KeyMarker: first.NextKeyMarker, VersionIdMarker: first.NextVersionIdMarker };
    const rest = await s3.send(new sdk2026.ListObjectVersionsCommand({ Bucket, ...from }));
    assert.deepEqual([rest.Versions!.length, rest.IsTruncated], [3, false]);
    const all = [...first.Versions!, ...rest.Versions!];
    assert.equal(new Set(all.map(({ Key, VersionId }) => `${Key} ${VersionId}`)).size, 1003);
    assert.equal(all.filter(({ IsLatest }) => IsLatest).length, 3);
  } finally {
    await many.remove();
  }
});

test("a change of a bucket waits for another one: dropped when its client goes", async () => {
  const metadata = new MemoryObjectMetadata();
  const commit = metadata.commit.bind(metadata);
  const client = new AbortController();
  let asked = 0;
  const held = await TestGateway.start({
    metadata,
    // The signal of the second change is the test's: a client that goes at a known moment.
    http: (server) => ({
      serve: (address, handler) =>
        server.serve(address, (request) => {
          if (!request.target.includes("versioning")) return handler(request);
          asked += 1;
          return handler(asked === 2 ? { ...request, signal: client.signal } : request);
        }),
    }),
  });
  try {
    const put = (path: string, body = ""): Promise<Answer> => {
      const query = body === "" ? [] : [["versioning", ""] as const];
      return send(held.address, sign({ method: "PUT", path, query, body }, { key: ANN, host: held.address }));
    };
    const status = (text: string): string => `<VersioningConfiguration><Status>${text}</Status></VersioningConfiguration>`;
    assert.equal((await put("/waiting")).status, 200);
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    let commits = 0;
    metadata.commit = (batch) => ((commits += 1), released.then(() => commit(batch)));
    const first = put("/waiting", status("Enabled"));
    while (commits === 0) await turn();
    await turns();
    const second = put("/waiting", status("Suspended"));
    while (asked < 2) await turn();
    await turns();
    client.abort();
    release();
    assert.deepEqual([(await first).status, (await second).code], [200, "RequestTimeout"]);
    assert.equal((await held.client(ANN).send(new sdk2026.GetBucketVersioningCommand({ Bucket: "waiting" }))).Status, "Enabled");
  } finally {
    await held.remove();
  }
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Enough for a request to come where it waits. */
async function turns(): Promise<void> {
  for (let at = 0; at < 100; at += 1) await turn();
}
