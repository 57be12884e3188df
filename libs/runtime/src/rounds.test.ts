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
