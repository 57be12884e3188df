import assert from "node:assert/strict";
import { test } from "node:test";
import { Lanes } from "./lanes.ts";

const never = (): Promise<never> => new Promise(() => undefined);

test("lanes: waiters of one name: below, at and above the limit; another name is free", async () => {
  const lanes = new Lanes({ waitersPerLaneMax: 2, waitersMax: 100 });
  let end: (() => void) | undefined;
  const first = lanes.run("a", () => new Promise<void>((resolve) => (end = resolve)));
  const ran: number[] = [];
  const waiting = [1, 2].map((each) => lanes.run("a", async () => void ran.push(each)));
  await assert.rejects(
    lanes.run("a", async () => void ran.push(3)),
    { code: "OVERLOADED", applied: "no" },
  );
  await lanes.run("b", async () => void ran.push(4));
  end!();
  await Promise.all([first, ...waiting]);
  await lanes.run("a", async () => void ran.push(5));
  assert.deepEqual(ran, [4, 1, 2, 5]);
});

test("lanes: waiters of all names: below, at and above the limit; a task that fails ends its wait too", async () => {
  const lanes = new Lanes({ waitersPerLaneMax: 100, waitersMax: 1 });
  let fail: ((error: Error) => void) | undefined;
  const first = lanes.run("a", () => new Promise<void>((_, reject) => (fail = reject)));
  void lanes.run("b", never);
  const second = lanes.run("a", async () => undefined);
  await assert.rejects(lanes.run("b", never), { code: "OVERLOADED", applied: "no" });
  fail!(new Error("no"));
  await assert.rejects(first, /no/);
  await second;
  void lanes.run("b", never);
});

test("lanes: one that waited runs: its place is free, while the name goes on", async () => {
  const lanes = new Lanes({ waitersPerLaneMax: 1, waitersMax: 100 });
  const ends: (() => void)[] = [];
  const task = (): Promise<void> => new Promise((resolve) => void ends.push(resolve));
  const all = [lanes.run("a", task), lanes.run("a", task)];
  await assert.rejects(lanes.run("a", task), { code: "OVERLOADED" });
  ends[0]!();
  await all[0];
  all.push(lanes.run("a", task));
  ends[1]!();
  await all[1];
  ends[2]!();
  await all[2];
});
