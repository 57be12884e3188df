import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";
import { silentLog, StopProgress, type Log, type Timer } from "@concord/runtime";
import { runMain, STOP_MARGIN_MS, type MainOptions, type Running } from "./run-main.ts";
import { ManualClock } from "./test/echo.ts";

const DRAIN_GRACE_MS = 60_000;

function process(): EventEmitter & {
  readonly exits: number[];
  readonly masks: number[];
  exit(code: number): void;
  umask(mask: number): void;
} {
  const [exits, masks]: number[][] = [[], []];
  const [exit, umask] = [(code: number) => void exits!.push(code), (mask: number) => void masks!.push(mask)];
  return Object.assign(new EventEmitter(), { exits: exits!, masks: masks!, exit, umask });
}

function begin(
  start: MainOptions["start"],
  {
    lameDuckMs = 0,
    clock = new ManualClock(),
    progress = new StopProgress(),
    ...options
  }: Partial<Pick<MainOptions, "failed" | "progress">> & { readonly lameDuckMs?: number; readonly clock?: ManualClock } = {},
): {
  clock: ManualClock;
  lines: unknown[];
  exits: number[];
  masks: number[];
  emit(event: string, detail?: unknown): void;
} {
  const fake = process();
  const lines: unknown[] = [];
  const write = (message: string, fields?: object): void => void lines.push([message, fields]);
  const log: Log = { ...silentLog, info: write, error: write };
  void runMain({
    process: fake,
    clock,
    log,
    build: { version: "0.1.0" },
    config: { drainGraceMs: DRAIN_GRACE_MS, lameDuckMs },
    start,
    progress,
    ...options,
  });
  return { clock, lines, exits: fake.exits, masks: fake.masks, emit: (event, detail) => void fake.emit(event, detail) };
}

test("main: start: the first line of the log names the version", async () => {
  const main = begin(() => Promise.resolve({ stop: () => Promise.resolve() }));
  await main.clock.settle();
  assert.deepEqual(main.lines[0], ["starting", { version: "0.1.0" }]);
});

test("main: start: files are made for the server's user alone", async () => {
  const main = begin(() => Promise.resolve({ stop: () => Promise.resolve() }));
  await main.clock.settle();
  assert.deepEqual(main.masks, [0o077]);
});

test("[OPS1] main: a signal: stops once, then exits with 0", async () => {
  let stops = 0;
  const main = begin(() => Promise.resolve({ stop: () => Promise.resolve(void (stops += 1)) }));
  await main.clock.settle();
  assert.deepEqual(main.exits, []);
  main.emit("SIGTERM", "SIGTERM");
  await main.clock.settle();
  assert.deepEqual([stops, main.exits], [1, [0]]);
});

test("[OPS6] main: it fails while it runs, or while it starts: stopped as after a signal, exits with 1", async () => {
  for (const isStarted of [true, false]) {
    const failed = Promise.withResolvers<never>();
    let stops = 0;
    const running = { stop: () => Promise.resolve(void (stops += 1)) };
    const main = begin(
      (signal) =>
        isStarted ? Promise.resolve(running) : new Promise((resolve) => signal.addEventListener("abort", () => resolve(running))),
      { failed: failed.promise },
    );
    await main.clock.settle();
    failed.reject(new Error("the disk is gone"));
    await main.clock.settle();
    assert.deepEqual([stops, main.exits], [1, [1]]);
  }
});

test("main: a signal during the start: what was started is stopped", async () => {
  const starting = Promise.withResolvers<Running>();
  const main = begin(() => starting.promise);
  main.emit("SIGINT", "SIGINT");
  await main.clock.settle();
  assert.deepEqual(main.exits, []);
  let stopped = false;
  starting.resolve({ stop: () => Promise.resolve(void (stopped = true)) });
  await main.clock.settle();
  assert.deepEqual([stopped, main.exits], [true, [0]]);
});

test("[OPS1] main: a signal while the start waits for others: it gives up, exits with 0", async () => {
  const main = begin(
    (signal) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("no peers, and told to stop")))),
  );
  await main.clock.settle();
  main.emit("SIGTERM", "SIGTERM");
  await main.clock.settle();
  assert.deepEqual(main.exits, [0]);
});

test("[OPS3] main: a lame duck: a signal makes it not ready at once, and stops it after lameDuckMs; a second signal ends it", async () => {
  let [stops, isLeaving] = [0, (): boolean => true];
  const start: MainOptions["start"] = (_, given) => {
    isLeaving = given;
    return Promise.resolve({ stop: () => Promise.resolve(void (stops += 1)) });
  };
  const main = begin(start, { lameDuckMs: 5_000 });
  await main.clock.settle();
  assert.equal(isLeaving(), false);
  main.emit("SIGTERM", "SIGTERM");
  await main.clock.advance(4_999);
  assert.deepEqual([isLeaving(), stops, main.exits], [true, 0, []]);
  await main.clock.advance(1);
  assert.deepEqual([stops, main.exits], [1, [0]]);
  const impatient = begin(start, { lameDuckMs: 5_000 });
  impatient.emit("SIGTERM");
  impatient.emit("SIGTERM");
  assert.deepEqual(impatient.exits, [1]);
});

test("[OPS2] main: a stop that hangs: exits with 1 a margin after its grace; a second signal at once", async () => {
  const hangs = (): Promise<Running> => Promise.resolve({ stop: () => new Promise<void>(() => undefined) });
  assert.equal(STOP_MARGIN_MS, 5_000);
  const main = begin(hangs);
  main.emit("SIGTERM");
  await main.clock.settle();
  await main.clock.advance(DRAIN_GRACE_MS + STOP_MARGIN_MS - 1);
  assert.deepEqual(main.exits, []);
  await main.clock.advance(1);
  assert.deepEqual(main.exits, [1]);
  const impatient = begin(hangs);
  impatient.emit("SIGTERM");
  impatient.emit("SIGINT");
  assert.deepEqual(impatient.exits, [1]);
});

/** A process that gets its turns a second late. */
class LateClock extends ManualClock {
  override setTimer(delayMs: number, action: () => void): Timer {
    return super.setTimer(delayMs + 1_000, action);
  }
}

test("[OPS2] main: a stop on a machine on which the process hardly runs: it has up to four times the limit", async () => {
  const stopped = Promise.withResolvers<void>();
  const begun = (stop: () => Promise<void>) => begin(() => Promise.resolve({ stop }), { clock: new LateClock() });
  const slow = begun(() => stopped.promise);
  slow.emit("SIGTERM");
  await slow.clock.advance(3 * (DRAIN_GRACE_MS + STOP_MARGIN_MS));
  assert.deepEqual(slow.exits, []);
  stopped.resolve();
  await slow.clock.settle();
  assert.deepEqual(slow.exits, [0]);
  const hangs = begun(() => new Promise(() => undefined));
  hangs.emit("SIGTERM");
  await hangs.clock.advance(4 * (DRAIN_GRACE_MS + STOP_MARGIN_MS) + 2_000);
  assert.deepEqual(hangs.exits, [1]);
});

const WINDOW_MS = DRAIN_GRACE_MS + STOP_MARGIN_MS;
const GAVE_UP = "did not stop in time";

test("[OPS2] main: a slow stop that makes progress: never cut off, whatever time it takes; once it is stuck it is, and the log names its wait", async () => {
  const progress = new StopProgress();
  const parts = Array.from({ length: 20 }, () => Promise.withResolvers<void>());
  const steps = Object.fromEntries(parts.map(({ promise }, at) => [`part ${at}`, () => promise]));
  const main = begin(() => Promise.resolve({ stop: () => progress.inOrder(steps) }), { progress });
  await main.clock.settle();
  main.emit("SIGTERM");
  for (const { resolve } of parts.slice(0, -1)) {
    await main.clock.advance(WINDOW_MS - 1_000);
    assert.deepEqual(main.exits, []);
    resolve();
    await main.clock.settle();
  }
  await main.clock.advance(WINDOW_MS - 1_000);
  assert.deepEqual(main.exits, []);
  await main.clock.advance(2_000);
  assert.deepEqual(main.exits, [1]);
  assert.deepEqual(main.lines.at(-1), [GAVE_UP, { withoutProgressMs: WINDOW_MS, waitsFor: "part 19" }]);
});

test("[OPS2] main: calls that end one by one are progress; the same number for the whole window is none", async () => {
  const progress = new StopProgress();
  let calls = 9;
  const stop = (): Promise<void> =>
    progress.during(
      () => `calls in flight: ${calls}`,
      () => new Promise(() => undefined),
    );
  const main = begin(() => Promise.resolve({ stop }), { progress });
  await main.clock.settle();
  main.emit("SIGTERM");
  for (; calls > 1; calls -= 1) await main.clock.advance(WINDOW_MS - 1_000);
  assert.deepEqual(main.exits, []);
  await main.clock.advance(WINDOW_MS + 1_000);
  assert.deepEqual(main.exits, [1]);
  assert.deepEqual(main.lines.at(-1), [GAVE_UP, { withoutProgressMs: WINDOW_MS, waitsFor: "calls in flight: 1" }]);
});

test("[OPS2] main: a slow stop on a machine on which the process hardly runs: progress within four times the window is enough", async () => {
  const progress = new StopProgress();
  const parts = [1, 2, 3].map(() => Promise.withResolvers<void>());
  const steps = Object.fromEntries(parts.map(({ promise }, at) => [`part ${at}`, () => promise]));
  const main = begin(() => Promise.resolve({ stop: () => progress.inOrder(steps) }), { progress, clock: new LateClock() });
  await main.clock.settle();
  main.emit("SIGTERM");
  for (const { resolve } of parts) {
    await main.clock.advance(3 * WINDOW_MS);
    assert.deepEqual(main.exits, []);
    resolve();
    await main.clock.settle();
  }
  assert.deepEqual(main.exits, [0]);
});

test("[OPS6] main: a failed start, an uncaught exception, an unhandled rejection: exits with 1", async () => {
  const failed = begin(() => Promise.reject(new Error("disk is full")));
  await failed.clock.settle();
  assert.deepEqual(failed.exits, [1]);
  for (const event of ["uncaughtException", "unhandledRejection"]) {
    const main = begin(() => Promise.resolve({ stop: () => Promise.resolve() }));
    main.emit(event, new Error("x"));
    assert.deepEqual(main.exits, [1]);
  }
});
