// What every call between services relies on, over gRPC and inside one process: the two forms answer alike.
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { ConcordError, silentLog, sleep, type Channel, type Listener, type Transport } from "@concord/runtime";
import { bearer } from "./auth.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { localTransport } from "./local-transport.ts";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import type { Service } from "./service.ts";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, failureOf, realClock, recordingMetrics, type EchoOptions, type EchoRequest } from "./test/echo.ts";

const network = (): Transport => grpcTransport({ clock: realClock, log: silentLog, metrics: recordingMetrics() });
const FORMS: Readonly<Record<string, () => Transport>> = {
  "over gRPC": network,
  "in the process": () => localTransport({ clock: realClock, network: network() }),
};
const { Echo, LogAppend } = EchoService.methods;

interface Fixture {
  readonly service: Service;
  readonly listener: Listener;
  readonly channel: Channel;
}

async function start(t: TestContext, transport: Transport, echo: Omit<EchoOptions, "clock"> = {}): Promise<Fixture> {
  const service = echoService({ clock: realClock, ...echo });
  const listener = await transport.serve("127.0.0.1:0", service.methods);
  const channel = transport.connect(listener.address);
  t.after(async () => {
    channel.close();
    await listener.drain(0);
  });
  return { service, listener, channel };
}

for (const [form, transportOf] of Object.entries(FORMS)) {
  describe(form, () => {
    test("unary: an answer: fields left out have their defaults, numbers have 64 bits", async (t) => {
      const { channel } = await start(t, transportOf());
      const answer = (await channel.unary(Echo, { number: 2n ** 63n + 1n }, { timeoutMs: 5000 })) as EchoRequest;
      assert.deepEqual([answer.text, answer.number], ["", 2n ** 63n + 1n]);
    });

    test("unary: the caller's message is changed afterwards: the server's copy is not", async (t) => {
      const begun = Promise.withResolvers<void>();
      const echo = async (request: EchoRequest): Promise<EchoRequest> => {
        await begun.promise;
        return request;
      };
      const { channel } = await start(t, transportOf(), { echo });
      const request = { text: "as sent" };
      const answer = channel.unary(Echo, request, { timeoutMs: 5000 });
      request.text = "changed";
      begun.resolve();
      assert.equal(((await answer) as EchoRequest).text, "as sent");
    });

    test("unary: an error: code, applied, metadata and retry delay arrive", async (t) => {
      const error = new ConcordError("SCHEMA_BEHIND", "not known yet", { metadata: { version: "3" }, retryAfterMs: 1250 });
      const { channel } = await start(t, transportOf(), { echo: () => Promise.reject(error) });
      const { code, applied, metadata, retryAfterMs } = (await failureOf(channel.unary(Echo, {}, { timeoutMs: 5000 }))) as ConcordError;
      assert.deepEqual([code, applied, metadata, retryAfterMs], ["SCHEMA_BEHIND", error.applied, { version: "3" }, 1250]);
    });

    test("unary: a role that may not call, credentials unknown: refused", async (t) => {
      const { channel } = await start(t, transportOf());
      for (const [metadata, code] of [
        [{}, "PERMISSION_DENIED"],
        [bearer("unknown"), "UNAUTHENTICATED"],
      ] as const)
        assert.equal((await failureOf(channel.unary(LogAppend, {}, { timeoutMs: 5000, metadata }))).code, code);
      const accepted = channel.unary(LogAppend, { seq: 7n }, { timeoutMs: 5000, metadata: bearer("coordinator-secret") });
      assert.equal(((await accepted) as { seq: bigint }).seq, 7n);
    });

    test("unary: no time left, the caller gone before: refused with nothing applied", async (t) => {
      const { channel } = await start(t, transportOf());
      const late = await failureOf(channel.unary(Echo, {}, { timeoutMs: 0 }));
      const gone = await failureOf(channel.unary(Echo, {}, { timeoutMs: 5000, signal: AbortSignal.abort() }));
      assert.deepEqual([late.code, late.applied, gone.code, gone.applied], ["DEADLINE_EXCEEDED", "no", "CANCELLED", "no"]);
    });

    test("unary: the deadline passes or the caller leaves while it runs: the caller hears it, the handler's signal is aborted", async (t) => {
      const aborted: Promise<void>[] = [];
      const echo: EchoOptions["echo"] = (_, { signal }) => {
        aborted.push(new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })));
        return new Promise(() => undefined);
      };
      const { channel } = await start(t, transportOf(), { echo });
      let late = await failureOf(channel.unary(Echo, {}, { timeoutMs: 60 }));
      // On a busy machine the deadline passes before the handler has the call.
      for (let timeoutMs = 120; aborted.length === 0; timeoutMs *= 2) late = await failureOf(channel.unary(Echo, {}, { timeoutMs }));
      const before = aborted.length;
      const caller = new AbortController();
      const leaving = failureOf(channel.unary(Echo, {}, { timeoutMs: 60_000, signal: caller.signal }));
      while (aborted.length === before) await sleep(realClock, 1);
      caller.abort();
      const left = await leaving;
      assert.deepEqual([late.code, late.applied, left.code, left.applied], ["DEADLINE_EXCEEDED", "unknown", "CANCELLED", "unknown"]);
      await Promise.all(aborted);
    });

    test("unary: a request and an answer that are too large: LIMIT_EXCEEDED, the one not applied, the other unknown", async (t) => {
      const text = "x".repeat(MESSAGE_BYTES_MAX);
      const { channel } = await start(t, transportOf(), { echo: () => Promise.resolve({ text, number: 0n }) });
      const request = await failureOf(channel.unary(Echo, { text }, { timeoutMs: 5000 }));
      const answer = await failureOf(channel.unary(Echo, {}, { timeoutMs: 5000 }));
      assert.deepEqual([request.code, request.applied, answer.code, answer.applied], ["LIMIT_EXCEEDED", "no", "LIMIT_EXCEEDED", "unknown"]);
    });

    test("unary: drained: refused with DRAINING; closed: CONNECTION_LOST with nothing applied", async (t) => {
      const { service, listener, channel } = await start(t, transportOf());
      service.setState("draining");
      assert.equal((await failureOf(channel.unary(Echo, {}, { timeoutMs: 5000 }))).code, "DRAINING");
      await listener.drain(0);
      const { code, applied } = await failureOf(channel.unary(Echo, {}, { timeoutMs: 5000 }));
      assert.deepEqual([code, applied], ["CONNECTION_LOST", "no"]);
    });

    test("session: many calls, answered in any order; the server drains: the rest hears DRAINING", async (t) => {
      const { service, channel } = await start(t, transportOf());
      const client = new SessionClient({ channel, contract: EchoService, clock: realClock });
      t.after(() => client.close());
      const answers = await Promise.all(
        Array.from({ length: 500 }, (_, at) => client.call("echo", { text: "x", number: BigInt(at) }, { timeoutMs: 10_000 })),
      );
      assert.deepEqual(
        answers.map(({ number }) => number),
        Array.from({ length: 500 }, (_, at) => BigInt(at)),
      );
      service.setState("draining");
      await service.whenDrained();
      assert.equal((await failureOf(client.call("echo", {}, { timeoutMs: 5000 }))).code, "DRAINING");
    });
  });
}

test("in the process: an address that is served elsewhere: over the network; a channel older than its address: inside", async (t) => {
  const [transport, elsewhere] = [localTransport({ clock: realClock, network: network() }), network()];
  const far = await start(t, elsewhere);
  const there = transport.connect(far.listener.address);
  const early = transport.connect("127.0.0.1:0");
  const peers: string[] = [];
  const near = await start(t, transport, { echo: (request, { peer }) => Promise.resolve(void peers.push(peer)).then(() => request) });
  t.after(() => [there, early].forEach((channel) => channel.close()));
  await there.unary(Echo, {}, { timeoutMs: 5000 });
  for (const channel of [early, near.channel]) await channel.unary(Echo, {}, { timeoutMs: 5000 });
  assert.deepEqual(peers, ["memory", "memory"]);
});
