// Nodes with clocks of their own over one log in memory; who sleeps moves its own clock.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryGroupLog } from "@concord/port-contracts";
import type { GroupLog } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, type Clock } from "@concord/runtime";
import { partsOfGuid, STEP_BACK_MS_MAX, WORKER_ID_MAX, type IdRange } from "@concord/snowflake";
import { txnCoordinatorSchema } from "../config.ts";
import { ID_LEASE_IDLE_MS, ID_LEASE_WORKERS } from "../limits.ts";
import { FaultyLog, type LogFault } from "../test/faulty-log.ts";
import { IdGenerator } from "./id-generator.ts";
import { workerGroup } from "./worker-lease.ts";

const T = 1_800_000_000_000;
const never = new AbortController().signal;

class NodeClock implements Clock {
  wallMs = T;
  nowMs = (): number => this.wallMs;
  nowUs = (): bigint => BigInt(this.wallMs) * 1_000n;
  monotonicMs = (): number => this.wallMs;
  defer = (action: () => void): void => queueMicrotask(action);
  setTimer(delayMs: number, action: () => void): { cancel(): void } {
    let live = true;
    queueMicrotask(() => {
      if (!live) return;
      this.wallMs += delayMs;
      action();
    });
    return { cancel: () => void (live = false) };
  }
}

let incarnations = 0;

function node(groupLog: GroupLog, nodeName: string, workerId?: number, clock = new NodeClock()) {
  const random = {
    bytes: (length: number) => new Uint8Array(length).fill((incarnations += 1) & 0xff),
    below: () => 0,
    float: () => 0,
  };
  const open = (): IdGenerator =>
    new IdGenerator({ nodeName, workerId, groupLog, timeoutMs: 100, clock, random, log: silentLog, metrics: silentMetrics });
  return { clock, open, ids: open() };
}

async function generated(
  ids: IdGenerator,
  count = 1,
): Promise<{ workerId: number; first: bigint; last: bigint; ranges: readonly IdRange[] }> {
  const { workerId, ranges } = await ids.generate(count, never);
  const last = ranges.at(-1)!;
  return { workerId, ranges, first: ranges[0]!.first, last: last.first + BigInt(last.count) - 1n };
}

/** Two names whose first choice is the same worker id. */
async function rivals(): Promise<readonly [string, string, number]> {
  const seen = new Map<number, string>();
  for (let at = 0; ; at += 1) {
    const { workerId } = await generated(node(new MemoryGroupLog(), `n${at}`).ids);
    const other = seen.get(workerId);
    if (other !== undefined) return [other, `n${at}`, workerId];
    seen.set(workerId, `n${at}`);
  }
}

test("[OG5] ids: first call: leases a worker id below the limit, its mark appended before the ids leave (I6)", async () => {
  const log = new FaultyLog();
  const { workerId, first } = await generated(node(log, "a").ids);
  assert.ok(workerId < ID_LEASE_WORKERS);
  assert.equal(partsOfGuid(first).workerId, workerId);
  assert.equal(log.appends.length, 1);
  assert.ok(log.appends[0]!.timestampCeilingUs > BigInt(partsOfGuid(first).timeMs) * 1_000n);
});

test("[S5] ids: restart at once, clock behind: the same worker id, above everything made before", async () => {
  const log = new FaultyLog();
  const one = node(log, "a");
  const before = await generated(one.ids, 10_000);
  one.clock.wallMs -= 5_000;
  const after = await generated(one.open());
  assert.equal(after.workerId, before.workerId);
  assert.ok(after.first > before.last);
});

for (const when of ["in the same process", "over a restart"] as const) {
  test(`[S5] [OPS16] ids: the clock stood 8 h ahead and is set right ${when}: ids of its time at once, under another worker id`, async () => {
    const one = node(new FaultyLog(), "a");
    one.clock.wallMs += 8 * 3_600_000;
    const ahead = await generated(one.ids);
    one.clock.wallMs -= 8 * 3_600_000;
    const ids = when === "over a restart" ? one.open() : one.ids;
    const made = [await generated(ids), await generated(ids), await generated(one.open())];
    for (const { workerId, first } of made) {
      assert.notEqual(workerId, ahead.workerId);
      assert.ok(Math.abs(partsOfGuid(first).timeMs - one.clock.wallMs) <= 2_000);
    }
    assert.ok(made[1]!.first > made[0]!.last && made[2]!.first > made[1]!.last);
    one.clock.wallMs += 8 * 3_600_000 + 2_000;
    assert.ok((await generated(one.open())).first > ahead.last);
  });
}

test("[S5] [OPS16] ids: a configured worker id and a clock far behind it: CLOCK_UNUSABLE, nothing is given out", async () => {
  const one = node(new FaultyLog(), "a", 100);
  await generated(one.ids);
  assert.equal(STEP_BACK_MS_MAX, 10_000);
  one.clock.wallMs -= 60_000;
  await assert.rejects(generated(one.open()), { code: "CLOCK_UNUSABLE", applied: "no" });
});

test("[S5] ids: a clock that falls back again and again: all worker ids are ahead of it: CLOCK_UNUSABLE, then ids again when it is back", async () => {
  const one = node(new FaultyLog(), "a");
  const made = new Set<number>();
  for (let at = 0; at < ID_LEASE_WORKERS; at += 1) {
    made.add((await generated(one.ids)).workerId);
    one.clock.wallMs -= 60_000;
  }
  assert.equal(made.size, ID_LEASE_WORKERS);
  await assert.rejects(generated(one.ids), { code: "CLOCK_UNUSABLE" });
  one.clock.wallMs += 70_000;
  await generated(one.ids);
});

test("[S7] ids: two nodes race for one worker id: one gets it, the other takes the next", async () => {
  const [a, b, workerId] = await rivals();
  const log = new FaultyLog();
  let waiting: (() => void)[] = [];
  // Both have asked who holds it before either raises.
  log.beforeRaise = (group) =>
    new Promise((resolve) => {
      if (group !== workerGroup(workerId)) return resolve();
      waiting.push(resolve);
      if (waiting.length === 2) waiting.splice(0).forEach((go) => go());
    });
  const answers = await Promise.all([generated(node(log, a).ids), generated(node(log, b).ids)]);
  waiting = [];
  assert.deepEqual(new Set(answers.map((answer) => answer.workerId)), new Set([workerId, (workerId + 1) % ID_LEASE_WORKERS]));
});

test("[S7] ids: an earlier life goes on: it is fenced with its next mark and takes another worker id", async () => {
  const log = new FaultyLog();
  const one = node(log, "a");
  const old = await generated(one.ids);
  const young = one.open();
  const taken = await generated(young);
  assert.equal(taken.workerId, old.workerId);
  one.clock.wallMs += 10_000;
  const again = await generated(one.ids);
  assert.notEqual(again.workerId, old.workerId);
  assert.equal((await generated(young)).workerId, old.workerId, "they do not take it from each other for ever");
});

test("[S7] ids: an earlier life gives out what its mark allows: all below what the new one gives out", async () => {
  const log = new FaultyLog();
  const one = node(log, "a");
  await generated(one.ids);
  const young = await generated(one.open());
  const late = await generated(one.ids);
  assert.equal(late.workerId, young.workerId);
  assert.ok(late.last < young.first);
});

for (const fault of ["unknown-written", "unknown-lost", "throws-written", "throws-lost"] as const) {
  test(`ids: the mark's append is ${fault}: nothing is given out, then the identical append is sent again`, async () => {
    const log = new FaultyLog();
    const one = node(log, "a");
    const before = await generated(one.ids);
    one.clock.wallMs += 10_000;
    log.fault = fault;
    const from = log.appends.length;
    const error = await one.ids.generate(1, never).then(
      () => assert.fail("gave out ids"),
      (thrown: unknown) => thrown as ConcordError,
    );
    assert.ok(["REPLICAS_UNAVAILABLE", "CONNECTION_LOST"].includes(error.code));
    one.clock.wallMs += 10_000;
    log.fault = "works";
    assert.ok((await generated(one.ids)).first > before.last);
    assert.deepEqual(log.appends[from + 1], log.appends[from]);
  });
}

test("ids: all worker ids are others': those that are idle are taken, the busy ones are left alone", async () => {
  const log = new FaultyLog();
  const others = Array.from({ length: ID_LEASE_WORKERS }, (_, at) => node(log, `other-${at}`));
  const made = await Promise.all(others.map((other) => generated(other.ids)));
  assert.equal(new Set(made.map(({ workerId }) => workerId)).size, ID_LEASE_WORKERS, "every one has its own");
  const one = node(log, "a");
  await assert.rejects(generated(one.ids), { code: "OVERLOADED", applied: "no" });
  for (const other of others) other.clock.wallMs += ID_LEASE_IDLE_MS;
  one.clock.wallMs += ID_LEASE_IDLE_MS + 2_000;
  for (const other of others.slice(1)) await generated(other.ids);
  const { workerId, first } = await generated(one.ids);
  assert.equal(workerId, made[0]!.workerId);
  assert.ok(first > made[0]!.last);
  await assert.rejects(generated(others[0]!.ids), { code: "OVERLOADED" });
  assert.deepEqual(
    await Promise.all(others.slice(1).map(async (other) => (await generated(other.ids)).workerId)),
    made.slice(1).map((answer) => answer.workerId),
  );
});

test("[S7] ids: one configured worker id for two nodes: the second refuses while the first makes ids", async () => {
  const log = new FaultyLog();
  const one = node(log, "a", 100);
  assert.equal((await generated(one.ids)).workerId, 100);
  const two = node(log, "b", 100);
  await assert.rejects(generated(two.ids), { code: "OVERLOADED", message: /worker id 100 is in use/ });
  assert.equal((await generated(one.ids)).workerId, 100);
  two.clock.wallMs += ID_LEASE_IDLE_MS + 2_000;
  assert.equal((await generated(two.ids)).workerId, 100);
  one.clock.wallMs += ID_LEASE_IDLE_MS;
  await assert.rejects(generated(one.ids), { code: "OVERLOADED" });
});

test("ids: stopped: DRAINING", async () => {
  const one = node(new FaultyLog(), "a");
  one.ids.stop();
  await assert.rejects(generated(one.ids), { code: "DRAINING" });
});

test("ids: callers at the same time: one lease, all ids different", async () => {
  const log = new FaultyLog();
  const one = node(log, "a");
  const all = await Promise.all(Array.from({ length: 50 }, () => generated(one.ids, 100)));
  assert.equal(new Set(all.map(({ first }) => first)).size, 50);
  assert.equal(log.appends.filter(({ seq }) => seq === 1n).length, 1);
});

test("[OPS16] ids: configured worker ids: only those that are never leased", () => {
  const parse = (snowflakeWorkerId: unknown): boolean =>
    txnCoordinatorSchema.safeParse({ storageProxies: [{ name: "p", address: "p:1" }], snowflakeWorkerId }).success;
  assert.equal(ID_LEASE_WORKERS, 64);
  assert.deepEqual([ID_LEASE_WORKERS - 1, ID_LEASE_WORKERS, WORKER_ID_MAX, WORKER_ID_MAX + 1, 70.5, undefined].map(parse), [
    false,
    true,
    true,
    false,
    false,
    true,
  ]);
});

const event = fc.oneof(
  fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 3_000 }) }),
  fc.record({ kind: fc.constant("step" as const), ms: fc.integer({ min: -30_000, max: 90_000 }) }),
  fc.record({ kind: fc.constant("generate" as const), count: fc.integer({ min: 1, max: 9_000 }), calls: fc.integer({ min: 1, max: 3 }) }),
  fc.record({
    kind: fc.constant("fault" as const),
    fault: fc.constantFrom<LogFault>("works", "works", "works", "unknown-written", "unknown-lost", "throws-written", "throws-lost"),
  }),
  fc.record({ kind: fc.constant("restart" as const) }),
);

test("[S1] [S7] ids: nodes and their earlier lives over one worker id, any clocks, any faults: never a repeat", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), event), { maxLength: 60, size: "max" }), async (events) => {
      const memory = new MemoryGroupLog();
      const nodes = ["a", "b", "a"].map((name) => {
        const log = new FaultyLog(memory);
        return { log, ...node(log, name, 100) };
      });
      const made: { readonly first: bigint; readonly last: bigint }[] = [];
      for (const [index, one] of events) {
        const acting = nodes[index]!;
        if (one.kind === "pass" || one.kind === "step") acting.clock.wallMs += one.ms;
        if (one.kind === "fault") acting.log.fault = one.fault;
        if (one.kind === "restart") acting.ids = acting.open();
        if (one.kind === "generate") {
          const calls = await Promise.allSettled(Array.from({ length: one.calls }, () => acting.ids.generate(one.count, never)));
          for (const call of calls)
            if (call.status === "fulfilled")
              made.push(...call.value.ranges.map(({ first, count }) => ({ first, last: first + BigInt(count) - 1n })));
        }
      }
      made.sort((a, b) => (a.first < b.first ? -1 : 1));
      for (let at = 1; at < made.length; at += 1) assert.ok(made[at]!.first > made[at - 1]!.last, "no id twice");
    }),
    { numRuns: 100 },
  );
});
