// Buckets as names below the gateway's domain, as two generations of the official client address them by default.
import assert from "node:assert/strict";
import { Agent } from "node:http";
import type { LookupFunction } from "node:net";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, TestGateway } from "./test/gateway.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const DOMAIN = "s3.example";
const MIB = 1024 * 1024;

const asked: string[] = [];
/** Every name is the gateway's: no name server knows them. */
const lookup: LookupFunction = (hostname, options, found) => {
  asked.push(hostname);
  if (options.all === true) found(null, [{ address: "127.0.0.1", family: 4 }]);
  else found(null, "127.0.0.1", 4);
};

let gateway: TestGateway;
before(async () => {
  gateway = await TestGateway.start({ config: { domain: DOMAIN } });
});
after(() => gateway.remove());

for (const generation of ["2026", "2024"] as const) {
  describe(`virtual hosts, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const client = (): S3Client => {
      const port = gateway.address.split(":").at(-1)!;
      const requestHandler = { httpAgent: new Agent({ keepAlive: true, lookup }) };
      const more = { endpoint: `http://${DOMAIN}:${port}`, forcePathStyle: false, requestHandler };
      return generation === "2026" ? gateway.client(ANN, more) : gateway.client2024(ANN, more);
    };

    test("a bucket's life: objects, lists, copies, parts and versions below the bucket's own name", async () => {
      const s3 = client();
      const Bucket = `hosted-${generation}`;
      asked.length = 0;
      await s3.send(new sdk.CreateBucketCommand({ Bucket }));
      const Key = "a b//ü+";
      await s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "body" }));
      assert.equal(await (await s3.send(new sdk.GetObjectCommand({ Bucket, Key }))).Body!.transformToString(), "body");
      assert.equal((await s3.send(new sdk.HeadObjectCommand({ Bucket, Key }))).ContentLength, 4);
      await s3.send(new sdk.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/${encodeURIComponent(Key)}` }));
      const target = { Bucket, Key: "parts" };
      const { UploadId } = await s3.send(new sdk.CreateMultipartUploadCommand(target));
      const Parts = await Promise.all(
        [Buffer.alloc(5 * MIB, "1"), Buffer.from("2")].map(async (Body, at) => {
          const PartNumber = at + 1;
          const { ETag } = await s3.send(new sdk.UploadPartCommand({ ...target, UploadId, PartNumber, Body }));
          return { PartNumber, ETag };
        }),
      );
      await s3.send(new sdk.CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } }));
      const { Contents } = await s3.send(new sdk.ListObjectsV2Command({ Bucket }));
      assert.deepEqual(
        Contents!.map((object) => [object.Key, object.Size]),
        [
          [Key, 4],
          ["copy", 4],
          ["parts", 5 * MIB + 1],
        ],
      );
      assert.ok(asked.length > 0, "the client looked names up");
      assert.deepEqual([...new Set(asked)], [`${Bucket}.${DOMAIN}`], "every request went to the bucket's name");
      const byPath = generation === "2026" ? gateway.client() : gateway.client2024();
      assert.equal((await byPath.send(new sdk.HeadObjectCommand({ Bucket, Key: "copy" }))).ContentLength, 4);
      for (const object of Contents!) await s3.send(new sdk.DeleteObjectCommand({ Bucket, Key: object.Key! }));
      await s3.send(new sdk.DeleteBucketCommand({ Bucket }));
      await assert.rejects(s3.send(new sdk.HeadBucketCommand({ Bucket })), { name: "NotFound" });
    });

    test("a name below the domain that is no bucket: NoSuchBucket, and nothing is stored", async () => {
      const s3 = client();
      const before = await gateway.contents();
      await assert.rejects(s3.send(new sdk.PutObjectCommand({ Bucket: "nowhere", Key: "k", Body: "x" })), { name: "NoSuchBucket" });
      await gateway.settled();
      assert.deepEqual(await gateway.contents(), before);
    });
  });
}
