// A generated contract at run time: what its codecs give and take.
import assert from "node:assert/strict";
import { test } from "node:test";
import { contract as googleRpc } from "@concord/protos/google.rpc";
import { Health } from "@concord/protos/grpc.health.v1";
import { ServerReflection } from "@concord/protos/grpc.reflection.v1";
import { contract, EchoService, StreamService } from "./gen/index.ts";

test("service: its methods: paths, streaming sides and codecs with bigint, enum names and oneofs", () => {
  const { Check, Watch } = Health.methods;
  assert.equal(Check.path, "/grpc.health.v1.Health/Check");
  assert.deepEqual([Watch.requestStream, Watch.responseStream], [false, true]);
  assert.deepEqual(Check.decodeResponse(Check.encodeResponse({ status: "NOT_SERVING" })), { status: "NOT_SERVING" });
  const { ServerReflectionInfo } = ServerReflection.methods;
  const question = ServerReflectionInfo.decodeRequest(ServerReflectionInfo.encodeRequest({ listServices: "*" }));
  assert.deepEqual(question, { host: "", listServices: "*", messageRequest: "listServices" });
  const retry = googleRpc.message("RetryInfo");
  assert.deepEqual(retry.decode(retry.encode({ retryDelay: { seconds: 2n ** 60n, nanos: 5 } })), {
    retryDelay: { seconds: 2n ** 60n, nanos: 5 },
  });
});

test("service: a field left out: its default; a message left out: null; a oneof without a case: no property", () => {
  const { Echo } = EchoService.methods;
  const empty = { text: "", number: 0n, colour: "COLOUR_UNSPECIFIED", payload: Buffer.alloc(0) };
  assert.deepEqual(Echo.decodeRequest(Echo.encodeRequest({})), empty);
  const retry = googleRpc.message("RetryInfo");
  assert.deepEqual(retry.decode(retry.encode({})), { retryDelay: null });
  const { Consume } = StreamService.methods;
  assert.deepEqual(Consume.decodeRequest(Consume.encodeRequest({})), {});
});

test("service: asked for twice: the same methods; a name that is none: refused", () => {
  assert.equal(EchoService.methods, EchoService.methods);
  assert.throws(() => contract.service("NoService").methods, /no service concord.test.v1.NoService/);
  assert.throws(() => contract.message("NoMessage" as "EchoRequest"), /no message/);
  assert.throws(() => contract.enumNames("EchoRequest"), /no enum/);
  assert.deepEqual(contract.enumNames("Colour"), ["COLOUR_UNSPECIFIED", "COLOUR_RED"]);
});

test("enums: a number without a name: found at its path, also when nested and repeated", () => {
  const { Echo, Session } = EchoService.methods;
  const unknown = { colour: 77 } as object;
  assert.equal(Echo.unknownEnumIn(Echo.decodeRequest(Echo.encodeRequest({ colour: "COLOUR_RED" }))), undefined);
  assert.equal(Echo.unknownEnumIn(Echo.decodeRequest(Echo.encodeRequest(unknown))), "colour");
  const frame = Session.decodeRequest(Session.encodeRequest({ calls: [{ echo: {} }, { echo: unknown }] }));
  assert.equal(Session.unknownEnumIn(frame), "calls.echo.colour");
});

test("decoding: cut-off bytes: throw", () => {
  const { Echo } = EchoService.methods;
  assert.throws(() => Echo.decodeRequest(Uint8Array.from([0x22, 0x20, 0x01])));
});

test("files: a contract with those it imports: each after what it depends on, with what it declares", () => {
  const names = contract.files.map((file) => file.name);
  assert.deepEqual(names, [
    "google/protobuf/any.proto",
    "google/protobuf/duration.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
    "concord/test/v1/echo.proto",
  ]);
  for (const [at, file] of contract.files.entries()) {
    for (const dependency of file.dependencies) assert.ok(names.slice(0, at).includes(dependency), `${file.name} before ${dependency}`);
  }
  assert.ok(contract.files.at(-1)!.symbols.includes(EchoService.name));
});
