import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupOwner } from "@concord/ports";
import { ConcordError, epochOf } from "@concord/runtime";
import { EpochCheck } from "./epoch-check.ts";
import type { GroupContext } from "./group-context.ts";

type Verdict = "current" | "fenced" | "unknown";

/** A check over a log whose verifications the test ends. */
function checked() {
  const verifications: PromiseWithResolvers<Verdict>[] = [];
  const fenced: string[] = [];
  const verify = (): Promise<Verdict> => {
    const verification = Promise.withResolvers<Verdict>();
    verifications.push(verification);
    return verification.promise;
  };
  const context = { groupLog: { verify }, settings: { storageTimeoutMs: 1_000 } } as unknown as GroupContext;
  const owner: GroupOwner = { group: "g", epoch: epochOf(1n), owner: "a" };
  return { check: new EpochCheck(context, owner, ({ code }) => void fenced.push(code)), verifications, fenced };
}

test("epoch check: callers that came together share one check; all that come while it runs share the one after it", async () => {
  const { check, verifications } = checked();
  const first = [check.current(), check.current()];
  await Promise.resolve();
  assert.equal(verifications.length, 1, "one check for both");
  let answered = 0;
  const second = [1, 2, 3].map(() => check.current().then(() => (answered += 1)));
  verifications[0]!.resolve("current");
  await Promise.all(first);
  await new Promise(setImmediate);
  assert.deepEqual([verifications.length, answered], [2, 0], "one check that began after all three, which wait for it");
  verifications[1]!.resolve("current");
  await Promise.all(second);
  assert.equal(verifications.length, 2);
});

test("epoch check: one that failed fails those that share it and no others", async () => {
  const { check, verifications, fenced } = checked();
  const first = [check.current(), check.current()].map((answer) => assert.rejects(answer, { code: "REPLICAS_UNAVAILABLE" }));
  await Promise.resolve();
  const second = check.current();
  verifications[0]!.resolve("unknown");
  await Promise.all(first);
  await new Promise(setImmediate);
  verifications[1]!.resolve("current");
  await second;
  const third = assert.rejects(check.current(), (thrown) => thrown instanceof ConcordError && thrown.code === "EPOCH_FENCED");
  await new Promise(setImmediate);
  verifications[2]!.resolve("fenced");
  await third;
  assert.deepEqual([verifications.length, fenced], [3, ["EPOCH_FENCED"]]);
});
