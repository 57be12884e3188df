// What is refused on the wire, whatever the handler would say, and the limits.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { HttpHandler } from "@concord/runtime";
import { head, serving, statusOf } from "./test/fixture.ts";

const handlerOf =
  (calls: string[]): HttpHandler =>
  async (request) => {
    calls.push(`${request.method} ${request.target}`);
    let bytes = 0;
    try {
      for await (const blob of request.body) bytes += blob.length;
    } catch {
      calls.push("broken");
    }
    return { status: 200, headers: [], body: Buffer.from(String(bytes)) };
  };

/** The handler must not be called, unless `calls` says so. */
const REFUSED: readonly (readonly [what: string, request: string | Uint8Array, status: number, calls?: readonly string[]])[] = [
  ["Content-Length and Transfer-Encoding", `${head("PUT /", "content-length: 5", "transfer-encoding: chunked")}0\r\n\r\n`, 400],
  ["Transfer-Encoding and Content-Length", `${head("PUT /", "transfer-encoding: chunked", "content-length: 5")}0\r\n\r\n`, 400],
  ["two lengths that differ", `${head("PUT /", "content-length: 5", "content-length: 6")}hello`, 400],
  ["two lengths alike", `${head("PUT /", "content-length: 5", "content-length: 5")}hello`, 400],
  ["a list of lengths", `${head("PUT /", "content-length: 5, 5")}hello`, 400],
  ["a negative length", head("PUT /", "content-length: -5"), 400],
  ["a length with a sign", `${head("PUT /", "content-length: +5")}hello`, 400],
  ["a length in hex", `${head("PUT /", "content-length: 0x5")}hello`, 400],
  ["a length of 2^64", head("PUT /", "content-length: 18446744073709551616"), 400],
  ["another coding", head("PUT /", "transfer-encoding: gzip"), 501],
  ["another coding before chunked", `${head("PUT /", "transfer-encoding: gzip, chunked")}0\r\n\r\n`, 501],
  ["chunked twice", `${head("PUT /", "transfer-encoding: chunked", "transfer-encoding: chunked")}0\r\n\r\n`, 400],
  ["chunked twice in one", `${head("PUT /", "transfer-encoding: chunked, chunked")}0\r\n\r\n`, 400],
  ["chunked that is not quite", `${head("PUT /", "transfer-encoding: xchunked")}0\r\n\r\n`, 501],
  ["a blank before the colon", head("PUT /", "transfer-encoding : chunked"), 400],
  ["a folded header", head("GET /", "x-a: 1\r\n 2"), 400],
  ["a folded header with a tab", head("GET /", "x-a: 1\r\n\tcontent-length: 5"), 400],
  ["a header that starts with a blank", "GET / HTTP/1.1\r\n host: h\r\n\r\n", 400],
  ["NUL in a value", head("GET /", "x-a: 1\0"), 400],
  ["NUL in a name", head("GET /", "x\0a: 1"), 400],
  ["a control character in a value", head("GET /", "x-a: \u0001"), 400],
  ["a bare carriage return in a value", head("GET /", "x-a: 1\rx-b: 2"), 400],
  ["a bare line feed behind a header", "GET / HTTP/1.1\r\nhost: h\nx-a: 1\r\n\r\n", 400],
  ["a header without a colon", head("GET /", "x-a"), 400],
  ["a header without a name", head("GET /", ": 1"), 400],
  ["no host", "GET / HTTP/1.1\r\n\r\n", 400],
  ["two hosts", head("GET /", "host: other"), 400],
  ["an unknown method", head("FROB /"), 400],
  ["a method in lower case", head("get /"), 400],
  ["another protocol", "GET / HTTQ/1.1\r\nhost: h\r\n\r\n", 400],
  ["another version", "GET / HTTP/3.0\r\nhost: h\r\n\r\n", 400],
  ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
  ["a blank in the target", head("GET /a b"), 400],
  ["NUL in the target", head("GET /a\0"), 400],
  ["nonsense", "hello\r\n\r\n", 400],
  ["TLS on a plain port", Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]), 400],
  ["a chunk size that is no hex", `${head("PUT /", "transfer-encoding: chunked")}zz\r\n`, 400, ["PUT /", "broken"]],
  ["a negative chunk size", `${head("PUT /", "transfer-encoding: chunked")}-5\r\n`, 400, ["PUT /", "broken"]],
  ["a chunk size of 2^64", `${head("PUT /", "transfer-encoding: chunked")}10000000000000000\r\n`, 400, ["PUT /", "broken"]],
  ["a chunk longer than it says", `${head("PUT /", "transfer-encoding: chunked")}3\r\nhello\r\n0\r\n\r\n`, 400, ["PUT /", "broken"]],
  ["a bare line feed behind a chunk size", `${head("PUT /", "transfer-encoding: chunked")}5\nhello\r\n0\r\n\r\n`, 400, ["PUT /", "broken"]],
];

for (const [what, request, status, expected = []] of REFUSED) {
  test(`strict: ${what}: ${status}, nothing is done`, async () => {
    const calls: string[] = [];
    await using fixture = await serving(handlerOf(calls));
    const received = await fixture.exchange(request);
    assert.equal(statusOf(received), status, received);
    assert.ok(expected.length > 0 || calls.length === 0, calls.join());
    assert.equal(received.split("HTTP/1.1").length, 2, "one answer");
  });
}

test("strict: an upgrade to HTTP/2 is asked for: answered as HTTP/1.1", async () => {
  const calls: string[] = [];
  await using fixture = await serving(handlerOf(calls));
  const received = await fixture.exchange(
    head("GET /", "connection: upgrade, http2-settings, close", "upgrade: h2c", "http2-settings: AAMAAABk"),
  );
  assert.equal(statusOf(received), 200);
});

test("strict: CONNECT: no tunnel", async () => {
  const calls: string[] = [];
  await using fixture = await serving(handlerOf(calls));
  const received = await fixture.exchange("CONNECT example.com:80 HTTP/1.1\r\nhost: example.com\r\n\r\n");
  assert.notEqual(statusOf(received), 200);
  assert.deepEqual(calls, []);
});

test("strict: absolute form and an asterisk: handed on as they are", async () => {
  const calls: string[] = [];
  await using fixture = await serving(handlerOf(calls));
  await fixture.exchange(head("GET http://other/x", "connection: close"));
  await fixture.exchange(head("OPTIONS *", "connection: close"));
  assert.deepEqual(calls, ["GET http://other/x", "OPTIONS *"]);
});

for (const [lines, status] of [
  [9, 200],
  [10, 200],
  [11, 431],
] as const) {
  test(`limits: ${lines} of 10 headers: ${status}`, async () => {
    await using fixture = await serving(handlerOf([]), { headersMax: 10 });
    const more = Array.from({ length: lines - 2 }, (_, i) => `x-${i}: 1`);
    assert.equal(statusOf(await fixture.exchange(head("GET /", ...more, "connection: close"))), status);
  });
}

for (const [bytes, status] of [
  [3900, 200],
  [4300, 431],
  [1_000_000, 431],
] as const) {
  test(`limits: a header of ${bytes} bytes where 4096 are allowed: ${status}`, async () => {
    await using fixture = await serving(handlerOf([]), { headerBytesMax: 4096 });
    assert.equal(statusOf(await fixture.exchange(head("GET /", `x: ${"a".repeat(bytes)}`, "connection: close"))), status);
  });
}

test("limits: 10 000 headers: 431", async () => {
  const calls: string[] = [];
  await using fixture = await serving(handlerOf(calls), { headerBytesMax: 1_000_000 });
  const received = await fixture.exchange(head("GET /", ...Array.from({ length: 10_000 }, (_, i) => `x-${i}: 1`)));
  assert.equal(statusOf(received), 431);
  assert.deepEqual(calls, []);
});

test("limits: headers that come too slowly, or never: 408 and the end", async () => {
  await using fixture = await serving(handlerOf([]), { headersTimeoutMs: 200 });
  const [slow, silent] = [fixture.client(), fixture.client()];
  slow.send("GET / HTTP/1.1\r\nhost: h\r\nx-a");
  assert.equal(statusOf(await slow.untilEnd()), 408);
  await silent.untilEnd();
  assert.ok([0, 408].includes(statusOf(silent.received)));
});

test("limits: a connection without a request: closed after its time", async () => {
  await using fixture = await serving(handlerOf([]), { keepAliveMs: 100 });
  const client = fixture.client();
  client.send(head("GET /"));
  assert.equal(statusOf(await client.untilEnd()), 200);
});

test("[OPS8] limits: connections of one address that would use all up: one more than its share is closed at once", async () => {
  await using fixture = await serving(handlerOf([]), { connectionsMax: 5 });
  const kept = Array.from({ length: 4 }, () => fixture.client());
  for (const client of kept) {
    client.send(head("GET /"));
    await client.until((text) => text.includes("200"));
  }
  const another = fixture.client();
  another.send(head("GET /"));
  assert.equal(await another.untilEnd(), "");
  assert.equal(fixture.brokenOff.get("limit"), 1);
  for (const client of kept) assert.ok(!client.ended);
  // Linux alone has the whole of 127.0.0.0/8.
  if (process.platform !== "linux") return;
  const elsewhere = fixture.client("127.0.0.2");
  elsewhere.send(head("GET /"));
  await elsewhere.until((text) => text.includes("200"));
});

for (const [count, isBroken] of [
  [3, false],
  [4, true],
] as const) {
  test(`limits: ${count} requests at once on a connection where 3 are allowed: ${isBroken ? "broken off" : "answered in order"}`, async () => {
    const waiting: (() => void)[] = [];
    await using fixture = await serving(
      (request) =>
        new Promise((resolve) => {
          waiting.push(() => resolve({ status: 200, headers: [], body: Buffer.from(`[${request.target}]`) }));
          // The last answer is ready first.
          if (waiting.length === 3) setImmediate(() => waiting.toReversed().forEach((answer) => answer()));
        }),
      { pipelinedMax: 3 },
    );
    const client = fixture.client();
    client.send(Array.from({ length: count }, (_, i) => head(`GET /${i}`)).join(""));
    if (isBroken) {
      await client.untilEnd();
      assert.equal(fixture.brokenOff.get("limit"), 1);
    } else {
      const received = await client.until((text) => text.includes("[/2]"));
      assert.deepEqual(received.match(/\[\/\d\]/g), ["[/0]", "[/1]", "[/2]"]);
    }
  });
}

test("strict: nonsense behind a request whose answer has begun: never put into that answer", async () => {
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("begun");
    await new Promise<void>((resolve) => (release = resolve));
  }
  let release = (): void => undefined;
  await using fixture = await serving(async () => ({ status: 200, headers: [["content-length", "1000"]], body: stream() }));
  const client = fixture.client();
  client.send(head("GET /"));
  await client.until((text) => text.endsWith("begun"));
  client.send("nonsense\r\n\r\n");
  const received = await client.untilEnd();
  release();
  assert.ok(received.endsWith("begun"), received);
});
