// Generic clients with the shipped service configuration (protos/retries.json): what they send again, and what not.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import { ConcordError, silentLog } from "@concord/runtime";
import { grpcTransport } from "./grpc-transport.ts";
import { ECHO, echoService, realClock, recordingMetrics } from "./test/echo.ts";

const file = join(import.meta.dirname, "../../../protos/retries.json");
const shipped = JSON.parse(readFileSync(file, "utf8")) as { methodConfig: { retryPolicy: object }[] };
const serviceConfig = JSON.stringify({ methodConfig: [{ ...shipped.methodConfig[0], name: [{ service: ECHO }] }] });

async function call(
  code: "STARTING" | "NOT_MASTER",
  failures: number,
): Promise<{ readonly calls: number; readonly error: ServiceError | null }> {
  let calls = 0;
  const echo = (request: object): Promise<object> => {
    calls += 1;
    return calls > failures ? Promise.resolve(request) : Promise.reject(new ConcordError(code, "try again"));
  };
  const transport = grpcTransport({ clock: realClock, log: silentLog, metrics: recordingMetrics() });
  const listener = await transport.serve("127.0.0.1:0", echoService({ clock: realClock, echo }).methods);
  const client = new Client(listener.address, credentials.createInsecure(), { "grpc.service_config": serviceConfig });
  const same = (bytes: Buffer): Buffer => bytes;
  const error = await new Promise<ServiceError | null>((resolve) => {
    client.makeUnaryRequest(`/${ECHO}/Echo`, same, same, Buffer.alloc(0), { deadline: Date.now() + 30_000 }, (failed) => resolve(failed));
  });
  client.close();
  await listener.drain(0);
  return { calls, error };
}

test("retries: a server that is not there yet: a generic client sends the call again", async () => {
  assert.deepEqual(await call("STARTING", 2), { calls: 3, error: null });
});

test("retries: a server that is not the master: its refusal is not answered by the same call at the same server", async () => {
  const { calls, error } = await call("NOT_MASTER", 2);
  assert.equal(calls, 1);
  assert.equal(error?.code, 9, "FAILED_PRECONDITION");
});
