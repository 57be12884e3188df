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
import { loadSync, type MessageTypeDefinition, type PackageDefinition, type ServiceDefinition } from "@grpc/proto-loader";
import { enumChecker, resolveTypeName, type EnumChecker, type TypeDescriptor } from "./enum-checker.ts";
import { descriptorFiles, fileOfSymbol, loadedTypes, type ProtoFile } from "./files.ts";

export { fileOfSymbol, type ProtoFile };

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
  /** The contracts themselves, one file per package, for server reflection. Parsed again at the first call (names in snake_case). */
  files(): readonly ProtoFile[];
}

const here = dirname(fileURLToPath(import.meta.url));

/** The folder with concord/, google/ and grpc/: above this file in the work tree, "protos" beside a bundle. */
export const PROTO_ROOT: string = existsSync(join(here, "protos")) ? join(here, "protos") : join(here, "..");

const PROTO_FOLDERS = ["concord", "google", "grpc"];

/** Every .proto below the given roots; later roots may import from earlier ones. */
export function loadProtoSet(roots: readonly string[]): ProtoSet {
  const paths = roots.flatMap((root) => protoPaths(root).map((file) => relative(root, file)));
  const includeDirs = [...roots];
  const longs = BigInt as unknown as Function;
  const definitions = loadSync(paths, { includeDirs, keepCase: false, longs, enums: String, defaults: true, oneofs: true });
  return protoSet(definitions, () => descriptorFiles(loadedTypes(loadSync(paths, { includeDirs, keepCase: true }))));
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

function protoPaths(root: string): string[] {
  const folders = root === PROTO_ROOT ? PROTO_FOLDERS.map((folder) => join(root, folder)) : [root];
  return folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)))
    .filter((path) => path.endsWith(".proto"))
    .sort();
}

function protoSet(definitions: PackageDefinition, readFiles: () => readonly ProtoFile[]): ProtoSet {
  const { types, services } = loadedTypes(definitions);
  const check = enumChecker(types);
  const methods = new Map<string, ServiceMethods>();
  let files: readonly ProtoFile[] | undefined;
  return {
    service(fullName) {
      const definition = services.get(fullName);
      if (definition === undefined) throw new Error(`no service ${fullName} in the loaded .proto files`);
      const checker = (shortName: string): EnumChecker => check(resolveTypeName(types, fullName, shortName));
      const known = methods.get(fullName) ?? serviceMethods(fullName, definition, checker);
      methods.set(fullName, known);
      return known;
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
    serviceNames: [...services.keys()],
    files: () => (files ??= readFiles()),
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

function isMessage(definition: PackageDefinition[string]): definition is MessageTypeDefinition<object, object> {
  return "format" in definition && definition.format === "Protocol Buffer 3 DescriptorProto";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
