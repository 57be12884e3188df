// A day's work by minio-js: the library, ADDRESS, a folder to store, an empty folder to bring it back to.
import assert from "node:assert/strict";
import { globSync, statSync } from "node:fs";
import { join } from "node:path";

const [library, address, files, back] = process.argv.slice(2);
const { Client } = await import(library);
const [endPoint, port] = address.split(":");
const { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey, AWS_REGION: region } = process.env;
const minio = new Client({ endPoint, port: Number(port), useSSL: false, accessKey, secretKey, region, partSize: 5 * 1024 * 1024 });
const collect = async (stream) => Array.fromAsync(stream);

await minio.makeBucket("min");
assert.equal(await minio.bucketExists("min"), true);
assert.equal(await minio.bucketExists("no-such-bucket"), false);
const names = globSync("**/*", { cwd: files }).filter((name) => statSync(join(files, name)).isFile());
for (const name of names) await minio.fPutObject("min", name, join(files, name), { "X-Amz-Meta-From": "minio-js" });
const listed = await collect(minio.listObjectsV2("min", "", true));
assert.deepEqual(listed.map(({ name }) => name).sort(), names.toSorted());
for (const name of names) await minio.fGetObject("min", name, join(back, name));
assert.equal((await minio.statObject("min", "notes.txt")).metaData.from, "minio-js");
assert.equal(String(Buffer.concat(await collect(await minio.getPartialObject("min", "notes.txt", 0, 5)))), "notes");

assert.equal(await (await fetch(await minio.presignedGetObject("min", "notes.txt", 60))).text(), "notes of a day\n");
const put = await fetch(await minio.presignedPutObject("min", "presigned", 60), { method: "PUT", body: "put" });
assert.equal(put.status, 200);
const policy = minio.newPostPolicy();
policy.setBucket("min");
policy.setKey("of-a-form");
policy.setExpires(new Date(Date.now() + 60_000));
const { postURL, formData } = await minio.presignedPostPolicy(policy);
const form = new FormData();
for (const [name, value] of Object.entries(formData)) form.append(name, value);
form.append("file", new Blob(["of a form"]), "a.txt");
assert.equal((await fetch(postURL, { method: "POST", body: form })).status, 204);

await minio.setBucketTagging("min", { team: "blue" });
assert.deepEqual(await minio.getBucketTagging("min"), [{ Key: "team", Value: "blue" }]);
await minio.removeBucketTagging("min");
await minio.setObjectTagging("min", "presigned", { age: "old" });
assert.deepEqual(await minio.getObjectTagging("min", "presigned"), [{ Key: "age", Value: "old" }]);
await minio.setBucketVersioning("min", { Status: "Enabled" });
assert.equal((await minio.getBucketVersioning("min")).Status, "Enabled");
const rule = { ID: "old", Status: "Enabled", Filter: { Prefix: "logs/" }, Expiration: { Days: 3 } };
await minio.setBucketLifecycle("min", { Rule: [rule] });
assert.equal([(await minio.getBucketLifecycle("min")).Rule].flat()[0].ID, "old");
await minio.removeBucketLifecycle("min");

await minio.removeObjects("min", names);
const versions = await collect(minio.listObjects("min", "", true, { IncludeVersion: true }));
for (const { name, versionId } of versions) await minio.removeObject("min", name, { versionId });
await minio.removeBucket("min");
assert.deepEqual(await minio.listBuckets(), []);
