import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { parseTraceparent, silentLog, silentMetrics, type Clock, type Metrics, type Random, type Tracer } from "@concord/runtime";
import { ManualClock } from "../test/manual-clock.ts";
import { SpanExporter, type ExportOutcome } from "./exporter.ts";
import {
  EXPORT_CLOSE_MS,
  EXPORT_EVERY_MS,
  EXPORT_TRIES_MAX,
  SPAN_LINKS_MAX,
  TRACE_BUFFER_BYTES_MAX,
  TRACES_PER_SECOND_MAX,
} from "./limits.ts";
import { otlpHttp } from "./otlp-http.ts";
import { exportText } from "./span-text.ts";
import { createTracer } from "./tracer.ts";
import { startTracing } from "./tracing.ts";

const PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code: number; readonly message: string };
  readonly links?: readonly object[];
}

function countingRandom(float = 0): Random {
  let drawn = 0;
  return {
    bytes: (length) => Uint8Array.from({ length }, () => (drawn += 1) % 256),
    below: () => 0,
    float: () => float,
  };
}

function counted(): { readonly metrics: Metrics; readonly counts: Map<string, number> } {
  const counts = new Map<string, number>();
  const count: Metrics["count"] = (name, value = 1, labels) => {
    const key = [name, ...Object.values(labels ?? {})].join(" ");
    counts.set(key, (counts.get(key) ?? 0) + value);
  };
  return { counts, metrics: { ...silentMetrics, count } };
}

function tracerOf(options: { readonly ratio?: number; readonly float?: number; readonly clock?: ManualClock } = {}): {
  readonly tracer: Tracer;
  readonly spans: Span[];
  readonly clock: ManualClock;
  readonly counts: Map<string, number>;
} {
  const { ratio = 1, float = 0, clock = new ManualClock() } = options;
  const spans: Span[] = [];
  const { metrics, counts } = counted();
  const onEnded = (text: string): void => void spans.push(JSON.parse(text) as Span);
  return { tracer: createTracer({ clock, random: countingRandom(float), metrics, sampleRatio: ratio, onEnded }), spans, clock, counts };
}

test("tracer: a trace with parts: ids, parentage, times and codes as OTLP has them", async () => {
  const { tracer, spans, clock } = tracerOf();
  const root = tracer.begin("call", "server")!;
  await clock.advance(2);
  const part = root.child("part");
  part.set("messages", 3);
  part.set("replica", "node-1");
  await clock.advance(1.5);
  part.end();
  root.end("DEADLINE_EXCEEDED");
  const [inner, outer] = spans as [Span, Span];
  assert.deepEqual(parseTraceparent(root.traceparent), { traceId: outer.traceId, spanId: outer.spanId, isSampled: true });
  assert.deepEqual(inner, {
    traceId: outer.traceId,
    spanId: inner.spanId,
    parentSpanId: outer.spanId,
    flags: 1,
    name: "part",
    kind: 1,
    startTimeUnixNano: "1700000000002000000",
    endTimeUnixNano: "1700000000003500000",
    attributes: [
      { key: "messages", value: { intValue: "3" } },
      { key: "replica", value: { stringValue: "node-1" } },
    ],
  });
  assert.equal(outer.parentSpanId, undefined);
  assert.deepEqual(outer.status, { code: 2, message: "DEADLINE_EXCEEDED" });
});

test("tracer: the wall clock is set back in a trace: its spans still last as long as they took", async () => {
  const { tracer, spans, clock } = tracerOf();
  const root = tracer.begin("call", "server")!;
  clock.wallStepMs = -60_000;
  await clock.advance(5);
  root.child("late").end();
  root.end();
  const [late, outer] = spans as [Span, Span];
  assert.equal(BigInt(outer.endTimeUnixNano) - BigInt(outer.startTimeUnixNano), 5_000_000n);
  assert.ok(BigInt(late.startTimeUnixNano) >= BigInt(outer.startTimeUnixNano));
});

test("tracer: head sampling: the share below the ratio begins a trace, none at 0", () => {
  assert.notEqual(tracerOf({ ratio: 0.1, float: 0.09 }).tracer.begin("call", "server"), undefined);
  assert.equal(tracerOf({ ratio: 0.1, float: 0.1 }).tracer.begin("call", "server"), undefined);
  assert.equal(tracerOf({ ratio: 0 }).tracer.begin("call", "server"), undefined);
});

test("tracer: a caller's traceparent: it decides, whatever the ratio; one that cannot be read counts as none", () => {
  const never = tracerOf({ ratio: 0 }).tracer;
  const followed = never.follow("call", "server", PARENT);
  assert.equal(parseTraceparent(followed!.traceparent)?.traceId, parseTraceparent(PARENT)!.traceId);
  assert.equal(never.follow("call", "server", "rubbish"), undefined);
  const always = tracerOf().tracer;
  assert.equal(always.follow("call", "server", PARENT.replace(/01$/, "00")), undefined);
  assert.notEqual(always.follow("call", "server", "rubbish"), undefined);
});

test("tracer: more traces in a second than its limit: not sampled, and counted; in the next second again", async () => {
  const { tracer, counts, clock } = tracerOf({ ratio: 0 });
  for (let trace = 0; trace < TRACES_PER_SECOND_MAX; trace += 1) assert.notEqual(tracer.follow("call", "server", PARENT), undefined);
  assert.equal(tracer.follow("call", "server", PARENT), undefined);
  assert.equal(counts.get("trace_spans_dropped_total rate"), 1);
  await clock.advance(1000);
  assert.notEqual(tracer.follow("call", "server", PARENT), undefined);
});

test("tracer: links: as many as a span may have, of the other spans", () => {
  const { tracer, spans } = tracerOf();
  const root = tracer.begin("flush", "server")!;
  const other = tracer.begin("other", "server")!;
  for (let link = 0; link <= SPAN_LINKS_MAX; link += 1) root.link(other);
  root.end();
  const { traceId, spanId } = parseTraceparent(other.traceparent)!;
  assert.deepEqual(
    spans[0]!.links,
    Array.from({ length: SPAN_LINKS_MAX }, () => ({ traceId, spanId })),
  );
});

function exporterOf(send: (body: string) => Promise<ExportOutcome>, bufferBytesMax?: number) {
  const clock = new ManualClock();
  const { metrics, counts } = counted();
  const limit = bufferBytesMax === undefined ? {} : { bufferBytesMax };
  const exporter = new SpanExporter({ clock, log: silentLog, metrics, resource: { "service.name": "test" }, send, ...limit });
  return { clock, exporter, counts };
}

const TAKEN: ExportOutcome = { kind: "taken", rejected: 0 };

test("exporter: spans of a second leave in one body, with the process they are of", async () => {
  const bodies: string[] = [];
  const { clock, exporter, counts } = exporterOf((body) => Promise.resolve(TAKEN).finally(() => bodies.push(body)));
  exporter.add('{"name":"a"}');
  exporter.add('{"name":"b"}');
  await clock.advance(EXPORT_EVERY_MS);
  assert.deepEqual(bodies, [exportText({ "service.name": "test" }, ['{"name":"a"}', '{"name":"b"}'])]);
  assert.deepEqual(JSON.parse(bodies[0]!), {
    resourceSpans: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: "test" } }] },
        scopeSpans: [{ scope: { name: "concord" }, spans: [{ name: "a" }, { name: "b" }] }],
      },
    ],
  });
  assert.equal(exporter.bytes, 0);
  assert.equal(counts.get("trace_spans_exported_total"), 2);
});

test("[OPS14] exporter: the collector hangs: what is kept is bounded in bytes, what is more is dropped and counted", async () => {
  assert.equal(TRACE_BUFFER_BYTES_MAX, 8 * 1024 * 1024);
  const { clock, exporter, counts } = exporterOf(() => new Promise(() => undefined), 10_000);
  for (let span = 0; span < 1000; span += 1) {
    exporter.add("x".repeat(100));
    if (span === 20) await clock.advance(EXPORT_EVERY_MS);
    assert.ok(exporter.bytes <= 10_000);
  }
  assert.equal(exporter.bytes, 10_000);
  assert.equal(counts.get("trace_spans_dropped_total buffer"), 900);
});

test("[OPS14] exporter: the collector is away: tried again after longer and longer pauses, then dropped and counted; later spans leave", async () => {
  let tries = 0;
  const { clock, exporter, counts } = exporterOf(() => {
    tries += 1;
    return Promise.resolve(tries <= EXPORT_TRIES_MAX ? { kind: "retry", reason: "away", afterMs: 0 } : TAKEN);
  });
  exporter.add("x");
  for (let at = 0; at < 20; at += 1) await clock.advance(EXPORT_EVERY_MS);
  assert.equal(tries, EXPORT_TRIES_MAX);
  assert.equal(counts.get("trace_spans_dropped_total collector"), 1);
  exporter.add("y");
  await clock.advance(EXPORT_EVERY_MS);
  assert.equal(counts.get("trace_spans_exported_total"), 1);
});

test("exporter: refused: not sent again; taken in part: the rest is counted", async () => {
  const outcomes: ExportOutcome[] = [
    { kind: "refused", reason: "400" },
    { kind: "taken", rejected: 1 },
  ];
  const { clock, exporter, counts } = exporterOf(() => Promise.resolve(outcomes.shift()!));
  exporter.add("x");
  await clock.advance(EXPORT_EVERY_MS);
  assert.equal(counts.get("trace_spans_dropped_total refused"), 1);
  exporter.add("y");
  exporter.add("z");
  await clock.advance(EXPORT_EVERY_MS);
  assert.equal(counts.get("trace_spans_dropped_total refused"), 2);
  assert.equal(counts.get("trace_spans_exported_total"), 1);
});

test("exporter: closed: what waits is sent; a collector that hangs holds the end up no longer than its time", async () => {
  const bodies: string[] = [];
  const quick = exporterOf((body) => Promise.resolve(TAKEN).finally(() => bodies.push(body)));
  quick.exporter.add("last");
  await quick.exporter.close();
  assert.equal(bodies.length, 1);
  const slow = exporterOf(() => new Promise(() => undefined));
  slow.exporter.add("last");
  const closed = slow.exporter.close();
  await slow.clock.advance(EXPORT_CLOSE_MS);
  await closed;
  slow.exporter.add("later");
  assert.equal(slow.counts.get("trace_spans_dropped_total buffer"), 1);
});

async function collector(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { endpoint: `http://127.0.0.1:${port}/v1/traces`, close };
}

/** A collector of these tests answers in real time. */
const realTimers: Pick<Clock, "setTimer"> = {
  setTimer: (delayMs, action) => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

test("OTLP over HTTP: what a collector answers, or does not: taken, in part, refused, for later", async (context) => {
  const answers: ((response: ServerResponse) => void)[] = [
    (response) => response.writeHead(200).end("{}"),
    (response) => response.writeHead(200).end('{"partialSuccess":{"rejectedSpans":"2"}}'),
    (response) => response.writeHead(200).end("no JSON"),
    (response) => response.writeHead(400).end("why"),
    (response) => response.writeHead(429, { "retry-after": "7" }).end(),
    (response) => response.destroy(),
    (response) => response.writeHead(200).write("{"),
    () => undefined,
  ];
  const seen: (string | undefined)[] = [];
  const { endpoint, close } = await collector((request, response) => {
    seen.push(request.headers.authorization);
    request.resume();
    answers.shift()!(response);
  });
  const [patient, brief] = [10_000, 200].map((timeoutMs) =>
    otlpHttp({ endpoint, headers: { authorization: "Bearer key" }, clock: realTimers, timeoutMs }),
  ) as [ReturnType<typeof otlpHttp>, ReturnType<typeof otlpHttp>];
  // Also when an assertion fails: a server that listens would keep the process.
  context.after(async () => {
    for (const sender of [patient, brief]) sender.close();
    await close();
  });
  const outcomes: ExportOutcome[] = [];
  // What never answers, or not whole, is only waited for until its time is over.
  for (const sender of [...Array<typeof patient>(6).fill(patient), brief, brief])
    outcomes.push(await sender.send("{}", new AbortController().signal));
  assert.deepEqual(outcomes.slice(0, 5), [
    { kind: "taken", rejected: 0 },
    { kind: "taken", rejected: 2 },
    { kind: "taken", rejected: 0 },
    { kind: "refused", reason: "the collector answered 400" },
    { kind: "retry", reason: "the collector answered 429", afterMs: 7000 },
  ]);
  assert.deepEqual(
    outcomes.slice(5).map(({ kind }) => kind),
    ["retry", "retry", "retry"],
  );
  assert.deepEqual([...new Set(seen)], ["Bearer key"]);
  await close();
  assert.equal((await brief.send("{}", new AbortController().signal)).kind, "retry");
});

test("tracing: without an endpoint: there is no tracer, so nothing is made for a span", async () => {
  const options = {
    program: "test",
    version: "1",
    clock: new ManualClock(),
    random: countingRandom(),
    log: silentLog,
    metrics: silentMetrics,
  };
  const tracing = startTracing({ nodeName: "node", traceSampleRatio: 1, traceHeaders: {} }, options);
  assert.equal(tracing.tracer, undefined);
  await tracing.close();
});
