import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type MessageStream } from "@concord/runtime";
import { World, type NodeContext } from "./index.ts";
import { STREAM_WINDOW_BYTES } from "./pipe.ts";
import { clientOf, GET, PUT, TALK, toyMethod, toyStore } from "./toy-service.test-support.ts";

async function pair(seed: number): Promise<{ world: World; env: NodeContext["env"] }> {
  const world = new World(seed);
  world.node("s1", toyStore("s1:1"));
  const { env } = await world.complete(clientOf(world, "c"), 100);
  await world.advance(20);
  return { world, env };
}

function listen(stream: MessageStream): { numbers: number[]; ends: (Error | undefined)[] } {
  const heard = { numbers: [] as number[], ends: [] as (Error | undefined)[] };
  stream.onMessage((message) => heard.numbers.push((message as { n: number }).n));
  stream.onEnd((error) => heard.ends.push(error));
  return heard;
}

const codeOf = (error: Error | undefined): string => (error as ConcordError).code;

test("unary: put and get: the answer comes back through the wire", async () => {
  const { world, env } = await pair(1);
  const channel = env.transport.connect("s1:1");
  await world.complete(channel.unary(PUT, { key: "a", value: "1" }, { timeoutMs: 100 }), 200);
  assert.deepEqual(await world.complete(channel.unary(GET, { key: "a" }, { timeoutMs: 100 }), 200), { value: "1" });
});

test("unary: no listener: CONNECTION_LOST", async () => {
  const { world, env } = await pair(2);
  const call = env.transport.connect("nowhere:1").unary(GET, { key: "a" }, { timeoutMs: 100 });
  await assert.rejects(world.complete(call, 200), { code: "CONNECTION_LOST", applied: "no" });
});

test("unary: every message is lost: DEADLINE_EXCEEDED at the caller's deadline", async () => {
  const { world, env } = await pair(3);
  world.network.links.dropRate = 1;
  const before = env.clock.monotonicMs();
  const call = env.transport.connect("s1:1").unary(GET, { key: "a" }, { timeoutMs: 100 });
  await assert.rejects(world.complete(call, 200), { code: "DEADLINE_EXCEEDED" });
  assert.ok(env.clock.monotonicMs() - before >= 100);
});

test("unary: one-way partition of the answer: applied at the server, unknown to the caller", async () => {
  const { world, env } = await pair(4);
  const channel = env.transport.connect("s1:1");
  world.network.block("s1", "c");
  await assert.rejects(world.complete(channel.unary(PUT, { key: "a", value: "1" }, { timeoutMs: 100 }), 200), {
    code: "DEADLINE_EXCEEDED",
  });
  world.network.unblock("s1", "c");
  assert.deepEqual(await world.complete(channel.unary(GET, { key: "a" }, { timeoutMs: 100 }), 200), { value: "1" });
});

test("unary: the caller aborts: CANCELLED here, the signal fires there", async () => {
  const world = new World(5);
  let isAborted = false;
  const method = toyMethod("/toy.Slow/Wait");
  world.node("s", async ({ env }) => {
    await env.transport.serve("s:1", [
      {
        kind: "unary",
        method,
        handle: async (_request, { signal }) => {
          signal.addEventListener("abort", () => (isAborted = true));
          return new Promise<object>(() => undefined);
        },
      },
    ]);
  });
  const { env } = await world.complete(clientOf(world, "c"), 100);
  await world.advance(5);
  const controller = new AbortController();
  const call = env.transport.connect("s:1").unary(method, {}, { timeoutMs: 1_000, signal: controller.signal });
  await world.advance(10);
  controller.abort();
  await assert.rejects(world.complete(call, 10), { code: "CANCELLED" });
  await world.advance(10);
  assert.equal(isAborted, true);
});

test("unary: a reason of the closed list: travels with code, applied and metadata", async () => {
  const world = new World(6);
  const method = toyMethod("/toy.Bad/Refuse");
  world.node("s", async ({ env }) => {
    const refuse = async (): Promise<object> => {
      throw new ConcordError("NOT_MASTER", "ask s2", { metadata: { master: "s2" }, retryAfterMs: 7 });
    };
    await env.transport.serve("s:1", [{ kind: "unary", method, handle: refuse }]);
  });
  const { env } = await world.complete(clientOf(world, "c"), 100);
  await world.advance(5);
  const call = env.transport.connect("s:1").unary(method, {}, { timeoutMs: 100 });
  await assert.rejects(world.complete(call, 200), { code: "NOT_MASTER", applied: "no", metadata: { master: "s2" }, retryAfterMs: 7 });
  assert.deepEqual(world.violations, []);
});

test("[I5] stream: many messages over a jittery link: all, in order; half-close ends both sides in good order", async () => {
  const { world, env } = await pair(7);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  const heard = listen(stream);
  for (let n = 0; n < 200; n += 1) {
    stream.send({ n });
    if (n % 10 === 0) await world.advance(1);
  }
  stream.end();
  await world.advance(100);
  assert.deepEqual(
    heard.numbers,
    Array.from({ length: 200 }, (_, n) => n),
  );
  assert.deepEqual(heard.ends, [undefined]);
});

test("[I5] stream: a partition shorter than keepalive: late, complete, in order", async () => {
  const { world, env } = await pair(8);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  const heard = listen(stream);
  stream.send({ n: 0 });
  await world.advance(20);
  world.network.block("c", "s1");
  for (let n = 1; n < 50; n += 1) stream.send({ n });
  await world.advance(1_000);
  assert.deepEqual(heard.numbers, [0]);
  world.network.unblock("c", "s1");
  for (let n = 50; n < 60; n += 1) stream.send({ n });
  await world.advance(100);
  assert.deepEqual(
    heard.numbers,
    Array.from({ length: 60 }, (_, n) => n),
  );
});

test("[I5] stream: a partition ends while a slow message is under way: it does not overtake what waited (object seed 1974)", async () => {
  const { world, env } = await pair(8);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  const heard = listen(stream);
  world.network.block("c", "s1");
  for (let n = 0; n < 3; n += 1) stream.send({ n });
  world.network.links.slow("c", "s1", 1_000);
  stream.send({ n: 3 });
  world.network.links.slow("c", "s1", 1);
  await world.advance(20);
  world.network.unblock("c", "s1");
  stream.end();
  await world.advance(3_000);
  assert.deepEqual(heard.numbers, [0, 1, 2, 3]);
  assert.deepEqual(heard.ends, [undefined]);
});

test("stream: a partition longer than keepalive: CONNECTION_LOST, once", async () => {
  const { world, env } = await pair(9);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  const heard = listen(stream);
  world.network.block("c", "s1");
  stream.send({ n: 1 });
  await world.advance(5_000);
  assert.equal(heard.ends.length, 1);
  assert.equal(codeOf(heard.ends[0]), "CONNECTION_LOST");
});

test("[I5] stream: server paused and resumed under load: everything comes in order", async () => {
  const { world, env } = await pair(10);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  const heard = listen(stream);
  for (let n = 0; n < 100; n += 1) {
    if (n === 20) world.pause("s1");
    if (n === 60) world.resume("s1");
    stream.send({ n });
    await world.advance(0.05);
  }
  await world.advance(100);
  assert.deepEqual(
    heard.numbers,
    Array.from({ length: 100 }, (_, n) => n),
  );
});

test("stream: server restarts: CONNECTION_LOST, a new stream works", async () => {
  const { world, env } = await pair(11);
  const channel = env.transport.connect("s1:1");
  const heard = listen(channel.stream(TALK, {}));
  await world.advance(10);
  world.crash("s1", "kill");
  await world.advance(10);
  assert.equal(codeOf(heard.ends[0]), "CONNECTION_LOST");
  world.start("s1");
  await world.advance(20);
  const stream = channel.stream(TALK, {});
  const again = listen(stream);
  stream.send({ n: 5 });
  await world.advance(20);
  assert.deepEqual(again.numbers, [5]);
});

test("stream: the window fills: send answers false, drain follows", async () => {
  const { world, env } = await pair(12);
  const stream = env.transport.connect("s1:1").stream(TALK, {});
  let drains = 0;
  stream.onDrain(() => (drains += 1));
  listen(stream);
  world.pause("s1");
  const text = "x".repeat(STREAM_WINDOW_BYTES / 4);
  const answers = [0, 1, 2, 3, 4].map((n) => stream.send({ n, text }));
  assert.deepEqual(answers.slice(0, 3), [true, true, true]);
  assert.equal(answers[4], false);
  await world.advance(10);
  assert.equal(drains, 0);
  world.resume("s1");
  await world.advance(20);
  assert.equal(drains, 1);
});

test("drain: streams end with DRAINING, a call in flight may finish, new calls are refused", async () => {
  const { world, env } = await pair(13);
  const channel = env.transport.connect("s1:1");
  const heard = listen(channel.stream(TALK, {}));
  await world.advance(10);
  const call = channel.unary(PUT, { key: "a", value: "1" }, { timeoutMs: 500 });
  await world.advance(0.6);
  await world.stop("s1");
  assert.deepEqual(await world.complete(call, 10), { ok: true });
  await world.advance(10);
  assert.equal(codeOf(heard.ends[0]), "DRAINING");
  await assert.rejects(world.complete(channel.unary(GET, { key: "a" }, { timeoutMs: 100 }), 200), { code: "CONNECTION_LOST" });
});

test("datagrams: a replaced process binds its address only when it wakes: the new one gets what is sent, also after the old one's end", async () => {
  const world = new World("zombie binds late", {});
  const heard: string[] = [];
  let generation = 0;
  world.node("d1", async ({ datagrams, env }) => {
    const who = `process ${(generation += 1)}`;
    env.clock.setTimer(20, () => void datagrams("d1:9", () => void heard.push(who)));
  });
  world.node("d2", async ({ datagrams, env }) => {
    const socket = datagrams("d2:9", () => undefined);
    const tick = (): void => {
      socket.send("d1:9", Uint8Array.of(1));
      env.clock.setTimer(10, tick);
    };
    tick();
  });
  await world.advance(10);
  const zombie = world.replace("d1");
  await world.advance(100);
  zombie.wake();
  await world.advance(100);
  assert.deepEqual(new Set(heard), new Set(["process 2"]));
  zombie.end();
  await world.advance(20);
  heard.length = 0;
  await world.advance(100);
  assert.deepEqual(new Set(heard), new Set(["process 2"]));
});

test("datagram loss: datagrams one way get lost, the other way and calls do not; heal ends it", async () => {
  const { world, env } = await pair(6);
  const heard: string[] = [];
  const sockets = new Map<string, (to: string) => void>();
  for (const name of ["d1", "d2"]) {
    world.node(name, async ({ datagrams }) => {
      const socket = datagrams(`${name}:9`, () => void heard.push(name));
      sockets.set(name, (to) => socket.send(`${to}:9`, new Uint8Array(1)));
    });
  }
  await world.advance(10);
  const exchange = async (): Promise<string[]> => {
    heard.length = 0;
    sockets.get("d1")!("d2");
    sockets.get("d2")!("d1");
    await world.advance(50);
    return heard.toSorted();
  };
  world.schedule([{ kind: "datagram-loss", atMs: world.nowMs + 1, forMs: 100, from: ["d1"], to: ["d2"] }]);
  await world.advance(2);
  assert.deepEqual(await exchange(), ["d1"]);
  const call = env.transport.connect("s1:1").unary(PUT, { key: "a", value: "1" }, { timeoutMs: 100 });
  await world.complete(call, 200);
  await world.advance(100);
  assert.deepEqual(await exchange(), ["d1", "d2"]);
  world.schedule([{ kind: "datagram-loss", atMs: world.nowMs + 1, forMs: 100, from: ["d1"], to: ["d2"] }]);
  await world.advance(2);
  world.heal();
  assert.deepEqual(await exchange(), ["d1", "d2"]);
});
