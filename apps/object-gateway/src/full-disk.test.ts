// A disk below its low-water mark: nothing new comes in; what is there is served and can be deleted, and the room is used at once.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { nodeDisk } from "@concord/adapter-node-runtime";
import type { Disk } from "@concord/runtime";
import { TestGateway } from "./test/gateway.ts";

const LOW_BYTES = 1024 * 1024;
const Bucket = "photos";
const isFull = (thrown: unknown): boolean =>
  thrown instanceof Error && thrown.name === "StorageFull" && "$metadata" in thrown && JSON.stringify(thrown.$metadata).includes("507");

let free = Number.POSITIVE_INFINITY;
let folder = "";
let gateway: TestGateway;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "concord-full-disk-"));
  const dataDisk: Disk = { ...nodeDisk(folder), freeBytes: () => Promise.resolve(free) };
  gateway = await TestGateway.start({ dataDisk, config: { lowSpaceBytes: LOW_BYTES } });
});

after(async () => {
  await gateway.remove();
  await rm(folder, { recursive: true });
});

test("[OPS10] a full disk: uploads, parts and copies get 507; reads, lists and deletes go on; freed room is used at once", async () => {
  const s3 = gateway.client(undefined, { maxAttempts: 1 });
  await s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of ["a", "b"]) await s3.send(new PutObjectCommand({ Bucket, Key, Body: new Uint8Array(100_000).fill(7) }));
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "parts" }));
  free = LOW_BYTES - 1;
  // The last measurement may be younger than its age limit.
  const probe = (): Promise<unknown> => s3.send(new PutObjectCommand({ Bucket, Key: "probe", Body: "x" }));
  for (let isAdmitted = true; isAdmitted;)
    isAdmitted = await probe().then(
      () => true,
      () => false,
    );
  await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "inline", Body: "x" })), isFull);
  await assert.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "blob", Body: new Uint8Array(100_000) })), isFull);
  await assert.rejects(s3.send(new UploadPartCommand({ Bucket, Key: "parts", UploadId, PartNumber: 1, Body: "x" })), isFull);
  await assert.rejects(s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/a` })), isFull);
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key: "a" }));
  assert.equal((await Body!.transformToByteArray()).length, 100_000);
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "a" }));
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "probe" }));
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
  assert.deepEqual(
    Contents.map(({ Key }) => Key),
    ["b"],
  );
  await gateway.admin("CollectGarbage", { aheadMs: 7_200_000n });
  assert.ok(gateway.service.ready);
  free = LOW_BYTES;
  await s3.send(new PutObjectCommand({ Bucket, Key: "inline", Body: "x" }));
});
