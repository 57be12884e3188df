import assert from "node:assert/strict";
import { test } from "node:test";
import { Rounds } from "./rounds.ts";

test("rounds: those who come during a run: share one that began after they came", async () => {
  const ends: (() => void)[] = [];
  const rounds = new Rounds(() => new Promise((resolve) => ends.push(resolve)));
  const first = rounds.join();
  await new Promise(setImmediate);
  const late = [rounds.join(), rounds.join()];
  let lateDone = false;
  void late[0]!.then(() => (lateDone = true));
  ends[0]!();
  await first;
  await new Promise(setImmediate);
  assert.deepEqual([ends.length, lateDone], [2, false]);
  ends[1]!();
  await Promise.all(late);
});

test("rounds: a failed run: its own callers learn it, the next run is tried", async () => {
  let runs = 0;
  const rounds = new Rounds(async () => {
    runs += 1;
    if (runs === 1) throw new Error("broken");
  });
  await assert.rejects(rounds.join(), /broken/);
  await rounds.join();
});

test("rounds: each run gets what its own callers brought, in order", async () => {
  const runs: (readonly number[])[] = [];
  const rounds = new Rounds<number>(async (items) => void runs.push(items));
  const early = [rounds.join(1), rounds.join(2)];
  await early[0];
  await Promise.all([...early, rounds.join(3)]);
  assert.deepEqual(runs, [[1, 2], [3]]);
});
