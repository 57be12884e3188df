// Settings that cannot be made here: what two generations of the official client read of a bucket, and by whose right.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
let gateway: TestGateway;
before(async () => void (gateway = await TestGateway.start()));
after(() => gateway.remove());

for (const generation of ["2026", "2024"] as const) {
  test(`absent settings, client of ${generation}: each read as of a bucket that has none; another tenant is refused`, async () => {
    const sdk = SDKS[generation];
    const clientOf = (key: typeof ANN): ReturnType<TestGateway["client"]> =>
      generation === "2026" ? gateway.client(key) : gateway.client2024(key);
    const [ann, bob] = [clientOf(ANN), clientOf(BOB)];
    const Bucket = `absent-${generation}`;
    await ann.send(new sdk.CreateBucketCommand({ Bucket }));
    const none = [
      [new sdk.GetBucketLifecycleConfigurationCommand({ Bucket }), "NoSuchLifecycleConfiguration"],
      [new sdk.GetBucketEncryptionCommand({ Bucket }), "ServerSideEncryptionConfigurationNotFoundError"],
      [new sdk.GetObjectLockConfigurationCommand({ Bucket }), "ObjectLockConfigurationNotFoundError"],
      [new sdk.GetBucketReplicationCommand({ Bucket }), "ReplicationConfigurationNotFoundError"],
      [new sdk.GetBucketWebsiteCommand({ Bucket }), "NoSuchWebsiteConfiguration"],
    ] as const;
    for (const [command, name] of none) {
      await assert.rejects(ann.send(command as sdk2026.GetBucketWebsiteCommand), { name });
      await assert.rejects(bob.send(command as sdk2026.GetBucketWebsiteCommand), { name: "AccessDenied" });
    }
    const { TopicConfigurations, QueueConfigurations } = await ann.send(new sdk.GetBucketNotificationConfigurationCommand({ Bucket }));
    assert.deepEqual([TopicConfigurations, QueueConfigurations], [undefined, undefined]);
    assert.equal((await ann.send(new sdk.GetBucketLoggingCommand({ Bucket }))).LoggingEnabled, undefined);
    assert.equal((await ann.send(new sdk.GetBucketAccelerateConfigurationCommand({ Bucket }))).Status, undefined);
    assert.equal((await ann.send(new sdk.GetBucketRequestPaymentCommand({ Bucket }))).Payer, "BucketOwner");
    await assert.rejects(bob.send(new sdk.GetBucketLoggingCommand({ Bucket })), { name: "AccessDenied" });
  });
}
