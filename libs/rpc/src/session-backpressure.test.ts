import assert from "node:assert/strict";
import { test } from "node:test";
import type { MessageStream } from "@concord/runtime";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, ManualClock } from "./test/echo.ts";

interface Reply {
  readonly callId: bigint;
}

/** A transport's end of a stream whose buffer is full after every message. */
class FullStream implements MessageStream {
  readonly sent: { readonly replies: readonly Reply[]; readonly credits: number }[] = [];
  receive: (message: object) => void = () => undefined;
  drained: () => void = () => undefined;

  send(message: object): boolean {
    this.sent.push(message as FullStream["sent"][number]);
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
  const stream = new FullStream();
  served.handle(stream, { deadlineAtMs: Infinity, metadata: {}, peer: "test", signal: new AbortController().signal });
  for (const callId of [1n, 2n, 3n]) {
    stream.receive({ calls: [{ callId, timeoutMs: 1000, echo: { number: 0n }, operation: "echo", unknown: 0 }] });
    await clock.settle();
  }
  assert.equal(stream.sent.length, 1);
  stream.drained();
  await clock.settle();
  assert.deepEqual(
    stream.sent[1]!.replies.map((reply) => reply.callId),
    [1n, 2n, 3n],
  );
  assert.equal(stream.sent[1]!.credits, 3);
});

test("session: a client whose transport is full: calls wait for the drain and then share a frame", async () => {
  const clock = new ManualClock();
  const stream = new FullStream();
  const channel = { address: "x", stream: () => stream, unary: () => Promise.reject(new Error("unused")), close: () => undefined };
  const client = new SessionClient({ channel, contract: EchoService, clock });
  const calls = [client.call("echo", {}, { timeoutMs: 1000 })];
  stream.receive({ replies: [], credits: 10 });
  await clock.settle();
  calls.push(client.call("echo", {}, { timeoutMs: 1000 }), client.call("echo", {}, { timeoutMs: 1000 }));
  await clock.settle();
  assert.equal(stream.sent.length, 1);
  stream.drained();
  const frames = stream.sent as unknown as { readonly calls: readonly { readonly callId: bigint }[] }[];
  assert.deepEqual(
    frames.map((frame) => frame.calls.length),
    [1, 2],
  );
  stream.receive({ replies: [1n, 2n, 3n].map((callId) => ({ callId, outcome: "echo", echo: {} })), credits: 3 });
  await Promise.all(calls);
});
