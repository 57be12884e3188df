// Every operation of the first milestone, by both generations of the official client, on real sockets and files.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { ChecksumAlgorithm, S3Client } from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";

const MIB = 1024 * 1024;
let gateway: TestGateway;
before(async () => {
  gateway = await TestGateway.start();
});
after(() => gateway.remove());

const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");
/** The newest, and the last before checksums became the default. Their types are the same for what is used here. */
const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const GENERATIONS = ["2026", "2024"] as const;
const clientOf = (generation: (typeof GENERATIONS)[number], key = ANN): S3Client =>
  generation === "2026" ? gateway.client(key) : gateway.client2024(key);
let buckets = 0;

/** The code and status that a call fails with. */
async function failureOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (thrown) {
    const { name, $metadata } = thrown as { name: string; $metadata: { httpStatusCode: number } };
    return `${$metadata.httpStatusCode} ${name}`;
  }
  return "no failure";
}

for (const generation of GENERATIONS) {
  describe(`[OG1] client of ${generation}`, () => {
    const client = (): S3Client => clientOf(generation);
    const {
      AbortMultipartUploadCommand,
      CompleteMultipartUploadCommand,
      CopyObjectCommand,
      CreateBucketCommand,
      CreateMultipartUploadCommand,
      DeleteBucketCommand,
      DeleteBucketTaggingCommand,
      DeleteObjectCommand,
      DeleteObjectsCommand,
      DeleteObjectTaggingCommand,
      GetBucketLocationCommand,
      GetBucketTaggingCommand,
      GetBucketVersioningCommand,
      GetObjectAttributesCommand,
      GetObjectCommand,
      GetObjectTaggingCommand,
      HeadBucketCommand,
      HeadObjectCommand,
      ListBucketsCommand,
      ListMultipartUploadsCommand,
      ListObjectsCommand,
      ListObjectsV2Command,
      ListPartsCommand,
      PutBucketTaggingCommand,
      PutObjectCommand,
      PutObjectTaggingCommand,
      UploadPartCommand,
      UploadPartCopyCommand,
    } = SDKS[generation];

    async function newBucket(client: S3Client): Promise<string> {
      const Bucket = `bucket-${(buckets += 1)}`;
      await client.send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    }

    async function bytesOf(client: S3Client, Bucket: string, Key: string, more: object = {}): Promise<Buffer> {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key, ...more }));
      return Buffer.from(await Body!.transformToByteArray());
    }

    test("buckets: made, found, listed, tagged, removed", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      assert.equal(await failureOf(s3.send(new CreateBucketCommand({ Bucket }))), "no failure");
      assert.equal((await s3.send(new HeadBucketCommand({ Bucket }))).$metadata.httpStatusCode, 200);
      const listed = await s3.send(new ListBucketsCommand({}));
      assert.ok(listed.Buckets!.some(({ Name, CreationDate }) => Name === Bucket && CreationDate instanceof Date));
      assert.equal((await s3.send(new GetBucketLocationCommand({ Bucket }))).LocationConstraint, undefined);
      assert.equal((await s3.send(new GetBucketVersioningCommand({ Bucket }))).Status, undefined);
      assert.equal(await failureOf(s3.send(new GetBucketTaggingCommand({ Bucket }))), "404 NoSuchTagSet");
      const TagSet = [{ Key: "team", Value: "blue + green/2 @home" }];
      await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
      assert.deepEqual((await s3.send(new GetBucketTaggingCommand({ Bucket }))).TagSet, TagSet);
      await s3.send(new DeleteBucketTaggingCommand({ Bucket }));
      assert.equal(await failureOf(s3.send(new GetBucketTaggingCommand({ Bucket }))), "404 NoSuchTagSet");
      await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
      assert.equal(await failureOf(s3.send(new DeleteBucketCommand({ Bucket }))), "409 BucketNotEmpty");
      await s3.send(new DeleteObjectCommand({ Bucket, Key: "k" }));
      await s3.send(new DeleteBucketCommand({ Bucket }));
      assert.match(await failureOf(s3.send(new HeadBucketCommand({ Bucket }))), /^404/);
    });

    test("objects: small, large and empty: bytes, attributes and ETag come back; overwritten; deleted", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      for (const size of [0, 1, 16 * 1024, 16 * 1024 + 1, 3 * MIB + 7]) {
        const Body = randomBytes(size);
        const Key = `size ${size}`;
        const about = {
          ContentType: "text/x-y",
          CacheControl: "no-cache",
          ContentDisposition: "inline",
          ContentLanguage: "de",
          Metadata: { one: "1", two: "b c" },
        };
        const put = await s3.send(new PutObjectCommand({ Bucket, Key, Body, ...about }));
        assert.equal(put.ETag, `"${md5(Body)}"`);
        const got = await s3.send(new GetObjectCommand({ Bucket, Key }));
        assert.deepEqual(Buffer.from(await got.Body!.transformToByteArray()), Body);
        for (const [name, value] of Object.entries(about)) assert.deepEqual(got[name as keyof typeof got], value);
        const head = await s3.send(new HeadObjectCommand({ Bucket, Key }));
        assert.equal(head.ContentLength, size);
        assert.equal(head.AcceptRanges, "bytes");
        assert.ok(Math.abs(head.LastModified!.getTime() - Date.now()) < 60_000);
        assert.deepEqual(head.Metadata, about.Metadata);
      }
      await s3.send(new PutObjectCommand({ Bucket, Key: "size 1", Body: "other" }));
      assert.equal((await bytesOf(s3, Bucket, "size 1")).toString(), "other");
      await s3.send(new DeleteObjectCommand({ Bucket, Key: "size 1" }));
      await s3.send(new DeleteObjectCommand({ Bucket, Key: "size 1" }));
      assert.equal(await failureOf(s3.send(new GetObjectCommand({ Bucket, Key: "size 1" }))), "404 NoSuchKey");
      assert.match(await failureOf(s3.send(new HeadObjectCommand({ Bucket, Key: "size 1" }))), /^404/);
    });

    test("checksums: every algorithm, of bytes and of streams: checked, stored, given back", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const algorithms: ChecksumAlgorithm[] =
        generation === "2026" ? ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] : ["CRC32", "CRC32C", "SHA1", "SHA256"];
      for (const ChecksumAlgorithm of algorithms) {
        const Body = randomBytes(100_000);
        const put = (await s3.send(new PutObjectCommand({ Bucket, Key: ChecksumAlgorithm, Body, ChecksumAlgorithm }))) as unknown as Record<
          string,
          string
        >;
        const name = `Checksum${ChecksumAlgorithm}`;
        assert.ok(put[name] !== undefined && put[name].length >= 8, name);
        const head = (await s3.send(
          new HeadObjectCommand({ Bucket, Key: ChecksumAlgorithm, ChecksumMode: "ENABLED" }),
        )) as unknown as Record<string, string>;
        assert.equal(head[name], put[name]);
        assert.deepEqual(await bytesOf(s3, Bucket, ChecksumAlgorithm, { ChecksumMode: "ENABLED" }), Body);
        const streamed = Readable.from([Body.subarray(0, 50_000), Body.subarray(50_000)], { objectMode: false });
        await s3.send(new PutObjectCommand({ Bucket, Key: "stream", Body: streamed, ContentLength: Body.length, ChecksumAlgorithm }));
        const again = (await s3.send(new HeadObjectCommand({ Bucket, Key: "stream", ChecksumMode: "ENABLED" }))) as unknown as Record<
          string,
          string
        >;
        assert.equal(again[name], put[name]);
      }
      const withDefaults = await s3.send(new PutObjectCommand({ Bucket, Key: "default", Body: "abc" }));
      assert.equal(withDefaults.ChecksumCRC32 !== undefined, generation === "2026");
      const wrong = new PutObjectCommand({ Bucket, Key: "wrong", Body: "abc", ChecksumCRC32: "AAAAAA==" });
      assert.equal(await failureOf(s3.send(wrong)), "400 BadDigest");
      assert.equal(await failureOf(s3.send(new GetObjectCommand({ Bucket, Key: "wrong" }))), "404 NoSuchKey");
    });

    test("ranges: first bytes, middle, last bytes, across parts; behind the end", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const Body = randomBytes(100_000);
      await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body }));
      const range = async (Range: string): Promise<string> => {
        const got = await s3.send(new GetObjectCommand({ Bucket, Key: "k", Range }));
        const bytes = Buffer.from(await got.Body!.transformToByteArray());
        const [, first, last] = /^bytes (\d+)-(\d+)\/100000$/.exec(got.ContentRange!)!;
        assert.equal(got.$metadata.httpStatusCode, 206);
        assert.deepEqual(bytes, Body.subarray(Number(first), Number(last) + 1));
        return `${first}-${last}`;
      };
      assert.equal(await range("bytes=0-0"), "0-0");
      assert.equal(await range("bytes=500-70000"), "500-70000");
      assert.equal(await range("bytes=99990-"), "99990-99999");
      assert.equal(await range("bytes=99990-200000"), "99990-99999");
      assert.equal(await range("bytes=-10"), "99990-99999");
      assert.equal(await range("bytes=-200000"), "0-99999");
      assert.equal(await failureOf(range("bytes=100000-")), "416 InvalidRange");
      const head = await s3.send(new HeadObjectCommand({ Bucket, Key: "k", Range: "bytes=-10" }));
      assert.equal(head.ContentLength, 10);
    });

    test("conditions: get, head, put and copy", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const put = (more: object): Promise<unknown> => s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "1", ...more }));
      assert.equal(await failureOf(put({ IfMatch: '"00000000000000000000000000000000"' })), "404 NoSuchKey");
      await put({ IfNoneMatch: "*" });
      const { ETag } = await s3.send(new HeadObjectCommand({ Bucket, Key: "k" }));
      assert.equal(await failureOf(put({ IfNoneMatch: "*" })), "412 PreconditionFailed");
      assert.equal(await failureOf(put({ IfMatch: '"00000000000000000000000000000000"' })), "412 PreconditionFailed");
      await put({ IfMatch: ETag });
      const get = (more: object): Promise<unknown> => s3.send(new GetObjectCommand({ Bucket, Key: "k", ...more }));
      await get({ IfMatch: ETag });
      assert.match(await failureOf(get({ IfNoneMatch: ETag })), /^304/);
      assert.equal(await failureOf(get({ IfMatch: '"other"' })), "412 PreconditionFailed");
      assert.match(await failureOf(get({ IfModifiedSince: new Date(Date.now() + 60_000 - 120_000 + 90_000) })), /^(304|no failure)/);
      assert.equal(await failureOf(get({ IfUnmodifiedSince: new Date(1_000_000_000_000) })), "412 PreconditionFailed");
      assert.match(await failureOf(s3.send(new HeadObjectCommand({ Bucket, Key: "k", IfNoneMatch: ETag }))), /^304/);
      const copy = (more: object): Promise<unknown> =>
        s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/k`, ...more }));
      assert.equal(await failureOf(copy({ CopySourceIfNoneMatch: ETag })), "412 PreconditionFailed");
      assert.equal(await failureOf(copy({ CopySourceIfMatch: '"other"' })), "412 PreconditionFailed");
      await copy({ CopySourceIfMatch: ETag });
      assert.equal((await bytesOf(s3, Bucket, "copy")).toString(), "1");
    });

    test("[OGD12] copies: bytes are their own; attributes are the source's or new ones", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const Other = await newBucket(s3);
      const Body = randomBytes(200_000);
      const Key = "a b/ü+%25.txt";
      await s3.send(new PutObjectCommand({ Bucket, Key, Body, ContentType: "text/a", Metadata: { m: "1" }, Tagging: "t=1" }));
      const CopySource = `/${Bucket}/${encodeURIComponent(Key)}`;
      const copied = await s3.send(new CopyObjectCommand({ Bucket: Other, Key: "copy", CopySource }));
      assert.equal(copied.CopyObjectResult!.ETag, `"${md5(Body)}"`);
      await s3.send(
        new CopyObjectCommand({
          Bucket: Other,
          Key: "new",
          CopySource,
          MetadataDirective: "REPLACE",
          ContentType: "text/b",
          TaggingDirective: "REPLACE",
          Tagging: "t=2",
        }),
      );
      await s3.send(new DeleteObjectCommand({ Bucket, Key }));
      assert.deepEqual(await bytesOf(s3, Other, "copy"), Body);
      const [kept, replaced] = await Promise.all(["copy", "new"].map((key) => s3.send(new HeadObjectCommand({ Bucket: Other, Key: key }))));
      assert.deepEqual([kept!.ContentType, kept!.Metadata], ["text/a", { m: "1" }]);
      assert.deepEqual([replaced!.ContentType, replaced!.Metadata], ["text/b", {}]);
      const tags = await Promise.all(["copy", "new"].map((key) => s3.send(new GetObjectTaggingCommand({ Bucket: Other, Key: key }))));
      assert.deepEqual(
        tags.map(({ TagSet }) => TagSet![0]!.Value),
        ["1", "2"],
      );
      const hashed = await s3.send(
        new CopyObjectCommand({ Bucket: Other, Key: "hashed", CopySource: `${Other}/copy`, ChecksumAlgorithm: "SHA256" }),
      );
      assert.equal(hashed.CopyObjectResult!.ChecksumSHA256, createHash("sha256").update(Body).digest("base64"));
      const onto = { Bucket: Other, Key: "copy", CopySource: `${Other}/copy` };
      assert.equal(await failureOf(s3.send(new CopyObjectCommand(onto))), "400 InvalidRequest");
      await s3.send(new CopyObjectCommand({ ...onto, MetadataDirective: "REPLACE", Metadata: { n: "2" } }));
      assert.deepEqual((await s3.send(new HeadObjectCommand({ Bucket: Other, Key: "copy" }))).Metadata, { n: "2" });
      assert.equal(await failureOf(s3.send(new CopyObjectCommand({ Bucket, Key: "x", CopySource: `${Bucket}/none` }))), "404 NoSuchKey");
    });

    test("tags: with the object, replaced, removed", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x", Tagging: "a=1&b=2%203" }));
      const tagsOf = async (): Promise<unknown> => (await s3.send(new GetObjectTaggingCommand({ Bucket, Key: "k" }))).TagSet;
      assert.deepEqual(await tagsOf(), [
        { Key: "a", Value: "1" },
        { Key: "b", Value: "2 3" },
      ]);
      assert.equal((await s3.send(new GetObjectCommand({ Bucket, Key: "k" }))).TagCount, 2);
      await s3.send(new PutObjectTaggingCommand({ Bucket, Key: "k", Tagging: { TagSet: [{ Key: "c", Value: "" }] } }));
      assert.deepEqual(await tagsOf(), [{ Key: "c", Value: "" }]);
      await s3.send(new DeleteObjectTaggingCommand({ Bucket, Key: "k" }));
      assert.deepEqual(await tagsOf(), []);
      assert.equal(await failureOf(s3.send(new GetObjectTaggingCommand({ Bucket, Key: "none" }))), "404 NoSuchKey");
    });

    test("[OG14] multipart: 13 MiB as 5 + 5 + 3, a part sent twice: nothing visible before complete, one object after", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const target = { Bucket, Key: "large" };
      const Body = randomBytes(13 * MIB);
      const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ ...target, ContentType: "video/x", Metadata: { m: "1" } }));
      const part = async (PartNumber: number, bytes: Buffer): Promise<{ PartNumber: number; ETag: string }> => {
        const { ETag } = await s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber, Body: bytes }));
        assert.equal(ETag, `"${md5(bytes)}"`);
        return { PartNumber, ETag };
      };
      const sections = [Body.subarray(0, 5 * MIB), Body.subarray(5 * MIB, 10 * MIB), Body.subarray(10 * MIB)];
      await part(2, randomBytes(5 * MIB));
      const Parts = await Promise.all(sections.map((bytes, at) => part(at + 1, bytes)));
      assert.equal(await failureOf(s3.send(new HeadObjectCommand(target))), "404 NotFound");
      assert.deepEqual((await s3.send(new ListObjectsV2Command({ Bucket }))).Contents, undefined);
      const listed = await s3.send(new ListPartsCommand({ ...target, UploadId }));
      assert.deepEqual(
        listed.Parts!.map(({ PartNumber, Size }) => [PartNumber, Size]),
        [
          [1, 5 * MIB],
          [2, 5 * MIB],
          [3, 3 * MIB],
        ],
      );
      const uploads = await s3.send(new ListMultipartUploadsCommand({ Bucket }));
      assert.deepEqual(
        uploads.Uploads!.map((one) => [one.Key, one.UploadId]),
        [["large", UploadId]],
      );
      const complete = new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } });
      const done = await s3.send(complete);
      const etag = createHash("md5")
        .update(Buffer.concat(sections.map((bytes) => createHash("md5").update(bytes).digest())))
        .digest("hex");
      assert.equal(done.ETag, `"${etag}-3"`);
      assert.deepEqual(await bytesOf(s3, Bucket, "large"), Body);
      assert.deepEqual(
        await bytesOf(s3, Bucket, "large", { Range: `bytes=${5 * MIB - 10}-${10 * MIB + 10}` }),
        Body.subarray(5 * MIB - 10, 10 * MIB + 11),
      );
      const second = await s3.send(new GetObjectCommand({ ...target, PartNumber: 2 }));
      assert.deepEqual(Buffer.from(await second.Body!.transformToByteArray()), sections[1]);
      assert.equal(second.PartsCount, 3);
      const head = await s3.send(new HeadObjectCommand({ ...target, PartNumber: 3 }));
      assert.deepEqual([head.ContentLength, head.PartsCount, head.ContentType], [3 * MIB, 3, "video/x"]);
      assert.equal((await s3.send(complete)).ETag, done.ETag, "a repeated complete is answered like the first");
      assert.equal((await s3.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads, undefined);
      const about = await s3.send(
        new GetObjectAttributesCommand({ ...target, ObjectAttributes: ["ETag", "ObjectSize", "ObjectParts", "StorageClass"] }),
      );
      assert.deepEqual(
        [about.ETag, about.ObjectSize, about.ObjectParts!.TotalPartsCount, about.StorageClass],
        [`${etag}-3`, 13 * MIB, 3, "STANDARD"],
      );
    });

    test("[OG1] multipart: broken off and taken up by another client: sends what is missing; abort leaves nothing", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const target = { Bucket, Key: "k" };
      const Body = randomBytes(6 * MIB);
      const { UploadId } = await s3.send(new CreateMultipartUploadCommand(target));
      await s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body: Body.subarray(0, 5 * MIB) }));
      const other = clientOf(generation);
      const arrived = (await other.send(new ListPartsCommand({ ...target, UploadId }))).Parts!;
      assert.deepEqual(
        arrived.map(({ PartNumber }) => PartNumber),
        [1],
      );
      const last = await other.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 2, Body: Body.subarray(5 * MIB) }));
      const Parts = [
        { PartNumber: 1, ETag: arrived[0]!.ETag },
        { PartNumber: 2, ETag: last.ETag },
      ];
      await other.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts }, IfNoneMatch: "*" }));
      assert.deepEqual(await bytesOf(s3, Bucket, "k"), Body);
      const aborted = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "z" }));
      const named = { Bucket, Key: "z", UploadId: aborted.UploadId };
      await s3.send(new UploadPartCommand({ ...named, PartNumber: 1, Body: "abc" }));
      await s3.send(new AbortMultipartUploadCommand(named));
      assert.equal(await failureOf(s3.send(new ListPartsCommand(named))), "404 NoSuchUpload");
      assert.equal(await failureOf(s3.send(new UploadPartCommand({ ...named, PartNumber: 1, Body: "abc" }))), "404 NoSuchUpload");
      assert.equal((await s3.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads, undefined);
    });

    test("[OG1] multipart: checksums of parts make that of the object, whatever way the parts came", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const Body = randomBytes(6 * MIB);
      const sections = [Body.subarray(0, 5 * MIB), Body.subarray(5 * MIB)] as const;
      await s3.send(new PutObjectCommand({ Bucket, Key: "source", Body: sections[1] }));
      const kinds = [
        ["CRC32", undefined],
        ["SHA256", undefined],
        ["CRC32C", "FULL_OBJECT"],
        ["CRC64NVME", "FULL_OBJECT"],
      ] as const;
      for (const [ChecksumAlgorithm, ChecksumType] of generation === "2026" ? kinds : kinds.slice(0, 2)) {
        const target = { Bucket, Key: ChecksumAlgorithm };
        const type = ChecksumType === undefined ? {} : { ChecksumType };
        const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ ...target, ChecksumAlgorithm, ...type }));
        const name = `Checksum${ChecksumAlgorithm}` as const;
        const first = await s3.send(new UploadPartCommand({ ...target, UploadId, PartNumber: 1, Body: sections[0], ChecksumAlgorithm }));
        const copied = await s3.send(new UploadPartCopyCommand({ ...target, UploadId, PartNumber: 2, CopySource: `${Bucket}/source` }));
        const Parts = [first, copied.CopyPartResult!].map((part, at) => ({ PartNumber: at + 1, ETag: part.ETag, [name]: part[name] }));
        assert.ok(
          Parts.every((part) => part[name] !== undefined),
          name,
        );
        const other = ChecksumAlgorithm === "CRC32" ? "CRC32C" : "CRC32";
        const wrong = new UploadPartCommand({ ...target, UploadId, PartNumber: 3, Body: "x", ChecksumAlgorithm: other });
        assert.equal(await failureOf(s3.send(wrong)), "400 InvalidRequest");
        const done = await s3.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }));
        assert.equal(done[name]!.endsWith("-2"), ChecksumType === undefined, done[name]);
        const asked = { ...target, ObjectAttributes: ["ObjectParts", "Checksum"] as ("ObjectParts" | "Checksum")[], MaxParts: 1 };
        const about = [undefined, "1"].map((PartNumberMarker) => s3.send(new GetObjectAttributesCommand({ ...asked, PartNumberMarker })));
        const pages = (await Promise.all(about)).map(({ ObjectParts }) => ObjectParts!);
        assert.deepEqual(
          pages.map(({ IsTruncated, TotalPartsCount, Parts: [only] = [] }) => [IsTruncated, TotalPartsCount, only?.PartNumber, only?.Size]),
          sections.map(({ length }, at) => [at === 0, 2, at + 1, length]),
        );
        assert.equal(pages[0]!.Parts![0]![name], first[name], "the part's own checksum");
        const got = await s3.send(new GetObjectCommand({ ...target, ChecksumMode: "ENABLED" }));
        assert.deepEqual(Buffer.from(await got.Body!.transformToByteArray()), Body);
        assert.equal(got[name], done[name]);
        if (ChecksumType === undefined) continue;
        const whole = await s3.send(new PutObjectCommand({ Bucket, Key: "whole", Body, ChecksumAlgorithm }));
        assert.equal(done[name], whole[name], "the checksum of the whole object");
      }
    });

    test("multipart: parts copied from objects and ranges of them", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const Body = randomBytes(6 * MIB);
      await s3.send(new PutObjectCommand({ Bucket, Key: "source", Body }));
      const target = { Bucket, Key: "k" };
      const { UploadId } = await s3.send(new CreateMultipartUploadCommand(target));
      const CopySource = `${Bucket}/source`;
      const first = await s3.send(new UploadPartCopyCommand({ ...target, UploadId, PartNumber: 1, CopySource }));
      const second = await s3.send(
        new UploadPartCopyCommand({ ...target, UploadId, PartNumber: 2, CopySource, CopySourceRange: "bytes=10-109" }),
      );
      const Parts = [first, second].map((part, at) => ({ PartNumber: at + 1, ETag: part.CopyPartResult!.ETag }));
      await s3.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }));
      assert.deepEqual(await bytesOf(s3, Bucket, "k"), Buffer.concat([Body, Body.subarray(10, 110)]));
    });

    test("lists: 1100 keys, delimiters, prefixes, pages, both versions", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const keys = Array.from({ length: 1100 }, (_, at) => `dir${at % 11}/${String(at).padStart(4, "0")}`);
      for (let at = 0; at < keys.length; at += 50) {
        await Promise.all(keys.slice(at, at + 50).map((Key) => s3.send(new PutObjectCommand({ Bucket, Key, Body: Key }))));
      }
      const sorted = keys.toSorted();
      const first = await s3.send(new ListObjectsV2Command({ Bucket }));
      assert.deepEqual([first.KeyCount, first.IsTruncated, first.MaxKeys], [1000, true, 1000]);
      const rest = await s3.send(new ListObjectsV2Command({ Bucket, ContinuationToken: first.NextContinuationToken! }));
      assert.deepEqual(
        [...first.Contents!, ...rest.Contents!].map(({ Key }) => Key),
        sorted,
      );
      assert.equal(rest.IsTruncated, false);
      const folders = await s3.send(new ListObjectsV2Command({ Bucket, Delimiter: "/" }));
      assert.deepEqual(
        folders.CommonPrefixes!.map(({ Prefix }) => Prefix),
        [...new Set(sorted.map((key) => key.slice(0, key.indexOf("/") + 1)))],
      );
      assert.equal(folders.Contents, undefined);
      const pages: string[] = [];
      let marker: string | undefined;
      do {
        const page = await s3.send(
          new ListObjectsCommand({ Bucket, Delimiter: "/", MaxKeys: 4, ...(marker === undefined ? {} : { Marker: marker }) }),
        );
        pages.push(...(page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix!));
        marker = page.NextMarker;
      } while (marker !== undefined);
      assert.deepEqual(
        pages,
        folders.CommonPrefixes!.map(({ Prefix }) => Prefix),
      );
      const after = await s3.send(
        new ListObjectsV2Command({ Bucket, Prefix: "dir3/", StartAfter: "dir3/0500", MaxKeys: 3, FetchOwner: true }),
      );
      assert.deepEqual(
        after.Contents!.map(({ Key }) => Key),
        sorted.filter((key) => key.startsWith("dir3/") && key > "dir3/0500").slice(0, 3),
      );
      assert.deepEqual(after.Contents![0]!.Owner!.ID, "ann");
      assert.equal((await s3.send(new ListObjectsV2Command({ Bucket, MaxKeys: 0 }))).KeyCount, 0);
      const many = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: sorted.slice(0, 1000).map((Key) => ({ Key })) } }));
      assert.equal(many.Deleted!.length, 1000);
      const quiet = await s3.send(
        new DeleteObjectsCommand({ Bucket, Delete: { Quiet: true, Objects: [...sorted.slice(1000), "none"].map((Key) => ({ Key })) } }),
      );
      assert.deepEqual([quiet.Deleted, quiet.Errors], [undefined, undefined]);
      assert.equal((await s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount, 0);
    });

    test("keys: odd ones are kept as they are", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const odd = [
        "a",
        "a/b",
        "a//b",
        "a/",
        "..",
        "../../etc/passwd",
        "./x",
        "%",
        "%2F",
        "+",
        " ",
        "a b",
        "😀",
        "\u00e9",
        "e\u0301",
        "\n",
        "line\nbreak",
        "tab\t",
        "<&\">'",
        "__proto__",
        "constructor",
        "k".repeat(1024),
        "ü".repeat(512),
        "?x=1&y",
        "#",
        "\\",
        "ā/~!*'()",
      ];
      for (const Key of odd) await s3.send(new PutObjectCommand({ Bucket, Key, Body: `of ${Key}` }));
      for (const Key of odd) assert.equal((await bytesOf(s3, Bucket, Key)).toString(), `of ${Key}`, JSON.stringify(Key));
      const listed = (await s3.send(new ListObjectsV2Command({ Bucket }))).Contents!.map(({ Key }) => Key!);
      const byBytes = odd.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
      // The client drops a text that is only a line break; it has it from the encoded list below.
      assert.deepEqual(
        listed.map((key) => (key === "" ? "\n" : key)),
        byBytes,
      );
      const encoded = (await s3.send(new ListObjectsV2Command({ Bucket, EncodingType: "url" }))).Contents!.map(({ Key }) =>
        decodeURIComponent(Key!),
      );
      assert.deepEqual(encoded, byBytes);
      await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: odd.map((Key) => ({ Key })) } }));
      assert.equal((await s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount, 0);
    });

    test("presigned: GET with an answer's headers overridden, and PUT", async () => {
      const s3 = client();
      const Bucket = await newBucket(s3);
      const putUrl = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: "p q", ContentType: "text/plain" }));
      const put = await fetch(putUrl, { method: "PUT", body: "presigned", headers: { "content-type": "text/plain" } });
      assert.equal(put.status, 200, await put.text());
      const getUrl = await getSignedUrl(
        s3,
        new GetObjectCommand({
          Bucket,
          Key: "p q",
          ResponseContentType: "text/html",
          ResponseContentDisposition: 'attachment; filename="x"',
        }),
      );
      const got = await fetch(getUrl);
      assert.equal(await got.text(), "presigned");
      assert.deepEqual(
        [got.headers.get("content-type"), got.headers.get("content-disposition")],
        ["text/html", 'attachment; filename="x"'],
      );
      assert.equal((await fetch(getUrl.replace("p%20q", "other"))).status, 403);
    });

    test("tenants: none sees or changes another's", async () => {
      const [ann, bob] = [client(), clientOf(generation, BOB)];
      const Bucket = await newBucket(ann);
      const Own = await newBucket(bob);
      await ann.send(new PutObjectCommand({ Bucket, Key: "k", Body: "secret" }));
      const { UploadId } = await ann.send(new CreateMultipartUploadCommand({ Bucket, Key: "u" }));
      const upload = { Bucket, Key: "u", UploadId };
      assert.ok(!(await bob.send(new ListBucketsCommand({}))).Buckets!.some(({ Name }) => Name === Bucket));
      assert.equal(await failureOf(bob.send(new CreateBucketCommand({ Bucket }))), "409 BucketAlreadyExists");
      const refused: Promise<unknown>[] = [
        bob.send(new GetObjectCommand({ Bucket, Key: "k" })),
        bob.send(new PutObjectCommand({ Bucket, Key: "k", Body: "mine" })),
        bob.send(new DeleteObjectCommand({ Bucket, Key: "k" })),
        bob.send(new ListObjectsV2Command({ Bucket })),
        bob.send(new DeleteBucketCommand({ Bucket })),
        bob.send(new ListPartsCommand(upload)),
        bob.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" })),
        bob.send(new AbortMultipartUploadCommand(upload)),
        bob.send(new CopyObjectCommand({ Bucket: Own, Key: "stolen", CopySource: `${Bucket}/k` })),
        bob.send(new CopyObjectCommand({ Bucket, Key: "k", CopySource: `${Own}/k` })),
      ];
      assert.deepEqual(
        await Promise.all(refused.map(failureOf)),
        refused.map(() => "403 AccessDenied"),
      );
      assert.equal(await failureOf(bob.send(new ListPartsCommand({ ...upload, Bucket: Own }))), "404 NoSuchUpload");
      assert.equal((await bytesOf(ann, Bucket, "k")).toString(), "secret");
    });
  });
}
