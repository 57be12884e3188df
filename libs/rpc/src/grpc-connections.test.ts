// Connections whose other side is silent, over real sockets; a relay between client and server stops passing bytes on.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { silentLog, type Channel, type Clock } from "@concord/runtime";
import { CONNECT_TIMEOUT_MS, PING_STEP_MS, PING_STEPS } from "./grpc-connections.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, failureOf, realClock, recordingMetrics, type EchoOptions } from "./test/echo.ts";

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

test("close: a call in flight at a server that fell silent: ends well before its deadline", async (t) => {
  const begun = Promise.withResolvers<void>();
  const hang = (): Promise<never> => {
    begun.resolve();
    return new Promise(() => undefined);
  };
  const { relay, channel } = await fixture(t, realClock, { echo: hang });
  const call = failureOf(channel.unary(echo, {}, { timeoutMs: 60_000 }));
  await begun.promise;
  relay.silence();
  channel.close();
  assert.equal((await call).code, "CONNECTION_LOST", "not its own deadline");
});
