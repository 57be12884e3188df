// Shares of calls, sessions and streams, taken as a transport takes them: by the headers, before a message is read.
import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamService } from "@concord/protos-test";
import { ConcordError, silentLog } from "@concord/runtime";
import { bearer, tokenAuthenticator, type RoleToken } from "./auth.ts";
import { MemoryTransport } from "./memory-transport.ts";
import type { Place } from "./places.ts";
import { defineService, type Service } from "./service.ts";
import type { HandlerContext, ServiceLimits } from "./service-core.ts";
import { SessionClient } from "./session-client.ts";
import {
  EchoService,
  echoService,
  ManualClock,
  recordingMetrics,
  type EchoOptions,
  type EchoRequest,
  type RecordingMetrics,
} from "./test/echo.ts";

const NAMED: readonly RoleToken[] = [
  { role: "client", name: "alice", token: "alice-secret" },
  { role: "client", name: "bob", token: "bob-secret" },
];
/** Callers without a name: those with the token, and of the last service those without one. */
const SHARED: readonly RoleToken[] = [{ role: "client", token: "shared-secret" }];
const ALICE = "alice-secret";
const BOB = "bob-secret";

interface Kind {
  readonly name: string;
  readonly limit: keyof ServiceLimits;
  readonly max: number;
  make(tokens: readonly RoleToken[], metrics: RecordingMetrics, max?: number): Service;
  readonly path: string;
}

function echo(limit: keyof ServiceLimits): Kind["make"] {
  return (tokens, metrics, max) =>
    echoService({ clock: new ManualClock(), metrics, tokens, ...(max === undefined ? {} : { limits: { [limit]: max } }) });
}

function streams(tokens: readonly RoleToken[], metrics: RecordingMetrics, streamsMax?: number): Service {
  const definition = { contract: StreamService, unary: {}, streams: { Consume: () => Promise.resolve() }, roles: ["client"] as const };
  const service = defineService(
    { ...definition, ...(streamsMax === undefined ? {} : { limits: { streamsMax } }) },
    { clock: new ManualClock(), log: silentLog, metrics, authenticator: tokenAuthenticator(tokens) },
  );
  service.setState("serving");
  return service;
}

const KINDS: readonly Kind[] = [
  { name: "calls", limit: "inFlightMax", max: 4096, make: echo("inFlightMax"), path: EchoService.methods.Echo.path },
  { name: "sessions", limit: "sessionsMax", max: 1024, make: echo("sessionsMax"), path: `/${EchoService.name}/Session` },
  { name: "streams", limit: "streamsMax", max: 1024, make: streams, path: StreamService.methods.Consume.path },
];

interface World {
  readonly metrics: RecordingMetrics;
  /** The place of one call, session or stream; throws its refusal. */
  take(peer: string, token?: string): Place;
  /** Takes places until one is refused, at most `atMost`; by default over one connection, or each over one of its own. */
  takeAll(host: string, token?: string, connections?: "one" | "many"): Place[];
}

const MANY = 5_000;

function world({ make, path }: Kind, tokens: readonly RoleToken[], max?: number): World {
  const metrics = recordingMetrics();
  const served = make(tokens, metrics, max).methods.find(({ method }) => method.path === path);
  assert.ok(served?.admit !== undefined, path);
  const { admit } = served;
  const { signal } = new AbortController();
  const take = (peer: string, token?: string): Place => admit({ deadlineAtMs: Infinity, metadata: bearer(token), peer, signal }) as Place;
  const takeAll: World["takeAll"] = (host, token, connections = "many") => {
    const places: Place[] = [];
    try {
      for (let at = 0; at < MANY; at += 1) places.push(take(`${host}:${connections === "one" ? 1 : at + 1}`, token));
    } catch (thrown) {
      assert.equal((thrown as { readonly code?: string }).code, "OVERLOADED", String(thrown));
    }
    return places;
  };
  return { metrics, take, takeAll };
}

for (const kind of KINDS) {
  test(`places: ${kind.name}: one caller takes all it gets, from everywhere: four fifths; another caller at the same address gets its own`, () => {
    const { take, takeAll, metrics } = world(kind, NAMED, 100);
    const places = takeAll("10.0.0.1", ALICE);
    assert.equal(places.length, 80);
    assert.throws(() => take("10.0.0.2:1", ALICE), { code: "OVERLOADED", applied: "no" }, "from another address it is the same caller");
    assert.equal(metrics.counts.get(`rpc_server_refused_total{reason=${kind.limit}}`), 2);
    assert.equal(takeAll("10.0.0.1", BOB).length, 16);
    places.forEach((place) => place.leave());
    assert.equal(takeAll("10.0.0.1", ALICE).length, 67, "four fifths of what the other one leaves");
  });

  test(`places: ${kind.name}: callers without a name: one address, or one network of IPv6, leaves the others theirs`, () => {
    for (const [tokens, token] of [
      [SHARED, "shared-secret"],
      [[], undefined],
    ] as const) {
      const { take, takeAll } = world(kind, tokens, 100);
      assert.equal(takeAll("2001:db8::1", token).length, 80);
      assert.throws(() => take("2001:db8::2:1", token), { code: "OVERLOADED" });
      assert.equal(takeAll("10.0.0.1", token).length, 16);
      take("10.0.0.2:1", token);
    }
  });

  test(`places: ${kind.name}: one connection of a caller leaves some to the caller's others`, () => {
    const { take, takeAll } = world(kind, NAMED, 100);
    const places = takeAll("10.0.0.1", ALICE, "one");
    assert.equal(places.length, 64);
    take("10.0.0.1:2", ALICE);
  });

  test(`places: ${kind.name}: ${kind.max} in all, of any number of callers; one that is left is there for the next`, () => {
    const { take, metrics } = world(kind, []);
    const places: Place[] = [];
    for (let host = 0; host < MANY; host += 1) {
      try {
        places.push(take(`10.0.${host >> 8}.${host & 255}:1`));
      } catch (thrown) {
        assert.ok(thrown instanceof ConcordError && thrown.code === "OVERLOADED", String(thrown));
        assert.deepEqual(thrown.metadata, { limit: kind.limit, value: String(kind.max) });
      }
    }
    assert.equal(places.length, kind.max);
    assert.equal(metrics.counts.get(`rpc_server_refused_total{reason=${kind.limit}}`), MANY - kind.max);
    places[0]!.abandon();
    take("10.1.0.1:1");
    assert.throws(() => take("10.1.0.2:1"), { code: "OVERLOADED" });
  });
}

test("places: calls of one caller's session wait: another caller's session at the same address has its calls answered", async (t) => {
  const clock = new ManualClock();
  const transport = new MemoryTransport({ clock });
  const isHeld = ({ caller }: HandlerContext): boolean => caller.name === "alice";
  let held = 0;
  const echoed: EchoOptions["echo"] = (request, context) => {
    if (!isHeld(context)) return Promise.resolve(request);
    held += 1;
    return new Promise(() => undefined);
  };
  const { address } = await transport.serve(
    "server:0",
    echoService({ clock, tokens: NAMED, limits: { inFlightMax: 100 }, echo: echoed }).methods,
  );
  const sessionOf = (token: string): SessionClient<EchoService> => {
    const session = new SessionClient({ channel: transport.connect(address), contract: EchoService, clock, metadata: bearer(token) });
    t.after(() => session.close());
    return session;
  };
  const alice = sessionOf(ALICE);
  let refused = 0;
  for (let at = 0; at < 100; at += 1) alice.call("echo", {}, { timeoutMs: 60_000 }).catch(() => (refused += 1));
  await clock.settle();
  assert.deepEqual([held, refused], [64, 36]);
  const bobs = sessionOf(BOB).call("echo", { text: "bob" }, { timeoutMs: 60_000 });
  await clock.settle();
  assert.equal(((await bobs) as EchoRequest).text, "bob");
});

test("places: 10 000 calls of one caller that wait for others: they leave room for calls of the caller that do not", async () => {
  const clock = new ManualClock();
  const metrics = recordingMetrics();
  const released = Promise.withResolvers<void>();
  const service = echoService({
    clock,
    metrics,
    tokens: NAMED,
    echo: async (request, context) => {
      if (request.text !== "wait") return request;
      if (!context.waits()) throw new ConcordError("OVERLOADED", "too many wait", { applied: "no" });
      await released.promise;
      // A second wait of a call takes no second place.
      assert.equal(context.waits(), true);
      return request;
    },
  });
  const served = service.methods.find(({ method }) => method.path === EchoService.methods.Echo.path);
  assert.ok(served?.kind === "unary");
  const { signal } = new AbortController();
  const call = async (text: string, port: number): Promise<string> => {
    const context = { deadlineAtMs: Infinity, metadata: bearer(ALICE), peer: `10.0.0.1:${port}`, signal };
    const answer = served.handle({ text, number: 0n, $unknown: [] }, context);
    return answer.then(
      () => "OK",
      (error: unknown) => (error as ConcordError).code,
    );
  };
  const gauge = (name: string): number | undefined => metrics.counts.get(`${name}{service=${EchoService.name}}`);
  const waiting = Array.from({ length: 10_000 }, (_, at) => call("wait", at % 24));
  await clock.settle();
  const waited = gauge("rpc_server_waiting")!;
  assert.ok(waited > 3_000 && waited <= (4096 * 4) / 5 + 1, `${waited} wait: about the caller's four fifths of 4096`);
  assert.equal(gauge("rpc_server_in_flight"), waited);
  for (let at = 0; at < 100; at += 1) assert.equal(await call("work", 0), "OK");
  released.resolve();
  const ends = await Promise.all(waiting);
  assert.equal(ends.filter((end) => end === "OK").length, waited);
  assert.equal(ends.filter((end) => end === "OVERLOADED").length, 10_000 - waited);
  assert.deepEqual([gauge("rpc_server_waiting"), gauge("rpc_server_in_flight")], [0, 0]);
});

test("places: a call that waits: a drain waits for it, and one whose owner has no place to wait keeps its own", async () => {
  const clock = new ManualClock();
  const released = Promise.withResolvers<void>();
  const kept: boolean[] = [];
  const service = echoService({
    clock,
    limits: { waitingMax: 1 },
    echo: async (request, context) => {
      kept.push(context.waits());
      await released.promise;
      return request;
    },
  });
  const transport = new MemoryTransport({ clock });
  const { address } = await transport.serve("server:0", service.methods);
  const channel = transport.connect(address);
  const calls = [1, 2].map(() => channel.unary(EchoService.methods.Echo, {}, { timeoutMs: 60_000 }));
  await clock.settle();
  assert.deepEqual(kept, [true, false]);
  assert.equal(service.inFlight, 2);
  let isDrained = false;
  service.setState("draining");
  const drained = service.whenDrained().then(() => (isDrained = true));
  await clock.settle();
  assert.equal(isDrained, false);
  released.resolve();
  await clock.settle();
  await drained;
  await Promise.all(calls);
  assert.equal(service.inFlight, 0);
});
