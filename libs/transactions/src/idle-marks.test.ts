import assert from "node:assert/strict";
import { test } from "node:test";
import { IdleMarks } from "./idle-marks.ts";
import { TestFixture } from "./test/fixture.ts";

const masters = { a: {}, b: {} };
const TIMES = { idleMs: 2, aloneMs: 10 };

function marks(): { clock: TestFixture["clock"]; marks: IdleMarks; left: string[]; wait: (group: keyof typeof masters) => void } {
  const { clock } = new TestFixture();
  const [idle, left] = [new IdleMarks(clock), [] as string[]];
  return { clock, marks: idle, left, wait: (group) => idle.wait(masters[group], TIMES, () => left.push(group)) };
}

test("[TXD14] idle marks: go along with another group's append once they are due, alone after their time, once", async () => {
  const { clock, marks: idle, left, wait } = marks();
  wait("a");
  idle.appended();
  assert.deepEqual(left, [], "its own append may come still");
  await clock.advance(2);
  wait("b");
  idle.appended();
  assert.deepEqual(left, ["a"]);
  await clock.advance(9);
  assert.deepEqual(left, ["a", "b"], "the timer that was set first takes along what is due");
  await clock.advance(100);
  assert.deepEqual(left, ["a", "b"]);
});

test("[TXD14] idle marks: the group's own append takes the mark: it does not leave again; a newer one replaces it", async () => {
  const { clock, marks: idle, left, wait } = marks();
  wait("a");
  wait("b");
  idle.cancel(masters.a);
  await clock.advance(9);
  wait("b");
  await clock.advance(10);
  assert.deepEqual(left, ["b"]);
  await clock.advance(100);
  assert.deepEqual(left, ["b"]);
});
