import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { drawFaultPlan, World, type NodeContext } from "./index.ts";
import { clientOf, GET, PUT, TALK, toyMethod, toyStore } from "./toy-service.test-support.ts";

const SERVERS = ["s1", "s2", "s3"];

async function busyWorld(seed: number, keepTrace: boolean): Promise<World> {
  const world = new World(seed, { keepTrace, clockSkewMs: 20, clockDrift: 0.001 });
  for (const name of SERVERS) world.node(name, toyStore(`${name}:1`));
  for (const name of ["c1", "c2"]) {
    world.node(name, async ({ env }) => {
      const channels = SERVERS.map((server) => env.transport.connect(`${server}:1`));
      let n = 0;
      const again = (): void => {
        n += 1;
        const channel = channels[env.random.below(channels.length)]!;
        const request =
          n % 3 === 0
            ? channel.unary(GET, { key: `k${n % 7}` }, { timeoutMs: 200 })
            : channel.unary(PUT, { key: `k${n % 7}`, value: `${name}-${n}` }, { timeoutMs: 200 });
        request.then(again, () => env.clock.setTimer(10, again));
      };
      again();
      for (const channel of channels) talkForEver(channel.stream(TALK, {}), env.clock.setTimer);
    });
  }
  world.schedule(
    drawFaultPlan(world.random("faults"), {
      targets: {
        all: [...SERVERS, "c1", "c2"],
        zones: [["s1", "c1"]],
        servers: SERVERS,
        disks: SERVERS,
        replaceable: [],
        points: ["toy:after-write"],
      },
      fromMs: 100,
      spanMs: 1_500,
      rate: 4,
    }),
  );
  await world.advance(2_000);
  world.heal();
  await world.advance(200);
  return world;
}

function talkForEver(
  stream: { send(message: object): boolean; onEnd(listener: () => void): void },
  setTimer: (delayMs: number, action: () => void) => unknown,
): void {
  let isOpen = true;
  stream.onEnd(() => (isOpen = false));
  const say = (n: number): void => {
    if (!isOpen) return;
    stream.send({ n });
    setTimer(20, () => say(n + 1));
  };
  say(0);
}

test("[I1] world: the same seed twice: byte-identical traces", async () => {
  const first = await busyWorld(7, true);
  const second = await busyWorld(7, true);
  assert.equal(first.trace.text(), second.trace.text());
  assert.equal(first.trace.digest(), second.trace.digest());
  assert.ok(first.trace.lineCount > 500, `only ${first.trace.lineCount} lines`);
  assert.deepEqual(first.violations, []);
});

test("world: the hash without kept text: the same", async () => {
  const kept = await busyWorld(8, true);
  const hashed = await busyWorld(8, false);
  assert.equal(kept.trace.digest(), hashed.trace.digest());
});

test("world: another seed: another trace", async () => {
  const digests = new Set<string>();
  for (const seed of [1, 2, 3]) digests.add((await busyWorld(seed, false)).trace.digest());
  assert.equal(digests.size, 3);
});

test("[I3] crash: timers and answers of the old process: never run", async () => {
  const world = new World(1);
  const lives: string[] = [];
  let generation = 0;
  world.node("n", async ({ env }) => {
    const mine = (generation += 1);
    const tick = (): void => {
      lives.push(`${mine}`);
      env.clock.setTimer(10, tick);
    };
    tick();
  });
  await world.advance(35);
  world.crash("n", "kill");
  await world.advance(50);
  const before = lives.length;
  world.start("n");
  await world.advance(35);
  assert.ok(before >= 3);
  assert.ok(lives.slice(before).length >= 3);
  assert.ok(lives.slice(before).every((life) => life === "2"));
});

test("stop: the process crashes while it stops: over at once, and the process that follows is left alone", async () => {
  const world = new World(1);
  let lives = 0;
  world.node("n", async () => {
    lives += 1;
    return { stop: () => new Promise<void>(() => undefined) };
  });
  await world.advance(10);
  const startedMs = world.nowMs;
  const stopping = world.stop("n");
  world.crash("n", "power");
  world.start("n");
  await stopping;
  assert.ok(world.nowMs - startedMs < 100);
  await world.advance(1);
  assert.deepEqual([lives, world.isUp("n")], [2, true]);
  assert.deepEqual(world.violations, []);
});

test("pause: timers and deliveries are held: they come in a burst, the clock has moved on", async () => {
  const world = new World(2);
  const seen: number[] = [];
  let clock: NodeContext["env"]["clock"] | undefined;
  world.node("n", async ({ env }) => {
    clock = env.clock;
    for (let i = 1; i <= 5; i += 1) env.clock.setTimer(i * 10, () => seen.push(env.clock.monotonicMs()));
  });
  await world.advance(15);
  world.pause("n");
  await world.advance(500);
  assert.equal(seen.length, 1);
  world.resume("n");
  await world.advance(5);
  assert.equal(seen.length, 5);
  assert.ok(seen[1]! >= 515);
  assert.ok(clock!.monotonicMs() >= 520);
});

test("replace: the old process wakes: its messages still flow", async () => {
  const world = new World(3);
  const heard: string[] = [];
  world.node("s", async ({ env }) => {
    const method = toyMethod("/toy.Ear/Hear");
    await env.transport.serve("s:1", [
      { kind: "unary", method, handle: async (request) => (heard.push((request as { who: string }).who), {}) },
    ]);
  });
  let generation = 0;
  world.node("n", async ({ env }) => {
    const who = `process ${(generation += 1)}`;
    const channel = env.transport.connect("s:1");
    const tick = (): void => {
      channel.unary(toyMethod("/toy.Ear/Hear"), { who }, { timeoutMs: 100 }).then(undefined, () => undefined);
      env.clock.setTimer(10, tick);
    };
    tick();
  });
  await world.advance(50);
  const zombie = world.replace("n");
  await world.advance(100);
  heard.length = 0;
  zombie.wake();
  await world.advance(50);
  assert.ok(heard.includes("process 1") && heard.includes("process 2"));
  zombie.end();
  await world.advance(20);
  heard.length = 0;
  await world.advance(100);
  assert.ok(!heard.includes("process 1") && heard.includes("process 2"));
});

test("failpoint: armed by name: the node dies exactly there and comes back", async () => {
  const world = new World(4);
  world.node("s1", toyStore("s1:1"));
  const { env } = await world.complete(clientOf(world, "c"), 100);
  const channel = env.transport.connect("s1:1");
  await world.advance(10);
  await world.complete(channel.unary(PUT, { key: "a", value: "1" }, { timeoutMs: 500 }), 1_000);
  world.armFailpoint("s1", "toy:after-write", "power", 50);
  await assert.rejects(world.complete(channel.unary(PUT, { key: "a", value: "2" }, { timeoutMs: 500 }), 1_000));
  assert.equal(world.counters.get("crashed-at:toy:after-write"), 1);
  await world.advance(200);
  const reset = channel.unary(GET, { key: "a" }, { timeoutMs: 500 });
  await assert.rejects(world.complete(reset, 1_000), { code: "CONNECTION_LOST" });
  const answer = await world.complete(channel.unary(GET, { key: "a" }, { timeoutMs: 500 }), 1_000);
  assert.deepEqual(answer, { value: "2" });
  assert.deepEqual(world.violations, []);
});

test("failpoint: armed to pause: the node stands still there, what comes meanwhile waits, then it goes on", async () => {
  const world = new World(4);
  world.node("s1", toyStore("s1:1"));
  const { env } = await world.complete(clientOf(world, "c"), 100);
  const channel = env.transport.connect("s1:1");
  await world.advance(10);
  world.armFailpoint("s1", "toy:before-write", "pause", 300);
  const put = channel.unary(PUT, { key: "a", value: "1" }, { timeoutMs: 2_000 });
  await world.advance(100);
  const get = channel.unary(GET, { key: "a" }, { timeoutMs: 2_000 });
  const before = world.nowMs;
  await world.complete(put, 2_000);
  assert.ok(world.nowMs - before > 150);
  assert.deepEqual(await world.complete(get, 1_000), { value: "1" });
  assert.equal(world.counters.get("paused-at:toy:before-write"), 1);
});

test("clock step: wall time jumps: monotonic time and timers do not", async () => {
  const world = new World(5);
  const { env } = await world.complete(clientOf(world, "c"), 100);
  const wall = env.clock.nowMs();
  const monotonic = env.clock.monotonicMs();
  world.stepClock("c", -5_000);
  assert.ok(env.clock.nowMs() <= wall - 4_999);
  assert.equal(env.clock.monotonicMs(), monotonic);
});

test("violations: unhandled rejection, exception, INTERNAL answer, INTERNAL log, failed assertion in any log: each is reported", async () => {
  const world = new World(6);
  const method = toyMethod("/toy.Bad/Fail");
  world.node("s", async ({ env }) => {
    await env.transport.serve("s:1", [{ kind: "unary", method, handle: async () => Promise.reject(new TypeError("oops")) }]);
    env.clock.setTimer(10, () => void Promise.reject(new Error("no listener")));
    env.clock.setTimer(11, () => {
      throw new Error("thrown in a timer");
    });
    env.clock.setTimer(12, () => env.log.error("flush failed", { code: "INTERNAL" }));
    env.clock.setTimer(13, () => env.log.warn("the loop goes on", { reason: "assertion failed: I1" }));
  });
  const { env } = await world.complete(clientOf(world, "c"), 100);
  await world.advance(5);
  const call = env.transport.connect("s:1").unary(method, {}, { timeoutMs: 50 });
  await assert.rejects(world.complete(call, 100), (error: ConcordError) => error.code === "INTERNAL");
  await world.advance(50);
  const kinds = world.violations.map(({ kind }) => kind).sort();
  assert.deepEqual(kinds, ["internal error", "internal error", "internal error", "uncaught exception", "unhandled rejection"]);
});

test("stopsAtViolation: the first violation: no event runs after it, and every wait throws", async () => {
  const world = new World(10, { stopsAtViolation: true });
  world.at(10, () => world.violation("first", "it"));
  world.at(20, () => world.violation("second", "it"));
  await assert.rejects(world.advance(30), /stopped at the first violation/);
  await assert.rejects(world.complete(new Promise(() => undefined), 30), /stopped at the first violation/);
  assert.deepEqual(
    world.violations.map(({ kind }) => kind),
    ["first"],
  );
});

test("runaway: events without end at one moment: reported, no hang", async () => {
  const world = new World(7, { maxEvents: 1_000 });
  world.node("n", async ({ env }) => {
    const again = (): void => env.clock.defer(again);
    again();
  });
  await world.advance(10);
  assert.equal(world.violations[0]?.kind, "runaway");
});

test("liveness: a promise that never settles: reported with its budget", async () => {
  const world = new World(8);
  await assert.rejects(world.complete(new Promise(() => undefined), 1_000), /not finished within 1000/);
  assert.equal(world.violations[0]?.kind, "liveness");
});

test("boot: refused with a reason of the list: started again after a while", async () => {
  const world = new World(9);
  let boots = 0;
  world.node("n", async () => {
    boots += 1;
    if (boots < 3) throw new ConcordError("REPLICAS_UNAVAILABLE", "no replica yet");
  });
  await world.advance(1_000);
  assert.equal(boots, 3);
  assert.deepEqual(world.violations, []);
});
