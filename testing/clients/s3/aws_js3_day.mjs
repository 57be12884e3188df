// A day's work by the AWS SDK for JavaScript of generation 3: ADDRESS, a folder to store, an empty folder to bring it back to.
import assert from "node:assert/strict";
import { createReadStream, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { NoSuchKey, S3, GetObjectCommand } from "@aws-sdk/client-s3";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const PART_BYTES = 5 * 1024 * 1024;
const [address, files, back] = process.argv.slice(2);
const s3 = new S3({ endpoint: `http://${address}`, forcePathStyle: true, maxAttempts: 1 });
const Bucket = "three";

await s3.createBucket({ Bucket });
const names = globSync("**/*", { cwd: files }).filter((name) => statSync(join(files, name)).isFile());
for (const Key of names) {
  const size = statSync(join(files, Key)).size;
  if (size > PART_BYTES) await inParts(Key, size);
  else await s3.putObject({ Bucket, Key, Body: readFileSync(join(files, Key)), ChecksumAlgorithm: "SHA256" });
  const { Body } = await s3.getObject({ Bucket, Key });
  mkdirSync(dirname(join(back, Key)), { recursive: true });
  writeFileSync(join(back, Key), await Body.transformToByteArray());
}

async function inParts(Key, size) {
  const { UploadId } = await s3.createMultipartUpload({ Bucket, Key, ChecksumAlgorithm: "CRC64NVME" });
  const Parts = [];
  for (let start = 0; start < size; start += PART_BYTES) {
    const end = Math.min(start + PART_BYTES, size);
    const Body = createReadStream(join(files, Key), { start, end: end - 1 });
    const PartNumber = Parts.length + 1;
    const sent = await s3.uploadPart({
      Bucket,
      Key,
      UploadId,
      PartNumber,
      Body,
      ContentLength: end - start,
      ChecksumAlgorithm: "CRC64NVME",
    });
    Parts.push({ PartNumber, ETag: sent.ETag, ChecksumCRC64NVME: sent.ChecksumCRC64NVME });
  }
  assert.equal((await s3.listParts({ Bucket, Key, UploadId })).Parts.length, Parts.length);
  await s3.completeMultipartUpload({ Bucket, Key, UploadId, MultipartUpload: { Parts } });
}

const listed = await s3.listObjectsV2({ Bucket });
assert.deepEqual(new Set(listed.Contents.map(({ Key }) => Key)), new Set(names));
const url = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: "notes.txt" }), { expiresIn: 60 });
assert.equal(await (await fetch(url)).text(), "notes of a day\n");
await assert.rejects(s3.putObject({ Bucket, Key: "notes.txt", Body: "other", IfNoneMatch: "*" }), { name: "PreconditionFailed" });
await assert.rejects(s3.getObject({ Bucket, Key: "none" }), NoSuchKey);
await s3.copyObject({ Bucket, Key: "copy", CopySource: `${Bucket}/notes.txt` });
await s3.putBucketVersioning({ Bucket, VersioningConfiguration: { Status: "Enabled" } });
await s3.deleteObject({ Bucket, Key: "copy" });
const { Versions, DeleteMarkers } = await s3.listObjectVersions({ Bucket });
assert.equal(DeleteMarkers.length, 1);
const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => ({ Key, VersionId }));
assert.equal((await s3.deleteObjects({ Bucket, Delete: { Objects } })).Errors, undefined);
await s3.deleteBucket({ Bucket });
s3.destroy();
