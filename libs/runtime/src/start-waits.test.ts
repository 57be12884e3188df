import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, silentLog, StartWaits, type Log, type LogFields } from "./index.ts";
import { ManualClock } from "./test/manual-clock.ts";

const never = new AbortController().signal;
const late = (): Promise<never> => Promise.reject(new ConcordError("REPLICAS_UNAVAILABLE", "1 replicas answered, 2 are needed"));

test("start: a step fails for a while: it is repeated, named with its last failure, and nothing is left behind", async () => {
  const clock = new ManualClock();
  const waits = new StartWaits({ clock, log: silentLog });
  let tries = 0;
  const done = waits.until("the schema", () => ((tries += 1) < 5 ? late() : Promise.resolve("read")), { signal: never });
  await clock.advance(0);
  assert.deepEqual(waits.current, ["the schema (1 replicas answered, 2 are needed)"]);
  await clock.advance(60_000);
  assert.equal(await done, "read");
  assert.deepEqual([waits.current, clock.timers, tries], [[], 0, 5]);
});

test("start: what it waits for is logged after a second, then at growing intervals up to a minute", async () => {
  const clock = new ManualClock();
  const said: unknown[] = [];
  const log: Log = { ...silentLog, warn: (_text: string, fields?: LogFields) => void said.push(fields?.waitedMs) };
  const stop = new AbortController();
  const done = new StartWaits({ clock, log }).until("the schema", late, { signal: stop.signal });
  const ended = assert.rejects(done, /stopped/);
  await clock.advance(250_000);
  assert.deepEqual(said, [1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000, 183_000, 243_000]);
  stop.abort(new Error("stopped"));
  await clock.advance(60_000);
  await ended;
  assert.equal(clock.timers, 0);
});

test("start: an error that no try mends: rejected at once with it", async () => {
  const clock = new ManualClock();
  const waits = new StartWaits({ clock, log: silentLog });
  let tries = 0;
  const step = (): Promise<never> => {
    tries += 1;
    return Promise.reject(new ConcordError("UNAUTHENTICATED", "the token is wrong"));
  };
  await assert.rejects(waits.until("the schema", step, { signal: never }), /the token is wrong/);
  assert.deepEqual([tries, waits.current, clock.timers], [1, [], 0]);
});

test("start: a try that may be abandoned does not keep the stop; its late answer is passed on, a late failure is not", async () => {
  for (const end of ["answer", "failure"] as const) {
    const clock = new ManualClock();
    const waits = new StartWaits({ clock, log: silentLog });
    const stop = new AbortController();
    const trying = Promise.withResolvers<string>();
    const abandoned: string[] = [];
    const abandon = (answer: string): void => void abandoned.push(answer);
    const done = waits.until("the schema", () => trying.promise, { signal: stop.signal, abandon });
    stop.abort(new Error("stopped"));
    await assert.rejects(done, { code: "DRAINING" });
    assert.deepEqual([waits.current, clock.timers], [[], 0]);
    if (end === "answer") trying.resolve("late");
    else trying.reject(new Error("late"));
    await clock.advance(0);
    assert.deepEqual(abandoned, end === "answer" ? ["late"] : []);
  }
});

test("start: a try that may be abandoned answers, and the program stops later: its answer is not abandoned", async () => {
  const stop = new AbortController();
  const abandon = (): void => assert.fail("the answer is in use");
  const waits = new StartWaits({ clock: new ManualClock(), log: silentLog });
  assert.equal(await waits.until("the schema", () => Promise.resolve("read"), { signal: stop.signal, abandon }), "read");
  stop.abort(new Error("stopped"));
});
