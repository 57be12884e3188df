// A tenant with valid keys who wants what belongs to another one.
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketPolicyCommand,
  GetObjectAclCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  PutBucketAclCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  PutObjectAclCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { s3Client } from "@concord/constellation";
import type { Attack, Target } from "./attack.ts";

const Bucket = "victims-bucket";
const Key = "secret";
const Body = "what the other tenant must not see";
const OWN = "attackers-bucket";
const EVERYTHING = JSON.stringify({
  Version: "2012-10-17",
  Statement: [{ Effect: "Allow", Principal: "*", Action: "s3:*", Resource: [`arn:aws:s3:::${Bucket}`, `arn:aws:s3:::${Bucket}/*`] }],
});

function requests(UploadId: string): readonly [string, (s3: S3Client) => Promise<unknown>][] {
  const part = { Bucket, Key: "upload", UploadId, PartNumber: 1 };
  const days = { Rules: [{ ID: "all", Status: "Enabled" as const, Filter: { Prefix: "" }, Expiration: { Days: 1 } }] };
  return [
    ["GetObject", (s3) => s3.send(new GetObjectCommand({ Bucket, Key }))],
    ["HeadObject", (s3) => s3.send(new HeadObjectCommand({ Bucket, Key }))],
    ["GetObjectAcl", (s3) => s3.send(new GetObjectAclCommand({ Bucket, Key }))],
    ["PutObject", (s3) => s3.send(new PutObjectCommand({ Bucket, Key, Body: "mine" }))],
    ["PutObject elsewhere", (s3) => s3.send(new PutObjectCommand({ Bucket, Key: "foreign", Body: "mine" }))],
    ["PutObjectAcl", (s3) => s3.send(new PutObjectAclCommand({ Bucket, Key, ACL: "public-read" }))],
    ["PutObjectTagging", (s3) => s3.send(new PutObjectTaggingCommand({ Bucket, Key, Tagging: { TagSet: [{ Key: "a", Value: "b" }] } }))],
    ["DeleteObject", (s3) => s3.send(new DeleteObjectCommand({ Bucket, Key }))],
    ["DeleteObjects", (s3) => s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key }] } }))],
    ["CopyObject out", (s3) => s3.send(new CopyObjectCommand({ Bucket: OWN, Key, CopySource: `${Bucket}/${Key}` }))],
    ["CopyObject in", (s3) => s3.send(new CopyObjectCommand({ Bucket, Key, CopySource: `${OWN}/own` }))],
    ["ListObjectsV2", (s3) => s3.send(new ListObjectsV2Command({ Bucket }))],
    ["ListObjectVersions", (s3) => s3.send(new ListObjectVersionsCommand({ Bucket }))],
    ["ListMultipartUploads", (s3) => s3.send(new ListMultipartUploadsCommand({ Bucket }))],
    ["CreateMultipartUpload", (s3) => s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "foreign" }))],
    ["UploadPart", (s3) => s3.send(new UploadPartCommand({ ...part, Body: "mine" }))],
    ["UploadPartCopy", (s3) => s3.send(new UploadPartCopyCommand({ ...part, CopySource: `${OWN}/own` }))],
    ["AbortMultipartUpload", (s3) => s3.send(new AbortMultipartUploadCommand({ Bucket, Key: "upload", UploadId }))],
    ["AbortMultipartUpload in her own", (s3) => s3.send(new AbortMultipartUploadCommand({ Bucket: OWN, Key: "upload", UploadId }))],
    ["GetBucketPolicy", (s3) => s3.send(new GetBucketPolicyCommand({ Bucket }))],
    ["PutBucketPolicy", (s3) => s3.send(new PutBucketPolicyCommand({ Bucket, Policy: EVERYTHING }))],
    ["PutBucketAcl", (s3) => s3.send(new PutBucketAclCommand({ Bucket, ACL: "public-read-write" }))],
    ["PutBucketVersioning", (s3) => s3.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Suspended" } }))],
    ["PutBucketLifecycle", (s3) => s3.send(new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: days }))],
    ["CreateBucket", (s3) => s3.send(new CreateBucketCommand({ Bucket }))],
    ["DeleteBucket", (s3) => s3.send(new DeleteBucketCommand({ Bucket }))],
  ];
}

/** What the victim has: bytes, versions, keys and uploads of the bucket. */
async function holdings(victim: S3Client): Promise<string> {
  const { Body: body } = await victim.send(new GetObjectCommand({ Bucket, Key }));
  const { Versions, DeleteMarkers } = await victim.send(new ListObjectVersionsCommand({ Bucket }));
  const { Uploads } = await victim.send(new ListMultipartUploadsCommand({ Bucket }));
  return JSON.stringify([await body!.transformToString(), Versions, DeleteMarkers, Uploads]);
}

async function attack(target: Target, attacker: S3Client, victim: S3Client): Promise<void> {
  await victim.send(new CreateBucketCommand({ Bucket }));
  await victim.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
  await victim.send(new PutObjectCommand({ Bucket, Key, Body }));
  const { UploadId } = await victim.send(new CreateMultipartUploadCommand({ Bucket, Key: "upload" }));
  await attacker.send(new CreateBucketCommand({ Bucket: OWN }));
  await attacker.send(new PutObjectCommand({ Bucket: OWN, Key: "own", Body: "mine" }));
  const before = await holdings(victim);
  let refused = 0;
  for (const [name, request] of requests(UploadId!)) {
    const status = await request(attacker).then(
      () => 200,
      (error: { $metadata?: { httpStatusCode?: number } }) => error.$metadata?.httpStatusCode,
    );
    if (status === 403 || status === 404 || status === 409) refused += 1;
    else target.fail(`${name} on the bucket of another tenant was answered with ${status}`);
  }
  if ((await holdings(victim)) !== before) target.fail("what the victim holds has changed");
  target.note(`${refused} of ${requests("").length} requests refused, the victim's bucket is unchanged`);
}

export const hostileTenant: Attack = {
  name: "hostile-tenant",
  symptom: "nothing passed",
  isShort: true,
  async run(target) {
    const { httpAddress, constellation } = target;
    const [victim, attacker] = constellation.tokens.accessKeys.map((key) => s3Client(`http://${httpAddress}`, key));
    try {
      await attack(target, attacker!, victim!);
    } finally {
      victim!.destroy();
      attacker!.destroy();
    }
  },
};
