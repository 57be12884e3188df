import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { SecureContextOptions, SecureVersion } from "node:tls";
import { silentLog, type HttpHandler, type HttpRequest, type HttpResponse } from "@concord/runtime";
import { nodeHttpServer } from "./index.ts";
import { head, manualClock, serving, statusOf } from "./test/fixture.ts";

const ok = (text: string): HttpResponse => ({ status: 200, headers: [["x-a", "1"]], body: Buffer.from(text) });
const hello: HttpHandler = async () => ok("hello");

async function readAll(request: HttpRequest): Promise<Buffer> {
  const blobs: Uint8Array[] = [];
  for await (const blob of request.body) blobs.push(blob);
  return Buffer.concat(blobs);
}

/** Lets the event loop look at its sockets once. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Resolves `promise` from outside. */
function gate(): { readonly promise: Promise<void>; open(): void } {
  let open = (): void => undefined;
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open: () => open() };
}

test("request: an odd one: target and headers as they were sent", async () => {
  let seen: HttpRequest | undefined;
  await using fixture = await serving(async (request) => {
    seen = request;
    return ok("");
  });
  await fixture.exchange(head("GET /a//b/../%2F?x=%20&x=+&y", "X-One:  two  words ", "x-one: again", "X-Latin: \xfc", "connection: close"));
  assert.equal(seen?.target, "/a//b/../%2F?x=%20&x=+&y");
  assert.deepEqual(seen.headers, [
    ["host", "h"],
    ["x-one", "two  words"],
    ["x-one", "again"],
    ["x-latin", "\xfc"],
    ["connection", "close"],
  ]);
  assert.match(seen.peer, /^127\.0\.0\.1:\d+$/);
});

test("response: a file name in UTF-8 in content-disposition: its bytes arrive as they are, wherever the length is said", async () => {
  const value = Buffer.from('attachment; filename="ä.txt"').toString("latin1");
  for (const lengthFirst of [true, false]) {
    const length = ["Content-Length", "2"] as const;
    const headers = [...(lengthFirst ? [length] : []), ["content-disposition", value] as const, ...(lengthFirst ? [] : [length])];
    await using fixture = await serving(async () => ({ status: 200, headers, body: Buffer.from("ok") }));
    assert.ok((await fixture.exchange(head("GET /", "connection: close"))).includes(`content-disposition: ${value}\r\n`), `${lengthFirst}`);
  }
});

test("response: bytes: their length is said, the connection is kept", async () => {
  await using fixture = await serving(hello);
  const client = fixture.client();
  client.send(head("GET /"));
  const received = await client.until((text) => text.endsWith("hello"));
  assert.match(received, /^HTTP\/1\.1 200 OK\r\nx-a: 1\r\ncontent-length: 5\r\n/);
  client.send(head("GET /"));
  await client.until((text) => text.split("hello").length === 3);
});

for (const [name, request, status, handler] of [
  ["HEAD", "HEAD /", 200, hello],
  ["204", "GET /", 204, async () => ({ status: 204, headers: [] })],
  ["304", "GET /", 304, async () => ({ status: 304, headers: [["etag", '"e"']], body: Buffer.from("never") })],
] as [string, string, number, HttpHandler][]) {
  test(`response: ${name}: no body goes out`, async () => {
    await using fixture = await serving(handler);
    const received = await fixture.exchange(head(request, "connection: close"));
    assert.equal(statusOf(received), status);
    assert.ok(received.endsWith("\r\n\r\n"), received);
  });
}

test("response: HEAD of a stream: it is released unread, its length goes out", async () => {
  let released = false;
  const body = {
    [Symbol.asyncIterator]: () => ({
      next: () => assert.fail("read"),
      return: async () => {
        released = true;
        return { done: true as const, value: undefined };
      },
    }),
  };
  await using fixture = await serving(async () => ({ status: 200, headers: [["content-length", "1000"]], body }));
  const received = await fixture.exchange(head("HEAD /", "connection: close"));
  assert.match(received, /content-length: 1000\r\n/);
  assert.ok(released);
});

test("response: a stream: every byte, with the length it said", async () => {
  async function* stream(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 50; i += 1) yield Buffer.alloc(100_000, i);
  }
  await using fixture = await serving(async () => ({ status: 200, headers: [["content-length", "5000000"]], body: stream() }));
  const received = await fixture.exchange(head("GET /", "connection: close"));
  const body = Buffer.from(received.slice(received.indexOf("\r\n\r\n") + 4), "latin1");
  assert.equal(body.length, 5_000_000);
  for (let i = 0; i < 50; i += 1) assert.equal(body[i * 100_000 + 17], i);
});

test("response: a stream to a client that does not read: it waits", async () => {
  let made = 0;
  let closed = false;
  async function* stream(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        made += 1;
        yield Buffer.alloc(256 * 1024);
      }
    } finally {
      closed = true;
    }
  }
  await using fixture = await serving(async () => ({ status: 200, headers: [], body: stream() }), { paceWindowMs: 1000 });
  const client = fixture.client();
  client.socket.pause();
  client.send(head("GET /"));
  // The server has a timer while it waits for the client, and no other.
  while (fixture.clock.timers() === 0 || made === 0) await turn();
  assert.ok(made < 100, `${made} chunks of 256 KiB were made`);
  // Nor does it wait for ever: in the first window bytes were moved, in the second none.
  while (!closed) {
    fixture.clock.advance(1000);
    await turn();
  }
  assert.equal(fixture.brokenOff.get("slow"), 1);
});

test("response: a stream that throws: the connection is broken off, no clean end", async () => {
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("some");
    throw new Error("checksum");
  }
  await using fixture = await serving(async () => ({ status: 200, headers: [], body: stream() }));
  const received = await fixture.exchange(head("GET /"));
  assert.ok(!received.includes("\r\n0\r\n\r\n"), "a chunked answer that looks whole");
  assert.equal(fixture.brokenOff.get("answer_failed"), 1);
});

for (const [what, length] of [
  ["shorter", "9"],
  ["longer", "3"],
]) {
  test(`response: a stream ${what} than it said: the connection is broken off`, async () => {
    async function* stream(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("abcde");
    }
    await using fixture = await serving(async () => ({ status: 200, headers: [["content-length", length!]], body: stream() }));
    await fixture.exchange(head("GET /"));
    assert.equal(fixture.brokenOff.get("answer_failed"), 1);
  });
}

test("response: a header with a line break: nothing of it goes out", async () => {
  await using fixture = await serving(async () => ({ status: 200, headers: [["x", "a\r\nset-cookie: b"]] }));
  const received = await fixture.exchange(head("GET /"));
  assert.equal(received, "");
  assert.equal(fixture.brokenOff.get("answer_failed"), 1);
});

test("handler: it rejects: 500 without a word", async () => {
  await using fixture = await serving(async () => {
    throw new Error("secret");
  });
  const received = await fixture.exchange(head("GET /", "connection: close"));
  assert.equal(statusOf(received), 500);
  assert.ok(!received.includes("secret"));
});

for (const [name, headers, wire] of [
  ["with a length", ["content-length: 300000"], (bytes: Buffer) => bytes],
  [
    "in chunks",
    ["transfer-encoding: chunked"],
    (bytes: Buffer) => Buffer.concat([Buffer.from("493e0\r\n"), bytes, Buffer.from("\r\n0\r\n\r\n")]),
  ],
] as [string, string[], (bytes: Buffer) => Buffer][]) {
  test(`body: ${name}: every byte in order`, async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 251));
    let seen: Buffer | undefined;
    await using fixture = await serving(async (request) => {
      seen = await readAll(request);
      return ok("");
    });
    const client = fixture.client();
    client.send(head("PUT /k", ...headers, "connection: close"));
    client.send(wire(bytes));
    await client.untilEnd();
    assert.deepEqual(seen, bytes);
  });
}

test("body: none: it ends at once", async () => {
  await using fixture = await serving(async (request) => ok(String((await readAll(request)).length)));
  assert.ok((await fixture.exchange(head("GET /", "connection: close"))).endsWith("0"));
});

test("body: not read for a while: the client is stopped, memory stays bounded", async () => {
  const go = gate();
  let total = 0;
  await using fixture = await serving(
    async (request) => {
      await go.promise;
      total = (await readAll(request)).length;
      return ok("");
    },
    { bufferBytes: 64 * 1024 },
  );
  const client = fixture.client();
  client.send(head("PUT /k", "content-length: 50000000", "connection: close"));
  const blob = Buffer.alloc(1_000_000);
  for (let i = 0; i < 50; i += 1) client.send(blob);
  let before = -1;
  while (client.socket.bytesWritten === 0 || client.socket.writableLength !== before) {
    before = client.socket.writableLength;
    // The size of the kernel's buffers is unknown: they are full when nothing moves for a while.
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  // What the kernel holds is not ours; the rest still waits with the client.
  assert.ok(before > 20_000_000, `${before} bytes wait with the client`);
  go.open();
  await client.untilEnd();
  assert.equal(total, 50_000_000);
});

test("body: much of it waits: it comes in the chunks that the socket had, not copied into one", async () => {
  const go = gate();
  const lengths: number[] = [];
  await using fixture = await serving(
    async (request) => {
      await go.promise;
      for await (const chunk of request.body) {
        lengths.push(chunk.length);
        await turn();
      }
      return ok("");
    },
    { bufferBytes: 1024 * 1024 },
  );
  const client = fixture.client();
  client.send(head("PUT /k", "content-length: 4000000", "connection: close"));
  client.send(Buffer.alloc(4_000_000));
  for (let before = -1; client.socket.writableLength !== before;) {
    before = client.socket.writableLength;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  go.open();
  await client.untilEnd();
  assert.equal(
    lengths.reduce((sum, length) => sum + length, 0),
    4_000_000,
  );
  assert.ok(Math.max(...lengths) <= 64 * 1024, `a chunk of ${Math.max(...lengths)} bytes`);
});

test("response: a stream that uses one piece of memory for all chunks, a client that reads late: every byte is right", async () => {
  const [LENGTH, CHUNKS] = [1024 * 1024, 24];
  const memory = Buffer.alloc(LENGTH);
  let yielded = 0;
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (; yielded < CHUNKS; yielded += 1) yield memory.fill(yielded + 1);
    memory.fill(0xdd);
  }
  await using fixture = await serving(async () => ({
    status: 200,
    headers: [["content-length", String(LENGTH * CHUNKS)]],
    body: chunks(),
  }));
  const client = fixture.client();
  client.socket.pause();
  client.send(head("GET /", "connection: close"));
  for (let before = -1; yielded === 0 || yielded !== before;) {
    before = yielded;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(yielded < CHUNKS - 1, "the client's pace is the stream's");
  client.socket.resume();
  const answer = Buffer.from(await client.untilEnd(), "latin1");
  const body = answer.subarray(answer.indexOf("\r\n\r\n") + 4);
  assert.equal(body.length, LENGTH * CHUNKS);
  for (let at = 0; at < CHUNKS; at += 1)
    assert.ok(
      body.subarray(at * LENGTH, (at + 1) * LENGTH).every((byte) => byte === at + 1),
      `chunk ${at}`,
    );
});

test("body: read twice: a failed assertion, the first reader is not disturbed", async () => {
  await using fixture = await serving(async (request) => {
    const first = request.body[Symbol.asyncIterator]();
    assert.throws(() => request.body[Symbol.asyncIterator](), /at most once/);
    const { value } = await first.next();
    return ok(Buffer.from(value as Uint8Array).toString());
  });
  assert.ok((await fixture.exchange(`${head("PUT /", "content-length: 2", "connection: close")}ab`)).endsWith("ab"));
});

test("body: the client goes away in the middle: it ends with CANCELLED, the signal is aborted", async () => {
  const [begun, seen] = [gate(), gate()];
  let code: unknown;
  let aborted = false;
  await using fixture = await serving(async (request) => {
    request.signal.addEventListener("abort", () => (aborted = true));
    try {
      for await (const _ of request.body) begun.open();
    } catch (error) {
      code = (error as { code: unknown }).code;
    }
    seen.open();
    return ok("");
  });
  const client = fixture.client();
  client.send(`${head("PUT /", "content-length: 100")}ab`);
  await begun.promise;
  client.socket.destroy();
  await seen.promise;
  assert.equal(code, "CANCELLED");
  assert.ok(aborted);
});

test("signal: the client goes away while its answer is made: aborted", async () => {
  const [begun, aborted] = [gate(), gate()];
  await using fixture = await serving(async (request) => {
    request.signal.addEventListener("abort", aborted.open);
    begun.open();
    await aborted.promise;
    return ok("");
  });
  const client = fixture.client();
  client.send(head("GET /"));
  await begun.promise;
  client.socket.destroy();
  await aborted.promise;
});

test("expect: 100-continue: sent when the body is first asked, not before", async () => {
  const [begun, go] = [gate(), gate()];
  await using fixture = await serving(async (request) => {
    begun.open();
    await go.promise;
    return ok((await readAll(request)).toString());
  });
  const [client, other] = [fixture.client(), fixture.client()];
  client.send(head("PUT /", "content-length: 2", "expect: 100-continue", "connection: close"));
  await begun.promise;
  // A whole exchange of another connection later nothing has been said.
  other.send("nonsense\r\n\r\n");
  await other.untilEnd();
  assert.equal(client.received, "");
  go.open();
  await client.until((text) => text === "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ab");
  assert.ok((await client.untilEnd()).endsWith("ab"));
});

for (const length of ["5", "2000000"]) {
  test(`expect: 100-continue with ${length} bytes, and the answer needs none: no 100, the connection ends`, async () => {
    await using fixture = await serving(async () => ({ status: 403, headers: [] }));
    const received = await fixture.exchange(head("PUT /", `content-length: ${length}`, "expect: 100-continue"));
    assert.equal(statusOf(received), 403);
    assert.match(received, /connection: close/i);
    assert.ok(!received.includes("100 Continue"));
  });
}

test("expect: something else: ignored, the request is served", async () => {
  await using fixture = await serving(hello);
  assert.equal(statusOf(await fixture.exchange(head("PUT /", "content-length: 0", "expect: a-miracle", "connection: close"))), 200);
});

test("unread body: a small one: thrown away, the connection is kept", async () => {
  await using fixture = await serving(async () => ({ status: 403, headers: [], body: Buffer.from("no") }));
  const client = fixture.client();
  client.send(`${head("PUT /", "content-length: 100000")}${"a".repeat(100_000)}`);
  await client.until((text) => text.endsWith("no"));
  client.send(head("GET /", "connection: close"));
  assert.equal((await client.untilEnd()).split("HTTP/1.1 403").length, 3);
});

test("unread body: a large one: the client sees the answer, then the connection ends", async () => {
  await using fixture = await serving(async () => ({ status: 403, headers: [], body: Buffer.from("no") }));
  const client = fixture.client();
  client.send(head("PUT /", "content-length: 50000000"));
  // What is thrown away of it is bounded: the connection ends although neither the body nor the time for it has.
  for (let i = 0; i < 3 && !client.ended; i += 1) client.send(Buffer.alloc(1_000_000));
  const received = await client.untilEnd();
  assert.equal(statusOf(received), 403);
  assert.match(received, /connection: close/i);
});

test("unread body: it never comes: the connection ends after the time for it", async () => {
  await using fixture = await serving(async () => ({ status: 403, headers: [], body: Buffer.from("no") }), { discardMs: 500 });
  const client = fixture.client();
  client.send(head("PUT /", "content-length: 1000"));
  await client.until((text) => text.endsWith("no"));
  assert.ok(!client.ended);
  fixture.clock.advance(500);
  await client.untilEnd();
});

test("pace: a body of one byte now and then: broken off; the handler sees CANCELLED", async () => {
  const seen = gate();
  let code: unknown;
  let bytes = 0;
  await using fixture = await serving(
    async (request) => {
      try {
        for await (const blob of request.body) bytes += blob.length;
      } catch (error) {
        code = (error as { code: unknown }).code;
      }
      seen.open();
      return ok("");
    },
    { paceWindowMs: 1000, paceBytesMin: 100 },
  );
  const client = fixture.client();
  client.send(head("PUT /", "content-length: 100000"));
  for (let sent = 1; code === undefined; sent += 1) {
    assert.ok(sent < 6, "a client that sends a byte every 300 ms is let in for ever");
    client.send("a");
    while (bytes < sent && code === undefined) await turn();
    fixture.clock.advance(300);
  }
  await seen.promise;
  assert.equal(code, "CANCELLED");
  assert.equal(fixture.brokenOff.get("slow"), 1);
});

/** A throw-away certificate that is its own authority. */
function selfSigned(folder: string): { cert: string; key: string } {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  execFileSync("openssl", ["req", "-x509", ...curve, "-nodes", "-days", "2", "-keyout", key, "-out", cert, ...subject], {
    stdio: "ignore",
  });
  return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
}

interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** The status; rejects when the connection is refused. */
function statusOver(address: string, { cert }: Pair, own: SecureContextOptions = {}): Promise<number | undefined> {
  const port = Number(address.split(":")[1]);
  return new Promise((resolve, reject) => {
    const options = { port, host: "127.0.0.1", ca: cert, servername: "localhost", agent: false, ...own };
    const sent = request(options, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject).end();
  });
}

test("tls: a request over it: answered", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-https-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const tls = selfSigned(folder);
  await using fixture = await serving(hello, {}, { certificate: tls.cert, key: tls.key });
  assert.equal(await statusOver(fixture.listener.address, tls), 200);
});

test("[SEC1] plain HTTP: a warning beyond loopback, none on it; none over TLS", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-https-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const { cert: certificate, key } = selfSigned(folder);
  const warnings = async (address: string, more: object = {}): Promise<readonly unknown[]> => {
    const found: unknown[] = [];
    const log = { ...silentLog, warn: (message: string, fields?: object) => void found.push([message, fields]) };
    const listener = await nodeHttpServer({ clock: manualClock(), log, ...more }).serve(address, hello);
    await listener.drain(0);
    return found;
  };
  for (const address of ["127.0.0.1:0", "localhost:0"]) assert.deepEqual(await warnings(address), []);
  assert.deepEqual(await warnings("0.0.0.0:0"), [["serving without TLS beyond loopback", { address: "0.0.0.0:0" }]]);
  assert.deepEqual(await warnings("0.0.0.0:0", { tls: { certificate, key } }), []);
});

test("[SEC7] tls: with an authority of clients: only clients with its certificate are let in", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-https-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [tls, stranger] = [selfSigned(folder), selfSigned(folder)];
  await using fixture = await serving(hello, {}, { certificate: tls.cert, key: tls.key, clientCa: tls.cert });
  const { address } = fixture.listener;
  assert.equal(await statusOver(address, tls, tls), 200);
  await assert.rejects(statusOver(address, tls));
  await assert.rejects(statusOver(address, tls, stranger));
});

test("[SEC7] tls: versions: 1.2 and 1.3 are served, a client that offers 1.0 or 1.1 alone is refused for its version", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-https-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const tls = selfSigned(folder);
  await using fixture = await serving(hello, {}, { certificate: tls.cert, key: tls.key });
  const { address } = fixture.listener;
  // The lowest level of security: a client that may use the old versions.
  const offering = (version: SecureVersion): Promise<number | undefined> =>
    statusOver(address, tls, { minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" });
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) assert.equal(await offering(version), 200);
  for (const version of ["TLSv1", "TLSv1.1"] as const) await assert.rejects(offering(version), /alert protocol version/);
});

test("[SEC8] tls: other certificates while it runs: connections from then on get them, others go on", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-https-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [before, after] = [selfSigned(folder), selfSigned(folder)];
  let change: (tls: { certificate: string; key: string }) => void = () => assert.fail("the server listens to changes");
  await using fixture = await serving(hello, {}, { certificate: before.cert, key: before.key }, (listener) => (change = listener));
  const { address } = fixture.listener;
  assert.equal(await statusOver(address, before), 200);
  change({ certificate: after.cert, key: after.key });
  assert.equal(await statusOver(address, after), 200);
  await assert.rejects(statusOver(address, before));
});
