// Every generated codec beside proto-loader, which reads the .proto files as any other program does: seeded random messages give the same
// bytes and are decoded alike, and what is cut off or has a flipped bit is refused by both or decoded alike by both.
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import type { AnyContract, MessageCodec } from "@concord/protos";
import { generatedFiles, LOADED_PACKAGES } from "./generate.ts";
import { buildImage, mapEntry, type FieldJson, type FileJson, type MessageJson } from "./image.ts";
import { contractProjects, PROTOS_FOLDER } from "./proto-files.ts";

const ROOT = join(import.meta.dirname, "../..");
const PROTOS = join(ROOT, PROTOS_FOLDER);
const MESSAGES_EACH = 8;
const DAMAGED_EACH = 24;
const DEPTH_MAX = 6;

const image = buildImage(PROTOS);
const files = image.map(({ json }) => json).filter((file) => !LOADED_PACKAGES.has(file.package));
const definitions = loadSync(
  globSync("{concord,google,grpc,testing/concord}/**/*.proto", { cwd: PROTOS }).map((file) => file.replace(/^testing\//, "")),
  {
    includeDirs: [PROTOS, join(PROTOS, "testing")],
    longs: BigInt as unknown as Function,
    enums: String,
    defaults: true,
    oneofs: true,
  },
);
const codecs = await generatedCodecs();

interface Subject {
  readonly name: string;
  readonly json: MessageJson;
  readonly ours: MessageCodec;
  /** Undefined for a message inside another one, with which it is tested. */
  readonly theirs: MessageTypeDefinition<object, object> | undefined;
}

/** The codec of every message by its full name. */
async function generatedCodecs(): Promise<ReadonlyMap<string, MessageCodec>> {
  const found = new Map<string, MessageCodec>();
  for (const path of generatedFiles(image, contractProjects(ROOT)).keys()) {
    if (/\.(files|codecs)\.ts$/.test(path) || [...LOADED_PACKAGES].some((name) => path.endsWith(`/${name}.ts`))) continue;
    const { contract } = (await import(join(ROOT, path))) as { contract: AnyContract & { message(name: string): MessageCodec } };
    const { MESSAGES } = (await import(join(ROOT, path.replace(/\.ts$/, ".codecs.ts")))) as { MESSAGES: Record<string, object> };
    for (const name of Object.keys(MESSAGES)) found.set(`${contract.packageName}.${name.replaceAll("_", ".")}`, contract.message(name));
  }
  return found;
}

function subjectsOf(json: MessageJson, outer: string): Subject[] {
  if (json.options?.mapEntry === true) return [];
  const name = `${outer}.${json.name}`;
  const theirs = definitions[name] as MessageTypeDefinition<object, object> | undefined;
  const nested = (json.nestedType ?? []).flatMap((one) => subjectsOf(one, name));
  return [{ name, json, ours: codecs.get(name)!, theirs }, ...nested];
}

const subjects = files.flatMap((file: FileJson) => (file.messageType ?? []).flatMap((one) => subjectsOf(one, file.package)));
const outermost = subjects.filter(({ theirs }) => theirs !== undefined);
const byName = new Map(subjects.map((subject) => [`.${subject.name}`, subject]));
const enums = new Map(
  files.flatMap((file) => {
    const within = (json: MessageJson, outer: string): [string, readonly string[]][] => [
      ...(json.enumType ?? []).map((one): [string, string[]] => [`${outer}.${json.name}.${one.name}`, one.value.map(({ name }) => name)]),
      ...(json.nestedType ?? []).flatMap((one) => within(one, `${outer}.${json.name}`)),
    ];
    const own = (file.enumType ?? []).map((one): [string, string[]] => [`.${file.package}.${one.name}`, one.value.map(({ name }) => name)]);
    return [...own, ...(file.messageType ?? []).flatMap((one) => within(one, `.${file.package}`))];
  }),
);

type Draw = (below: number) => number;

/** mulberry32 */
function drawer(seed: number): Draw {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const one = <Value>(draw: Draw, values: readonly Value[]): Value => values[draw(values.length)]!;
const TEXTS = ["", "a", "albums", "owner-17", "Größe", "鳥", "👍🏽 yes", "x".repeat(70), "ä".repeat(80), "n".repeat(300), "__proto__"];
const SIGNED = [0n, 1n, -1n, 63n, 64n, -65n, 2n ** 27n, 2n ** 28n, 2n ** 31n, -(2n ** 31n), 2n ** 52n, -(2n ** 52n), 2n ** 53n - 1n];
const WIDE = [...SIGNED, 2n ** 53n, -(2n ** 53n), 2n ** 55n, 2n ** 56n, 2n ** 62n, 2n ** 63n - 1n, -(2n ** 63n)];
const NUMBERS = [0, 1, 127, 128, 16_383, 16_384, 2 ** 21, 2 ** 28 - 1, 2 ** 28, 2 ** 31 - 1];

const SCALARS: Readonly<Record<string, (draw: Draw) => unknown>> = {
  TYPE_DOUBLE: (draw) => one(draw, [0, -0, 1.5, -1e300, Infinity, NaN]),
  TYPE_INT32: (draw) => one(draw, [...NUMBERS, -1, -(2 ** 31)]),
  TYPE_SINT32: (draw) => one(draw, [...NUMBERS, -1, -64, -65, -(2 ** 31)]),
  TYPE_UINT32: (draw) => one(draw, [...NUMBERS, 2 ** 32 - 1]),
  TYPE_INT64: (draw) => one(draw, WIDE),
  TYPE_SINT64: (draw) => one(draw, WIDE),
  TYPE_UINT64: (draw) => one(draw, [...WIDE.filter((value) => value >= 0n), 2n ** 64n - 1n]),
  TYPE_FIXED64: (draw) => one(draw, [...WIDE.filter((value) => value >= 0n), 2n ** 64n - 1n]),
  TYPE_BOOL: (draw) => draw(2) === 1,
  TYPE_STRING: (draw) => one(draw, TEXTS),
  TYPE_BYTES: (draw) => Buffer.from(Array.from({ length: one(draw, [0, 1, 16, 200]) }, () => draw(256))),
};

function randomMessage(draw: Draw, json: MessageJson, depth: number): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  const cases = (json.oneofDecl ?? []).map((_, at) => (json.field ?? []).filter((field) => field.oneofIndex === at));
  const chosen = new Set(cases.map((fields) => one(draw, fields)));
  for (const field of json.field ?? []) {
    if (draw(4) === 0 || (field.oneofIndex !== undefined && !chosen.has(field))) continue;
    if (field.type === "TYPE_MESSAGE" && depth === DEPTH_MAX) continue;
    message[field.jsonName] = randomField(draw, json, field, depth);
  }
  return message;
}

function randomField(draw: Draw, json: MessageJson, field: FieldJson, depth: number): unknown {
  const entry = mapEntry(json, field);
  if (entry !== undefined)
    return mapOf(Array.from({ length: draw(4) }, () => [one(draw, TEXTS), randomValue(draw, entry.field![1]!, depth)]));
  if (field.label !== "LABEL_REPEATED") return randomValue(draw, field, depth);
  return Array.from({ length: draw(4) }, () => randomValue(draw, field, depth));
}

/** Also `__proto__` is an entry. */
function mapOf(entries: readonly (readonly [string, unknown])[]): object {
  return Object.fromEntries(entries);
}

function randomValue(draw: Draw, field: FieldJson, depth: number): unknown {
  if (field.type === "TYPE_ENUM") return one(draw, enums.get(field.typeName!)!);
  if (field.type !== "TYPE_MESSAGE") return SCALARS[field.type]!(draw);
  return randomMessage(draw, byName.get(field.typeName!)!.json, depth + 1);
}

interface ProtobufReader {
  buf: Buffer;
  pos: number;
  len: number;
  [method: string]: unknown;
}

const { BufferReader } = createRequire(createRequire(import.meta.url).resolve("@grpc/proto-loader"))("protobufjs") as {
  BufferReader: new (bytes: Buffer) => ProtobufReader;
};

/**
 * protobufjs's reader, where it does not follow the format: it takes a varint that the end cuts off and a text that goes past it, and
 * skips ten bytes for a 32-bit varint of six to nine.
 */
function exactReader(bytes: Buffer): Buffer {
  const reader = new BufferReader(bytes);
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (reader.pos >= reader.len) throw new RangeError("cut off");
      const byte = reader.buf[reader.pos]!;
      reader.pos += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new RangeError("more than ten bytes");
  };
  const long = (value: bigint): object => ({ low: Number(BigInt.asIntN(32, value)), high: Number(BigInt.asIntN(32, value >> 32n)) });
  const skip = reader["skip"] as (length: number) => unknown;
  return Object.assign(reader, {
    uint32: () => Number(BigInt.asUintN(32, varint())),
    int32: () => Number(BigInt.asIntN(32, varint())),
    sint32: () => {
      const value = Number(BigInt.asUintN(32, varint()));
      return (value >>> 1) ^ -(value & 1);
    },
    bool: () => varint() !== 0n,
    uint64: () => long(varint()),
    int64: () => long(varint()),
    sint64: () => {
      const value = varint();
      return long((value >> 1n) ^ -(value & 1n));
    },
    string: () => {
      const length = Number(BigInt.asUintN(32, varint()));
      if (reader.pos + length > reader.len) throw new RangeError("cut off");
      reader.pos += length;
      return reader.buf.toString("utf8", reader.pos - length, reader.pos);
    },
    skip: (length?: number) => (length === undefined ? varint() : skip.call(reader, length)),
  }) as unknown as Buffer;
}

/** proto-loader has a google.protobuf.Any of its own, whose field is called as in the .proto file. */
const ANY_FIELD = { ours: "typeUrl", theirs: "type_url" };

function encodedByLoader({ theirs }: Subject, message: object): Buffer {
  const renamed = (value: unknown): unknown => mapped(value, (name) => (name === ANY_FIELD.ours ? ANY_FIELD.theirs : name));
  return theirs!.serialize(renamed(message) as object);
}

/** What proto-loader decodes, without the properties it makes up for optional fields. Undefined: it refuses the bytes. */
function decodedByLoader({ theirs }: Subject, bytes: Buffer): object | undefined {
  try {
    return mapped(theirs!.deserialize(exactReader(bytes)), ourName) as object;
  } catch {
    return undefined;
  }
}

function ourName(name: string, inner: unknown): string | undefined {
  if (name === `_${String(inner)}`) return undefined;
  return name === ANY_FIELD.theirs ? ANY_FIELD.ours : name;
}

/** A message with its properties renamed, inner ones too; those without a new name are left out. */
function mapped(value: unknown, nameOf: (name: string, inner: unknown) => string | undefined): unknown {
  if (Array.isArray(value)) return value.map((one) => mapped(one, nameOf));
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => {
      const renamed = nameOf(name, inner);
      return renamed === undefined ? [] : [[renamed, mapped(inner, nameOf)]];
    }),
  );
}

function decodedByUs({ ours }: Subject, bytes: Buffer): object | undefined {
  try {
    return ours.decode(bytes);
  } catch (thrown) {
    assert.ok(thrown instanceof RangeError, String(thrown));
    return undefined;
  }
}

/** Where bytes hold two cases of a oneof the format says that the last counts; proto-loader gives both. */
function hasTwoCases(json: MessageJson, message: object): boolean {
  const record = message as Record<string, unknown>;
  const isTwice = (json.oneofDecl ?? []).some(
    (_, at) => (json.field ?? []).filter((field) => field.oneofIndex === at && record[field.jsonName] !== undefined).length > 1,
  );
  return (
    isTwice ||
    (json.field ?? []).some((field) => innerOf(json, field, record).some((inner) => hasTwoCases(byName.get(field.typeName!)!.json, inner)))
  );
}

function innerOf(json: MessageJson, field: FieldJson, record: Record<string, unknown>): object[] {
  if (field.type !== "TYPE_MESSAGE" || mapEntry(json, field) !== undefined) return [];
  return [record[field.jsonName]].flat().filter((inner) => typeof inner === "object" && inner !== null);
}

const holdsMapOfMessages = ({ json }: Subject): boolean =>
  (json.field ?? []).some((field) => mapEntry(json, field)?.field![1]!.type === "TYPE_MESSAGE");

function damaged(draw: Draw, bytes: Buffer): Buffer {
  if (draw(3) === 0) return bytes.subarray(0, draw(bytes.length));
  const copy = Buffer.from(bytes);
  const at = draw(bytes.length);
  copy[at]! ^= 1 << draw(8);
  return copy;
}

test("codecs: every message of the contracts: one of ours and one of proto-loader's", () => {
  assert.ok(outermost.length > 200);
  assert.deepEqual([...codecs.keys()].toSorted(), subjects.map(({ name }) => name).toSorted());
});

test("codecs: random messages: the bytes of proto-loader, and decoded alike", () => {
  for (const [at, subject] of outermost.entries()) {
    for (let round = 0; round < MESSAGES_EACH; round += 1) {
      const message = randomMessage(drawer(at * 1000 + round), subject.json, 0);
      const bytes = Buffer.from(subject.ours.encode(message));
      assert.equal(bytes.toString("hex"), encodedByLoader(subject, message).toString("hex"), subject.name);
      assert.deepEqual(subject.ours.decode(bytes), decodedByLoader(subject, bytes), subject.name);
    }
  }
});

test("codecs: bytes cut off or with a flipped bit: refused by both, or decoded alike", () => {
  const seen = { refused: 0, accepted: 0 };
  for (const [at, subject] of outermost.entries()) {
    for (let round = 0; round < MESSAGES_EACH; round += 1) {
      const draw = drawer(at * 1000 + round);
      const bytes = Buffer.from(subject.ours.encode(randomMessage(draw, subject.json, 0)));
      for (let turn = 0; turn < DAMAGED_EACH && bytes.length > 0; turn += 1) {
        const broken = damaged(draw, bytes);
        const [ours, theirs] = [decodedByUs(subject, broken), decodedByLoader(subject, broken)];
        seen[ours === undefined ? "refused" : "accepted"] += 1;
        if (theirs !== undefined && hasTwoCases(subject.json, theirs)) assert.ok(ours !== undefined);
        // An entry without a value is an empty message by the format; proto-loader fails on it.
        else if (!(theirs === undefined && holdsMapOfMessages(subject)))
          assert.deepEqual(ours, theirs, `${subject.name} ${broken.toString("hex")}`);
      }
    }
  }
  assert.ok(seen.refused > 1000 && seen.accepted > 1000, JSON.stringify(seen));
});
