import assert from "node:assert/strict";
import { test } from "node:test";
import type { Method } from "@concord/protos";
import { Health } from "@concord/protos/grpc.health.v1";
import { ServerReflection, type ServerReflectionResponse } from "@concord/protos/grpc.reflection.v1";
import { ServerReflection as ServerReflectionAlpha } from "@concord/protos/grpc.reflection.v1alpha";
import { silentLog, silentMetrics, type MessageStream } from "@concord/runtime";
import { tokenAuthenticator } from "./auth.ts";
import { startHost, type ServiceHost } from "./host.ts";
import { MemoryTransport } from "./memory-transport.ts";
import type { Service } from "./service.ts";
import { ECHO, echoService, failureOf, ManualClock } from "./test/echo.ts";

const { Check, List, Watch } = Health.methods;
const HOST = { log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };

interface World {
  readonly clock: ManualClock;
  readonly service: Service;
  readonly host: ServiceHost;
  ask(method: Method, request: object): Promise<object>;
  open(method: Method): { readonly stream: MessageStream; readonly received: object[]; readonly ends: (Error | undefined)[] };
}

async function world(): Promise<World> {
  const clock = new ManualClock();
  const service = echoService({ clock });
  const transport = new MemoryTransport({ clock });
  const host = await startHost({ transport, address: "h:0", services: [service], clock, ...HOST });
  const channel = transport.connect(host.address);
  return {
    clock,
    service,
    host,
    ask: async (method, request) => {
      const answer = channel.unary(method, request, { timeoutMs: 1000 });
      answer.catch(() => undefined);
      await clock.settle();
      return answer;
    },
    open: (method) => {
      const opened = { stream: channel.stream(method, {}), received: [] as object[], ends: [] as (Error | undefined)[] };
      opened.stream.onMessage((message) => opened.received.push(message));
      opened.stream.onEnd((error) => opened.ends.push(error));
      return opened;
    },
  };
}

test("health: check and list: the state of each service, of all, and NOT_FOUND for none of ours", async () => {
  const { ask, service } = await world();
  assert.deepEqual(await ask(Check, { service: ECHO }), { status: "SERVING" });
  service.setState("starting");
  assert.deepEqual(await ask(Check, {}), { status: "NOT_SERVING" });
  assert.deepEqual(await ask(List, {}), { statuses: { "": { status: "NOT_SERVING" }, [ECHO]: { status: "NOT_SERVING" } } });
  assert.equal((await failureOf(ask(Check, { service: "unknown" }))).code, "NOT_FOUND");
});

test("health: watch: the status now and after each change, until drain ends the stream", async () => {
  const { clock, open, service, host } = await world();
  const watch = open(Watch);
  watch.stream.send({ service: ECHO });
  const unknown = open(Watch);
  unknown.stream.send({ service: "unknown" });
  await clock.settle();
  service.setState("starting");
  service.setState("serving");
  await clock.settle();
  const drained = host.drain(1000);
  await clock.settle();
  await drained;
  await clock.settle();
  assert.deepEqual(
    watch.received.map((one) => (one as { status: string }).status),
    ["SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"],
  );
  assert.deepEqual(unknown.received, [{ status: "SERVICE_UNKNOWN" }]);
  assert.equal(watch.ends.length, 1);
});

test("reflection: list and files by symbol and name: enough to describe a service, in both versions", async () => {
  const { clock, open } = await world();
  for (const { methods } of [ServerReflection, ServerReflectionAlpha]) {
    const { stream, received, ends } = open(methods.ServerReflectionInfo);
    stream.send({ listServices: "*" });
    stream.send({ fileContainingSymbol: `${ECHO}.Echo` });
    stream.send({ fileByFilename: "google/rpc/error_details.proto" });
    stream.send({ fileContainingSymbol: "nowhere.Thing" });
    stream.send({ allExtensionNumbersOfType: "x" });
    stream.end();
    await clock.settle();
    const [list, symbol, byName, missing, extension] = received as ServerReflectionResponse[];
    assert.deepEqual(
      list!.listServicesResponse!.service.map((one) => one.name),
      [ECHO, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"],
    );
    const any = "google/protobuf/any.proto";
    assert.deepEqual(filesOf(symbol), ["concord/test/v1/echo.proto", "google/rpc/status.proto", any]);
    assert.deepEqual(filesOf(byName), ["google/rpc/error_details.proto", "google/protobuf/duration.proto"]);
    assert.equal(missing!.errorResponse!.errorCode, 5);
    assert.equal(extension!.errorResponse!.errorCode, 12);
    assert.deepEqual(ends, [undefined]);
  }
});

test("reflection: a file: has its comments and the names of its fields in JSON", async () => {
  const { clock, open } = await world();
  const { stream, received } = open(ServerReflection.methods.ServerReflectionInfo);
  stream.send({ fileContainingSymbol: "concord.test.v1.StreamService" });
  await clock.settle();
  const [file] = (received[0] as ServerReflectionResponse).fileDescriptorResponse!.fileDescriptorProto;
  for (const text of [" Where the next message is.", "next_offset", "nextOffset"]) assert.ok(Buffer.from(file!).includes(text), text);
});

/** A FileDescriptorProto begins with field 1, its name. */
function filesOf(answer: ServerReflectionResponse | undefined): string[] {
  return answer!.fileDescriptorResponse!.fileDescriptorProto.map((bytes) => Buffer.from(bytes.subarray(2, 2 + bytes[1]!)).toString());
}

test("host: drain: resolves when the connections are closed, a second drain with the first", async () => {
  const clock = new ManualClock();
  const service = echoService({ clock });
  const closed = Promise.withResolvers<void>();
  const graces: number[] = [];
  const drain = (graceMs: number): Promise<void> => {
    graces.push(graceMs);
    return closed.promise;
  };
  const transport = { serve: () => Promise.resolve({ address: "x:1", drain }), connect: () => assert.fail("unused") };
  const host = await startHost({ transport, address: "x:0", services: [service], clock, ...HOST });
  let drained = 0;
  for (let i = 0; i < 2; i += 1) void host.drain(1000).then(() => (drained += 1));
  await clock.settle();
  assert.deepEqual([graces, drained, service.state], [[1000], 0, "draining"]);
  closed.resolve();
  await clock.settle();
  assert.equal(drained, 2);
});
