import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import type { Method } from "@concord/protos";
import { Health, type HealthCheckResponse } from "@concord/protos/grpc.health.v1";
import { ServerReflection } from "@concord/protos/grpc.reflection.v1";
import { ServerReflection as ServerReflectionAlpha } from "@concord/protos/grpc.reflection.v1alpha";
import { EchoService } from "@concord/protos-test";
import { silentLog, toConcordError, type Channel } from "@concord/runtime";
import { bearer, tokenAuthenticator } from "./auth.ts";
import { grpcTransport } from "./grpc-transport.ts";
import { startHost } from "./host.ts";
import { MemoryTransport } from "./memory-transport.ts";
import { defineService, type Handlers } from "./service.ts";
import { realClock, recordingMetrics } from "./test/echo.ts";

const BUF = join(import.meta.dirname, "../../../node_modules/.bin/buf");
const SERVICE = EchoService.name;

test("reflection: a strict client that knows no contract: lists, describes and calls the service, reads the rich error", async (t) => {
  const environment = { clock: realClock, log: silentLog, metrics: recordingMetrics(), authenticator: tokenAuthenticator([]) };
  const unanswered = {} as Handlers<EchoService>;
  const service = defineService({ contract: EchoService, unary: unanswered, roles: ["client"] }, environment);
  const host = await startHost({ transport: grpcTransport(environment), address: "127.0.0.1:0", services: [service], ...environment });
  const cwd = mkdtempSync(join(tmpdir(), "concord-buf-"));
  t.after(async () => {
    await host.drain(0);
    rmSync(cwd, { recursive: true });
  });
  const run = promisify(execFile);
  const curl = (...args: string[]): Promise<{ readonly stdout: string }> =>
    run(BUF, ["curl", "--protocol", "grpc", "--http2-prior-knowledge", ...args], { cwd });
  const { stdout: methods } = await curl("--list-methods", `http://${host.address}`);
  assert.ok(methods.includes(`${SERVICE}/LogAppend`) && methods.includes("grpc.health.v1.Health/List"), methods);
  host.setServing();
  const { stdout: health } = await curl("-d", "{}", `http://${host.address}/grpc.health.v1.Health/List`);
  assert.deepEqual(JSON.parse(health), { statuses: { "": { status: "SERVING" }, [SERVICE]: { status: "SERVING" } } });
  const failed = (await curl("-d", "{}", `http://${host.address}/${SERVICE}/Echo`).catch((error: unknown) => error)) as {
    readonly stderr: string;
  };
  assert.match(failed.stderr, /"code": "unimplemented"[^]*google\.rpc\.ErrorInfo/);
});

test("[SEC14] reflection: false: neither version of it is served; health still is, without a token", async (t) => {
  const authenticator = tokenAuthenticator([{ role: "client", token: "secret" }]);
  const environment = { clock: realClock, log: silentLog, metrics: recordingMetrics(), authenticator };
  const transport = new MemoryTransport(environment);
  const started = async (reflection: boolean): Promise<Channel> => {
    const host = await startHost({ transport, address: "host:0", services: [], reflection, ...environment });
    t.after(() => host.drain(0));
    return transport.connect(host.address);
  };
  const asked = (channel: Channel, method: Method): Promise<string> =>
    new Promise((resolve) => {
      const stream = channel.stream(method, { metadata: bearer("secret") });
      stream.onMessage(() => resolve("answered"));
      stream.onEnd((error) => resolve(error === undefined ? "ended" : toConcordError(error).code));
      stream.send({ messageRequest: "listServices", listServices: "" });
    });
  for (const { methods } of [ServerReflection, ServerReflectionAlpha]) {
    assert.equal(await asked(await started(true), methods.ServerReflectionInfo), "answered");
    assert.equal(await asked(await started(false), methods.ServerReflectionInfo), "UNIMPLEMENTED");
  }
  const answer = await (await started(false)).unary(Health.methods.Check, { service: "" }, { timeoutMs: 60_000 });
  assert.equal((answer as HealthCheckResponse).status, "SERVING");
});
