// Clients that do not read what they asked for, over real sockets.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import {
  EchoService,
  StreamService,
  type ConsumeRequest,
  type ConsumeResponseInit,
  type EchoRequest,
  type EchoResponseInit,
} from "@concord/protos-test";
import { OutputBudget, silentLog, silentMetrics, type ConcordError, type MessageStream, type ServedMethod } from "@concord/runtime";
import { tokenAuthenticator } from "./auth.ts";
import { credentialsOf } from "./grpc-options.ts";
import { serveGrpc } from "./grpc-server.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { defineService } from "./service.ts";
import { InputBudget } from "./input-budget.ts";
import { INPUT_BYTES_MAX } from "./limits.ts";
import { SessionClient } from "./session-client.ts";
import type { StreamHandler } from "./stream-server.ts";
import { echoService, ManualClock, realClock, TOKENS } from "./test/echo.ts";
import { callUnary } from "./unary.ts";

const MIB = 1024 * 1024;
const STALLED_MS = 1_000;
const PAGES_MAX = 4;
const CLIENTS = 12;
/** Of each session. */
const CALLS = 16;

interface World {
  /** Of the budget alone. */
  readonly clock: ManualClock;
  readonly mostBytes: () => number;
  connect(): ReturnType<ReturnType<typeof grpcTransport>["connect"]>;
}

async function serve(t: TestContext, methods: readonly ServedMethod[]): Promise<World> {
  const clock = new ManualClock();
  const options = { clock: realClock, log: silentLog, metrics: silentMetrics };
  let mostBytes = 0;
  const gauge = (name: string, value: number): void => {
    if (name === "rpc_server_output_bytes") mostBytes = Math.max(mostBytes, value);
  };
  const output = new OutputBudget({ clock, metrics: { ...silentMetrics, gauge }, bytesMax: PAGES_MAX * MIB, stalledMs: STALLED_MS });
  const listener = await serveGrpc("127.0.0.1:0", methods, {
    ...options,
    input: new InputBudget(silentMetrics, INPUT_BYTES_MAX),
    output,
    credentials: credentialsOf(options),
    newRequestId: () => "1",
  });
  const transport = grpcTransport(options);
  const channels: { close(): void }[] = [];
  t.after(async () => {
    for (const channel of channels) channel.close();
    await listener.drain(0);
  });
  const connect: World["connect"] = () => {
    const channel = transport.connect(listener.address);
    channels.push(channel);
    return channel;
  };
  return { clock, connect, mostBytes: () => mostBytes };
}

function pages(made: (pages: 1 | -1) => void): readonly ServedMethod[] {
  const handler: StreamHandler<ConsumeRequest, ConsumeResponseInit> = async (stream, { signal }) => {
    stream.onMessage(() => undefined);
    while (!signal.aborted) {
      let isMade = false;
      await stream.sendPage(MIB, () => {
        isMade = true;
        made(1);
        return Promise.resolve({ message: { payload: Buffer.alloc(MIB) }, bytes: MIB });
      });
      if (isMade) made(-1);
    }
  };
  const service = defineService(
    { contract: StreamService, unary: {}, streams: { Consume: handler }, roles: ["client"] },
    { clock: realClock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator(TOKENS) },
  );
  service.setState("serving");
  return service.methods;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

test("unread: many streams that no client reads: pages in memory stay within the budget, and a client that reads gets its share", async (t) => {
  let inMemory = 0;
  let most = 0;
  const { clock, connect } = await serve(
    t,
    pages((change) => {
      inMemory += change;
      most = Math.max(most, inMemory);
    }),
  );
  const ended: (ConcordError | undefined)[] = [];
  const open = (): MessageStream => {
    const stream = connect().stream(StreamService.methods.Consume, {});
    stream.onDrain(() => undefined);
    stream.send({ credits: 1 });
    return stream;
  };
  for (let at = 0; at < CLIENTS; at += 1) open().onEnd((error) => ended.push(error as ConcordError | undefined));
  await until(() => inMemory === PAGES_MAX);
  let received = 0;
  const reader = open();
  reader.onMessage(() => (received += 1));
  reader.onEnd(() => undefined);
  // Whatever order the streams came in, each that reads nothing is broken off when its time is over.
  await until(() => {
    void clock.advance(STALLED_MS);
    return received >= 50;
  });
  assert.ok(most <= PAGES_MAX, `${most} pages were in memory`);
  assert.ok(ended.length > 0);
  for (const error of ended) assert.equal(error?.code, "OVERLOADED");
});

test("unread: large answers that no client reads: they wait for memory, what waits is bounded, and the memory comes back", async (t) => {
  const payload = Buffer.alloc(MIB);
  const methods = echoService({ clock: realClock, echo: (request) => Promise.resolve({ ...request, payload }) }).methods;
  const { connect } = await serve(t, methods);
  const channel = connect();
  const call = (): Promise<object> => callUnary(channel, EchoService.methods.Echo, {}, { timeoutMs: 10_000 });
  const answers = await Promise.allSettled(Array.from({ length: 5 * PAGES_MAX }, call));
  for (const answer of answers)
    assert.ok(answer.status === "fulfilled" || (answer.reason as ConcordError).code === "OVERLOADED", answer.status);
  assert.ok(answers.some(({ status }) => status === "fulfilled"));
  await call();
});

test("unread: sessions whose clients read nothing: replies stay within the budget, and one that reads gets its own", async (t) => {
  const payload = Buffer.alloc(MIB);
  let made = 0;
  const echo = (request: EchoRequest): Promise<EchoResponseInit> => {
    made += 1;
    return Promise.resolve({ ...request, payload });
  };
  const { clock, connect, mostBytes } = await serve(t, echoService({ clock: realClock, echo }).methods);
  const session = EchoService.methods.Session;
  const ended: (ConcordError | undefined)[] = [];
  const calls = Array.from({ length: CALLS }, (_none, at) => ({ callId: BigInt(at + 1), timeoutMs: 60_000, echo: {} }));
  for (let at = 0; at < CLIENTS; at += 1) {
    const stream = connect().stream(session, {});
    stream.onDrain(() => undefined);
    stream.onEnd((error) => ended.push(error as ConcordError | undefined));
    stream.send({ calls });
  }
  await until(() => made === CLIENTS * CALLS);
  assert.ok(mostBytes() > MIB && mostBytes() <= 2 * PAGES_MAX * MIB, `${mostBytes()} bytes were kept`);
  const reader = new SessionClient({ channel: connect(), contract: EchoService, clock: realClock });
  t.after(() => reader.close());
  for (let left = 5; left > 0; left -= 1) {
    const answer = await reader.call("echo", {}, { timeoutMs: 60_000 });
    assert.equal((answer as { readonly payload: Uint8Array }).payload.length, MIB);
    await clock.advance(STALLED_MS);
  }
  for (const error of ended) assert.equal(error?.code, "OVERLOADED");
});
