import assert from "node:assert/strict";
import { test } from "node:test";
import { loadFileDescriptorSetFromBuffer } from "@grpc/proto-loader";
import { concordProtos, fileOfSymbol, loadMessage, loadService } from "./index.ts";

test("service: its methods: paths, streaming sides and codecs with bigint, enum names and oneofs", () => {
  const { Check, Watch } = loadService("grpc.health.v1.Health");
  assert.equal(Check!.path, "/grpc.health.v1.Health/Check");
  assert.deepEqual([Watch!.requestStream, Watch!.responseStream], [false, true]);
  assert.deepEqual(Check!.decodeResponse(Check!.encodeResponse({ status: "NOT_SERVING" })), { status: "NOT_SERVING" });
  const { ServerReflectionInfo } = loadService("grpc.reflection.v1.ServerReflection");
  const question = ServerReflectionInfo!.decodeRequest(ServerReflectionInfo!.encodeRequest({ listServices: "*" }));
  assert.deepEqual(question, { host: "", listServices: "*", messageRequest: "listServices" });
  const duration = loadMessage("google.rpc.RetryInfo");
  assert.deepEqual(duration.decode(duration.encode({ retryDelay: { seconds: 2n ** 60n, nanos: 5 } })), {
    retryDelay: { seconds: 2n ** 60n, nanos: 5 },
  });
});

test("service: every service of the contracts: loads, and equal calls give the same object", () => {
  const protos = concordProtos();
  assert.ok(protos.serviceNames.includes("concord.storage.v1.RowsService"));
  for (const name of protos.serviceNames) assert.equal(protos.service(name), protos.service(name));
  assert.throws(() => protos.service("concord.storage.v1.NoService"), /no service/);
  assert.throws(() => protos.message("concord.storage.v1.NoMessage"), /no message/);
  assert.throws(() => protos.enumNames("concord.storage.v1.RowsService"), /no enum/);
});

test("enums: a number without a name: found at its path, also when nested and repeated", () => {
  const { Read } = loadService("concord.storage.v1.RowsService");
  const known = Read!.decodeRequest(Read!.encodeRequest({ mode: 1 }));
  assert.equal(Read!.unknownEnumIn(known), undefined);
  const unknown = Read!.decodeRequest(Read!.encodeRequest({ mode: 77 }));
  assert.equal(Read!.unknownEnumIn(unknown), "mode");
  const { Session } = loadService("concord.storage.v1.RowsService");
  const frame = Session!.decodeRequest(Session!.encodeRequest({ calls: [{ read: {} }, { read: { mode: 77 } }] }));
  assert.equal(Session!.unknownEnumIn(frame), "calls.read.mode");
});

test("decoding: cut-off bytes: throw", () => {
  const { Read } = loadService("concord.storage.v1.RowsService");
  assert.throws(() => Read!.decodeRequest(Uint8Array.from([0x0a, 0x20, 0x01])));
});

test("files: all of them together: a complete descriptor set in snake_case with every dependency named", () => {
  const files = concordProtos().files();
  const set = Buffer.concat(files.map((file) => Buffer.concat([Buffer.from([0x0a]), varint(file.bytes.length), file.bytes])));
  const definitions = loadFileDescriptorSetFromBuffer(set, { keepCase: true });
  for (const name of concordProtos().serviceNames) assert.ok(name in definitions, name);
  const call = definitions["concord.storage.v1.RowsServiceCall"] as unknown as { type: { field: { name: string }[] } };
  assert.ok(call.type.field.some((field) => field.name === "call_id"));
  const storage = fileOfSymbol(files, "concord.storage.v1.RowsService.Read")!;
  assert.equal(storage.packageName, "concord.storage.v1");
  assert.deepEqual(storage.dependencies, ["concord_common_v1.proto", "google_rpc.proto"]);
  assert.deepEqual(fileOfSymbol(files, "google.rpc.Status")!.dependencies, ["google/protobuf/any.proto", "google/protobuf/duration.proto"]);
  assert.equal(fileOfSymbol(files, "concord.storage.v1.NoSuchService"), undefined);
  assert.equal(fileOfSymbol(files, "nowhere.Thing"), undefined);
});

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 127) | 128);
  }
}
