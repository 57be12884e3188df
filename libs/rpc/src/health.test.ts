import assert from "node:assert/strict";
import { test } from "node:test";
import { concordProtos, loadService } from "@concord/protos";
import { silentLog, type MessageStream } from "@concord/runtime";
import { startHost, type ServiceHost } from "./host.ts";
import { MemoryTransport } from "./memory-transport.ts";
import type { Service } from "./service.ts";
import { ECHO, echoService, failureOf, ManualClock } from "./test/echo.ts";

const { Check, List, Watch } = loadService("grpc.health.v1.Health");

interface World {
  readonly clock: ManualClock;
  readonly service: Service;
  readonly host: ServiceHost;
  ask(method: typeof Check, request: object): Promise<object>;
  open(method: typeof Check): { readonly stream: MessageStream; readonly received: object[]; readonly ends: (Error | undefined)[] };
}

async function world(): Promise<World> {
  const clock = new ManualClock();
  const service = echoService({ clock });
  const transport = new MemoryTransport({ clock });
  const host = await startHost({ transport, address: "h:0", services: [service], clock, log: silentLog });
  const channel = transport.connect(host.address);
  return {
    clock,
    service,
    host,
    ask: async (method, request) => {
      const answer = channel.unary(method!, request, { timeoutMs: 1000 });
      answer.catch(() => undefined);
      await clock.settle();
      return answer;
    },
    open: (method) => {
      const opened = { stream: channel.stream(method!, {}), received: [] as object[], ends: [] as (Error | undefined)[] };
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
  assert.equal((await failureOf(ask(Check, { service: "nobody" }))).code, "NOT_FOUND");
});

test("health: watch: the status now and after each change, until drain ends the stream", async () => {
  const { clock, open, service, host } = await world();
  const watch = open(Watch);
  watch.stream.send({ service: ECHO });
  const unknown = open(Watch);
  unknown.stream.send({ service: "nobody" });
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
  for (const version of ["v1", "v1alpha"]) {
    const { stream, received, ends } = open(loadService(`grpc.reflection.${version}.ServerReflection`)["ServerReflectionInfo"]);
    stream.send({ listServices: "*" });
    stream.send({ fileContainingSymbol: "concord.storage.v1.RowsService" });
    stream.send({ fileByFilename: "google_rpc.proto" });
    stream.send({ fileContainingSymbol: "nowhere.Thing" });
    stream.send({ allExtensionNumbersOfType: "x" });
    stream.end();
    await clock.settle();
    const [list, symbol, byName, missing, extension] = received as Record<string, unknown>[];
    const names = (list!["listServicesResponse"] as { service: { name: string }[] }).service.map((one) => one.name);
    assert.deepEqual(names, [
      ECHO,
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
    ]);
    const files = (symbol!["fileDescriptorResponse"] as { fileDescriptorProto: Uint8Array[] }).fileDescriptorProto;
    const nameOf = (bytes: Uint8Array): string =>
      concordProtos()
        .files()
        .find((file) => Buffer.from(file.bytes).equals(bytes))!.name;
    const wellKnown = ["google/protobuf/any.proto", "google/protobuf/duration.proto"];
    assert.deepEqual(files.map(nameOf), ["concord_storage_v1.proto", "concord_common_v1.proto", "google_rpc.proto", ...wellKnown]);
    assert.equal((byName!["fileDescriptorResponse"] as { fileDescriptorProto: Uint8Array[] }).fileDescriptorProto.length, 3);
    assert.equal((missing!["errorResponse"] as { errorCode: number }).errorCode, 5);
    assert.equal((extension!["errorResponse"] as { errorCode: number }).errorCode, 12);
    assert.deepEqual(ends, [undefined]);
  }
});

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
  const host = await startHost({ transport, address: "x:0", services: [service], clock, log: silentLog });
  let drained = 0;
  for (let i = 0; i < 2; i += 1) void host.drain(1000).then(() => (drained += 1));
  await clock.settle();
  assert.deepEqual([graces, drained, service.state], [[1000], 0, "draining"]);
  closed.resolve();
  await clock.settle();
  assert.equal(drained, 2);
});
