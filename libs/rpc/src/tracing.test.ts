// Traces through the pipeline, over the memory transport and over real sockets: who is whose parent, and who begins none.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { ConcordError, silentLog, silentMetrics, TRACEPARENT_KEY, UNTRACED, type Transport } from "@concord/runtime";
import { bearer } from "./auth.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { MemoryTransport } from "./memory-transport.ts";
import { SessionClient } from "./session-client.ts";
import { EchoService, echoService, realClock, type EchoOptions } from "./test/echo.ts";
import { recordingTracer, type RecordedSpan } from "./test/recording-tracer.ts";
import { callUnary } from "./unary.ts";

const TRANSPORTS: Readonly<Record<string, () => Transport>> = {
  memory: () => new MemoryTransport({ clock: realClock }),
  gRPC: () => grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics }),
};

type Echo = NonNullable<EchoOptions["echo"]>;

async function open(
  t: TestContext,
  transport: Transport,
  options: { readonly echo?: Echo; readonly metadata?: Record<string, string> } = {},
) {
  const server = recordingTracer();
  const { echo = () => Promise.resolve({}) } = options;
  const listener = await transport.serve("127.0.0.1:0", echoService({ clock: realClock, tracer: server, echo }).methods);
  const channel = transport.connect(listener.address);
  const session = new SessionClient({ channel, contract: EchoService, clock: realClock, metadata: options.metadata ?? {} });
  t.after(() => {
    session.close();
    channel.close();
    return listener.drain(0);
  });
  return { spans: server.spans, channel, session };
}

const familyOf = (span: RecordedSpan | undefined): object | undefined =>
  span && { name: span.name, kind: span.kind, traceId: span.traceId, parentId: span.parentId, code: span.code, ended: span.ended };

for (const [name, transportOf] of Object.entries(TRANSPORTS)) {
  test(`trace over ${name}: an operation of a session and a unary call: the server's span is a part of the client's, which is a part of the caller's`, async (t) => {
    const { spans, channel, session } = await open(t, transportOf());
    const client = recordingTracer();
    const root = client.begin("work", "internal");
    assert.ok(root);
    await session.call("echo", {}, { timeoutMs: 5000, span: root });
    await callUnary(channel, EchoService.methods.Echo, {}, { timeoutMs: 5000, span: root });
    const [work, first, second] = client.spans as [RecordedSpan, RecordedSpan, RecordedSpan];
    for (const call of [first, second]) {
      const { traceId } = work;
      const expected = {
        name: "concord.test.v1.EchoService/Echo",
        kind: "client",
        traceId,
        parentId: work.spanId,
        code: undefined,
        ended: 1,
      };
      assert.deepEqual(familyOf(call), expected);
    }
    assert.deepEqual(
      spans.map(familyOf),
      [first, second].map(({ traceId, spanId }) => ({
        name: "concord.test.v1.EchoService/Echo",
        kind: "server",
        traceId,
        parentId: spanId,
        code: undefined,
        ended: 1,
      })),
    );
  });

  test(`trace over ${name}: calls of one frame: each has its own parent, and one without has none of theirs`, async (t) => {
    const { spans, session } = await open(t, transportOf());
    const client = recordingTracer();
    const roots = [client.begin("a", "internal"), undefined, client.begin("b", "internal")];
    await Promise.all(roots.map((span) => session.call("echo", {}, { timeoutMs: 5000, span })));
    const traces = spans.map(({ traceId, parentId }) => [traceId, parentId === ""]);
    const [a, , b] = roots.map((span) => span?.traceparent.split("-")[1]);
    assert.deepEqual(
      [traces[0], traces[2]],
      [
        [a, false],
        [b, false],
      ],
    );
    assert.equal(traces[1]![1], true);
  });
}

test("trace: a handler: gets the span of its call; a call that fails ends it with its code, at the client too", async (t) => {
  let seen: string | undefined;
  const echo: Echo = (_request, { span }) => {
    seen = span?.traceparent;
    return Promise.reject(new ConcordError("OVERLOADED", "too much"));
  };
  const { spans, session } = await open(t, new MemoryTransport({ clock: realClock }), { echo });
  const client = recordingTracer();
  await assert.rejects(session.call("echo", {}, { timeoutMs: 5000, span: client.begin("work", "internal") }));
  assert.equal(seen, `00-${spans[0]!.traceId}-${spans[0]!.spanId}-01`);
  assert.deepEqual([spans[0]!.code, client.spans[1]!.code], ["OVERLOADED", "OVERLOADED"]);
});

test("trace: no traceparent: a call of a client begins a trace, one of another server does not", async (t) => {
  const transport = new MemoryTransport({ clock: realClock });
  const ofClient = await open(t, transport);
  await ofClient.session.call("echo", {}, { timeoutMs: 5000 });
  assert.equal(ofClient.spans[0]!.parentId, "");
  const ofPeer = await open(t, transport, { metadata: bearer("peer-secret") });
  await ofPeer.session.call("echo", {}, { timeoutMs: 5000 });
  assert.deepEqual(ofPeer.spans, []);
});

test("trace: a session opened in a span that is not sampled: its calls begin none; in one that is: they do not become its parts for ever", async (t) => {
  const transport = new MemoryTransport({ clock: realClock });
  const untraced = await open(t, transport, { metadata: { [TRACEPARENT_KEY]: UNTRACED } });
  await untraced.session.call("echo", {}, { timeoutMs: 5000 });
  assert.deepEqual(untraced.spans, []);
  const sampled = await open(t, transport, { metadata: { [TRACEPARENT_KEY]: UNTRACED.replace(/00$/, "01") } });
  await sampled.session.call("echo", {}, { timeoutMs: 5000 });
  assert.equal(sampled.spans[0]!.parentId, "");
});

test("trace: a call that is refused before it begins, and a call without a tracer: no span", async (t) => {
  const { spans, channel } = await open(t, new MemoryTransport({ clock: realClock }));
  await assert.rejects(callUnary(channel, EchoService.methods.LogAppend, {}, { timeoutMs: 5000 }), { code: "PERMISSION_DENIED" });
  assert.deepEqual(spans, []);
  const transport = new MemoryTransport({ clock: realClock });
  let span: unknown = "not called";
  const echo: Echo = (_request, context) => {
    ({ span } = context);
    return Promise.resolve({});
  };
  const listener = await transport.serve("127.0.0.1:0", echoService({ clock: realClock, echo }).methods);
  const metadata = { [TRACEPARENT_KEY]: UNTRACED.replace(/00$/, "01") };
  await callUnary(transport.connect(listener.address), EchoService.methods.Echo, {}, { timeoutMs: 5000, metadata });
  assert.equal(span, undefined);
});
