import assert from "node:assert/strict";
import { test } from "node:test";
import type { HttpResponse } from "@concord/runtime";
import { DRAIN_IDLE_MS, RECONNECT_MS } from "./limits.ts";
import { head, serving } from "./test/fixture.ts";

/** Turns of the event loop in which what was sent arrives. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

const ok: HttpResponse = { status: 200, headers: [], body: Buffer.from("done") };

test("drain: idle connections: closed after their time, no new ones are taken", async () => {
  await using fixture = await serving(async () => ok);
  const idle = fixture.client();
  idle.send(head("GET /"));
  await idle.until((text) => text.endsWith("done"));
  const drained = fixture.listener.drain(60_000);
  await turns();
  fixture.clock.advance(DRAIN_IDLE_MS - 1);
  await turns();
  assert.ok(!idle.ended);
  fixture.clock.advance(1);
  await drained;
  await idle.untilEnd();
  const late = fixture.client();
  assert.equal(await late.untilEnd(), "");
});

test("drain: a request that arrives while the process stands still: answered before idle connections are closed", async () => {
  await using fixture = await serving(async () => ok);
  const client = fixture.client();
  client.send(head("GET /"));
  await client.until((text) => text.endsWith("done"));
  const drained = fixture.listener.drain(60_000);
  await turns();
  client.received = "";
  client.send(head("GET /"));
  fixture.clock.advance(DRAIN_IDLE_MS);
  assert.match(await client.untilEnd(), /connection: close[^]*done$/i);
  await drained;
});

test("drain: requests come at intervals: the time of idle connections begins again with each, up to half the grace", async () => {
  await using fixture = await serving(async () => ok);
  const [first, second] = [fixture.client(), fixture.client()];
  for (const client of [first, second]) {
    client.send(head("GET /"));
    await client.until((text) => text.endsWith("done"));
    client.received = "";
  }
  const drained = fixture.listener.drain(60_000);
  for (const client of [first, second]) {
    await turns();
    fixture.clock.advance(DRAIN_IDLE_MS - 1);
    client.send(head("GET /"));
    assert.match(await client.untilEnd(), /connection: close[^]*done$/i);
    fixture.clock.advance(1);
  }
  await drained;
});

test("drain: connections that were made but not taken: answered, not reset", async () => {
  await using fixture = await serving(async () => ok);
  const clients = Array.from({ length: 8 }, () => fixture.client());
  for (const client of clients) client.send(head("GET /"));
  await Promise.all(clients.map(({ socket }) => new Promise<void>((resolve) => socket.once("connect", resolve))));
  const drained = fixture.listener.drain(60_000);
  for (const client of clients) assert.match(await client.untilEnd(), /done$/);
  await drained;
});

test("[OPS1] drain: 16 busy keep-alive connections: the next request of each is answered, with the news that the connection ends; none is reset", async () => {
  await using fixture = await serving(async () => ok);
  const busy = Array.from({ length: 16 }, () => fixture.client());
  for (const client of busy) client.send(head("GET /"));
  for (const client of busy) await client.until((text) => text.endsWith("done"));
  const drained = fixture.listener.drain(60_000);
  await turns();
  for (const client of busy) {
    client.received = "";
    client.send(head("GET /"));
  }
  for (const client of busy) {
    const received = await client.untilEnd();
    assert.match(received, /connection: close/i);
    assert.ok(received.endsWith("done"));
  }
  await drained;
  assert.equal(fixture.clock.timers(), 0);
});

test("drain: a server that leaves ended a connection with its last answer: the client comes back and is answered, not reset", async () => {
  await using fixture = await serving(
    async () => ok,
    {},
    undefined,
    undefined,
    () => true,
  );
  const before = fixture.client();
  before.send(head("GET /"));
  assert.match(await before.untilEnd(), /connection: close[^]*done$/i);
  const drained = fixture.listener.drain(60_000);
  await turns();
  // Its time is not over: an answer ends no connection, since a third one might come too late.
  fixture.clock.advance(RECONNECT_MS - 1);
  const back = fixture.client();
  back.send(head("GET /"));
  assert.doesNotMatch(await back.until((text) => text.endsWith("done")), /connection: close/i);
  fixture.clock.advance(1);
  await turns();
  back.received = "";
  back.send(head("GET /"));
  assert.match(await back.untilEnd(), /connection: close[^]*done$/i);
  await drained;
  assert.equal(await fixture.client().untilEnd(), "");
});

test("[OPS1] drain: a request in flight: it gets its answer and the news that the connection ends", async () => {
  let finish = (): void => undefined;
  let started = (): void => undefined;
  const begun = new Promise<void>((resolve) => (started = resolve));
  await using fixture = await serving(
    () =>
      new Promise((resolve) => {
        finish = () => resolve(ok);
        started();
      }),
  );
  const client = fixture.client();
  client.send(head("GET /"));
  await begun;
  let isDrained = false;
  const drained = fixture.listener.drain(60_000).then(() => (isDrained = true));
  await turns();
  assert.ok(!isDrained);
  finish();
  await drained;
  const received = await client.untilEnd();
  assert.match(received, /connection: close/i);
  assert.ok(received.endsWith("done"));
});

test("drain: a request that takes too long: told by its signal and broken off after the grace", async () => {
  let reason: unknown;
  let started = (): void => undefined;
  const begun = new Promise<void>((resolve) => (started = resolve));
  await using fixture = await serving(
    (request) =>
      new Promise(() => {
        request.signal.addEventListener("abort", () => (reason = (request.signal.reason as { code: unknown }).code));
        started();
      }),
  );
  const client = fixture.client();
  client.send(head("GET /"));
  await begun;
  const drained = fixture.listener.drain(5000);
  fixture.clock.advance(4999);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(reason, undefined);
  fixture.clock.advance(1);
  await drained;
  assert.equal(reason, "DRAINING");
  await client.untilEnd();
  assert.equal(fixture.brokenOff.get("drain"), 1);
});

test("drain: a client that sends half a request: broken off after the grace", async () => {
  await using fixture = await serving(async () => ok);
  const client = fixture.client();
  client.send("GET / HTTP/1.1\r\nhost:");
  await new Promise<void>((resolve) => client.socket.once("connect", resolve));
  const drained = fixture.listener.drain(5000);
  await new Promise((resolve) => setImmediate(resolve));
  fixture.clock.advance(5000);
  await drained;
  await client.untilEnd();
});

test("drain: twice: the same end", async () => {
  await using fixture = await serving(async () => ok);
  await Promise.all([fixture.listener.drain(10), fixture.listener.drain(10)]);
});
