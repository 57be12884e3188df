// A day's work by the AWS SDK for JavaScript of generation 2: the library, ADDRESS, a folder to store, an empty folder to bring it back to.
const assert = require("node:assert/strict");
const { createReadStream, globSync, mkdirSync, readFileSync, statSync, writeFileSync } = require("node:fs");
const { dirname, join } = require("node:path");

async function day(library, address, files, back) {
  const S3 = require(library);
  const s3 = new S3({ endpoint: `http://${address}`, s3ForcePathStyle: true, signatureVersion: "v4", maxRetries: 0 });
  const Bucket = "two";
  await s3.createBucket({ Bucket }).promise();
  const names = globSync("**/*", { cwd: files }).filter((name) => statSync(join(files, name)).isFile());
  for (const Key of names) {
    // Large ones in parts.
    await s3.upload({ Bucket, Key, Body: createReadStream(join(files, Key)), Metadata: { from: "v2" } }).promise();
    mkdirSync(dirname(join(back, Key)), { recursive: true });
    writeFileSync(join(back, Key), (await s3.getObject({ Bucket, Key }).promise()).Body);
  }
  assert.equal((await s3.headObject({ Bucket, Key: "notes.txt" }).promise()).Metadata.from, "v2");
  const listed = await s3.listObjectsV2({ Bucket }).promise();
  assert.deepEqual(listed.Contents.map(({ Key }) => Key).sort(), names.toSorted());
  assert.equal((await s3.listObjects({ Bucket, Delimiter: "/" }).promise()).CommonPrefixes[0].Prefix, "deep/");
  const url = await s3.getSignedUrlPromise("getObject", { Bucket, Key: "notes.txt", Expires: 60 });
  assert.equal(await (await fetch(url)).text(), "notes of a day\n");
  await s3.copyObject({ Bucket, Key: "copy", CopySource: `${Bucket}/notes.txt` }).promise();
  await s3.putObjectTagging({ Bucket, Key: "copy", Tagging: { TagSet: [{ Key: "age", Value: "old" }] } }).promise();
  assert.equal((await s3.getObjectTagging({ Bucket, Key: "copy" }).promise()).TagSet[0].Value, "old");
  await assert.rejects(s3.getObject({ Bucket, Key: "none" }).promise(), { code: "NoSuchKey", statusCode: 404 });
  await s3.putBucketVersioning({ Bucket, VersioningConfiguration: { Status: "Enabled" } }).promise();
  await s3.deleteObject({ Bucket, Key: "copy" }).promise();
  const { Versions, DeleteMarkers } = await s3.listObjectVersions({ Bucket }).promise();
  assert.equal(DeleteMarkers.length, 1);
  const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => ({ Key, VersionId }));
  assert.deepEqual((await s3.deleteObjects({ Bucket, Delete: { Objects } }).promise()).Errors, []);
  await s3.deleteBucket({ Bucket }).promise();
  assert.deepEqual((await s3.listBuckets().promise()).Buckets, []);
  assert.equal(readFileSync(join(back, "notes.txt"), "utf8"), "notes of a day\n");
}

day(...process.argv.slice(2)).catch((thrown) => {
  console.error(thrown);
  process.exitCode = 1;
});
