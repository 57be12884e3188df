/**
 * The contracts at run time, one per proto package, from what the `generate` target wrote about it. Messages are plain objects: 64-bit
 * integers are bigint, enums their names, bytes `Uint8Array`, unset scalars their defaults, unset messages null, and every oneof has
 * a property that names the case which is set.
 *
 * The only importer of proto-loader.
 */
import {
  fromJSON,
  type MessageTypeDefinition,
  type MethodDefinition,
  type PackageDefinition,
  type ServiceDefinition,
} from "@grpc/proto-loader";
import { enumChecker, type EnumChecker, type TypeDefinition } from "./enum-checker.ts";
import type { MessageCodec, MessageTypes, Method, Methods } from "./types.ts";

/** One .proto file, as buf compiled it. */
export interface ContractFile {
  /** "concord/dedup/v1/ingest.proto" */
  readonly name: string;
  readonly dependencies: readonly string[];
  /** Full names of its outermost messages and enums and of its services. */
  readonly symbols: readonly string[];
  /** The google.protobuf.FileDescriptorProto with comments and json_name, in base64. */
  readonly encoded: string;
  /** The package's name. */
  readonly package: string;
  /** Its outermost messages, enums and services by name, in protobufjs's JSON form; fields are called as the code calls them. */
  readonly definitions: Readonly<Record<string, Definition>>;
}

type Definition = TypeDefinition & { readonly methods?: Readonly<Record<string, { readonly requestType: string }>> };

/** A contract, whatever its messages. */
export type AnyContract = Pick<Contract, "packageName" | "files" | "enumNames" | "service">;

/** A service of a contract. Its methods are made when they are first asked for. */
export interface ServiceContract<M extends object = Methods> {
  /** "concord.storage.v1.RowsService" */
  readonly name: string;
  readonly contract: AnyContract;
  readonly methods: M;
}

export interface Contract<Messages extends object = Readonly<Record<string, MessageTypes>>> {
  /** "concord.storage.v1" */
  readonly packageName: string;
  /** Its own files, and those of the contracts it imports, imported ones first. */
  readonly files: readonly ContractFile[];
  /** The codec of a message of this package by its name without the package; nested: "Outer_Inner". */
  message<Name extends keyof Messages & string>(name: Name): CodecOf<Messages[Name]>;
  /** The names of an enum's values in order of their numbers. */
  enumNames(name: string): readonly string[];
  /** The service of this package by its name without the package. */
  service<M extends object = Methods>(name: string): ServiceContract<M>;
}

type CodecOf<Types> = Types extends MessageTypes<infer Decoded, infer Init> ? MessageCodec<Decoded, Init> : never;

/** Called by generated modules. */
export function contract<Messages extends object>(
  packageName: string,
  files: readonly ContractFile[],
  imports: readonly { readonly files: readonly ContractFile[] }[],
): Contract<Messages> {
  return new LoadedContract<Messages>(packageName, [...new Set([...imports.flatMap((one) => one.files), ...files])]);
}

const LOAD_OPTIONS = { longs: BigInt as unknown as Function, enums: String, defaults: true, oneofs: true };

class LoadedContract<Messages extends object> implements Contract<Messages> {
  readonly packageName: string;
  readonly files: readonly ContractFile[];
  readonly #services = new Map<string, ServiceContract<object>>();
  #loaded: Loaded | undefined;

  constructor(packageName: string, files: readonly ContractFile[]) {
    this.packageName = packageName;
    this.files = files;
  }

  message<Name extends keyof Messages & string>(name: Name): CodecOf<Messages[Name]> {
    const fullName = this.#fullName(name);
    const type = this.#load().definitions[fullName];
    if (type === undefined || !isMessage(type)) throw new Error(`no message ${fullName} in the contracts`);
    const codec: MessageCodec = { encode: (message) => type.serialize(message), decode: (bytes) => type.deserialize(asBuffer(bytes)) };
    return codec as CodecOf<Messages[Name]>;
  }

  enumNames(name: string): readonly string[] {
    const fullName = this.#fullName(name);
    const values = this.#load().types.get(fullName)?.values;
    if (values === undefined) throw new Error(`no enum ${fullName} in the contracts`);
    return Object.entries(values)
      .toSorted(([, a], [, b]) => a - b)
      .map(([value]) => value);
  }

  service<M extends object>(name: string): ServiceContract<M> {
    const known = this.#services.get(name) ?? new LazyService<M>(`${this.packageName}.${name}`, this, () => this.#methods(name));
    this.#services.set(name, known);
    return known as ServiceContract<M>;
  }

  #methods(name: string): Methods {
    const { definitions, check } = this.#load();
    const fullName = `${this.packageName}.${name}`;
    const described = this.files.find((file) => file.package === this.packageName && file.definitions[name]?.methods !== undefined);
    if (described === undefined) throw new Error(`no service ${fullName} in the contracts`);
    const service = definitions[fullName] as ServiceDefinition;
    return Object.fromEntries(
      Object.entries(described.definitions[name]!.methods!).map(([method, { requestType }]) => {
        return [method, methodOf(fullName, method, service[method]!, check(requestType.slice(1)))];
      }),
    );
  }

  #fullName(name: string): string {
    return `${this.packageName}.${name.replaceAll("_", ".")}`;
  }

  #load(): Loaded {
    this.#loaded ??= load(this.files);
    return this.#loaded;
  }
}

class LazyService<M extends object> implements ServiceContract<M> {
  readonly name: string;
  readonly contract: AnyContract;
  readonly #make: () => Methods;
  #methods: Methods | undefined;

  constructor(name: string, owner: AnyContract, make: () => Methods) {
    this.name = name;
    this.contract = owner;
    this.#make = make;
  }

  get methods(): M {
    this.#methods ??= this.#make();
    return this.#methods as unknown as M;
  }
}

interface Loaded {
  readonly definitions: PackageDefinition;
  /** Messages and enums by full name, nested ones too. */
  readonly types: ReadonlyMap<string, TypeDefinition>;
  readonly check: (fullName: string) => EnumChecker;
}

function load(files: readonly ContractFile[]): Loaded {
  const types = new Map<string, TypeDefinition>();
  const add = (fullName: string, type: TypeDefinition): void => {
    types.set(fullName, type);
    for (const [name, nested] of Object.entries(type.nested ?? {})) add(`${fullName}.${name}`, nested);
  };
  const root: Namespace = { nested: {} };
  for (const file of files) {
    for (const [name, definition] of Object.entries(file.definitions)) add(`${file.package}.${name}`, definition);
    let inner = root;
    for (const word of file.package.split(".")) inner = (inner.nested[word] ??= { nested: {} }) as Namespace;
    Object.assign(inner.nested, file.definitions);
  }
  return { definitions: fromJSON(root as Parameters<typeof fromJSON>[0], LOAD_OPTIONS), types, check: enumChecker(types) };
}

interface Namespace {
  readonly nested: Record<string, object>;
}

function methodOf(service: string, name: string, definition: MethodDefinition<object, object>, unknownEnumIn: EnumChecker): Method {
  const { path, requestStream, responseStream } = definition;
  return {
    path,
    name,
    service,
    requestStream,
    responseStream,
    encodeRequest: definition.requestSerialize,
    decodeRequest: (bytes) => definition.requestDeserialize(asBuffer(bytes)),
    encodeResponse: definition.responseSerialize,
    decodeResponse: (bytes) => definition.responseDeserialize(asBuffer(bytes)),
    unknownEnumIn,
  };
}

function isMessage(definition: PackageDefinition[string]): definition is MessageTypeDefinition<object, object> {
  return "format" in definition && definition.format === "Protocol Buffer 3 DescriptorProto";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
