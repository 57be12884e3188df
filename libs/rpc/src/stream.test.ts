// A stream method that is no session, over the network in memory and over real sockets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamService, type ConsumeRequest, type ConsumeResponseInit } from "@concord/protos-test";
import { ConcordError, silentLog, type Clock, type MessageStream, type Transport } from "@concord/runtime";
import { bearer, tokenAuthenticator } from "./auth.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { STREAM_EARLY_MESSAGES_MAX } from "./limits.ts";
import { MemoryTransport } from "./memory-transport.ts";
import { defineService, type Service } from "./service.ts";
import type { StreamHandler } from "./stream-server.ts";
import { realClock, recordingMetrics, TOKENS } from "./test/echo.ts";

const NAME = StreamService.name;

type Handler = StreamHandler<ConsumeRequest, ConsumeResponseInit>;

class Client {
  readonly stream: MessageStream;
  readonly received: bigint[] = [];
  readonly ended: Promise<ConcordError | undefined>;
  #waiting: (() => void)[] = [];

  constructor(stream: MessageStream) {
    this.stream = stream;
    stream.onMessage((message) => {
      this.received.push((message as { nextOffset: bigint }).nextOffset);
      this.#wake();
    });
    stream.onDrain(() => undefined);
    this.ended = new Promise((resolve) => stream.onEnd((error) => resolve(error as ConcordError | undefined)));
  }

  async until(count: number): Promise<void> {
    while (this.received.length < count) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

interface World {
  readonly service: Service;
  readonly metrics: ReturnType<typeof recordingMetrics>;
  open(token?: string): Client;
  close(): Promise<void>;
}

async function world(transport: Transport, handler: Handler, streamsMax = 10): Promise<World> {
  const metrics = recordingMetrics();
  const service = defineService(
    { contract: StreamService, unary: {}, streams: { Consume: handler }, roles: { Consume: ["client"] }, limits: { streamsMax } },
    { clock: realClock, log: silentLog, metrics, authenticator: tokenAuthenticator(TOKENS) },
  );
  service.setState("serving");
  const listener = await transport.serve("127.0.0.1:0", service.methods);
  const channel = transport.connect(listener.address);
  return {
    service,
    metrics,
    open: (token) => new Client(channel.stream(StreamService.methods.Consume, { metadata: bearer(token) })),
    close: () => {
      channel.close();
      return listener.drain(50);
    },
  };
}

/** Answers each message with its credits, until the signal aborts. */
const echo: Handler = async (stream, { signal }) => {
  stream.onMessage(({ credits = 0 }) => void stream.send({ nextOffset: BigInt(credits) }));
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
};

const TRANSPORTS: readonly (readonly [string, (clock: Clock) => Transport])[] = [
  ["memory", (clock) => new MemoryTransport({ clock })],
  ["grpc", (clock) => grpcTransport({ clock, log: silentLog, metrics: recordingMetrics() })],
];

for (const [name, make] of TRANSPORTS) {
  const withWorld = async (handler: Handler, body: (one: World) => Promise<void>): Promise<void> => {
    const one = await world(make(realClock), handler);
    try {
      await body(one);
    } finally {
      await one.close();
    }
  };

  test(`stream (${name}): messages both ways: in order, until the client ends its side`, () =>
    withWorld(echo, async ({ open, metrics }) => {
      const client = open();
      for (const credits of [1, 2, 3]) client.stream.send({ credits });
      await client.until(3);
      assert.deepEqual(client.received, [1n, 2n, 3n]);
      client.stream.end();
      assert.equal(await client.ended, undefined);
      assert.equal(metrics.counts.get(`rpc_server_streams{service=${NAME}}`), 0);
      assert.equal(metrics.counts.get("rpc_server_duration_seconds{method=concord.test.v1.StreamService/Consume,code=OK}"), 1);
    }));

  test(`stream (${name}): messages before the handler listens: handed over in order when it does`, () => {
    const came = Promise.withResolvers<void>();
    let isFirst = true;
    const late: Handler = async (stream, context) => {
      const waits = isFirst;
      isFirst = false;
      if (waits) await came.promise;
      await echo(stream, context);
    };
    return withWorld(late, async ({ open }) => {
      const client = open();
      for (const credits of [1, 2, 3]) client.stream.send({ credits });
      // Behind them on the same connection: when it is answered they are there.
      const behind = open();
      behind.stream.send({ credits: 9 });
      await behind.until(1);
      came.resolve();
      await client.until(3);
      assert.deepEqual(client.received, [1n, 2n, 3n]);
      for (const one of [client, behind]) {
        one.stream.end();
        await one.ended;
      }
    });
  });

  test(`stream (${name}): the handler does not listen: messages up to the limit are kept, one more ends the stream with LIMIT_EXCEEDED`, () => {
    const kept = Promise.withResolvers<void>();
    const late: Handler = async (stream, context) => {
      await Promise.race([kept.promise, new Promise((resolve) => context.signal.addEventListener("abort", resolve))]);
      if (!context.signal.aborted) await echo(stream, context);
    };
    return withWorld(late, async ({ open }) => {
      const [within, above] = [open(), open()];
      for (let credits = 1; credits <= STREAM_EARLY_MESSAGES_MAX; credits += 1) within.stream.send({ credits });
      for (let credits = 0; credits <= STREAM_EARLY_MESSAGES_MAX; credits += 1) above.stream.send({ credits });
      assert.equal((await above.ended)?.code, "LIMIT_EXCEEDED");
      kept.resolve();
      await within.until(STREAM_EARLY_MESSAGES_MAX);
      assert.deepEqual(above.received, []);
      within.stream.end();
      await within.ended;
    });
  });

  test(`stream (${name}): the handler returns: the stream ends in good order, its messages before that`, () =>
    withWorld(
      (stream) => stream.send({ nextOffset: 7n }),
      async ({ open }) => {
        const client = open();
        assert.equal(await client.ended, undefined);
        assert.deepEqual(client.received, [7n]);
      },
    ));

  test(`stream (${name}): the handler throws, at once or on a message: the client hears it`, async () => {
    const failing: readonly Handler[] = [
      () => Promise.reject(new ConcordError("OFFSET_OUT_OF_RANGE", "not here", { metadata: { end: "3" } })),
      async (stream, context) => {
        stream.onMessage(() => {
          throw new ConcordError("OFFSET_OUT_OF_RANGE", "not here", { metadata: { end: "3" } });
        });
        await new Promise<void>((resolve) => context.signal.addEventListener("abort", () => resolve()));
      },
    ];
    for (const handler of failing) {
      await withWorld(handler, async ({ open }) => {
        const client = open();
        client.stream.send({ credits: 1 });
        const error = await client.ended;
        assert.deepEqual([error?.code, error?.metadata["end"]], ["OFFSET_OUT_OF_RANGE", "3"]);
      });
    }
  });

  test(`stream (${name}): an unknown enum value: MALFORMED_REQUEST`, () =>
    withWorld(echo, async ({ open }) => {
      const client = open();
      client.stream.send({ start: { colour: 77 } });
      assert.equal((await client.ended)?.code, "MALFORMED_REQUEST");
    }));

  test(`stream (${name}): roles, state, number: refused before the handler begins`, () =>
    withWorld(echo, async ({ open, service }) => {
      assert.equal((await open("wrong").ended)?.code, "UNAUTHENTICATED");
      assert.equal((await open("peer-secret").ended)?.code, "PERMISSION_DENIED");
      // Of one connection: four fifths of the four fifths that its caller may have.
      const clients = Array.from({ length: 6 }, () => open());
      for (const client of clients) {
        client.stream.send({ credits: 1 });
        await client.until(1);
      }
      assert.equal((await open().ended)?.code, "OVERLOADED");
      clients[0]!.stream.end();
      await clients[0]!.ended;
      const next = open();
      next.stream.send({ credits: 1 });
      await next.until(1);
      service.setState("starting");
      assert.equal((await open().ended)?.code, "STARTING");
    }));

  test(`stream (${name}): drain: the signal aborts, the stream ends with DRAINING, then the service is drained`, () =>
    withWorld(echo, async ({ open, service }) => {
      const client = open();
      client.stream.send({ credits: 1 });
      await client.until(1);
      service.setState("draining");
      const error = await client.ended;
      assert.deepEqual([error?.code, error?.applied], ["DRAINING", "unknown"]);
      await service.whenDrained();
      assert.equal((await open().ended)?.code, "DRAINING");
    }));

  test(`stream (${name}): the client goes away: the handler's signal is aborted and the stream forgotten`, async () => {
    let told: () => void = () => undefined;
    const gone = new Promise<void>((resolve) => (told = resolve));
    const handler: Handler = async (stream, context) => {
      context.signal.addEventListener("abort", told);
      await echo(stream, context);
      throw new Error("never reported");
    };
    await withWorld(handler, async ({ open, service }) => {
      const client = open();
      client.stream.send({ credits: 1 });
      await client.until(1);
      client.stream.end(new ConcordError("CANCELLED", "enough"));
      await gone;
      service.setState("draining");
      await service.whenDrained();
    });
  });
}

test("stream: a client that does not read: the handler waits in send until it reads or is gone", async () => {
  const transport = new MemoryTransport({ clock: realClock });
  let drain: () => void = () => undefined;
  const stubborn: MessageStream = {
    send: () => false,
    onMessage: () => undefined,
    onDrain: (listener) => void (drain = listener),
    onEnd: () => undefined,
    end: () => undefined,
  };
  let sent = 0;
  const handler: Handler = async (stream) => {
    for (let at = 0; at < 2; at += 1) {
      await stream.send({ nextOffset: 1n });
      sent += 1;
    }
  };
  const { service, close } = await world(transport, handler);
  const served = service.methods.find(({ method }) => method.path.endsWith("/Consume"))!;
  assert.ok(served.kind === "stream");
  served.handle(stubborn, { deadlineAtMs: Infinity, metadata: {}, peer: "test", signal: new AbortController().signal });
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  await settle();
  assert.equal(sent, 0);
  drain();
  await settle();
  assert.equal(sent, 1);
  service.setState("draining");
  await service.whenDrained();
  assert.equal(sent, 2);
  await close();
});
