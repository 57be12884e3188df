import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectStore } from "@concord/objects";
import { nodeClock } from "@concord/adapter-node-runtime";
import { silentLog, silentMetrics, SpaceGuard } from "@concord/runtime";
import { fieldsOf, S3Error } from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import { UploadBudget } from "./budget.ts";
import type { S3Call } from "./call.ts";
import { copyObject } from "./write-object.ts";
import { uploadPartCopy } from "./multipart.ts";

const budget = (uploadsMax: number, bytesMax: number): UploadBudget => new UploadBudget({ uploadsMax, bytesMax, metrics: silentMetrics });
const isSlowDown = (thrown: unknown): boolean => thrown instanceof S3Error && thrown.code === "SlowDown";

/** Runs until it is released. */
function held(uploads: UploadBudget, bytes: number): { done: Promise<void>; release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { done: uploads.during(bytes, () => promise), release: resolve };
}

test("budget: uploads below and at the limit run, one above is refused with SlowDown, and runs when another has ended", async () => {
  const uploads = budget(2, 1e9);
  const [one, two] = [held(uploads, 1), held(uploads, 1)];
  await assert.rejects(held(uploads, 1).done, isSlowDown);
  one.release();
  await one.done;
  assert.equal(uploads.uploadsInFlight, 1);
  assert.equal(await uploads.during(1, () => Promise.resolve("in")), "in");
  two.release();
  await two.done;
});

test("budget: a long body counts as the share of one upload, a short one as what it is; a failure gives it back", async () => {
  const uploads = budget(10, 2 * UPLOAD_SHARE_BYTES);
  const long = held(uploads, 1e12);
  const short = held(uploads, UPLOAD_SHARE_BYTES);
  await assert.rejects(held(uploads, 1).done, isSlowDown);
  short.release();
  await short.done;
  await assert.rejects(
    uploads.during(UPLOAD_SHARE_BYTES, () => Promise.reject(new Error("broken off"))),
    /broken off/,
  );
  assert.equal(await uploads.during(UPLOAD_SHARE_BYTES, () => Promise.resolve(1)), 1);
  long.release();
  await long.done;
});

for (const [name, operation, query] of [
  ["CopyObject", copyObject, []],
  [
    "UploadPartCopy",
    uploadPartCopy,
    [
      ["partNumber", "1"],
      ["uploadId", guidToText(1n)],
    ],
  ],
] as const) {
  test(`budget: used up: ${name} is refused with SlowDown before a byte of its source is read`, async () => {
    const uploads = budget(1, UPLOAD_SHARE_BYTES);
    const begun = (): never => assert.fail("the copy began");
    const store = {
      headBucket: () => Promise.resolve({ name: "photos", tenant: "ann", region: "r", createdMs: 0 }),
      listParts: () => Promise.resolve({ parts: [], next: undefined, initiatedMs: 0, checksum: undefined }),
      copyObject: begun,
      copyPart: begun,
    } as unknown as ObjectStore;
    const headers = fieldsOf([["x-amz-copy-source", "/photos/a"]]);
    const call = {
      requestId: "",
      request: {},
      bucket: "photos",
      key: "b",
      query: fieldsOf(query),
      headers,
      tenant: "ann",
    } as unknown as S3Call;
    const context = {
      store,
      log: silentLog,
      metrics: silentMetrics,
      budget: uploads,
      space: new SpaceGuard({ clock: nodeClock, log: silentLog, metrics: silentMetrics, disks: [], lowBytes: 0 }),
      region: "r",
      partBytesMax: 1,
      scheme: "http",
    } as const;
    const { done, release } = held(uploads, 1);
    await assert.rejects(operation(call, context), isSlowDown);
    release();
    await done;
  });
}
