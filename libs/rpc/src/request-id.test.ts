// The name a caller gave its request, in answers over real sockets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { ConcordError, silentLog, silentMetrics } from "@concord/runtime";
import { grpcTransport } from "./grpc-transport.ts";
import { requestIdOf } from "./request-id.ts";
import { EchoService, echoService, realClock } from "./test/echo.ts";

for (const [what, echo] of [
  ["answered", (request: object) => Promise.resolve(request)],
  ["refused", () => Promise.reject(new ConcordError("OVERLOADED", "too much"))],
] as const) {
  test(`request id: a call that is ${what}: the id comes back; without one nothing is sent`, async (t) => {
    const transport = grpcTransport({ clock: realClock, log: silentLog, metrics: silentMetrics });
    const listener = await transport.serve("127.0.0.1:0", echoService({ clock: realClock, echo: echo as never }).methods);
    const client = new Client(listener.address, credentials.createInsecure());
    t.after(() => {
      client.close();
      return listener.drain(0);
    });
    const idsOf = (id: string | undefined): Promise<unknown> =>
      new Promise((resolve) => {
        const metadata = new Metadata();
        if (id !== undefined) metadata.set("x-request-id", id);
        const { path } = EchoService.methods.Echo;
        const call = client.makeUnaryRequest(
          path,
          (bytes: Buffer) => bytes,
          String,
          Buffer.alloc(0),
          metadata,
          () => resolve([]),
        );
        call.on("metadata", (headers) => resolve(headers.get("x-request-id")));
      });
    assert.deepEqual(await idsOf("order-7/2"), ["order-7/2"]);
    assert.deepEqual(await idsOf(undefined), []);
    assert.deepEqual(await idsOf("x".repeat(129)), []);
  });
}

test("request id: what does not belong into a log is none", () => {
  for (const id of ["", "two words", "line\nbreak", "é", "x".repeat(129)]) assert.equal(requestIdOf({ "x-request-id": id }), undefined);
  assert.equal(requestIdOf({ "x-request-id": "x".repeat(128) }), "x".repeat(128));
  assert.equal(requestIdOf({}), undefined);
});
