import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type HttpHandler, type HttpRequest } from "@concord/runtime";
import { simulatedHttpClient, World, type NodeContext, type SimulatedHttpClient } from "./index.ts";

const SERVER = "server:8000";

/** A world with a server and a client's process. */
async function worldWith(handler: HttpHandler): Promise<{ world: World; client: SimulatedHttpClient; context: NodeContext }> {
  const world = new World("http", { keepTrace: true });
  world.node("server", async (context) => {
    const listener = await context.http.serve(SERVER, handler);
    return { stop: () => listener.drain(1_000) };
  });
  const context = await world.complete(new Promise<NodeContext>((resolve) => world.node("client", async (own) => resolve(own))), 1_000);
  await world.advance(10);
  return { world, client: simulatedHttpClient(context.env, SERVER), context };
}

async function readAll(request: HttpRequest): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request.body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const echo: HttpHandler = async (request) => {
  const body = await readAll(request);
  return { status: 201, headers: [["x-target", `${request.method} ${request.target} ${request.peer}`]], body };
};

const GET = { method: "GET", target: "/a?b=%20c", headers: [["host", "x"]], timeoutMs: 5_000 } as const;

test("http: a request with a body: method, target, peer and bytes arrive, the answer comes back", async () => {
  const { world, client } = await worldWith(echo);
  const body = [Buffer.alloc(100_000, 1), Buffer.alloc(5, 2)];
  const response = await world.complete(client.send({ ...GET, method: "PUT", body }), 10_000);
  assert.deepEqual([response.status, response.headers.get("x-target")], [201, "PUT /a?b=%20c client"]);
  assert.deepEqual(response.body, Buffer.concat(body));
});

test("http: a slow client: its chunks arrive one after the other, so long apart", async () => {
  const { world, client } = await worldWith(echo);
  const body = [Buffer.alloc(1000, 1), Buffer.alloc(1000, 2), Buffer.alloc(5, 3)];
  const startedAtMs = world.nowMs;
  const response = await world.complete(client.send({ ...GET, method: "PUT", body, pauseMs: 500 }), 10_000);
  assert.deepEqual(response.body, Buffer.concat(body));
  assert.ok(world.nowMs - startedAtMs >= 1500, `${world.nowMs - startedAtMs} ms`);
});

test("http: the client breaks off midway: the handler's body fails, its signal is aborted", async () => {
  const seen: string[] = [];
  const { world, client } = await worldWith(async (request) => {
    await readAll(request).catch((thrown: unknown) => seen.push((thrown as ConcordError).code));
    seen.push(String(request.signal.aborted));
    return { status: 200, headers: [] };
  });
  const body = [Buffer.alloc(1000), Buffer.alloc(1000)];
  await assert.rejects(world.complete(client.send({ ...GET, body, breakAt: 1 }), 10_000), { code: "CANCELLED" });
  await world.advance(100);
  assert.deepEqual(seen, ["CANCELLED", "true"]);
});

test("http: a response body that fails: never a clean end", async () => {
  const { world, client } = await worldWith(async () => ({
    status: 200,
    headers: [],
    body: (async function* () {
      yield Buffer.alloc(10);
      throw new ConcordError("CORRUPT_DATA", "broken");
    })(),
  }));
  await assert.rejects(world.complete(client.send(GET), 10_000), { code: "CORRUPT_DATA" });
});

test("http: the server is killed while it answers: the client hears that the connection is lost", async () => {
  const { world, client } = await worldWith(() => new Promise(() => undefined));
  const answer = client.send(GET);
  const settled = assert.rejects(answer, { code: "CONNECTION_LOST" });
  await world.advance(50);
  world.crash("server", "kill");
  await world.complete(settled, 10_000);
});

test("http: no answer in time: the client's deadline; the handler's signal is aborted, though the whole request was sent", async () => {
  let signal: AbortSignal | undefined;
  const { world, client } = await worldWith((request) => {
    ({ signal } = request);
    return new Promise(() => undefined);
  });
  await assert.rejects(world.complete(client.send({ ...GET, timeoutMs: 300 }), 10_000), { code: "DEADLINE_EXCEEDED" });
  await world.advance(100);
  assert.equal(signal?.aborted, true);
});

test("http: drain: a request in flight is answered, a later one is not", async () => {
  let release = (): void => undefined;
  const { world, client } = await worldWith(async () => {
    await new Promise<void>((resolve) => (release = resolve));
    return { status: 204, headers: [] };
  });
  const first = client.send(GET);
  await world.advance(50);
  const stopped = world.stop("server");
  await world.advance(20);
  const late = assert.rejects(client.send(GET));
  await world.advance(20);
  release();
  assert.equal((await world.complete(first, 1_000)).status, 204);
  await world.complete(Promise.all([late, stopped]), 10_000);
});

test("http: the same seed twice: byte-equal traces", async () => {
  const digests: string[] = [];
  for (let run = 0; run < 2; run += 1) {
    const { world, client } = await worldWith(echo);
    await world.complete(client.send({ ...GET, body: [Buffer.alloc(50_000, 7)] }), 10_000);
    digests.push(world.trace.digest());
  }
  assert.equal(digests[0], digests[1]);
});
