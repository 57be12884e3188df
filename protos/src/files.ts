/**
 * The loaded contracts as google.protobuf.FileDescriptorProto for server reflection. protobufjs makes one file per package; strict
 * clients refuse it as it is, so it is mended here: names of types become absolute, entries of maps get the name they must have,
 * dependencies are filled in, and the well-known types go into the files that clients know them by.
 */
import type { MessageTypeDefinition, PackageDefinition, ServiceDefinition } from "@grpc/proto-loader";
import { decodeFile, encodeFile, type FieldDescriptor, type FileDescriptor, type MessageDescriptor } from "./descriptor-codec.ts";
import { resolveTypeName, type TypeDescriptor } from "./enum-checker.ts";

export interface ProtoFile {
  /** "concord_storage_v1.proto" */
  readonly name: string;
  /** "concord.storage.v1" */
  readonly packageName: string;
  /** Short names of its messages, enums and services. */
  readonly declared: ReadonlySet<string>;
  /** Encoded google.protobuf.FileDescriptorProto. */
  readonly bytes: Uint8Array;
  /** Names of files. */
  readonly dependencies: readonly string[];
}

/** What reflection and the enum checker look at. */
export interface LoadedTypes {
  /** Messages and enums by full name, nested ones too. */
  readonly types: ReadonlyMap<string, TypeDescriptor>;
  readonly services: ReadonlyMap<string, ServiceDefinition>;
  /** Encoded, as protobufjs made them. */
  readonly descriptors: readonly Uint8Array[];
}

/** Splits a package definition; proto-loader lists only the outermost types. */
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

/** The file that declares a message, enum, service or method; undefined when none does. */
export function fileOfSymbol(files: readonly ProtoFile[], symbol: string): ProtoFile | undefined {
  return files.find((file) => {
    const prefix = `${file.packageName}.`;
    return symbol.startsWith(prefix) && file.declared.has(symbol.slice(prefix.length).split(".")[0]!);
  });
}

export function descriptorFiles(loaded: LoadedTypes): ProtoFile[] {
  const mended = loaded.descriptors
    .map(decodeFile)
    .flatMap(splitWellKnown)
    .map((file) => mendFile(loaded, file));
  const bare = mended.map(({ file }) => protoFile(file, []));
  return mended.map(({ file, uses }) => {
    const needed = [...uses].map((type) => fileOfSymbol(bare, type)!.name).filter((name) => name !== file.name);
    return protoFile(file, [...new Set(needed)].toSorted());
  });
}

function protoFile(file: FileDescriptor, dependencies: readonly string[]): ProtoFile {
  const declared = [...(file.messageType ?? []), ...(file.enumType ?? []), ...(file.service ?? [])].map((one) => one.name);
  const bytes = encodeFile({ ...file, dependency: dependencies });
  return { name: file.name, packageName: file.package ?? "", declared: new Set(declared), bytes, dependencies };
}

const WELL_KNOWN_PACKAGE = "google.protobuf";

/** google.protobuf as one file -> google/protobuf/any.proto, google/protobuf/duration.proto, ... */
function splitWellKnown(file: FileDescriptor): FileDescriptor[] {
  if (file.package !== WELL_KNOWN_PACKAGE) return [file];
  return (file.messageType ?? []).map((message) => {
    const name = message.name.replace(/(?!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
    return { ...file, name: `google/protobuf/${name}.proto`, messageType: [message] };
  });
}

interface MendedFile {
  readonly file: FileDescriptor;
  /** Full names of the types it mentions. */
  readonly uses: ReadonlySet<string>;
}

function mendFile(loaded: LoadedTypes, file: FileDescriptor): MendedFile {
  const uses = new Set<string>();
  const absolute = (scope: string, name: string): string => {
    const fullName = resolveTypeName(loaded.types, scope, name);
    uses.add(fullName);
    return `.${fullName}`;
  };
  const packageName = file.package ?? "";
  const messageType = (file.messageType ?? []).map((message) => mendMessage(message, `${packageName}.${message.name}`, absolute));
  const service = (file.service ?? []).map((one) => ({
    ...one,
    method: one.method.map((method) => ({
      ...method,
      inputType: absolute(packageName, method.inputType),
      outputType: absolute(packageName, method.outputType),
    })),
  }));
  return { file: { ...file, messageType, service }, uses };
}

function mendMessage(message: MessageDescriptor, fullName: string, absolute: (scope: string, name: string) => string): MessageDescriptor {
  const entries = new Set((message.nestedType ?? []).filter((nested) => nested.options?.mapEntry === true).map((nested) => nested.name));
  const mendField = (field: FieldDescriptor): FieldDescriptor => {
    if (field.typeName === undefined || field.typeName === "") return field;
    const isMap = entries.has(field.typeName);
    return { ...field, typeName: isMap ? `.${fullName}.${entryName(field.name)}` : absolute(fullName, field.typeName) };
  };
  const entryNames = new Map((message.field ?? []).map((field) => [field.typeName, entryName(field.name)]));
  const nestedType = (message.nestedType ?? []).map((nested) => {
    const mended = mendMessage(nested, `${fullName}.${nested.name}`, absolute);
    return entries.has(nested.name) ? { ...mended, name: entryNames.get(nested.name)! } : mended;
  });
  return { ...message, field: (message.field ?? []).map(mendField), nestedType };
}

/** "field_name" -> "FieldNameEntry": what a map's entry must be called. */
function entryName(field: string): string {
  const words = field.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return `${words.join("")}Entry`;
}
