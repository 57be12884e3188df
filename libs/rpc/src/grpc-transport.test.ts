import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client, credentials, status } from "@grpc/grpc-js";
import { ConcordError, silentLog, sleep, type Channel, type Listener, type MethodDescriptor } from "@concord/runtime";
import { bearer } from "./auth.ts";
import type { GrpcTransportOptions } from "./grpc-options.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { remainingMs, type Service } from "./service.ts";
import { SessionClient } from "./session-client.ts";
import {
  ECHO,
  EchoService,
  echoService,
  failureOf,
  realClock,
  recordingMetrics,
  type EchoOptions,
  type EchoRequest,
  type RecordingMetrics,
} from "./test/echo.ts";

interface Fixture {
  readonly service: Service;
  readonly listener: Listener;
  readonly channel: Channel;
  readonly metrics: RecordingMetrics;
}

async function start(
  t: TestContext,
  echo: Omit<EchoOptions, "clock"> = {},
  transport: Partial<GrpcTransportOptions> = {},
): Promise<Fixture> {
  const metrics = recordingMetrics();
  const network = grpcTransport({ clock: realClock, log: silentLog, metrics, ...transport });
  const service = echoService({ clock: realClock, metrics, ...echo });
  const listener = await network.serve("127.0.0.1:0", service.methods);
  const channel = network.connect(listener.address);
  t.after(async () => {
    channel.close();
    await listener.drain(0);
  });
  return { service, listener, channel, metrics };
}

const echo = EchoService.methods.Echo;

test("unary: a call over a real socket: answered with 64-bit numbers intact", async (t) => {
  const { channel } = await start(t);
  const response = (await channel.unary(echo, { text: "hi", number: 2n ** 63n + 1n }, { timeoutMs: 5000 })) as EchoRequest;
  assert.equal(response.text, "hi");
  assert.equal(response.number, 2n ** 63n + 1n);
});

test("session: 1000 calls at once: all answered in far fewer frames", async (t) => {
  const { channel, metrics } = await start(t);
  const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => client.close());
  const answers = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => client.call("echo", { text: "x", number: BigInt(i) }, { timeoutMs: 10_000 })),
  );
  answers.forEach((answer, i) => assert.equal(answer.number, BigInt(i)));
  const framesIn = metrics.counts.get(`rpc_server_session_frames_total{service=${ECHO},direction=in}`)!;
  const framesOut = metrics.counts.get(`rpc_server_session_frames_total{service=${ECHO},direction=out}`)!;
  assert.ok(framesIn <= 10, `${framesIn} frames in`);
  assert.ok(framesOut <= 50, `${framesOut} frames out`);
});

test("errors: thrown by a handler: arrive with code, applied, metadata and retry time", async (t) => {
  const { channel } = await start(t, {
    echo: () =>
      Promise.reject(new ConcordError("LOCK_TIMEOUT", "row \ud800 is locked é", { metadata: { table: "photos" }, retryAfterMs: 1234.5 })),
  });
  const error = await failureOf(channel.unary(echo, {}, { timeoutMs: 5000 }));
  assert.equal(error.code, "LOCK_TIMEOUT");
  assert.equal(error.applied, "no");
  assert.equal(error.message, "row \ufffd is locked é");
  assert.deepEqual(error.metadata, { table: "photos" });
  assert.equal(error.retryAfterMs, 1234.5);
});

test("errors: a foreign exception in a handler: INTERNAL without its text, applied unknown", async (t) => {
  const { channel } = await start(t, {
    echo: () => {
      throw new TypeError("internal secret");
    },
  });
  const error = await failureOf(channel.unary(echo, {}, { timeoutMs: 5000 }));
  assert.equal(error.code, "INTERNAL");
  assert.equal(error.applied, "unknown");
  assert.doesNotMatch(error.message, /secret/);
});

test("deadline: the client's budget: reaches the handler and aborts its signal", async (t) => {
  let remainingMs = 0;
  const aborted = Promise.withResolvers<void>();
  const { channel } = await start(t, {
    echo: (_request, context) => {
      remainingMs = context.deadlineAtMs - realClock.monotonicMs();
      context.signal.addEventListener("abort", () => aborted.resolve());
      return new Promise(() => undefined);
    },
  });
  const error = await failureOf(channel.unary(echo, {}, { timeoutMs: 1000 }));
  assert.equal(error.code, "DEADLINE_EXCEEDED");
  assert.equal(error.applied, "unknown");
  assert.ok(remainingMs > 0 && remainingMs <= 1001, `${remainingMs}`);
  await aborted.promise;
});

test("limits: a request above the limit: refused by our client and, from another, by the server with LIMIT_EXCEEDED", async (t) => {
  const { channel, listener } = await start(t, {}, { messageBytesMax: 1000 });
  const large = { payload: new Uint8Array(2000) };
  assert.equal((await failureOf(channel.unary(echo, large, { timeoutMs: 5000 }))).code, "LIMIT_EXCEEDED");
  const careless = grpcTransport({ clock: realClock, log: silentLog, metrics: recordingMetrics() }).connect(listener.address);
  t.after(() => careless.close());
  const refused = await failureOf(careless.unary(echo, large, { timeoutMs: 5000 }));
  assert.equal(refused.code, "LIMIT_EXCEEDED");
  assert.equal(refused.applied, "no");
  const huge = await failureOf(careless.unary(echo, { payload: new Uint8Array(100_000) }, { timeoutMs: 5000 }));
  assert.equal(huge.code, "LIMIT_EXCEEDED");
});

test("malformed: bytes that are no message: MALFORMED_REQUEST", async (t) => {
  const { channel } = await start(t);
  const broken = { ...echo, encodeRequest: () => Buffer.from([0x0a, 0xff]) };
  assert.equal((await failureOf(channel.unary(broken, {}, { timeoutMs: 5000 }))).code, "MALFORMED_REQUEST");
  const unknownEnum = await failureOf(channel.unary(echo, { colour: 99 }, { timeoutMs: 5000 }));
  assert.equal(unknownEnum.code, "MALFORMED_REQUEST");
  assert.deepEqual(unknownEnum.metadata, { field: "colour" });
});

test("auth: every credential against every method: allowed, PERMISSION_DENIED or UNAUTHENTICATED", async (t) => {
  const { channel } = await start(t);
  const append = EchoService.methods.LogAppend;
  const outcome = async (method: MethodDescriptor, token: string | undefined): Promise<string> =>
    channel.unary(method, {}, { timeoutMs: 5000, metadata: bearer(token) }).then(
      () => "OK",
      (error: unknown) => (error as ConcordError).code,
    );
  assert.equal(await outcome(echo, undefined), "OK");
  assert.equal(await outcome(append, undefined), "PERMISSION_DENIED");
  assert.equal(await outcome(append, "coordinator-secret"), "OK");
  assert.equal(await outcome(append, "peer-secret"), "PERMISSION_DENIED");
  assert.equal(await outcome(echo, "coordinator-secre"), "UNAUTHENTICATED");
  const session = new SessionClient({ channel, contract: EchoService, clock: realClock, metadata: bearer("wrong") });
  t.after(() => session.close());
  const refused = await failureOf(session.call("echo", {}, { timeoutMs: 5000 }));
  assert.equal(refused.code, "UNAUTHENTICATED");
  assert.equal(refused.applied, "no");
});

test("[OPS1] drain: an idle open session: ended with DRAINING, and drain returns within its limit", async (t) => {
  const { channel, listener, service } = await start(t);
  const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => client.close());
  await client.call("echo", { text: "open" }, { timeoutMs: 5000 });
  const ended = Promise.withResolvers<Error | undefined>();
  const raw = channel.stream(EchoService.methods.Session, {});
  raw.onMessage(() => undefined);
  raw.onEnd((error) => ended.resolve(error));
  await client.call("echo", { text: "again" }, { timeoutMs: 5000 });
  service.setState("draining");
  const startedAtMs = realClock.monotonicMs();
  await listener.drain(10_000);
  assert.ok(realClock.monotonicMs() - startedAtMs < 3000);
  const error = (await ended.promise) as ConcordError;
  assert.equal(error.code, "DRAINING");
  const later = await failureOf(client.call("echo", {}, { timeoutMs: 2000 }));
  assert.equal(later.applied, "no");
});

test("drain: a stream that only the transport drains: ended when it is quiet, which says nothing about its calls", async (t) => {
  const { channel, listener } = await start(t);
  const ended = Promise.withResolvers<ConcordError>();
  const opened = Promise.withResolvers<void>();
  const raw = channel.stream(EchoService.methods.Session, {});
  raw.onMessage(() => opened.resolve());
  raw.onEnd((error) => ended.resolve(error as ConcordError));
  await opened.promise;
  const startedAtMs = realClock.monotonicMs();
  await listener.drain(20_000);
  assert.ok(realClock.monotonicMs() - startedAtMs < 10_000);
  const { code, applied } = await ended.promise;
  assert.deepEqual([code, applied], ["DRAINING", "unknown"]);
});

test("deadline: a foreign client without one: gets the default, and it is counted", async (t) => {
  let remaining = 0;
  const { listener, metrics } = await start(
    t,
    {
      echo: (_request, context) => {
        remaining = remainingMs(context, realClock);
        return Promise.resolve({});
      },
    },
    { defaultTimeoutMs: 60_000 },
  );
  const foreign = new Client(listener.address, credentials.createInsecure());
  t.after(() => foreign.close());
  await new Promise<void>((resolve, reject) => {
    const done = (error: Error | null): void => (error === null ? resolve() : reject(error));
    foreign.makeUnaryRequest(
      echo.path,
      (bytes: Buffer) => bytes,
      (bytes) => bytes,
      Buffer.alloc(0),
      done,
    );
  });
  assert.ok(remaining > 10_000 && remaining <= 60_000, `${remaining}`);
  assert.equal(metrics.counts.get("rpc_server_deadline_missing_total"), 1);
});

test("[OPS2] drain: a handler that never ends: drain returns after the grace, the caller learns that the outcome is unknown", async (t) => {
  const { channel, listener, service } = await start(t, { echo: () => new Promise(() => undefined) });
  const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => client.close());
  const inSession = failureOf(client.call("echo", {}, { timeoutMs: 20_000 }));
  const unary = failureOf(channel.unary(echo, {}, { timeoutMs: 20_000 }));
  while (service.inFlight < 2) await sleep(realClock, 5);
  service.setState("draining");
  const startedAtMs = realClock.monotonicMs();
  await listener.drain(300);
  assert.ok(realClock.monotonicMs() - startedAtMs < 5000);
  assert.equal((await inSession).applied, "unknown");
  assert.equal((await unary).applied, "unknown");
});

test("drain: a call that outlasts the grace: a foreign client gets UNAVAILABLE, never INTERNAL", async (t) => {
  const { listener, service } = await start(t, { echo: () => new Promise(() => undefined) });
  const foreign = new Client(listener.address, credentials.createInsecure());
  t.after(() => foreign.close());
  const asIs = (bytes: Buffer): Buffer => bytes;
  const code = new Promise((resolve) => foreign.makeUnaryRequest(echo.path, asIs, asIs, Buffer.alloc(0), (error) => resolve(error?.code)));
  while (service.inFlight < 1) await sleep(realClock, 5);
  await listener.drain(0);
  assert.equal(await code, status.UNAVAILABLE);
});

test("[OPS1] drain: under load from unary calls and sessions: every call is answered or surely not applied", async (t) => {
  const executed = new Set<bigint>();
  const echoSlowly = async (request: EchoRequest): Promise<object> => {
    executed.add(request.number);
    await sleep(realClock, 5);
    return { number: request.number };
  };
  const { channel, listener, service } = await start(t, { echo: echoSlowly });
  const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => client.close());
  let next = 0n;
  let answered = 0;
  const failures: { readonly number: bigint; readonly error: ConcordError }[] = [];
  let running = true;
  const load = async (call: (request: object) => Promise<object>): Promise<void> => {
    while (running) {
      next += 1n;
      const number = next;
      await call({ number }).then(
        () => (answered += 1),
        (error: unknown) => void failures.push({ number, error: error as ConcordError }),
      );
      await sleep(realClock, 1);
    }
  };
  const workers = Array.from({ length: 20 }, (_, i) =>
    load((request) =>
      i % 2 === 0 ? channel.unary(echo, request, { timeoutMs: 5000 }) : client.call("echo", request, { timeoutMs: 5000 }),
    ),
  );
  while (answered < 200) await sleep(realClock, 5);
  service.setState("draining");
  await service.whenDrained();
  await listener.drain(3000);
  running = false;
  await Promise.all(workers);
  assert.ok(failures.length > 0);
  for (const { number, error } of failures) {
    assert.equal(error.applied, "no", `${error.code}: ${error.message}`);
    assert.ok(!executed.has(number), `${number} was executed but failed with ${error.code}`);
  }
});

test("connection: no listener: CONNECTION_LOST and surely not applied", async (t) => {
  const network = grpcTransport({ clock: realClock, log: silentLog, metrics: recordingMetrics() });
  const channel = network.connect("127.0.0.1:1");
  t.after(() => channel.close());
  const unary = await failureOf(channel.unary(echo, {}, { timeoutMs: 3000 }));
  assert.equal(unary.code, "CONNECTION_LOST");
  assert.equal(unary.applied, "no");
  const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
  t.after(() => client.close());
  const inSession = await failureOf(client.call("echo", {}, { timeoutMs: 3000 }));
  assert.equal(inSession.code, "CONNECTION_LOST");
  assert.equal(inSession.applied, "no");
});
