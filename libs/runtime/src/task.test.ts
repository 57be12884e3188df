import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, every, Task, Tasks, type TaskOptions } from "./index.ts";
import { ManualClock } from "./test/manual-clock.ts";

const RETRY_MS = 100;

/** A task whose steps do as the test scripted; without a script they succeed and pause for a second. */
function scripted(steps: readonly (() => Promise<number>)[] = [], options: Partial<TaskOptions> = {}) {
  const clock = new ManualClock();
  const tasks = new Tasks();
  const began: number[] = [];
  const failures: string[] = [];
  const task = new Task({
    name: "test: work",
    clock,
    tasks,
    step: async () => {
      began.push(clock.monotonicMs());
      return (await steps[began.length - 1]?.()) ?? 1_000;
    },
    retryMs: (count) => count * RETRY_MS,
    failed: ({ message }) => void failures.push(message),
    ...options,
  });
  return { clock, tasks, task, began, failures };
}

test("task: steps follow each other with the pauses they ask for, from start to stop", async () => {
  const { clock, task, began } = scripted([async () => 0, async () => 10]);
  await clock.advance(5_000);
  assert.deepEqual(began, [], "not started");
  task.start();
  task.start();
  await clock.advance(1_500);
  assert.deepEqual(began, [5_000, 5_000, 5_010, 6_010]);
  await task.stop();
  await clock.advance(5_000);
  assert.deepEqual([began.length, clock.timers], [4, 0]);
  task.start();
  await clock.advance(5_000);
  assert.equal(began.length, 4, "a task that was stopped stays so");
});

test("task: a step that fails is reported and repeated after the pause for so many failures; one that succeeds ends the row", async () => {
  const fail = async (): Promise<number> => Promise.reject(new ConcordError("STORE_FAILED", "no"));
  const { clock, task, tasks, began, failures } = scripted([fail, fail, async () => 1_000, fail]);
  task.start();
  await clock.advance(299);
  assert.deepEqual(began, [0, 100]);
  assert.deepEqual((await tasks.page()).tasks, [
    { name: "test: work", state: "waiting", steps: 0, failures: 2, lastFailure: "no", nextInMs: 1 },
  ]);
  await clock.advance(1);
  assert.equal((await tasks.page()).tasks[0]!.failures, 0);
  await clock.advance(1_100);
  assert.deepEqual([began, failures.length], [[0, 100, 300, 1_300, 1_400], 3]);
  await task.stop();
});

test("task: woken in a pause, before its first step, and while a step runs: the next step begins at once", async () => {
  const held = Promise.withResolvers<number>();
  const { clock, task, began } = scripted([async () => Number.POSITIVE_INFINITY, () => held.promise], { firstAfterMs: 50 });
  task.start();
  task.wake();
  await clock.advance(0);
  assert.deepEqual(began, [0]);
  await clock.advance(10_000);
  assert.equal(began.length, 1, "it waits until it is woken");
  task.wake();
  await clock.advance(0);
  task.wake();
  held.resolve(5_000);
  await clock.advance(0);
  assert.deepEqual(began, [0, 10_000, 10_000]);
  await task.stop();
});

test("task: stopped in a step: the signal is aborted, the step is waited for, its failure is not reported; in an endless pause: at once", async () => {
  const { clock, tasks, task, failures } = scripted([], {
    step: (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
  });
  task.start();
  await clock.advance(0);
  assert.deepEqual((await tasks.page()).tasks, [{ name: "test: work", state: "running", steps: 0, failures: 0 }]);
  await task.stop();
  assert.deepEqual([(task.signal.reason as ConcordError).code, failures, (await tasks.page()).tasks], ["CANCELLED", [], []]);
  const endless = scripted([async () => Number.POSITIVE_INFINITY]);
  endless.task.start();
  await endless.clock.advance(0);
  assert.equal((await endless.tasks.page()).tasks[0]!.nextInMs, undefined);
  await endless.task.stop();
});

test("task: progress is asked for when the page is, and is the task's own", async () => {
  let rows = 0;
  const { clock, tasks, task } = scripted([], { progress: () => ({ rows }) });
  task.start();
  await clock.advance(0);
  rows = 7;
  assert.deepEqual((await tasks.page()).tasks[0]!.progress, { rows: 7 });
  await task.stop();
});

test("task: equal pauses: the same after a step that failed, whatever the step returns; a failure need not be reported", async () => {
  let steps = 0;
  const work = async (): Promise<string> => {
    steps += 1;
    if (steps === 2) throw new ConcordError("STORE_FAILED", "no");
    return "done";
  };
  const { clock, tasks, task } = scripted([], { ...every(50, work), failed: undefined });
  task.start();
  await clock.advance(75);
  assert.deepEqual((await tasks.page()).tasks, [
    { name: "test: work", state: "waiting", steps: 1, failures: 1, lastFailure: "no", nextInMs: 25 },
  ]);
  await clock.advance(25);
  assert.equal(steps, 3);
  await task.stop();
});
