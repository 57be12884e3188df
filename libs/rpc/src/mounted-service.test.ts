import assert from "node:assert/strict";
import { test } from "node:test";
import { Health } from "@concord/protos/grpc.health.v1";
import { ConcordError, silentLog, silentMetrics, type MessageStream } from "@concord/runtime";
import { tokenAuthenticator } from "./auth.ts";
import { SessionFrames } from "./frames.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { startSharedHost } from "./host.ts";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import { MountedService } from "./mounted-service.ts";
import type { Service } from "./service.ts";
import { ECHO, EchoService, echoService, failureOf, realClock, TOKENS, type EchoRequest } from "./test/echo.ts";

const TIMEOUT = { timeoutMs: 60_000 };
const AS_PEER = { ...TIMEOUT, metadata: { authorization: "Bearer peer-secret" } };
const { Echo } = EchoService.methods;
const SESSION = new SessionFrames(EchoService).clientMethod(MESSAGE_BYTES_MAX);

async function fixture(t: { after(end: () => Promise<void>): void }) {
  const authenticator = tokenAuthenticator([...TOKENS, { role: "client", token: "client-secret" }]);
  const absence = (): ConcordError => new ConcordError("STARTING", "echo is out: its store is damaged");
  const mounted = new MountedService({ contract: EchoService, authenticator, absence });
  const transport = grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics });
  const host = await startSharedHost({
    transport,
    address: "127.0.0.1:0",
    services: [mounted],
    clock: realClock,
    log: silentLog,
    metrics: silentMetrics,
    authenticator,
  });
  const channel = transport.connect(host.address);
  t.after(async () => {
    channel.close();
    await host.close(0);
  });
  const health = async (): Promise<string> =>
    ((await channel.unary(Health.methods.Check, { service: ECHO }, TIMEOUT)) as { readonly status: string }).status;
  return { mounted, host: host.hostOf([mounted]), channel, health };
}

const endOf = (stream: MessageStream): Promise<Error | undefined> =>
  new Promise((resolve) => {
    stream.onMessage(() => undefined);
    stream.onEnd(resolve);
  });

test("mounted service: no implementation: calls and sessions get the reason, callers without a token none, health NOT_SERVING", async (t) => {
  const { channel, health } = await fixture(t);
  const refused = await failureOf(channel.unary(Echo, { text: "a" }, AS_PEER));
  assert.deepEqual([refused.code, refused.applied, refused.message], ["STARTING", "no", "echo is out: its store is damaged"]);
  assert.equal((await failureOf(channel.unary(Echo, { text: "a" }, TIMEOUT))).code, "UNAUTHENTICATED");
  const ended = await endOf(channel.stream(SESSION, AS_PEER));
  assert.ok(ended instanceof ConcordError && ended.code === "STARTING", String(ended));
  assert.equal(await health(), "NOT_SERVING");
});

test("mounted service: implementations come and go on one server: each serves, and what it has in flight is waited for", async (t) => {
  const { mounted, host, channel, health } = await fixture(t);
  const held = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const first = echoService({
    clock: realClock,
    echo: async () => {
      begun.resolve();
      await held.promise;
      return { text: "the first" };
    },
  });
  mounted.mount(first);
  assert.equal(await health(), "SERVING");
  const call = channel.unary(Echo, { text: "a" }, AS_PEER);
  await begun.promise;
  const drained = host.drain(60_000);
  assert.equal(await health(), "NOT_SERVING");
  held.resolve();
  await drained;
  assert.equal(((await call) as EchoRequest).text, "the first");
  mounted.mount(undefined);
  assert.equal((await failureOf(channel.unary(Echo, { text: "a" }, AS_PEER))).code, "STARTING");
  const second: Service = echoService({ clock: realClock, echo: () => Promise.resolve({ text: "the second" }) });
  mounted.mount(second);
  assert.equal(await health(), "SERVING");
  assert.equal(((await channel.unary(Echo, { text: "a" }, AS_PEER)) as EchoRequest).text, "the second");
});
