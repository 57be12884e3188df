import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import fc from "fast-check";
import { ConcordError, type MessageStream } from "@concord/runtime";
import { bearer } from "./auth.ts";
import { MemoryTransport } from "./memory-transport.ts";
import { remainingMs, type Service } from "./service.ts";
import type { HandlerContext, ServiceLimits } from "./service-core.ts";
import type { Status } from "@concord/protos/google.rpc";
import { fromStatus } from "./status.ts";
import { SessionClient, type Patience, type SessionClientLimits } from "./session-client.ts";
import {
  ECHO,
  EchoService,
  echoService,
  failureOf,
  ManualClock,
  recordingMetrics,
  type EchoRequest,
  type RecordingMetrics,
} from "./test/echo.ts";

interface Held {
  readonly request: EchoRequest;
  readonly context: HandlerContext;
  readonly resolve: (response: object) => void;
  readonly reject: (error: unknown) => void;
}

interface World {
  readonly clock: ManualClock;
  readonly service: Service;
  readonly metrics: RecordingMetrics;
  readonly transport: MemoryTransport;
  readonly client: SessionClient<EchoService>;
  /** Calls the handler has got and not answered, when it was made with `hold`. */
  readonly held: Held[];
  rawStream(): RawStream;
}

interface RawStream {
  readonly stream: MessageStream;
  readonly received: { readonly replies: readonly Reply[]; readonly credits: number }[];
  readonly ends: (Error | undefined)[];
}

interface Reply {
  readonly callId: bigint;
  readonly outcome?: string;
  readonly error?: unknown;
}

const session = EchoService.methods.Session;

async function world(
  options: { hold?: boolean; limits?: Partial<ServiceLimits>; clientLimits?: Partial<SessionClientLimits>; token?: string } = {},
): Promise<World> {
  const clock = new ManualClock();
  const metrics = recordingMetrics();
  const held: Held[] = [];
  const hold = (request: EchoRequest, context: HandlerContext): Promise<object> =>
    new Promise((resolve, reject) => held.push({ request, context, resolve, reject }));
  const service = echoService({
    clock,
    metrics,
    ...(options.hold === true ? { echo: hold } : {}),
    ...(options.limits === undefined ? {} : { limits: options.limits }),
  });
  const transport = new MemoryTransport({ clock });
  const listener = await transport.serve("a:0", service.methods);
  const channel = transport.connect(listener.address);
  const clientLimits = options.clientLimits ?? {};
  const client = new SessionClient({ channel, contract: EchoService, clock, metadata: bearer(options.token), limits: clientLimits });
  const rawStream = (): RawStream => {
    const raw: RawStream = { stream: channel.stream(session, {}), received: [], ends: [] };
    raw.stream.onMessage((message) => raw.received.push(message as RawStream["received"][number]));
    raw.stream.onEnd((error) => raw.ends.push(error));
    return raw;
  };
  return { clock, service, metrics, transport, client, held, rawStream };
}

const codeOf = (error: Error | undefined): string | undefined => (error as ConcordError | undefined)?.code;
const echoCall = (callId: bigint, number = 0n): object => ({ callId, timeoutMs: 1000, echo: { number } });

test("session: calls of one turn: one frame each way after the first credits", async () => {
  const { client, clock, metrics } = await world();
  const answers = Array.from({ length: 100 }, (_, i) => client.call("echo", { number: BigInt(i) }, { timeoutMs: 1000 }));
  await clock.settle();
  assert.deepEqual(
    (await Promise.all(answers)).map((answer) => answer.number),
    Array.from({ length: 100 }, (_, i) => BigInt(i)),
  );
  assert.equal(metrics.counts.get(`rpc_server_session_frames_total{service=${ECHO},direction=in}`), 1);
  assert.equal(metrics.counts.get(`rpc_server_session_frames_total{service=${ECHO},direction=out}`), 1);
});

test("session: every operation of the service: reached by its oneof name, roles checked per call", async () => {
  const anonymous = await world();
  const refused = failureOf(anonymous.client.call("logAppend", { seq: 7n }, { timeoutMs: 1000 }));
  const allowed = anonymous.client.call("echo", {}, { timeoutMs: 1000 });
  await anonymous.clock.settle();
  assert.equal((await refused).code, "PERMISSION_DENIED");
  await allowed;
  const coordinator = await world({ token: "coordinator-secret" });
  const appended = coordinator.client.call("logAppend", { seq: 7n }, { timeoutMs: 1000 });
  await coordinator.clock.settle();
  assert.equal((await appended).seq, 7n);
});

test("session: more calls than credits: the rest waits, nothing is refused", async () => {
  const { client, clock, held } = await world({ hold: true, limits: { sessionOutstandingMax: 3 } });
  const answers = Array.from({ length: 7 }, (_, i) => client.call("echo", { number: BigInt(i) }, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal(held.length, 3);
  held[1]!.resolve({ number: 1n });
  await clock.settle();
  assert.equal(held.length, 4);
  while (held.length < 7) {
    for (const one of held) one.resolve({ number: one.request.number });
    await clock.settle();
  }
  for (const one of held) one.resolve({ number: one.request.number });
  await clock.settle();
  assert.deepEqual(
    (await Promise.all(answers)).map((answer) => answer.number),
    [0n, 1n, 2n, 3n, 4n, 5n, 6n],
  );
});

test("session: a client that takes more than its credits: stream ended with LIMIT_EXCEEDED", async () => {
  const { rawStream, clock } = await world({ hold: true, limits: { sessionOutstandingMax: 2 } });
  const raw = rawStream();
  await clock.settle();
  assert.deepEqual(raw.received, [{ replies: [], credits: 2 }]);
  raw.stream.send({ calls: [echoCall(1n), echoCall(2n)] });
  await clock.settle();
  assert.deepEqual(raw.ends, []);
  raw.stream.send({ calls: [echoCall(3n)] });
  await clock.settle();
  assert.deepEqual(raw.ends.map(codeOf), ["LIMIT_EXCEEDED"]);
});

test("session: a frame with too many calls: stream ended with LIMIT_EXCEEDED; as many as allowed: served", async () => {
  const { rawStream, clock } = await world({ limits: { frameCallsMax: 3 } });
  const raw = rawStream();
  raw.stream.send({ calls: [echoCall(1n), echoCall(2n), echoCall(3n)] });
  await clock.settle();
  assert.equal(raw.received.at(-1)!.replies.length, 3);
  raw.stream.send({ calls: [echoCall(4n), echoCall(5n), echoCall(6n), echoCall(7n)] });
  await clock.settle();
  assert.deepEqual(raw.ends.map(codeOf), ["LIMIT_EXCEEDED"]);
});

test("session: malformed calls: refused one by one, their neighbours are served", async () => {
  const { rawStream, clock, held } = await world({ hold: true });
  const raw = rawStream();
  raw.stream.send({
    calls: [
      { callId: 1n, timeoutMs: 1000 },
      { callId: 2n, timeoutMs: 0, echo: {} },
      echoCall(3n),
      echoCall(3n),
      { callId: 4n, timeoutMs: 9, echo: { colour: 55 } },
    ],
  });
  await clock.settle();
  assert.equal(held.length, 1);
  const refused = raw.received.at(-1)!.replies;
  assert.deepEqual(
    refused.map((reply) => [reply.callId, reply.outcome]),
    [
      [1n, "error"],
      [2n, "error"],
      [3n, "error"],
      [4n, "error"],
    ],
  );
  for (const reply of refused) assert.equal(fromStatus(reply.error as Status)!.code, "MALFORMED_REQUEST");
  held[0]!.resolve({});
  await clock.settle();
  assert.deepEqual(
    raw.received.at(-1)!.replies.map((reply) => [reply.callId, reply.outcome]),
    [[3n, "echo"]],
  );
  assert.deepEqual(raw.ends, []);
});

test("session: ids from 2^53 on, where numbers are no longer exact: each is answered by itself, one in flight twice is refused", async () => {
  const { rawStream, clock, held } = await world({ hold: true });
  const raw = rawStream();
  const ids = [2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 64n - 1n];
  raw.stream.send({ calls: [...ids, 2n ** 53n].map((id) => echoCall(id)) });
  await clock.settle();
  assert.deepEqual(
    [held.length, raw.received.at(-1)!.replies.map(({ callId, outcome }) => [callId, outcome])],
    [4, [[2n ** 53n, "error"]]],
  );
  for (const call of held) call.resolve({});
  await clock.settle();
  assert.deepEqual(
    raw.received.at(-1)!.replies.map(({ callId, outcome }) => [callId, outcome]),
    ids.map((id) => [id, "echo"]),
  );
});

test("session: a call without id: stream ended with MALFORMED_REQUEST", async () => {
  const { rawStream, clock } = await world();
  const raw = rawStream();
  raw.stream.send({ calls: [{ callId: 0n, timeoutMs: 1000, echo: {} }] });
  await clock.settle();
  assert.deepEqual(raw.ends.map(codeOf), ["MALFORMED_REQUEST"]);
});

test("session: bytes that are no frame: stream ended with MALFORMED_REQUEST, the outcome of running calls is unknown", async () => {
  const { transport, clock, held, service } = await world({ hold: true });
  const listener = await transport.serve("broken:0", service.methods);
  const broken = {
    ...session,
    encodeRequest: (frame: object) => ("garbage" in frame ? Buffer.from([0x0a, 0xff]) : session.encodeRequest(frame)),
  };
  const stream = transport.connect(listener.address).stream(broken, {});
  const ends: ConcordError[] = [];
  stream.onMessage(() => undefined);
  stream.onEnd((error) => ends.push(error as ConcordError));
  stream.send({ calls: [echoCall(1n)] });
  await clock.settle();
  stream.send({ garbage: true });
  await clock.settle();
  assert.equal(held[0]!.context.signal.aborted, true);
  assert.deepEqual(
    ends.map((error) => [error.code, error.applied]),
    [["MALFORMED_REQUEST", "unknown"]],
  );
});

test("session: empty frames: nothing happens", async () => {
  const { rawStream, clock } = await world();
  const raw = rawStream();
  raw.stream.send({});
  await clock.settle();
  assert.equal(raw.received.length, 1);
  assert.deepEqual(raw.ends, []);
});

test("session: a handler slower than the deadline: DEADLINE_EXCEEDED on both sides, its credit comes back, its signal aborts", async () => {
  const { client, clock, held } = await world({ hold: true, limits: { sessionOutstandingMax: 1 } });
  const slow = failureOf(client.call("echo", {}, { timeoutMs: 100 }));
  await clock.settle();
  assert.equal(held[0]!.context.signal.aborted, false);
  await clock.advance(110);
  const error = await slow;
  assert.equal(error.code, "DEADLINE_EXCEEDED");
  assert.equal(error.applied, "unknown");
  assert.equal(held[0]!.context.signal.aborted, true);
  const next = client.call("echo", {}, { timeoutMs: 100 });
  await clock.settle();
  held[0]!.resolve({ text: "too late" });
  held[1]!.resolve({});
  await clock.settle();
  assert.equal(((await next) as EchoRequest).text, "");
});

test("session: a call that never left the queue in time: DEADLINE_EXCEEDED, applied no", async () => {
  const { client, clock, held } = await world({ hold: true, limits: { sessionOutstandingMax: 1 } });
  void client.call("echo", {}, { timeoutMs: 10_000 }).catch(() => undefined);
  const waiting = failureOf(client.call("echo", {}, { timeoutMs: 100 }));
  await clock.settle();
  await clock.advance(120);
  const error = await waiting;
  assert.equal(error.code, "DEADLINE_EXCEEDED");
  assert.equal(error.applied, "no");
  held[0]!.resolve({});
  await clock.settle();
  assert.equal(held.length, 1);
});

test("session: a call with patience: goes on while some is left, ends when none is, and at its deadline at the latest", async () => {
  const { client, clock, held } = await world({ hold: true });
  const beganMs = clock.monotonicMs();
  const untilMs = [100, 300, 5_000];
  const patienceOf = (at: number): Patience => ({
    get leftMs() {
      return beganMs + untilMs[at]! - clock.monotonicMs();
    },
  });
  const endings: string[] = [];
  const calls = untilMs.map((_, at) => failureOf(client.call("echo", {}, { timeoutMs: 1_000, patience: patienceOf(at) })));
  calls.forEach((call, at) => void call.then(({ code }) => endings.push(`${at} ${code}`)));
  const answered = client.call("echo", {}, { timeoutMs: 1_000, patience: patienceOf(1) });
  await clock.settle();
  // The first one's grows before it is over.
  await clock.advance(90);
  untilMs[0] = 200;
  await clock.advance(90);
  assert.deepEqual(endings, []);
  await clock.advance(40);
  assert.deepEqual(endings, ["0 DEADLINE_EXCEEDED"]);
  held[3]!.resolve({ text: "in time" });
  await clock.settle();
  assert.equal(((await answered) as EchoRequest).text, "in time");
  await clock.advance(100);
  assert.deepEqual([endings.length, held[2]!.context.signal.aborted], [2, false]);
  await clock.advance(700);
  assert.deepEqual([endings[2], held[2]!.context.signal.aborted], ["2 DEADLINE_EXCEEDED", true]);
});

test("session: many calls with one deadline: one timer, not one each", async () => {
  const { client, clock, held } = await world({ hold: true });
  const answers = Array.from({ length: 200 }, () => client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal(clock.armedTimers, 2);
  for (const one of held) one.resolve({});
  await clock.settle();
  await Promise.all(answers);
  await clock.advance(1000);
  assert.equal(clock.armedTimers, 0);
});

test("session: the stream breaks: sent calls CONNECTION_LOST unknown, waiting ones applied no, the next call reconnects", async () => {
  const { client, clock, held, service, transport } = await world({ hold: true, limits: { sessionOutstandingMax: 1 } });
  const sent = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  const waiting = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  const ended: number[] = [];
  held[0]!.context.session!.onEnd(() => ended.push(held[0]!.context.session!.id));
  const listener = await transport.serve("b:0", service.methods);
  const other = new SessionClient({ channel: transport.connect(listener.address), contract: EchoService, clock });
  const elsewhere = failureOf(other.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  await listener.drain(0);
  await clock.settle();
  assert.equal((await elsewhere).code, "CONNECTION_LOST");
  assert.equal((await elsewhere).applied, "unknown");
  assert.deepEqual(ended, []);
  client.close();
  await clock.settle();
  assert.equal((await sent).applied, "unknown");
  assert.equal((await waiting).applied, "no");
  assert.equal((await failureOf(client.call("echo", {}, { timeoutMs: 1000 }))).code, "CANCELLED");
  assert.deepEqual(ended, [held[0]!.context.session!.id]);
});

test("session: no server: CONNECTION_LOST and applied no, again and again with a growing pause", async () => {
  const { clock, transport, service } = await world();
  const client = new SessionClient({ channel: transport.connect("c:9"), contract: EchoService, clock });
  const first = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await first).code, "CONNECTION_LOST");
  assert.equal((await first).applied, "no");
  const second = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await second).applied, "no");
  await transport.serve("c:9", service.methods);
  const third = client.call("echo", { text: "back" }, { timeoutMs: 1000 });
  await clock.advance(25);
  assert.equal(((await third) as EchoRequest).text, "back");
});

test("session: lost again after it had worked: reconnects at once, as the first time", async () => {
  const { clock, transport, service } = await world();
  const client = new SessionClient({ channel: transport.connect("d:9"), contract: EchoService, clock });
  for (let round = 0; round < 3; round += 1) {
    const listener = await transport.serve("d:9", service.methods);
    const call = client.call("echo", { text: `round ${round}` }, { timeoutMs: 1000 });
    await clock.settle();
    assert.equal((await call).text, `round ${round}`);
    await listener.drain(0);
    await clock.settle();
  }
});

test("session: the queue is full: OVERLOADED; expired calls make fixture", async () => {
  const { client, clock } = await world({ hold: true, limits: { sessionOutstandingMax: 1 }, clientLimits: { queueMax: 2 } });
  const calls = [client.call("echo", {}, { timeoutMs: 50 })];
  await clock.settle();
  calls.push(client.call("echo", {}, { timeoutMs: 50 }), client.call("echo", {}, { timeoutMs: 50 }));
  const settled = Promise.allSettled(calls);
  const refused = await failureOf(client.call("echo", {}, { timeoutMs: 50 }));
  assert.equal(refused.code, "OVERLOADED");
  assert.equal(refused.applied, "no");
  await clock.advance(60);
  await settled;
  const later = failureOf(client.call("echo", {}, { timeoutMs: 50 }));
  await clock.advance(60);
  assert.equal((await later).code, "DEADLINE_EXCEEDED");
});

test("session: an answered call: forgets its caller's signal", async () => {
  const { client, clock } = await world();
  const { signal } = new AbortController();
  const call = client.call("echo", {}, { timeoutMs: 1000, signal });
  await clock.settle();
  await call;
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("session: a caller gives up: CANCELLED, applied unknown once sent", async () => {
  const { client, clock } = await world({ hold: true });
  const abort = new AbortController();
  const call = failureOf(client.call("echo", {}, { timeoutMs: 1000, signal: abort.signal }));
  await clock.settle();
  abort.abort();
  const error = await call;
  assert.equal(error.code, "CANCELLED");
  assert.equal(error.applied, "unknown");
  assert.equal((await failureOf(client.call("echo", {}, { timeoutMs: 1000, signal: abort.signal }))).applied, "no");
  assert.equal(getEventListeners(abort.signal, "abort").length, 0);
});

test("session: calls of one owner are abandoned: sent ones unknown, waiting ones applied no, calls of others go on", async () => {
  const { client, clock } = await world({ hold: true });
  const [one, other] = [{}, {}];
  const sent = failureOf(client.callUntil("echo", {}, 1000, one));
  const kept = failureOf(client.callUntil("echo", {}, 1000, other));
  await clock.settle();
  const waiting = failureOf(client.callUntil("echo", {}, 1000, one));
  client.abandon(one, (applied) => new ConcordError("EPOCH_FENCED", "moved", { applied }));
  assert.deepEqual([(await sent).code, (await sent).applied], ["EPOCH_FENCED", "unknown"]);
  assert.deepEqual([(await waiting).code, (await waiting).applied], ["EPOCH_FENCED", "no"]);
  client.close();
  assert.equal((await kept).code, "CANCELLED");
});

test("session: a request that is too large or cannot be encoded: only that call fails", async () => {
  const { client, clock } = await world({ clientLimits: { messageBytesMax: 1000 } });
  const good = client.call("echo", { text: "good" }, { timeoutMs: 1000 });
  const large = failureOf(client.call("echo", { payload: new Uint8Array(1000) }, { timeoutMs: 1000 }));
  const broken = failureOf(client.call("echo", "no object" as unknown as object, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await good).text, "good");
  assert.equal((await large).code, "LIMIT_EXCEEDED");
  assert.equal((await large).applied, "no");
  assert.equal((await broken).code, "MALFORMED_REQUEST");
});

test("session: an answer that is too large or cannot be encoded: only that call fails", async () => {
  const { client, clock, held } = await world({ hold: true, limits: { messageBytesMax: 1000 } });
  const calls = [0, 1, 2].map(() => client.call("echo", {}, { timeoutMs: 1000 }));
  const outcomes = Promise.allSettled(calls);
  await clock.settle();
  held[0]!.resolve({ payload: new Uint8Array(2000) });
  held[1]!.resolve("no object" as unknown as object);
  held[2]!.resolve({ text: "good" });
  await clock.settle();
  const [large, broken, good] = await outcomes;
  assert.equal(((large as PromiseRejectedResult).reason as ConcordError).code, "LIMIT_EXCEEDED");
  assert.equal(((broken as PromiseRejectedResult).reason as ConcordError).code, "INTERNAL");
  assert.equal((good as PromiseFulfilledResult<EchoRequest>).value.text, "good");
});

test("session: large requests and answers: several frames, each below the message limit", async () => {
  const { client, clock, metrics } = await world();
  const payload = new Uint8Array(600_000);
  const calls = Array.from({ length: 8 }, () => client.call("echo", { payload }, { timeoutMs: 1000 }));
  await clock.settle();
  for (const answer of await Promise.all(calls)) assert.equal(answer.payload.length, payload.length);
  for (const direction of ["in", "out"])
    assert.equal(metrics.counts.get(`rpc_server_session_frames_total{service=${ECHO},direction=${direction}}`), 2);
});

test("drain: sessions with calls in flight: those finish, new ones get DRAINING, then the stream ends", async () => {
  const { client, clock, held, service } = await world({ hold: true });
  const running = client.call("echo", {}, { timeoutMs: 1000 });
  await clock.settle();
  service.setState("draining");
  let drained = false;
  void service.whenDrained().then(() => (drained = true));
  const late = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await late).code, "DRAINING");
  assert.equal((await late).applied, "no");
  assert.equal(drained, false);
  held[0]!.resolve({ text: "finished" });
  await clock.settle();
  assert.equal((await running).text, "finished");
  assert.equal(drained, true);
  const afterwards = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await afterwards).code, "DRAINING");
});

test("service: what is left of a call's budget: the timeout for the calls it makes", async () => {
  const { client, clock, held } = await world({ hold: true });
  const call = client.call("echo", {}, { timeoutMs: 1000 });
  await clock.settle();
  const { context } = held[0]!;
  assert.equal(remainingMs(context, clock), 1000);
  await clock.advance(300);
  assert.equal(remainingMs(context, clock), 700);
  held[0]!.resolve({});
  await clock.settle();
  await call;
  assert.equal(remainingMs({ ...context, deadlineAtMs: 0 } as HandlerContext, clock), 0);
});

test("service: a unary call whose deadline has passed: not begun, applied no", async () => {
  const { service, clock, held } = await world({ hold: true });
  const served = service.methods.find((one) => one.kind === "unary" && one.method.path.endsWith("/Echo"))!;
  assert.ok(served.kind === "unary");
  const context = { metadata: {}, peer: "test", signal: new AbortController().signal, deadlineAtMs: clock.monotonicMs() };
  const error = await failureOf(served.handle({}, context));
  assert.deepEqual([error.code, error.applied, held.length], ["DEADLINE_EXCEEDED", "no", 0]);
});

test("service: starting: STARTING until it serves, in both forms", async () => {
  const { client, clock, service } = await world();
  service.setState("starting");
  const early = failureOf(client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal((await early).code, "STARTING");
  service.setState("serving");
  const served = client.call("echo", {}, { timeoutMs: 1000 });
  await clock.settle();
  await served;
});

test("service: more calls than it runs at once: OVERLOADED with the limit named", async () => {
  const { client, clock } = await world({ hold: true, limits: { inFlightMax: 2 } });
  const calls = [0, 1, 2].map(() => client.call("echo", {}, { timeoutMs: 50 }));
  const last = failureOf(calls[2]!);
  void Promise.allSettled(calls);
  await clock.settle();
  const error = await last;
  assert.equal(error.code, "OVERLOADED");
  assert.deepEqual(error.metadata, { limit: "inFlightMax", value: "2" });
});

test("session: the client half-closes: calls in flight are still answered, then the stream ends in good order", async () => {
  const { rawStream, clock, held } = await world({ hold: true });
  const raw = rawStream();
  raw.stream.send({ calls: [echoCall(1n)] });
  await clock.settle();
  const ends: string[] = [];
  held[0]!.context.session!.onEnd(() => ends.push("session"));
  raw.stream.end();
  await clock.settle();
  assert.deepEqual(ends, ["session"]);
  assert.equal(held[0]!.context.signal.aborted, false);
  held[0]!.resolve({});
  await clock.settle();
  assert.equal(raw.received.at(-1)!.replies[0]!.outcome, "echo");
  assert.deepEqual(raw.ends, [undefined]);
});

test("session: any bytes as frames: refused call by call or by ending the stream; another session is served", async () => {
  const { transport, clock, service, client } = await world();
  const listener = await transport.serve("fuzz:0", service.methods);
  const arbitraryFrame = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    fc
      .array(
        fc.record({
          callId: fc.bigInt(0n, 3n),
          timeoutMs: fc.nat(2),
          echo: fc.option(fc.record({ colour: fc.nat(3) }), { nil: undefined }),
        }),
      )
      .map((calls) => Buffer.from(session.encodeRequest({ calls: calls as object[] }))),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(arbitraryFrame, { minLength: 1, maxLength: 5 }), async (frames) => {
      const sending = [...frames];
      const stream = transport.connect(listener.address).stream({ ...session, encodeRequest: () => sending.shift()! }, {});
      const ends: (Error | undefined)[] = [];
      stream.onMessage(() => undefined);
      stream.onEnd((error) => ends.push(error));
      for (const _ of frames) stream.send({});
      const good = client.call("echo", { text: "good" }, { timeoutMs: 1000 });
      await clock.settle();
      await clock.advance(20);
      assert.equal((await good).text, "good");
      for (const error of ends) assert.ok(["MALFORMED_REQUEST", "LIMIT_EXCEEDED"].includes(codeOf(error)!), codeOf(error));
      stream.end();
      await clock.settle();
      assert.equal(service.inFlight, 0);
      assert.equal(ends.length, 1);
    }),
    { numRuns: 200 },
  );
});
