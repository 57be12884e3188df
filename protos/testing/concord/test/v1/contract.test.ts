// A generated contract at run time: what its codecs give and take.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageTooLarge } from "@concord/protos";
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

test("decoding: a oneof with two cases: the last counts and is alone", () => {
  const { Session } = EchoService.methods;
  const [first, second] = [{ calls: [{ echo: { text: "a" } }] }, { calls: [{ logAppend: { seq: 7n } }] }].map((frame) =>
    Session.encodeRequest(frame).subarray(2),
  );
  const both = Buffer.concat([Uint8Array.of(0x0a, first!.length + second!.length), first!, second!]);
  const call = { callId: 0n, timeoutMs: 0, traceparent: "", operation: "logAppend", logAppend: { seq: 7n } };
  assert.deepEqual(Session.decodeRequest(both), { calls: [call], credits: 0 });
});

test("decoding: a number, text or list that the end cuts off, or of more than ten bytes: throws", () => {
  const { Echo } = EchoService.methods;
  for (const bytes of [
    [0x10, 0x80],
    [0x10, 0x80, 0x80, 0x80, 0x80],
    [0x0a, 0x03, 0x61],
    [0x18, ...Array(10).fill(0x80), 0x01],
  ]) {
    assert.throws(() => Echo.decodeRequest(Uint8Array.from(bytes)), RangeError);
  }
});

test("decoding: unknown fields of every wire type: skipped; groups nested too deep: throws", () => {
  const { Echo } = EchoService.methods;
  const unknown = [0x78, 0xff, 0x01, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7a, 2, 0, 0, 0x7b, 0x08, 1, 0x7c, 0x7d, 1, 2, 3, 4];
  const bytes = Buffer.concat([Uint8Array.from(unknown), Echo.encodeRequest({ text: "known" })]);
  assert.equal(Echo.decodeRequest(bytes).text, "known");
  assert.throws(() => Echo.decodeRequest(Buffer.concat([Buffer.alloc(200, 0x7b), Buffer.alloc(200, 0x7c)])), /nest/);
});

test("encoding: a message below, at and above its limit: encoded, encoded, MessageTooLarge", () => {
  const { Echo } = EchoService.methods;
  for (const payload of [Buffer.alloc(100, 1), Buffer.alloc(200_000, 1)]) {
    const { length } = Echo.encodeRequest({ text: "a", payload });
    assert.equal(Echo.encodeRequest({ text: "a", payload }, length + 1).length, length);
    assert.equal(Echo.encodeRequest({ text: "a", payload }, length).length, length);
    assert.throws(() => Echo.encodeRequest({ text: "a", payload }, length - 1), MessageTooLarge);
  }
});

test("encoding: messages of all sizes in turn: none changes another", () => {
  const { Echo } = EchoService.methods;
  const sizes = [0, 10, 65_000, 3, 65_536, 70_000, 1, 30_000, 40_000, 1_000_000, 5];
  const encoded = sizes.map((size, at) => Echo.encodeRequest({ text: `message ${at}`, payload: Buffer.alloc(size, at) }));
  assert.throws(() => Echo.encodeRequest({ text: "half of it is written", payload: 7 as unknown as Uint8Array }), TypeError);
  for (const [at, bytes] of encoded.entries()) {
    const { text, payload } = Echo.decodeRequest(bytes);
    assert.deepEqual([text, payload], [`message ${at}`, Buffer.alloc(sizes[at]!, at)]);
  }
});

test("encoding: what is no such message: TypeError", () => {
  const { Echo, Session } = EchoService.methods;
  const wrong: object[] = [{ text: 5 }, { number: 5 }, { number: "5" }, { payload: "aGk=" }, { colour: "COLOUR_GREEN" }];
  for (const request of wrong) assert.throws(() => Echo.encodeRequest(request as never), TypeError, JSON.stringify(request));
  for (const frame of [{ calls: 7 }, { calls: [7] }, { calls: [null] }, { calls: [{ echo: "a" }] }]) {
    assert.throws(() => Session.encodeRequest(frame as never), TypeError, JSON.stringify(frame));
  }
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
