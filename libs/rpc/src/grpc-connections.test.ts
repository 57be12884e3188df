// Connections whose other side is silent, over real sockets; a relay between client and server stops passing bytes on.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { silentLog, type Channel, type Clock, type ConcordError } from "@concord/runtime";
import { CONNECT_TIMEOUT_MS, PING_STEP_MS, PING_STEPS } from "./grpc-connections.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { SessionClient } from "./session-client.ts";
import {
  EchoService,
  echoService,
  failureOf,
  ManualClock,
  realClock,
  recordingMetrics,
  type EchoOptions,
  type EchoRequest,
} from "./test/echo.ts";

const echo = EchoService.methods.Echo;

class Relay {
  readonly #server: Server;
  readonly #sockets: Socket[] = [];
  connections = 0;

  constructor(to: () => string) {
    this.#server = createServer((near) => {
      this.connections += 1;
      const [host, port] = to().split(":");
      const far = connect({ host: host!, port: Number(port) });
      this.#sockets.push(near, far);
      for (const socket of [near, far]) socket.on("error", () => undefined);
      near.pipe(far).pipe(near);
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Connections that exist stay open and pass nothing on; new ones do. */
  silence(): void {
    for (const socket of this.#sockets) socket.unpipe();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

interface HeldTimer {
  readonly fire: () => void;
  readonly cancelled: Promise<void>;
}

/** The real clock, but timers of this delay fire when the test fires them. */
function holding(delayMs: number): { readonly clock: Clock; readonly next: () => Promise<HeldTimer> } {
  const held: HeldTimer[] = [];
  const waiting: ((timer: HeldTimer) => void)[] = [];
  const clock: Clock = {
    ...realClock,
    setTimer(ms, action) {
      if (ms !== delayMs) return realClock.setTimer(ms, action);
      const { promise: cancelled, resolve: cancel } = Promise.withResolvers<void>();
      const timer: HeldTimer = { fire: action, cancelled };
      const waiter = waiting.shift();
      if (waiter === undefined) held.push(timer);
      else waiter(timer);
      return { cancel };
    },
  };
  const next = (): Promise<HeldTimer> => {
    const timer = held.shift();
    return timer === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(timer);
  };
  return { clock, next };
}

async function fixture(
  t: TestContext,
  clock: Clock,
  options: Omit<EchoOptions, "clock"> = {},
): Promise<{ readonly relay: Relay; readonly channel: Channel }> {
  const metrics = recordingMetrics();
  const network = grpcTransport({ clock, log: silentLog, metrics });
  const listener = await network.serve("127.0.0.1:0", echoService({ clock: realClock, metrics, ...options }).methods);
  const relay = new Relay(() => listener.address);
  const channel = network.connect(await relay.listen());
  t.after(async () => {
    channel.close();
    relay.close();
    await listener.drain(0);
  });
  return { relay, channel };
}

for (const form of ["unary", "session"] as const) {
  test(`${form}: the connection fell silent: one missed deadline ends it, the call after it goes over a new one`, async (t) => {
    const { relay, channel } = await fixture(t, realClock);
    const session = new SessionClient({ channel, contract: EchoService, clock: realClock });
    t.after(() => session.close());
    const call = (timeoutMs: number): Promise<object> =>
      form === "unary" ? channel.unary(echo, {}, { timeoutMs }) : session.call("echo", {}, { timeoutMs });
    await call(30_000);
    relay.silence();
    assert.deepEqual(await failureOf(call(50)).then(({ code, applied }) => [code, applied]), ["DEADLINE_EXCEEDED", "unknown"]);
    const lost = await failureOf(call(30_000));
    assert.equal(lost.code, "CONNECTION_LOST", "not its own deadline, which is longer");
    await call(30_000);
    assert.equal(relay.connections, 2);
  });
}

for (const form of ["unary", "session"] as const) {
  test(
    `${form}: the client's process ends while its call waits: the signal of the call is aborted, long before its deadline`,
    { timeout: 20_000 },
    async (t) => {
      const begun = Promise.withResolvers<AbortSignal>();
      const { relay, channel } = await fixture(t, realClock, {
        echo: async (_, { signal }) => {
          begun.resolve(signal);
          await once(signal, "abort");
          return {};
        },
      });
      const session = new SessionClient({ channel, contract: EchoService, clock: realClock });
      t.after(() => session.close());
      const failed = failureOf(
        form === "unary" ? channel.unary(echo, {}, { timeoutMs: 60_000 }) : session.call("echo", {}, { timeoutMs: 60_000 }),
      );
      const aborted = once(await begun.promise, "abort");
      relay.close();
      await aborted;
      assert.equal((await failed).code, "CONNECTION_LOST");
    },
  );
}

test("probe: the server is slow but alive: its answer to the ping keeps the connection, and the calls in flight", async (t) => {
  const answer = Promise.withResolvers<object>();
  const { clock, next } = holding(PING_STEP_MS);
  let calls = 0;
  const { relay, channel } = await fixture(t, clock, { echo: async () => ((calls += 1) === 1 ? {} : await answer.promise) });
  // Pings need a connection that stands.
  await channel.unary(echo, {}, { timeoutMs: 30_000 });
  const slow = channel.unary(echo, {}, { timeoutMs: 60_000 });
  assert.equal((await failureOf(channel.unary(echo, {}, { timeoutMs: 50 }))).code, "DEADLINE_EXCEEDED");
  await (
    await next()
  ).cancelled;
  answer.resolve({ text: "late" });
  await slow;
  assert.equal(relay.connections, 1);
});

test("probe: steps of the wait are counted, not time: the connection ends at the last step alone", async (t) => {
  const { clock, next } = holding(PING_STEP_MS);
  const { relay, channel } = await fixture(t, clock);
  await channel.unary(echo, {}, { timeoutMs: 30_000 });
  relay.silence();
  const held = failureOf(channel.unary(echo, {}, { timeoutMs: 60_000 }));
  channel.probe?.();
  let isOver = false;
  void held.finally(() => (isOver = true));
  for (let step = 1; step <= PING_STEPS; step += 1) {
    const timer = await next();
    assert.equal(isOver, false, `ended before step ${step}`);
    timer.fire();
  }
  assert.equal((await held).code, "CONNECTION_LOST");
});

test("connect: the host accepts and sends nothing: the attempt ends, the call says so and was not applied", async (t) => {
  const silent = createServer((socket) => void sockets.push(socket));
  const sockets: Socket[] = [];
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { clock, next } = holding(CONNECT_TIMEOUT_MS);
  const channel = grpcTransport({ clock, log: silentLog, metrics: recordingMetrics() }).connect(
    `127.0.0.1:${(silent.address() as AddressInfo).port}`,
  );
  t.after(() => {
    channel.close();
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const call = failureOf(channel.unary(echo, {}, { timeoutMs: 60_000 }));
  (await next()).fire();
  const error = await call;
  assert.deepEqual([error.code, error.applied], ["CONNECTION_LOST", "no"]);
  assert.match(error.message, /no connection to 127\.0\.0\.1:\d+ within 5000 ms: the host does not answer/);
});

test("deadline: passed before a connection was there: applied no, and the text says so", async (t) => {
  const silent = createServer((socket) => void sockets.push(socket));
  const sockets: Socket[] = [];
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const network = grpcTransport({ clock: realClock, log: silentLog, metrics: recordingMetrics() });
  const channel = network.connect(`127.0.0.1:${(silent.address() as AddressInfo).port}`);
  t.after(() => {
    channel.close();
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const error = await failureOf(channel.unary(echo, {}, { timeoutMs: 50 }));
  assert.deepEqual([error.code, error.applied], ["DEADLINE_EXCEEDED", "no"]);
  assert.match(error.message, /before the server could be connected to/);
});

/** The real clock, but its timers wait for the test. Deadlines of grpc-js stay real. */
function virtualTimers(): { readonly clock: Clock; readonly timers: ManualClock } {
  const timers = new ManualClock();
  return { clock: { ...realClock, setTimer: (delayMs, action) => timers.setTimer(delayMs, action) }, timers };
}

const OWN_DEADLINE_MS = 60_000;
/** Maximum turns of the event loop in which what is ended inside the process has settled, however busy the machine is. */
const TURNS_MAX = 1_000;

/** Code of a call that fails now, and not after some more real time. */
async function codeNow(call: Promise<ConcordError>): Promise<string> {
  let code = "still in flight";
  void call.then((error) => (code = error.code));
  for (let turn = 0; turn < TURNS_MAX && code === "still in flight"; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  return code;
}

test("probe: one deadline was missed at a server that fell silent: the other calls end within 5 s, not at the keepalive's 36", async (t) => {
  const { clock, timers } = virtualTimers();
  const { relay, channel } = await fixture(t, clock);
  const session = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => session.close());
  await session.call("echo", {}, { timeoutMs: 30_000 });
  relay.silence();
  const held = [
    failureOf(channel.unary(echo, {}, { timeoutMs: OWN_DEADLINE_MS })),
    failureOf(session.call("echo", {}, { timeoutMs: OWN_DEADLINE_MS })),
  ];
  assert.equal((await failureOf(channel.unary(echo, {}, { timeoutMs: 50 }))).code, "DEADLINE_EXCEEDED");
  await timers.advance(5_000 - 50);
  for (const call of held) assert.equal(await codeNow(call), "CONNECTION_LOST");
  await channel.unary(echo, {}, { timeoutMs: 30_000 });
  assert.equal(relay.connections, 2);
});

for (const state of ["silent", "slow"] as const) {
  test(`close: a call in flight at a server that is ${state}: ends within a second, not at its deadline`, async (t) => {
    const begun = Promise.withResolvers<void>();
    const hang = (): Promise<never> => {
      begun.resolve();
      return new Promise(() => undefined);
    };
    const { clock, timers } = virtualTimers();
    const { relay, channel } = await fixture(t, clock, { echo: hang });
    const call = failureOf(channel.unary(echo, {}, { timeoutMs: OWN_DEADLINE_MS }));
    await begun.promise;
    if (state === "silent") relay.silence();
    channel.close();
    await timers.advance(1_000);
    assert.equal(await codeNow(call), "CONNECTION_LOST");
  });
}

test("close: a call in flight that is answered at once keeps its answer", async (t) => {
  const begun = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<object>();
  const { clock } = virtualTimers();
  const { channel } = await fixture(t, clock, {
    echo: () => {
      begun.resolve();
      return answer.promise;
    },
  });
  const call = channel.unary(echo, {}, { timeoutMs: OWN_DEADLINE_MS });
  await begun.promise;
  channel.close();
  answer.resolve({ text: "in time" });
  assert.equal(((await call) as EchoRequest).text, "in time");
});
