import assert from "node:assert/strict";
import { test } from "node:test";
import { silentMetrics } from "@concord/runtime";
import { S3Error } from "@concord/s3";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import { UploadBudget } from "./budget.ts";

const budget = (uploadsMax: number, bytesMax: number): UploadBudget => new UploadBudget({ uploadsMax, bytesMax, metrics: silentMetrics });
const isSlowDown = (thrown: unknown): boolean => thrown instanceof S3Error && thrown.code === "SlowDown";

/** Runs until it is let go. */
function held(room: UploadBudget, bytes: number): { done: Promise<void>; release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { done: room.during(bytes, () => promise), release: resolve };
}

test("budget: uploads below and at the limit run, one above is told to slow down, and runs when another has ended", async () => {
  const room = budget(2, 1e9);
  const [one, two] = [held(room, 1), held(room, 1)];
  await assert.rejects(held(room, 1).done, isSlowDown);
  one.release();
  await one.done;
  assert.equal(room.uploadsInFlight, 1);
  assert.equal(await room.during(1, () => Promise.resolve("in")), "in");
  two.release();
  await two.done;
});

test("budget: a long body counts as the share of one upload, a short one as what it is; a failure gives it back", async () => {
  const room = budget(10, 2 * UPLOAD_SHARE_BYTES);
  const long = held(room, 1e12);
  const short = held(room, UPLOAD_SHARE_BYTES);
  await assert.rejects(held(room, 1).done, isSlowDown);
  short.release();
  await short.done;
  await assert.rejects(
    room.during(UPLOAD_SHARE_BYTES, () => Promise.reject(new Error("broken off"))),
    /broken off/,
  );
  assert.equal(await room.during(UPLOAD_SHARE_BYTES, () => Promise.resolve(1)), 1);
  long.release();
  await long.done;
});
