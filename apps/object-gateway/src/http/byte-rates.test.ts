// Rates of bytes: how long each step of a transfer waits, what is refused, and what is remembered; time moves when the test moves it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { ObjectStore } from "@concord/objects";
import { silentLog, silentMetrics, type Clock, type Metrics } from "@concord/runtime";
import { fieldsOf, S3Error } from "@concord/s3";
import { RATE_STEP_BYTES as STEP, RATE_SWEEP_MIN, RATE_WAIT_MS_MAX } from "../limits.ts";
import { ByteRates, ByteShares } from "./byte-rates.ts";
import { TransferBudget } from "./budget.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { getObject } from "./get-object.ts";

interface Fixture {
  readonly rates: ByteRates;
  readonly counted: Map<string, number>;
  tenantRate: number | undefined;
  addressRate: number | undefined;
  /** Timers that fire in between see their own time. */
  pass(ms: number): Promise<void>;
  timers(): number;
  nowMs: number;
}

/** A step takes a second, unless the test says so. */
function fixture(addressRate?: number): Fixture {
  let timers: { readonly atMs: number; readonly action: () => void }[] = [];
  const counted = new Map<string, number>();
  const clock = {
    monotonicMs: () => made.nowMs,
    setTimer: (delayMs: number, action: () => void) => {
      const timer = { atMs: made.nowMs + delayMs, action };
      timers.push(timer);
      return { cancel: () => void (timers = timers.filter((other) => other !== timer)) };
    },
  } as unknown as Clock;
  const metrics = { ...silentMetrics, count: (name: string, by = 1) => void counted.set(name, (counted.get(name) ?? 0) + by) } as Metrics;
  const made: Fixture = {
    nowMs: 0,
    counted,
    tenantRate: STEP,
    addressRate,
    timers: () => timers.length,
    async pass(ms) {
      const untilMs = made.nowMs + ms;
      for (;;) {
        await turn();
        const next = timers.toSorted((a, b) => a.atMs - b.atMs).find(({ atMs }) => atMs <= untilMs);
        if (next === undefined) break;
        made.nowMs = next.atMs;
        timers = timers.filter((other) => other !== next);
        next.action();
      }
      made.nowMs = untilMs;
    },
    rates: new ByteRates({
      direction: "up",
      tenants: () => made.tenantRate,
      addressRate,
      networkOf: (address) => address.slice(0, 4),
      clock,
      metrics,
    }),
  };
  return made;
}

type Asking = Parameters<ByteRates["begin"]>[0];

function askedBy(tenant: string, address = "10.0.0.1", signal = new AbortController().signal): Asking {
  return { tenant, facts: () => ({ "aws:sourceip": address }), request: { signal } as S3Call["request"] };
}

async function* chunksOf(...lengths: readonly number[]): AsyncGenerator<Uint8Array, void, void> {
  for (const [at, length] of lengths.entries()) yield new Uint8Array(length).fill(at + 1);
}

interface Moving {
  /** When each step moved, in seconds, and how much. */
  readonly steps: (readonly [atS: number, bytes: number])[];
  readonly bytes: number[];
  readonly over: Promise<void>;
}

function move(at: Fixture, asking: Asking, ...lengths: readonly number[]): Moving {
  const pacing = at.rates.begin(
    asking,
    lengths.reduce((sum, length) => sum + length, 0),
  );
  const moving = { steps: [] as (readonly [number, number])[], bytes: [] as number[] };
  const run = async (): Promise<void> => {
    try {
      for await (const step of pacing.chunks(chunksOf(...lengths))) {
        moving.steps.push([at.nowMs / 1000, step.length]);
        moving.bytes.push(...step.subarray(0, 1));
      }
    } finally {
      pacing.end();
    }
  };
  return { ...moving, over: run() };
}

const refused = (thrown: unknown): boolean => thrown instanceof S3Error && thrown.code === "SlowDown";

test("rates of bytes: a burst of a second at once, then each step when its bytes are due; after a pause one burst again", async () => {
  const at = fixture();
  const first = move(at, askedBy("ann"), 3 * STEP, STEP / 2);
  await at.pass(10_000);
  await first.over;
  assert.deepEqual(first.steps, [
    [0, STEP],
    [1, STEP],
    [2, STEP],
    [2.5, STEP / 2],
  ]);
  assert.deepEqual(first.bytes, [1, 1, 1, 2]);
  assert.equal(at.counted.get("s3_paced_seconds_total"), 2.5);
  const second = move(at, askedBy("ann"), STEP / 2, STEP / 2, STEP);
  await at.pass(10_000);
  await second.over;
  assert.deepEqual(second.steps, [
    [10, STEP / 2],
    [10, STEP / 2],
    [11, STEP],
  ]);
  assert.equal(at.timers(), 0);
});

test("rates of bytes: several transfers of a tenant: in turn, together at its rate; another tenant's do not wait for them", async () => {
  const at = fixture();
  const moving = [move(at, askedBy("ann"), 3 * STEP), move(at, askedBy("ann"), 3 * STEP), move(at, askedBy("bob"), STEP)];
  await at.pass(5000);
  await Promise.all(moving.map(({ over }) => over));
  const [one, two, other] = moving.map(({ steps }) => steps.map(([atS]) => atS));
  assert.deepEqual(
    [...one!, ...two!].toSorted((a, b) => a - b),
    [0, 1, 2, 3, 4, 5],
  );
  assert.ok(one!.at(-1)! >= 4 && two!.at(-1)! >= 4, "neither runs ahead of the other");
  assert.deepEqual(other, [0]);
});

test("rates of bytes: an address: of all its tenants together, beside each one's own; the slower of the two decides", async () => {
  const at = fixture(STEP / 2);
  const moving = [
    move(at, askedBy("ann", "10.1.0.1"), STEP),
    move(at, askedBy("bob", "10.1.9.9"), STEP),
    move(at, askedBy("eve", "10.2.0.1"), STEP),
  ];
  await at.pass(5000);
  await Promise.all(moving.map(({ over }) => over));
  assert.deepEqual(
    moving.map(({ steps }) => steps.map(([atS]) => atS)),
    [[1], [3], [1]],
  );
  at.tenantRate = undefined;
  const alone = move(at, askedBy("ann", "10.1.0.1"), STEP);
  await at.pass(5000);
  await alone.over;
  assert.deepEqual(alone.steps, [[6, STEP]]);
});

test("rates of bytes: transfers whose steps would wait longer than the limit: refused with the time to wait; one that ends lets another begin", async () => {
  const at = fixture();
  const most = RATE_WAIT_MS_MAX / 1000;
  const running = Array.from({ length: most - 1 }, () => at.rates.begin(askedBy("ann"), 1e12));
  const small = at.rates.begin(askedBy("ann"), STEP - 1);
  const least = at.rates.begin(askedBy("ann"), 1);
  assert.throws(
    () => at.rates.begin(askedBy("ann"), 1),
    (thrown) => refused(thrown) && (thrown as S3Error).retryAfterSeconds === most + 1,
  );
  assert.equal(at.counted.get("s3_paced_refusals_total"), 1);
  at.rates.begin(askedBy("bob"), 1e12).end();
  least.end();
  at.rates.begin(askedBy("ann"), 1).end();
  for (const one of [...running, small]) one.end();
  assert.throws(() => small.end(), /ends once/);
});

test("rates of bytes: refused for its address: its tenant's share is as it was; without a rate none is refused", async () => {
  const at = fixture(STEP);
  const running = Array.from({ length: RATE_WAIT_MS_MAX / 1000 }, (_, i) => at.rates.begin(askedBy(`t${i}`), 1e12));
  for (let i = 0; i < 100; i += 1) assert.throws(() => at.rates.begin(askedBy("ann"), 1e12), refused);
  at.rates.begin(askedBy("ann", "10.9.0.1"), 1e12).end();
  for (const one of running) one.end();
  const free = fixture();
  free.tenantRate = undefined;
  const source = chunksOf(1);
  for (let i = 0; i < 100; i += 1) assert.equal(free.rates.begin(askedBy("ann"), 1e12).chunks(source), source);
});

test("rates of bytes: a rate that changes: counts for what is under way, also when there is none any more", async () => {
  const at = fixture();
  const moving = move(at, askedBy("ann"), 8 * STEP);
  await at.pass(1500);
  at.tenantRate = 2 * STEP;
  await at.pass(1500);
  assert.deepEqual(
    moving.steps.map(([atS]) => atS),
    [0, 1, 2, 2.5, 3],
  );
  at.tenantRate = undefined;
  await at.pass(500);
  await moving.over;
  assert.equal(moving.steps.length, 8);
});

test("rates of bytes: the client goes away while its step waits: the wait ends at once", async () => {
  const at = fixture();
  const client = new AbortController();
  const moving = move(at, askedBy("ann", "", client.signal), 2 * STEP);
  await at.pass(0);
  assert.deepEqual([moving.steps.length, at.timers()], [1, 1]);
  client.abort();
  await moving.over;
  assert.equal(at.timers(), 0);
});

test("rates of bytes: many addresses, each once: those that are idle are forgotten, running and unpaid ones are not", () => {
  let nowMs = 0;
  const shares = new ByteShares(
    () => STEP,
    () => nowMs,
  );
  const kept = shares.begin("running", STEP);
  for (let i = 0; i < 50 * RATE_SWEEP_MIN; i += 1) {
    const one = shares.begin(`a${i}`, STEP);
    assert.ok(one.kind === "begun");
    one.taking.take(STEP);
    one.taking.end();
    nowMs += 10;
    assert.ok(shares.size <= RATE_SWEEP_MIN);
  }
  assert.ok(kept.kind === "begun");
  const last = shares.begin(`a${50 * RATE_SWEEP_MIN - 1}`, STEP);
  assert.ok(last.kind === "begun" && last.taking.take(STEP) > 0, "what it took before still counts");
  kept.taking.end();
});

test("rates of bytes: a download: paced behind its headers, refused with SlowDown before its first byte, ended when it is left", async () => {
  const at = fixture();
  const object = {
    etag: "e",
    modifiedMs: 0,
    sizeBytes: 4 * STEP,
    attributes: { headers: {}, metadata: {}, tags: {} },
    content: { kind: "blob" },
  };
  const found = { object, offset: 0, lengthBytes: 4 * STEP };
  const store = { getObject: () => Promise.resolve({ ...found, bytes: chunksOf(4 * STEP) }) } as unknown as ObjectStore;
  const call = { ...askedBy("ann"), bucket: "photos", key: "a", query: fieldsOf([]), headers: fieldsOf([]) } as unknown as S3Call;
  const downloads = new TransferBudget({
    kind: "downloads",
    countMax: 100,
    bytesMax: 1e9,
    shareBytes: 1,
    isShared: false,
    metrics: silentMetrics,
  });
  const context = { store, log: silentLog, metrics: silentMetrics, downloads, sending: at.rates } as unknown as Context;
  const { body } = await getObject(call, context);
  assert.ok(body !== undefined && !(body instanceof Uint8Array));
  const iterator = body[Symbol.asyncIterator]();
  assert.equal((await iterator.next()).value?.length, STEP);
  const second = iterator.next();
  await at.pass(1000);
  assert.equal((await second).value?.length, STEP);
  assert.equal(at.nowMs, 1000);
  const running = Array.from({ length: RATE_WAIT_MS_MAX / 1000 - 1 }, () => at.rates.begin(askedBy("ann"), 1e12));
  await assert.rejects(async () => void (await getObject(call, context)), refused);
  await iterator.return?.();
  assert.equal(downloads.inFlight, 0);
  at.rates.begin(askedBy("ann"), 1e12).end();
  for (const one of running) one.end();
});
