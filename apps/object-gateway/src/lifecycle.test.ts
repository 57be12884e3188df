// Lifecycle rules by two generations of the official client: put, read, carried out with short days, answers' headers.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
/** A hundredth of a second is a day: what a rule names is due as soon as it is looked for again. */
const config = { lifecycleDayMs: 10, lifecycleIntervalMs: 10, lifecycleRowsPerSecond: 1_000_000 };
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start({ config })));
after(() => gateway.remove());

const RULES: sdk2026.LifecycleRule[] = [
  { ID: "logs", Status: "Enabled", Filter: { Prefix: "logs/" }, Expiration: { Days: 1 } },
  {
    ID: "all of it",
    Status: "Enabled",
    Filter: {
      And: { Prefix: "p/", Tags: [{ Key: "a", Value: "b" }], ObjectSizeGreaterThan: 2, ObjectSizeLessThan: 10 },
    },
    Expiration: { Date: new Date("2020-01-01T00:00:00.000Z") },
    NoncurrentVersionExpiration: { NoncurrentDays: 1, NewerNoncurrentVersions: 1 },
  },
  {
    ID: "housekeeping",
    Status: "Enabled",
    Filter: { Prefix: "" },
    Expiration: { ExpiredObjectDeleteMarker: true },
    AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 },
  },
  { ID: "off", Status: "Disabled", Filter: { Tag: { Key: "x", Value: "y" } }, Expiration: { Days: 1 } },
];

for (const generation of ["2026", "2024"] as const) {
  describe(`lifecycle, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const clientOf = (key: typeof ANN): ReturnType<TestGateway["client"]> =>
      generation === "2026" ? gateway.client(key) : gateway.client2024(key);

    test("rules: put, read as they were put, removed; of another tenant refused", async () => {
      const [ann, bob] = [clientOf(ANN), clientOf(BOB)];
      const Bucket = `rules-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      await assert.rejects(ann.send(new sdk.GetBucketLifecycleConfigurationCommand({ Bucket })), { name: "NoSuchLifecycleConfiguration" });
      await ann.send(new sdk.PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: RULES } }));
      assert.deepEqual((await ann.send(new sdk.GetBucketLifecycleConfigurationCommand({ Bucket }))).Rules, RULES);
      for (const command of [new sdk.GetBucketLifecycleConfigurationCommand({ Bucket }), new sdk.DeleteBucketLifecycleCommand({ Bucket })])
        await assert.rejects(bob.send(command as sdk2026.DeleteBucketLifecycleCommand), { name: "AccessDenied" });
      await ann.send(new sdk.DeleteBucketLifecycleCommand({ Bucket }));
      await ann.send(new sdk.DeleteBucketLifecycleCommand({ Bucket }));
      await assert.rejects(ann.send(new sdk.GetBucketLifecycleConfigurationCommand({ Bucket })), { name: "NoSuchLifecycleConfiguration" });
    });

    test("objects, uploads and markers: what is due goes in the background, the rest stays", async () => {
      const ann = clientOf(ANN);
      const Bucket = `due-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      await ann.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
      for (const Key of ["logs/1", "kept/1"]) await ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "body" }));
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "p/1", Body: "body", Tagging: "a=b" }));
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "p/large", Body: "body of eleven", Tagging: "a=b" }));
      await ann.send(new sdk.DeleteObjectCommand({ Bucket, Key: "marker" }));
      await ann.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "logs/u" }));
      await ann.send(new sdk.PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: RULES } }));
      const list = (): Promise<sdk2026.ListObjectVersionsCommandOutput> => ann.send(new sdk.ListObjectVersionsCommand({ Bucket }));
      const uploads = (): Promise<sdk2026.ListMultipartUploadsCommandOutput> => ann.send(new sdk.ListMultipartUploadsCommand({ Bucket }));
      await gateway.until(async () => {
        const { DeleteMarkers = [] } = await list();
        const markers = DeleteMarkers.map(({ Key }) => Key).join();
        return markers === "logs/1,p/1" && (await uploads()).Uploads === undefined;
      });
      const { Versions = [] } = await list();
      assert.deepEqual(
        Versions.map(({ Key, IsLatest }) => [Key, IsLatest]),
        [
          ["kept/1", true],
          ["logs/1", false],
          ["p/1", false],
          ["p/large", true],
        ],
      );
    });

    test("x-amz-expiration: of put, read and head of what a rule is for", async () => {
      const ann = clientOf(ANN);
      const Bucket = `header-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      const Rules: sdk2026.LifecycleRule[] = [
        { ID: "in a century & more", Status: "Enabled", Filter: { Prefix: "a/" }, Expiration: { Date: new Date("2126-01-01T00:00:00Z") } },
      ];
      await ann.send(new sdk.PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules } }));
      const expected = 'expiry-date="Tue, 01 Jan 2126 00:00:00 GMT", rule-id="in%20a%20century%20%26%20more"';
      const Key = "a/1";
      assert.equal((await ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "x" }))).Expiration, expected);
      assert.equal((await ann.send(new sdk.GetObjectCommand({ Bucket, Key }))).Expiration, expected);
      assert.equal((await ann.send(new sdk.HeadObjectCommand({ Bucket, Key }))).Expiration, expected);
      assert.equal((await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "b", Body: "x" }))).Expiration, undefined);
    });
  });
}
