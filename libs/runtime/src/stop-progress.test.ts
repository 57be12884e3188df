import assert from "node:assert/strict";
import { test } from "node:test";
import { StopProgress } from "./index.ts";

test("stop progress: waits are named while they go on, also those that fail; each end changes the mark", async () => {
  const progress = new StopProgress();
  const [first, second] = [Promise.withResolvers<number>(), Promise.withResolvers<void>()];
  const marks = [progress.mark];
  const answer = progress.during("the first", () => first.promise);
  const failure = assert.rejects(
    progress.during("the second", () => second.promise),
    /no/,
  );
  marks.push(progress.mark);
  assert.deepEqual(progress.current, ["the first", "the second"]);
  second.reject(new Error("no"));
  await failure;
  assert.deepEqual(progress.current, ["the first"]);
  marks.push(progress.mark);
  first.resolve(7);
  assert.equal(await answer, 7);
  assert.deepEqual(progress.current, []);
  marks.push(progress.mark);
  assert.equal(new Set(marks).size, 4);
});

test("stop progress: a wait whose text changes: another mark, with the text of now", async () => {
  const progress = new StopProgress();
  const over = Promise.withResolvers<void>();
  let calls = 2;
  const waited = progress.during(
    () => `${calls} calls`,
    () => over.promise,
  );
  const before = progress.mark;
  assert.equal(progress.mark, before);
  calls = 1;
  assert.notEqual(progress.mark, before);
  assert.deepEqual(progress.current, ["1 calls"]);
  over.resolve();
  await waited;
});

test("stop progress: steps in order: one at a time, equal names are two waits", async () => {
  const progress = new StopProgress();
  const seen: (readonly string[])[] = [];
  const look = (): Promise<void> => Promise.resolve(void seen.push(progress.current));
  await progress.during("a", () => progress.inOrder({ a: look, b: look }));
  assert.deepEqual(seen, [
    ["a", "a"],
    ["a", "b"],
  ]);
});
