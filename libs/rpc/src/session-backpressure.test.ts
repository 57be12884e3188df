import assert from "node:assert/strict";
import { test } from "node:test";
import type { Channel, MessageStream, MethodDescriptor } from "@concord/runtime";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, ManualClock } from "./test/echo.ts";

const session = EchoService.methods.Session;

/** A transport's end of a stream whose buffer is full after every message. It keeps the bytes of what it is given. */
class FullStream implements MessageStream {
  readonly sent: Uint8Array[] = [];
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

  end(): void {
    // Nothing listens.
  }
}

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
