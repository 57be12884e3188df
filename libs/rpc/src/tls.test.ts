import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { connect as connectTls, type SecureVersion } from "node:tls";
import { silentLog, type Channel } from "@concord/runtime";
import type { ChannelTls, GrpcTls, ServerTls } from "./grpc-options.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { EchoService, echoService, failureOf, realClock, recordingMetrics } from "./test/echo.ts";

const VERSIONS = ["TLSv1.3", "TLSv1.2", "TLSv1.1", "TLSv1"] as const;
const WRONG_VERSION = "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION";

interface Identity {
  readonly certificate: string;
  readonly key: string;
}

/** A throw-away self-signed certificate for `name`, or an IP address: its own authority. */
function selfSigned(folder: string, name: string): Identity {
  const key = join(folder, `${name}.key`);
  const certificate = join(folder, `${name}.crt`);
  const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=${isIP(name) === 0 ? "DNS" : "IP"}:${name}`];
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
      "-keyout",
      key,
      "-out",
      certificate,
      ...subject,
    ],
    { stdio: "ignore" },
  );
  return { certificate: readFileSync(certificate, "utf8"), key: readFileSync(key, "utf8") };
}

function identities(t: TestContext, ...names: string[]): Identity[] {
  const folder = mkdtempSync(join(tmpdir(), "concord-tls-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return names.map((name) => selfSigned(folder, name));
}

async function connect(t: TestContext, server: ServerTls, channel: ChannelTls | undefined): Promise<Channel> {
  const options = { clock: realClock, log: silentLog, metrics: recordingMetrics() };
  const listener = await grpcTransport({ ...options, tls: { server } }).serve("127.0.0.1:0", echoService({ clock: realClock }).methods);
  const connected = grpcTransport({ ...options, ...(channel === undefined ? {} : { tls: { channel } }) }).connect(listener.address);
  t.after(async () => {
    connected.close();
    await listener.drain(0);
  });
  return connected;
}

const call = (channel: Channel): Promise<object> => channel.unary(EchoService.methods.Echo, { text: "secret" }, { timeoutMs: 3000 });

test("tls: the right authority: served; another one or plaintext: refused and surely not applied", async (t) => {
  const [server, other] = identities(t, "server.test", "other.test");
  const trusted = await connect(t, server!, { serverCa: server!.certificate, serverName: "server.test" });
  assert.equal(((await call(trusted)) as { text: string }).text, "secret");
  const misled = await connect(t, server!, { serverCa: other!.certificate, serverName: "server.test" });
  const refused = await failureOf(call(misled));
  assert.deepEqual([refused.code, refused.applied], ["CONNECTION_LOST", "no"]);
  const plain = await failureOf(call(await connect(t, server!, undefined)));
  assert.ok(["CONNECTION_LOST", "DEADLINE_EXCEEDED"].includes(plain.code), plain.code);
});

test("[SEC1] plain gRPC: a warning beyond loopback, none on it; none over TLS", async (t) => {
  const [server] = identities(t, "server.test");
  const warnings = async (address: string, tls: object = {}): Promise<readonly unknown[]> => {
    const found: unknown[] = [];
    const log = { ...silentLog, warn: (message: string, fields?: object) => void found.push([message, fields]) };
    const transport = grpcTransport({ clock: realClock, log, metrics: recordingMetrics(), ...tls });
    const listener = await transport.serve(address, echoService({ clock: realClock }).methods);
    await listener.drain(0);
    return found;
  };
  for (const address of ["127.0.0.1:0", "localhost:0"]) assert.deepEqual(await warnings(address), []);
  assert.deepEqual(await warnings("0.0.0.0:0"), [["serving without TLS beyond loopback", { address: "0.0.0.0:0" }]]);
  assert.deepEqual(await warnings("0.0.0.0:0", { tls: { server: server! } }), []);
});

test("[SEC7] tls: a server that is called by its IP address: served when its certificate has the address, without another name; refused when not", async (t) => {
  const [byAddress, ...byName] = identities(t, "127.0.0.1", "server.test", "address.invalid");
  const served = await connect(t, byAddress!, { serverCa: byAddress!.certificate });
  assert.equal(((await call(served)) as { text: string }).text, "secret");
  for (const server of byName) {
    const refused = await failureOf(call(await connect(t, server, { serverCa: server.certificate })));
    assert.deepEqual([refused.code, refused.applied], ["CONNECTION_LOST", "no"]);
  }
});

test("[SEC7] tls: mutual: a known client is served, one without or with an unknown certificate is not", async (t) => {
  const [server, client, stranger] = identities(t, "server.test", "client.test", "stranger.test");
  const mutual = { ...server!, clientCa: client!.certificate };
  const base = { serverCa: server!.certificate, serverName: "server.test" };
  await call(await connect(t, mutual, { ...base, ...client! }));
  assert.equal((await failureOf(call(await connect(t, mutual, base)))).code, "CONNECTION_LOST");
  assert.equal((await failureOf(call(await connect(t, mutual, { ...base, ...stranger! })))).code, "CONNECTION_LOST");
});

/** The version that a client which offers `version` alone is served with, or the code of its refusal. */
function negotiated(address: string, ca: string, version: SecureVersion): Promise<string> {
  const [host, port] = address.split(":");
  const options = { host, port: Number(port), ca, servername: "server.test", ALPNProtocols: ["h2"] };
  return new Promise((resolve) => {
    // The lowest level of security: a client that may use the old versions.
    const socket = connectTls({ ...options, minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" });
    socket.on("secureConnect", () => {
      resolve(socket.getProtocol() ?? "none");
      socket.destroy();
    });
    socket.on("error", (error: Error & { readonly code?: string }) => resolve(error.code ?? error.message));
  });
}

test("[SEC7] tls: versions: 1.2 and 1.3 are served, a client that offers 1.0 or 1.1 alone is refused for its version", async (t) => {
  const [server] = identities(t, "server.test");
  const { address } = await connect(t, server!, { serverCa: server!.certificate, serverName: "server.test" });
  const answers = await Promise.all(VERSIONS.map((version) => negotiated(address, server!.certificate, version)));
  assert.deepEqual(answers, ["TLSv1.3", "TLSv1.2", WRONG_VERSION, WRONG_VERSION]);
});

test("[SEC8] tls: other certificates while both sides run: new connections have them, the channel connects again by itself", async (t) => {
  const [before, after, client] = identities(t, "server.test", "server.test", "client.test");
  const tls = (server: Identity): GrpcTls => ({
    server: { ...server, clientCa: client!.certificate },
    channel: { serverCa: server.certificate, serverName: "server.test", ...client! },
  });
  const changes: ((tls: GrpcTls) => void)[] = [];
  const options = { clock: realClock, log: silentLog, metrics: recordingMetrics() };
  const transport = grpcTransport({ ...options, tls: tls(before!), tlsChanges: (listener) => changes.push(listener) });
  const listener = await transport.serve("127.0.0.1:0", echoService({ clock: realClock }).methods);
  const old = grpcTransport({ ...options, tls: tls(before!) }).connect(listener.address);
  const running = transport.connect(listener.address);
  t.after(async () => {
    old.close();
    running.close();
    await listener.drain(0);
  });
  await call(running);
  for (const change of changes) change(tls(after!));
  await call(running);
  const fresh = transport.connect(listener.address);
  t.after(() => fresh.close());
  assert.equal(((await call(fresh)) as { text: string }).text, "secret");
  assert.equal((await failureOf(call(old))).code, "CONNECTION_LOST", "it trusts the certificate before alone");
});
