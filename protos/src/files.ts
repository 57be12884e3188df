/**
 * The loaded contracts as google.protobuf.FileDescriptorProto, one per package, for server reflection. protobufjs leaves out which
 * files a file depends on; that is filled in here from the types its fields and methods name.
 */
import type { MessageTypeDefinition, PackageDefinition, ServiceDefinition } from "@grpc/proto-loader";
import { resolveTypeName, type TypeDescriptor } from "./enum-checker.ts";

export interface ProtoFile {
  /** "concord_storage_v1.proto" */
  readonly name: string;
  /** "concord.storage.v1" */
  readonly packageName: string;
  /** Encoded google.protobuf.FileDescriptorProto. */
  readonly bytes: Uint8Array;
  /** Names of files. */
  readonly dependencies: readonly string[];
}

/** Everything needed of a loaded package definition; `types` as in the enum checker. */
export interface LoadedTypes {
  readonly types: ReadonlyMap<string, TypeDescriptor>;
  readonly services: ReadonlyMap<string, ServiceDefinition>;
  readonly descriptors: readonly Uint8Array[];
}

export function protoFiles(loaded: LoadedTypes): ProtoFile[] {
  const packages = loaded.descriptors.map((bytes) => ({ bytes, name: stringAt(bytes, 0x0a), packageName: stringAt(bytes, 0x12) }));
  const fileOf = new Map(packages.map((one) => [one.packageName, one.name]));
  const packageOf = (fullName: string): string =>
    packages
      .map((one) => one.packageName)
      .filter((name) => fullName.startsWith(`${name}.`))
      .toSorted((a, b) => b.length - a.length)[0] ?? "";
  const dependencies = new Map<string, Set<string>>(packages.map((one) => [one.packageName, new Set()]));
  for (const [scope, target] of references(loaded)) {
    const from = packageOf(scope);
    const to = packageOf(resolveTypeName(loaded.types, scope, target));
    if (from !== to) dependencies.get(from)!.add(fileOf.get(to)!);
  }
  return packages.map(({ bytes, name, packageName }) => {
    const needed = [...dependencies.get(packageName)!].toSorted();
    return { name, packageName, dependencies: needed, bytes: Buffer.concat([bytes, ...needed.map(dependencyField)]) };
  });
}

/** The file that declares a message, enum, service or method; undefined when none does. */
export function fileOfSymbol(files: readonly ProtoFile[], symbol: string): ProtoFile | undefined {
  return files
    .filter((file) => symbol.startsWith(`${file.packageName}.`))
    .toSorted((a, b) => b.packageName.length - a.packageName.length)[0];
}

/** Every use of a type: the full name of the user and the name it uses. */
function* references(loaded: LoadedTypes): Generator<readonly [scope: string, target: string]> {
  for (const [scope, type] of loaded.types) {
    for (const field of type.field ?? []) if (field.typeName !== "") yield [scope, field.typeName];
  }
  for (const [scope, service] of loaded.services) {
    for (const method of Object.values(service)) {
      yield [scope, nameOf(method.requestType)];
      yield [scope, nameOf(method.responseType)];
    }
  }
}

function nameOf(type: MessageTypeDefinition<object, object>): string {
  return (type.type as TypeDescriptor).name;
}

/** Splits a package definition into what reflection and the enum checker look at. */
export function loadedTypes(definitions: PackageDefinition): LoadedTypes {
  const types = new Map<string, TypeDescriptor>();
  const services = new Map<string, ServiceDefinition>();
  let descriptors: readonly Uint8Array[] = [];
  const add = (fullName: string, type: TypeDescriptor): void => {
    types.set(fullName, type);
    for (const nested of [...(type.nestedType ?? []), ...(type.enumType ?? [])]) add(`${fullName}.${nested.name}`, nested);
  };
  for (const [fullName, definition] of Object.entries(definitions)) {
    if ("format" in definition && typeof definition.format === "string") {
      const { type, fileDescriptorProtos } = definition as MessageTypeDefinition<object, object>;
      add(fullName, type as TypeDescriptor);
      descriptors = fileDescriptorProtos;
    } else {
      services.set(fullName, definition as ServiceDefinition);
    }
  }
  return { types, services, descriptors };
}

/** The first string field with this one-byte tag among the leading fields of a message (name and package come first). */
function stringAt(bytes: Uint8Array, tag: number): string {
  let at = 0;
  while (bytes[at] !== tag) {
    at += 2 + bytes[at + 1]!;
    if (at >= bytes.length) return "";
  }
  const length = bytes[at + 1]!;
  if (length > 127) throw new Error("a file or package name of a .proto is longer than 127 bytes");
  return Buffer.from(bytes.subarray(at + 2, at + 2 + length)).toString("utf8");
}

/** Appended to an encoded FileDescriptorProto: one more value of its repeated field 3. */
function dependencyField(name: string): Uint8Array {
  const text = Buffer.from(name, "utf8");
  return Buffer.concat([Buffer.from([0x1a, text.length]), text]);
}
