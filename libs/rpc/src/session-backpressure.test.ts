import assert from "node:assert/strict";
import { test } from "node:test";
import { OutputBudget, type Channel, type MessageStream, type MethodDescriptor } from "@concord/runtime";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, ManualClock, recordingMetrics, type RecordingMetrics } from "./test/echo.ts";

const session = EchoService.methods.Session;

/** A transport's end of a stream whose buffer is full after every message. It keeps the bytes of what it is given. */
class FullStream implements MessageStream {
  readonly sent: Uint8Array[] = [];
  readonly ended: (Error | undefined)[] = [];
  /** Of the end that uses the stream. */
  method: MethodDescriptor = session;
  receive: (message: object) => void = () => undefined;
  drained: () => void = () => undefined;
  readonly #isServer: boolean;

  constructor(isServer: boolean) {
    this.#isServer = isServer;
  }

  send(message: object): boolean {
    this.sent.push(this.#isServer ? this.method.encodeResponse(message) : this.method.encodeRequest(message));
    return false;
  }

  onMessage(listener: (message: object) => void): void {
    this.receive = listener;
  }

  onDrain(listener: () => void): void {
    this.drained = listener;
  }

  onEnd(): void {
    // This stream stays open.
  }

  end(error?: Error): void {
    this.ended.push(error);
  }
}

const KIB = 1024;
const BUDGET_BYTES = 4096 * KIB;
const STALLED_MS = 1000;

interface Unread {
  readonly clock: ManualClock;
  readonly metrics: RecordingMetrics;
  /** The most bytes that were held at any time. */
  readonly most: () => number;
  /** A session whose client reads nothing makes so many calls, each with a reply of so many bytes. */
  readonly calls: (stream: FullStream, count: number, bytes: number) => Promise<void>;
  readonly open: () => FullStream;
}

function unreadSessions(): Unread {
  const clock = new ManualClock();
  const metrics = recordingMetrics();
  let most = 0;
  const output = new OutputBudget({
    clock,
    metrics: {
      ...metrics,
      gauge: (name, value) => {
        if (name === "rpc_server_output_bytes") most = Math.max(most, value);
        metrics.gauge(name, value);
      },
    },
    bytesMax: BUDGET_BYTES,
    stalledMs: STALLED_MS,
  });
  const echo = (request: { readonly number: bigint }): Promise<object> =>
    Promise.resolve({ payload: Buffer.alloc(Number(request.number)) });
  const served = echoService({ clock, echo: echo as never }).methods.find((one) => one.kind === "stream")!;
  assert.ok(served.kind === "stream");
  let lastCallId = 0n;
  return {
    clock,
    metrics,
    most: () => most,
    open: () => {
      const stream = new FullStream(true);
      stream.method = served.method;
      served.handle(stream, { deadlineAtMs: Infinity, metadata: {}, peer: "test", signal: new AbortController().signal, output });
      return stream;
    },
    calls: async (stream, count, bytes) => {
      for (let left = count; left > 0; left -= 1) {
        lastCallId += 1n;
        const call = { callId: lastCallId, timeoutMs: 60_000, echo: { number: BigInt(bytes) } };
        stream.receive(served.method.decodeRequest(session.encodeRequest({ calls: [call] })));
        await clock.settle();
      }
    },
  };
}

const codesOf = (stream: FullStream): (string | undefined)[] => stream.ended.map((error) => (error as { code?: string } | undefined)?.code);

test("session: 1024 large replies that their client does not read: the budget is kept, the rest are OVERLOADED, and reading gets all", async () => {
  const { clock, metrics, most, calls, open } = unreadSessions();
  const stream = open();
  await calls(stream, 1024, 64 * KIB);
  assert.ok(most() > BUDGET_BYTES / 2 && most() <= 1.1 * BUDGET_BYTES, `${most()} bytes were kept`);
  assert.deepEqual(stream.ended, []);
  for (let at = 0; at < stream.sent.length; at += 1) {
    stream.drained();
    await clock.settle();
  }
  const replies = stream.sent.flatMap((bytes) => session.decodeResponse(bytes).replies);
  assert.equal(replies.length, 1024);
  const isWhole = (reply: (typeof replies)[number]): boolean => reply.echo?.payload.length === 64 * KIB;
  const whole = replies.filter(isWhole).length;
  assert.ok(whole >= 60 && whole <= 64, `${whole} replies came whole`);
  for (const reply of replies) assert.ok(isWhole(reply) || reply.error?.code === 8, `reply ${reply.callId}`);
  assert.equal(metrics.counts.get("rpc_server_output_bytes"), 0);
});

test("session: many clients that read nothing of small replies: those that took nothing for longest are broken off for the others", async () => {
  const { metrics, most, clock, calls, open } = unreadSessions();
  const streams: FullStream[] = [];
  for (let at = 0; at < 24; at += 1) {
    streams.push(open());
    await calls(streams[at]!, 64, 8 * KIB);
    await clock.advance(1);
  }
  assert.ok(most() <= 2 * BUDGET_BYTES, `${most()} bytes were kept`);
  const ended = streams.filter((stream) => stream.ended.length > 0);
  assert.ok(ended.length > 0 && ended.length < 12, `${ended.length} were broken off`);
  assert.deepEqual(ended, streams.slice(0, ended.length), "the oldest");
  for (const stream of ended) assert.deepEqual(codesOf(stream), ["OVERLOADED"]);
  assert.equal(metrics.counts.get("rpc_server_output_evicted_total"), ended.length);
});

test("session: above the budget and below its double: no session is broken off until its client took nothing for OUTPUT_STALLED_MS", async () => {
  const { clock, calls, open } = unreadSessions();
  const [first, second] = [open(), open()];
  await calls(first, 400, 8 * KIB);
  await clock.advance(STALLED_MS);
  assert.deepEqual(first.ended, [], "there is memory");
  first.drained();
  await clock.settle();
  await calls(first, 400, 8 * KIB);
  await calls(second, 400, 8 * KIB);
  await clock.advance(STALLED_MS - 1);
  assert.deepEqual(codesOf(first), [], "it took a frame");
  await clock.advance(1);
  assert.deepEqual(codesOf(first), ["OVERLOADED"]);
  assert.deepEqual(codesOf(second), []);
});

test("session: the transport's buffer is full: replies wait for the drain and then share a frame; their credits wait with them", async () => {
  const clock = new ManualClock();
  const service = echoService({ clock });
  const served = service.methods.find((one) => one.kind === "stream")!;
  assert.ok(served.kind === "stream");
  const stream = new FullStream(true);
  stream.method = served.method;
  served.handle(stream, { deadlineAtMs: Infinity, metadata: {}, peer: "test", signal: new AbortController().signal });
  for (const callId of [1n, 2n, 3n]) {
    stream.receive(served.method.decodeRequest(session.encodeRequest({ calls: [{ callId, timeoutMs: 1000, echo: {} }] })));
    await clock.settle();
  }
  assert.equal(stream.sent.length, 1);
  stream.drained();
  await clock.settle();
  const { replies, credits } = session.decodeResponse(stream.sent[1]!);
  assert.deepEqual(
    replies.map((reply) => reply.callId),
    [1n, 2n, 3n],
  );
  assert.equal(credits, 3);
});

test("session: a client whose transport is full: calls wait for the drain and then share a frame", async () => {
  const clock = new ManualClock();
  const stream = new FullStream(false);
  const channel: Channel = {
    address: "x",
    stream: (method) => {
      stream.method = method;
      return stream;
    },
    unary: () => Promise.reject(new Error("unused")),
    close: () => undefined,
  };
  const client = new SessionClient({ channel, contract: EchoService, clock });
  const receive = (frame: Parameters<typeof session.encodeResponse>[0]): void =>
    stream.receive(stream.method.decodeResponse(session.encodeResponse(frame)));
  const calls = [client.call("echo", {}, { timeoutMs: 1000 })];
  receive({ replies: [], credits: 10 });
  await clock.settle();
  calls.push(client.call("echo", {}, { timeoutMs: 1000 }), client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal(stream.sent.length, 1);
  stream.drained();
  assert.deepEqual(
    stream.sent.map((frame) => session.decodeRequest(frame).calls.length),
    [1, 2],
  );
  receive({ replies: [1n, 2n, 3n].map((callId) => ({ callId, echo: {} })), credits: 3 });
  await Promise.all(calls);
});
