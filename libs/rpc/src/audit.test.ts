// Which calls leave a line in the log, and who made them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, silentLog, silentMetrics, type Log, type LogFields } from "@concord/runtime";
import { AUDIT_REFUSED_LINES_MAX } from "./audit.ts";
import { bearer, tokenAuthenticator } from "./auth.ts";
import { MemoryTransport } from "./memory-transport.ts";
import { defineService } from "./service.ts";
import { EchoService, realClock } from "./test/echo.ts";
import { callUnary } from "./unary.ts";

const METHOD = "/concord.test.v1.EchoService/LogAppend";

async function world(): Promise<{ lines: LogFields[]; append(token: string | undefined): Promise<unknown>; close(): Promise<void> }> {
  const lines: LogFields[] = [];
  const keep = (message: string, fields?: LogFields): void => void (message.startsWith("audit") && lines.push({ message, ...fields }));
  const log: Log = { ...silentLog, info: keep, warn: keep };
  const authenticator = tokenAuthenticator([
    { role: "coordinator", token: "for-coordinators" },
    { role: "operator", token: "for-operators" },
    { role: "operator", token: "of-ann", name: "ann" },
    { role: "peer", token: "of-bob", name: "bob" },
    { role: "coordinator", token: "of-eve", name: "eve" },
  ]);
  const service = defineService(
    {
      contract: EchoService,
      unary: {
        Echo: () => ({}) as never,
        LogAppend: ({ seq }, { caller }) => {
          if (caller.name === "eve") throw new ConcordError("PERMISSION_DENIED", "it is another caller's");
          return { seq };
        },
      },
      roles: { Echo: ["client"], LogAppend: ["coordinator", "operator"] },
    },
    { clock: realClock, log, metrics: silentMetrics, authenticator },
  );
  service.setState("serving");
  const transport = new MemoryTransport({ clock: realClock });
  const listener = await transport.serve("a:1", service.methods);
  const channel = transport.connect(listener.address);
  return {
    lines,
    append: (token) =>
      callUnary(
        channel,
        EchoService.methods.LogAppend,
        { seq: 1n },
        { timeoutMs: 5_000, metadata: { ...bearer(token), "x-request-id": "r-1" } },
      ).catch(String),
    close: async () => {
      channel.close();
      await listener.drain(0);
    },
  };
}

test("[SEC3] audit: calls of operators leave a line with the caller's name, those of others none", async (t) => {
  const { lines, append, close } = await world();
  t.after(close);
  await append("for-coordinators");
  await append("of-ann");
  await append("for-operators");
  const common = { message: "audit", method: METHOD, peer: "memory", code: "OK", role: "operator", requestId: "r-1" };
  assert.deepEqual(lines, [
    { ...common, caller: "ann" },
    { ...common, caller: "operator" },
  ]);
});

test("[SEC3] audit: calls that a caller may not make: a line each with who it was, and a flood of them leaves no flood of lines", async (t) => {
  const { lines, append, close } = await world();
  t.after(close);
  await append("of-bob");
  await append("guessed");
  const common = { message: "audit: refused", method: METHOD, peer: "memory", requestId: "r-1", leftOut: 0 };
  assert.deepEqual(lines, [
    { ...common, code: "PERMISSION_DENIED", role: "peer", caller: "bob" },
    { ...common, code: "UNAUTHENTICATED" },
  ]);
  await append("of-eve");
  assert.deepEqual(lines[2], { ...common, code: "PERMISSION_DENIED", role: "coordinator", caller: "eve" }, "refused by the handler");
  await Promise.all(Array.from({ length: 100 }, () => append("guessed")));
  assert.ok(lines.length < 100 && lines.length <= 3 * AUDIT_REFUSED_LINES_MAX, `${lines.length} lines`);
});
