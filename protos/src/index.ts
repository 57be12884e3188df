/**
 * The contracts at run time. Loads every .proto below the given folders once and gives out methods and message codecs by full
 * name. Messages are plain objects: 64-bit integers are bigint, enums their names, bytes are Uint8Array, unset scalars their
 * defaults, unset messages null, and every oneof has a property that names the field which is set.
 *
 * The only importer of proto-loader.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { loadSync, type AnyDefinition, type MessageTypeDefinition, type PackageDefinition, type ServiceDefinition } from "@grpc/proto-loader";
import { enumChecker, resolveTypeName, type EnumChecker, type TypeDescriptor } from "./enum-checker.ts";

/** One method of a service. Structurally a `MethodDescriptor` of the runtime lib, with what servers need besides. */
export interface ServiceMethod {
  /** "/concord.storage.v1.RowsService/Read" */
  readonly path: string;
  /** "Read" */
  readonly name: string;
  /** "concord.storage.v1.RowsService" */
  readonly service: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  encodeRequest(message: object): Uint8Array;
  /** Throws on bytes that are not such a message. */
  decodeRequest(bytes: Uint8Array): object;
  encodeResponse(message: object): Uint8Array;
  decodeResponse(bytes: Uint8Array): object;
  /** The first enum field with a number this build has no name for; undefined when there is none. */
  unknownEnumIn(request: object): string | undefined;
}

export type ServiceMethods = Readonly<Record<string, ServiceMethod>>;

export interface MessageCodec {
  encode(message: object): Uint8Array;
  /** Throws on bytes that are not such a message. */
  decode(bytes: Uint8Array): object;
}

export interface ProtoSet {
  /** The methods of a service by name; throws when there is no such service. */
  service(fullName: string): ServiceMethods;
  /** The codec of a message by full name; throws when there is no such message. */
  message(fullName: string): MessageCodec;
  /** The names of an enum's values in order of their numbers; throws when there is no such enum. */
  enumNames(fullName: string): readonly string[];
  readonly serviceNames: readonly string[];
  /** One encoded google.protobuf.FileDescriptorProto per package, dependencies not filled in. */
  readonly fileDescriptors: readonly Uint8Array[];
}

const here = dirname(fileURLToPath(import.meta.url));

/** The folder with concord/, google/ and grpc/: above this file in the work tree, "protos" beside a bundle. */
export const PROTO_ROOT: string = existsSync(join(here, "protos")) ? join(here, "protos") : join(here, "..");

const PROTO_FOLDERS = ["concord", "google", "grpc"];

/** Every .proto below the given roots; later roots may import from earlier ones. */
export function loadProtoSet(roots: readonly string[]): ProtoSet {
  const files = roots.flatMap((root) => protoFiles(root).map((file) => relative(root, file)));
  const definitions = loadSync(files, {
    includeDirs: [...roots],
    keepCase: false,
    longs: BigInt as unknown as Function,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return protoSet(definitions);
}

let concord: ProtoSet | undefined;

/** The contracts of Concord and the vendored standard ones; parsed at the first call. */
export function concordProtos(): ProtoSet {
  concord ??= loadProtoSet([PROTO_ROOT]);
  return concord;
}

/** The methods of one of our services, such as "concord.storage.v1.RowsService"; throws when there is no such service. */
export function loadService(fullName: string): ServiceMethods {
  return concordProtos().service(fullName);
}

/** The codec of one of our messages, such as "google.rpc.Status"; throws when there is no such message. */
export function loadMessage(fullName: string): MessageCodec {
  return concordProtos().message(fullName);
}

function protoFiles(root: string): string[] {
  const folders = root === PROTO_ROOT ? PROTO_FOLDERS.map((folder) => join(root, folder)) : [root];
  return folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith(".proto"))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

function protoSet(definitions: PackageDefinition): ProtoSet {
  const types = typesByName(definitions);
  const check = enumChecker(types);
  const services = new Map<string, ServiceMethods>();
  return {
    service(fullName) {
      let methods = services.get(fullName);
      if (methods === undefined) {
        const checker = (shortName: string): EnumChecker => check(resolveTypeName(types, fullName, shortName));
        methods = serviceMethods(fullName, requireService(definitions, fullName), checker);
        services.set(fullName, methods);
      }
      return methods;
    },
    message(fullName) {
      const type = definitions[fullName];
      if (type === undefined || !isMessage(type)) throw new Error(`no message ${fullName} in the loaded .proto files`);
      return { encode: (message) => type.serialize(message), decode: (bytes) => type.deserialize(asBuffer(bytes)) };
    },
    enumNames(fullName) {
      const values = types.get(fullName)?.value;
      if (values === undefined) throw new Error(`no enum ${fullName} in the loaded .proto files`);
      return values.toSorted((a, b) => a.number - b.number).map((value) => value.name);
    },
    serviceNames: Object.keys(definitions).filter((name) => isService(definitions[name]!)),
    fileDescriptors: fileDescriptorsOf(definitions),
  };
}

function serviceMethods(service: string, definition: ServiceDefinition, checker: (shortName: string) => EnumChecker): ServiceMethods {
  const entries = Object.entries(definition).map(([name, method]): [string, ServiceMethod] => {
    const unknownEnumIn = checker((method.requestType.type as TypeDescriptor).name);
    return [
      name,
      {
        path: method.path,
        name,
        service,
        requestStream: method.requestStream,
        responseStream: method.responseStream,
        encodeRequest: method.requestSerialize,
        decodeRequest: (bytes) => method.requestDeserialize(asBuffer(bytes)),
        encodeResponse: method.responseSerialize,
        decodeResponse: (bytes) => method.responseDeserialize(asBuffer(bytes)),
        unknownEnumIn,
      },
    ];
  });
  return Object.fromEntries(entries);
}

function requireService(definitions: PackageDefinition, fullName: string): ServiceDefinition {
  const definition = definitions[fullName];
  if (definition === undefined || !isService(definition)) throw new Error(`no service ${fullName} in the loaded .proto files`);
  return definition;
}

/** Messages and enums by full name, nested ones too (proto-loader lists only the outermost). */
function typesByName(definitions: PackageDefinition): Map<string, TypeDescriptor> {
  const types = new Map<string, TypeDescriptor>();
  const add = (fullName: string, type: TypeDescriptor): void => {
    types.set(fullName, type);
    for (const nested of [...(type.nestedType ?? []), ...(type.enumType ?? [])]) add(`${fullName}.${nested.name}`, nested);
  };
  for (const [fullName, definition] of Object.entries(definitions)) {
    if (!isService(definition)) add(fullName, (definition as { type: object }).type as TypeDescriptor);
  }
  return types;
}

function fileDescriptorsOf(definitions: PackageDefinition): readonly Uint8Array[] {
  const message = Object.values(definitions).find(isMessage);
  return message === undefined ? [] : message.fileDescriptorProtos;
}

function isService(definition: AnyDefinition): definition is ServiceDefinition {
  return !("format" in definition && typeof definition.format === "string");
}

function isMessage(definition: AnyDefinition): definition is MessageTypeDefinition<object, object> {
  return "format" in definition && definition.format === "Protocol Buffer 3 DescriptorProto";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
