// The name of a call in answers over real sockets, in the log and in what its caller learns of a fault.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { ConcordError, silentLog, silentMetrics, type Log, type LogFields } from "@concord/runtime";
import { grpcTransport } from "./grpc-transport.ts";
import { requestIdOf, requestIds } from "./request-id.ts";
import { SessionClient } from "./session-client.ts";
import { defineService, type Handlers } from "./service.ts";
import { EchoService, realClock } from "./test/echo.ts";
import { callUnary } from "./unary.ts";

type Echo = Handlers<EchoService>["Echo"];

const MADE = /^[0-9a-z]+-[0-9a-z]+$/;
const METHOD = EchoService.methods.Echo;
const faulty: Echo = () => Promise.reject(new Error("a text of a library"));

async function serve(t: TestContext, echo: Echo): Promise<{ readonly address: string; readonly lines: LogFields[] }> {
  const lines: LogFields[] = [];
  const keep = (message: string, fields?: LogFields): void => void (message === "call failed" && lines.push({ ...fields }));
  const log: Log = { ...silentLog, error: keep, debug: keep };
  const authenticator = { authenticate: () => ({ role: "client" as const }) };
  const unary: Handlers<EchoService> = { Echo: echo, LogAppend: ({ seq }) => ({ seq }) };
  const service = defineService(
    { contract: EchoService, unary, roles: ["client"] },
    { clock: realClock, log, metrics: silentMetrics, authenticator },
  );
  service.setState("serving");
  const listener = await grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics }).serve("127.0.0.1:0", service.methods);
  t.after(() => listener.drain(0));
  return { address: listener.address, lines };
}

/** As any client of gRPC sends it. */
function idOfAnswer(client: Client, id: string | undefined, bytes = Buffer.alloc(0)): Promise<string> {
  const metadata = new Metadata();
  if (id !== undefined) metadata.set("x-request-id", id);
  return new Promise((resolve, reject) => {
    const found = (headers: Metadata | undefined): void => {
      const [first] = headers?.get("x-request-id") ?? [];
      if (first !== undefined) resolve(String(first));
    };
    const call = client.makeUnaryRequest(
      METHOD.path,
      (one: Buffer) => one,
      String,
      bytes,
      metadata,
      (error) => {
        found(error?.metadata);
        reject(new Error("an answer without the id"));
      },
    );
    call.on("metadata", found);
  });
}

const answers: Readonly<Record<string, Echo>> = {
  answered: ({ text, number, payload }) => ({ text, number, payload }),
  refused: () => Promise.reject(new ConcordError("OVERLOADED", "too much")),
};
for (const [what, echo] of Object.entries(answers)) {
  test(`request id: a call that is ${what}: its caller's id comes back; without a usable one the server's, no two the same`, async (t) => {
    const { address } = await serve(t, echo);
    const client = new Client(address, credentials.createInsecure());
    t.after(() => client.close());
    assert.equal(await idOfAnswer(client, "order-7/2"), "order-7/2");
    const made = [await idOfAnswer(client, undefined), await idOfAnswer(client, "x".repeat(129))];
    for (const id of made) assert.match(id, MADE);
    assert.equal(new Set(made).size, 2);
    assert.match(await idOfAnswer(client, undefined, Buffer.from([0x0a, 9])), MADE, "bytes that are no message");
  });
}

test("request id: a fault: its caller gets the id of the log line, over unary calls and in a session", async (t) => {
  const { address, lines } = await serve(t, faulty);
  const channel = grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics }).connect(address);
  const metadata = { "x-request-id": "mine" };
  const session = new SessionClient({ channel, contract: EchoService, clock: realClock, metadata });
  t.after(() => {
    session.close();
    channel.close();
  });
  const failed = (work: Promise<unknown>): Promise<ConcordError> =>
    work.then(
      () => assert.fail("it did not fail"),
      (thrown: unknown) => thrown as ConcordError,
    );
  const unary = await failed(callUnary(channel, METHOD, {}, { timeoutMs: 5000 }));
  const inSession = [
    await failed(session.call("echo", {}, { timeoutMs: 5000 })),
    await failed(session.call("echo", {}, { timeoutMs: 5000 })),
  ];
  const ids = [unary, ...inSession].map((error) => error.metadata["requestId"]);
  assert.match(ids[0]!, MADE);
  assert.deepEqual(ids.slice(1), ["mine/1", "mine/2"]);
  assert.deepEqual(
    lines.map(({ code, requestId }) => [code, requestId]),
    ids.map((id) => ["INTERNAL", id]),
  );
  assert.ok(!unary.message.includes("library"), "texts of others stay in the log");
});

test("request id: a refusal: it is in the log line, the error is as it was thrown", async (t) => {
  const { address, lines } = await serve(t, answers["refused"]!);
  const channel = grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics }).connect(address);
  t.after(() => channel.close());
  await assert.rejects(callUnary(channel, METHOD, {}, { timeoutMs: 5000, metadata: { "x-request-id": "mine" } }), {
    code: "OVERLOADED",
    metadata: {},
  });
  assert.deepEqual(
    lines.map(({ requestId }) => requestId),
    ["mine"],
  );
});

test("request id: what does not belong into a log is none", () => {
  for (const id of ["", "two words", "line\nbreak", "é", "x".repeat(129)]) assert.equal(requestIdOf({ "x-request-id": id }), undefined);
  assert.equal(requestIdOf({ "x-request-id": "x".repeat(128) }), "x".repeat(128));
  assert.equal(requestIdOf({}), undefined);
});

test("request id: those that a process makes: one after the other, other ones after another start", () => {
  const first = requestIds({ nowMs: () => 36 });
  assert.deepEqual([first(), first()], ["10-1", "10-2"]);
  assert.equal(requestIds({ nowMs: () => 37 })(), "11-1");
});
