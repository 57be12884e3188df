import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectStore } from "@concord/objects";
import { nodeClock } from "@concord/adapter-node-runtime";
import { silentLog, silentMetrics, SpaceGuard } from "@concord/runtime";
import { fieldsOf, S3Error } from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import { UNLIMITED_BYTES } from "../test/unlimited-bytes.ts";
import { Quotas } from "./quotas.ts";
import { RequestRates } from "./request-rates.ts";
import { AccessReader, ownAccess } from "./access.ts";
import { TransferBudget } from "./budget.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { getObject } from "./get-object.ts";
import { copyObject } from "./write-object.ts";
import { uploadPartCopy } from "./multipart.ts";

const budget = (countMax: number, bytesMax: number, isShared = false): TransferBudget =>
  new TransferBudget({ kind: "uploads", countMax, bytesMax, shareBytes: UPLOAD_SHARE_BYTES, isShared, metrics: silentMetrics });
const isSlowDown = (thrown: unknown): boolean => thrown instanceof S3Error && thrown.code === "SlowDown";

/** Runs until it is released. */
function held(uploads: TransferBudget, bytes: number, tenant = "ann"): { done: Promise<void>; release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { done: uploads.during(tenant, bytes, () => promise), release: resolve };
}

test("budget: uploads below and at the limit run, one above is refused with SlowDown, and runs when another has ended", async () => {
  const uploads = budget(2, 1e9);
  const [one, two] = [held(uploads, 1), held(uploads, 1)];
  await assert.rejects(held(uploads, 1).done, isSlowDown);
  one.release();
  await one.done;
  assert.equal(uploads.inFlight, 1);
  assert.equal(await uploads.during("ann", 1, () => Promise.resolve("in")), "in");
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
    uploads.during("ann", UPLOAD_SHARE_BYTES, () => Promise.reject(new Error("broken off"))),
    /broken off/,
  );
  assert.equal(await uploads.during("ann", UPLOAD_SHARE_BYTES, () => Promise.resolve(1)), 1);
  long.release();
  await long.done;
});

test("budget: one tenant with 256 slow uploads: the others' still run, and its own when some have ended", async () => {
  const uploads = budget(256, 1e9, true);
  const slow: ReturnType<typeof held>[] = [];
  const refused: ReturnType<typeof held>[] = [];
  for (let at = 0; at < 256; at += 1) {
    const before = uploads.inFlight;
    const one = held(uploads, UPLOAD_SHARE_BYTES, "hog");
    (uploads.inFlight === before ? refused : slow).push(one);
  }
  await Promise.all(refused.map((one) => assert.rejects(one.done, isSlowDown)));
  assert.equal(slow.length, 204);
  const others = Array.from({ length: 40 }, () => held(uploads, UPLOAD_SHARE_BYTES, "ann"));
  await assert.rejects(held(uploads, 1, "hog").done, isSlowDown);
  for (const { release } of [...others, ...slow]) release();
  await Promise.all([...others, ...slow].map(({ done }) => done));
  assert.equal(uploads.inFlight, 0);
});

test("[SEC10] budget: downloads that their clients do not read: one above the limit is SlowDown before its first byte, and runs when one was left", async () => {
  const downloads = budget(10, UPLOAD_SHARE_BYTES);
  const object = {
    etag: "e",
    modifiedMs: 0,
    sizeBytes: 1e9,
    attributes: { headers: {}, metadata: {}, tags: {} },
    content: { kind: "blob" },
  };
  async function* bytes(): AsyncGenerator<Uint8Array, void, void> {
    for (;;) yield new Uint8Array(1);
  }
  const store = { getObject: () => Promise.resolve({ object, offset: 0, lengthBytes: 1e9, bytes: bytes() }) } as unknown as ObjectStore;
  const call = { bucket: "photos", key: "a", query: fieldsOf([]), headers: fieldsOf([]), tenant: "ann" } as unknown as S3Call;
  const context = { store, log: silentLog, metrics: silentMetrics, downloads, sending: UNLIMITED_BYTES } as unknown as Context;
  const { body } = await getObject(call, context);
  assert.ok(body !== undefined && !(body instanceof Uint8Array));
  await assert.rejects(async () => void (await getObject(call, context)), isSlowDown);
  await body[Symbol.asyncIterator]().return?.();
  assert.equal(downloads.inFlight, 0);
  await getObject(call, context);
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
      headBucket: () =>
        Promise.resolve({ name: "photos", tenant: "ann", region: "r", createdMs: 0, settings: { number: 0n, documents: {} } }),
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
      caller: { kind: "tenant", tenant: "ann" },
      tenant: "ann",
      access: ownAccess("ann"),
      facts: {},
    } as unknown as S3Call;
    const context = {
      store,
      log: silentLog,
      metrics: silentMetrics,
      uploads,
      downloads: uploads,
      space: new SpaceGuard({ service: "objects", clock: nodeClock, log: silentLog, metrics: silentMetrics, disks: [], lowBytes: 0 }),
      region: "r",
      partBytesMax: 1,
      scheme: "http",
      access: new AccessReader({ publicAccess: "refused", isProxy: () => false, scheme: "http", isTenant: () => true }),
      lifecycleDayMs: 1,
      eventSink: () => undefined,
      writes: { kind: "taken" },
      receiving: UNLIMITED_BYTES,
      sending: UNLIMITED_BYTES,
      rates: new RequestRates({ rateOf: () => undefined, monotonicMs: () => 0 }),
      quotas: new Quotas({ quotaOf: () => undefined, store, monotonicMs: () => 0 }),
      keys: { managed: "none", service: [] },
    } as const;
    const { done, release } = held(uploads, 1);
    await assert.rejects(operation(call, context), isSlowDown);
    release();
    await done;
  });
}
