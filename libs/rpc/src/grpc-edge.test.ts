import assert from "node:assert/strict";
import { connect as connectHttp2, type ClientHttp2Session, type IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { silentLog, type Clock, type MessageStream, type ServedMethod } from "@concord/runtime";
import { tokenAuthenticator } from "./auth.ts";
import type { GrpcTransportOptions } from "./grpc-options.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { CONNECTION_SILENT_MS_MAX, REQUEST_COMPLETE_MS_MAX } from "./limits.ts";
import { reflectionMethods } from "./reflection.ts";
import { EchoService, echoService, ManualClock, realClock, recordingMetrics, type RecordingMetrics } from "./test/echo.ts";

const ECHO_PATH = EchoService.methods.Echo.path;
const KIB = 1024;
const REFUSED = "rpc_server_refused_total";

interface World {
  readonly address: string;
  readonly metrics: RecordingMetrics;
  /** From `localAddress`; by default 127.0.0.1. */
  connect(localAddress?: string): ClientHttp2Session;
}

/** A server whose callers need a token, and clients that keep to no rule of gRPC. */
async function world(t: TestContext, options: Partial<GrpcTransportOptions> = {}, clock: Clock = realClock): Promise<World> {
  const metrics = recordingMetrics();
  const network = grpcTransport({ clock, log: silentLog, metrics, ...options });
  const service = echoService({ clock, metrics, tokens: [{ role: "client", token: "secret" }] });
  const listener = await network.serve("127.0.0.1:0", service.methods);
  const sessions: ClientHttp2Session[] = [];
  t.after(async () => {
    for (const session of sessions) session.destroy();
    await listener.drain(0);
  });
  const [host, port] = listener.address.split(":") as [string, string];
  const connect = (localAddress = "127.0.0.1"): ClientHttp2Session => {
    const createConnection = (): Socket => connectTcp({ host, port: Number(port), localAddress });
    const session = connectHttp2(`http://${listener.address}`, { createConnection });
    session.on("error", () => undefined);
    sessions.push(session);
    return session;
  };
  return { address: listener.address, metrics, connect };
}

/** As an argument that is taken apart. */
function bound(clock: Clock): Clock {
  return {
    nowMs: () => clock.nowMs(),
    nowUs: () => clock.nowUs(),
    monotonicMs: () => clock.monotonicMs(),
    setTimer: (delayMs, action) => clock.setTimer(delayMs, action),
    defer: (action) => clock.defer(action),
  };
}

interface RawCall {
  send(bytes: Buffer, isLast?: boolean): void;
  /** The headers or trailers with the status. */
  readonly ended: Promise<IncomingHttpHeaders>;
}

function call(session: ClientHttp2Session, headers: Readonly<Record<string, string>> = {}, token = "secret"): RawCall {
  const authorization = `Bearer ${token}`;
  const stream = session.request({
    ":method": "POST",
    ":path": ECHO_PATH,
    "content-type": "application/grpc",
    te: "trailers",
    authorization,
    ...headers,
  });
  const ended = new Promise<IncomingHttpHeaders>((resolve, reject) => {
    const take = (found: IncomingHttpHeaders): void => {
      if (found["grpc-status"] !== undefined) resolve(found);
    };
    stream.on("response", take);
    stream.on("trailers", take);
    stream.on("error", () => undefined);
    stream.on("close", () => reject(new Error("the stream closed without a status")));
  });
  ended.catch(() => undefined);
  stream.resume();
  return { send: (bytes, isLast = false) => void (isLast ? stream.end(bytes) : stream.write(bytes)), ended };
}

/** A message of gRPC: prefix and `bytes` bytes of an unknown field. */
function message(bytes: number, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(bytes, 1);
  return Buffer.concat([prefix, Buffer.alloc(bytes)]);
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test("edge: a caller without a right token: refused by its headers, before it sends a message", async (t) => {
  const { connect } = await world(t);
  assert.equal((await call(connect(), {}, "wrong").ended)["grpc-status"], "16");
});

test("edge: a compressed request: UNIMPLEMENTED with the encoding that is taken, nothing is inflated", async (t) => {
  const { connect, metrics } = await world(t);
  const session = connect();
  const byHeader = await call(session, { "grpc-encoding": "gzip" }).ended;
  assert.deepEqual([byHeader["grpc-status"], byHeader["grpc-accept-encoding"]], ["12", "identity"]);
  const byFlag = call(session);
  byFlag.send(message(10, 1));
  assert.equal((await byFlag.ended)["grpc-status"], "12");
  assert.equal(metrics.counts.get(`${REFUSED}{reason=encoding}`), 2);
});

test("edge: a message above the limit: refused by its prefix, with the limit and its size", async (t) => {
  const { connect } = await world(t, { messageBytesMax: 32 * KIB });
  const session = connect();
  const tooLarge = call(session);
  tooLarge.send(message(32 * KIB + 1).subarray(0, 5));
  const { "grpc-status": status, "grpc-message": text } = await tooLarge.ended;
  assert.equal(status, "3");
  assert.match(decodeURIComponent(String(text)), /32769 bytes, 32768 are allowed/);
  const largest = call(session);
  largest.send(message(32 * KIB).subarray(0, 5));
  largest.send(Buffer.alloc(32 * KIB), true);
  assert.equal((await largest.ended)["grpc-status"], "0");
});

test("[OPS9] edge: one client begins many large messages and ends none: it is refused at its share, others are not, and the bytes come back", async (t) => {
  const { connect, metrics } = await world(t, { inputBytesMax: 1000 * KIB });
  const attacker = connect();
  const calls = Array.from({ length: 20 }, () => call(attacker));
  let refused = 0;
  for (const one of calls) {
    void one.ended.then(
      () => (refused += 1),
      () => undefined,
    );
    one.send(message(64 * KIB).subarray(0, 1000));
  }
  await until(() => refused === 10);
  assert.equal(metrics.counts.get("rpc_server_request_bytes"), 10 * 64 * KIB);
  const other = call(connect());
  other.send(message(64 * KIB), true);
  assert.equal((await other.ended)["grpc-status"], "0");
  attacker.destroy();
  await until(() => metrics.counts.get("rpc_server_request_bytes") === 0);
});

test("edge: a call whose request does not come, or not to its end: ended after its time", async (t) => {
  const clock = new ManualClock();
  const { connect, metrics } = await world(t, {}, bound(clock));
  const session = connect();
  const calls = [call(session), call(session)];
  calls[1]!.send(message(100).subarray(0, 50));
  await until(() => metrics.counts.get(`rpc_server_in_flight{service=${EchoService.name}}`) === 2);
  await clock.advance(REQUEST_COMPLETE_MS_MAX - 1);
  assert.equal(metrics.counts.get(`${REFUSED}{reason=REQUEST_COMPLETE_MS_MAX}`), undefined);
  await until(() => {
    void clock.advance(1);
    return metrics.counts.get(`${REFUSED}{reason=REQUEST_COMPLETE_MS_MAX}`) === 2;
  });
  for (const { ended } of calls) assert.match(decodeURIComponent(String((await ended)["grpc-message"])), /not complete/);
  assert.equal(metrics.counts.get(`rpc_server_in_flight{service=${EchoService.name}}`), 0);
});

test("[OPS8] edge: more connections of one address than its share: closed, and taken again when others have ended", async (t) => {
  const { address, metrics } = await world(t, { connectionsMax: 10 });
  const port = Number(address.split(":")[1]);
  const sockets = Array.from({ length: 12 }, () => connectTcp(port, "127.0.0.1"));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  let closed = 0;
  for (const socket of sockets)
    socket
      .resume()
      .on("error", () => undefined)
      .on("close", () => (closed += 1));
  await until(() => closed === 4);
  assert.equal(metrics.counts.get("rpc_server_connections{state=silent}"), 8);
  assert.equal(metrics.counts.get(`${REFUSED}{reason=connections}`), 4);
  for (const socket of sockets) socket.destroy();
  await until(() => metrics.counts.get("rpc_server_connections{state=silent}") === 0);
  const again = connectTcp(port, "127.0.0.1");
  t.after(() => again.destroy());
  await until(() => metrics.counts.get("rpc_server_connections{state=silent}") === 1);
});

test(
  "[OPS8] edge: one address has its share of the connections, silent ones or ones with calls: another address gets in and is served",
  { skip: process.platform !== "linux" && "127.0.0.2 is no address here" },
  async (t) => {
    const { connect, metrics } = await world(t, { connectionsMax: 10 });
    const attackers = Array.from({ length: 12 }, () => connect());
    let closed = 0;
    for (const session of attackers) session.on("close", () => (closed += 1));
    await until(() => closed === 4);
    for (const session of attackers.filter(({ destroyed }) => !destroyed)) {
      const own = call(session);
      own.send(message(0), true);
      assert.equal((await own.ended)["grpc-status"], "0");
    }
    assert.equal(metrics.counts.get("rpc_server_connections{state=called}"), 8);
    const late = connect();
    await new Promise<void>((resolve) => late.on("close", () => resolve()));
    const other = call(connect("127.0.0.2"));
    other.send(message(0), true);
    assert.equal((await other.ended)["grpc-status"], "0");
  },
);

test("edge: a connection that sends nothing: ended after its time", async (t) => {
  const clock = new ManualClock();
  const { address, metrics } = await world(t, {}, bound(clock));
  const socket = connectTcp(Number(address.split(":")[1]), "127.0.0.1");
  const closed = new Promise<void>((resolve) => socket.resume().on("close", () => resolve()));
  await until(() => metrics.counts.get("rpc_server_connections{state=silent}") === 1);
  await clock.advance(CONNECTION_SILENT_MS_MAX);
  await closed;
  assert.equal(metrics.counts.get(`${REFUSED}{reason=silent}`), 1);
});

test("edge: reflection: many questions whose answers are not read: some are answered, then the stream ends; without the token none is", async (t) => {
  const metrics = recordingMetrics();
  const authenticator = tokenAuthenticator([{ role: "client", token: "secret" }]);
  const methods = reflectionMethods({ contracts: [EchoService.contract], serviceNames: [], metrics, authenticator });
  let sent = 0;
  const counting = (stream: MessageStream): MessageStream => {
    const send = (message: object): boolean => {
      sent += 1;
      return stream.send(message);
    };
    return {
      send,
      onMessage: (listener) => stream.onMessage(listener),
      onDrain: (listener) => stream.onDrain(listener),
      onEnd: (listener) => stream.onEnd(listener),
      end: (error) => stream.end(error),
    };
  };
  const counted = methods.map((served): ServedMethod => {
    const { method, admit, handle } = served as ServedMethod & { readonly kind: "stream" };
    return { kind: "stream", method, admit: admit!, handle: (stream, context) => handle(counting(stream), context) };
  });
  const listener = await grpcTransport({ clock: realClock, log: silentLog, metrics }).serve("127.0.0.1:0", counted);
  const session = connectHttp2(`http://${listener.address}`, { settings: { initialWindowSize: 0 } });
  t.after(async () => {
    session.destroy();
    await listener.drain(0);
  });
  const path = { ":path": methods[0]!.method.path };
  assert.equal((await call(session, path, "wrong").ended)["grpc-status"], "16");
  const bytes = methods[0]!.method.encodeRequest({ messageRequest: "fileContainingSymbol", fileContainingSymbol: EchoService.name });
  const prefix = message(bytes.length).subarray(0, 5);
  const questions = session.request({
    ":method": "POST",
    "content-type": "application/grpc",
    te: "trailers",
    authorization: "Bearer secret",
    ...path,
  });
  const closed = new Promise<void>((resolve) => questions.on("error", () => undefined).on("close", () => resolve()));
  for (let at = 0; at < 1000; at += 1) questions.write(Buffer.concat([prefix, bytes]));
  await closed;
  assert.ok(sent > 0 && sent < 100, `${sent} answers`);
});
