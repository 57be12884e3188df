// What a bucket's judge says of versions that it reads one by one.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { NoSuchKey, type S3Client } from "@aws-sdk/client-s3";
import { newTally } from "../subject.ts";
import { LoggedBucket } from "./bucket.ts";

const BODY = new TextEncoder().encode("body");
const ETAG = createHash("md5").update(BODY).digest("hex");
const LISTED = [{ key: "k", id: "v1", etag: ETAG }];

function verified(send: () => Promise<object>): ReturnType<LoggedBucket["verify"]> {
  const s3 = { send } as unknown as S3Client;
  return new LoggedBucket("b", { s3, tally: newTally(), fateOf: () => "free" }).verify(LISTED);
}
const gone = (): Promise<object> => Promise.reject(new NoSuchKey({ message: "none", $metadata: { httpStatusCode: 404 } }));
const bytes = (body: Uint8Array) => (): Promise<object> => Promise.resolve({ Body: { transformToByteArray: () => Promise.resolve(body) } });

test("verify: the bytes of the ETag: nothing wrong, nothing gone", async () => {
  assert.deepEqual(await verified(bytes(BODY)), { wrong: [], gone: [] });
});

test("verify: other bytes: wrong", async () => {
  const { wrong, gone: none } = await verified(bytes(BODY.subarray(1)));
  assert.equal(wrong.length, 1);
  assert.deepEqual(none, []);
});

test("verify: removed since it was listed: gone, which a newer list judges", async () => {
  assert.deepEqual(await verified(gone), { wrong: [], gone: ["k?versionId=v1"] });
});

test("verify: any other error: the judge's own", async () => {
  await assert.rejects(verified(() => Promise.reject(new Error("the connection broke"))));
});
