/**
 * The contracts at run time, one per proto package, from what the `generate` target wrote about it. Messages are plain objects: 64-bit
 * integers are bigint, enums their names, bytes `Uint8Array`, unset scalars their defaults, unset messages null, and every oneof has
 * a property that names the case which is set.
 */
import type { MessageCodec, MessageFunctions, MessageTypes, Method, Methods, OperationFields } from "./types.ts";
import { Reader } from "./wire-reader.ts";
import { Writer } from "./wire-writer.ts";

/** One .proto file, as buf compiled it. */
export interface ContractFile {
  /** "concord/dedup/v1/ingest.proto" */
  readonly name: string;
  readonly dependencies: readonly string[];
  /** Full names of its outermost messages and enums and of its services. */
  readonly symbols: readonly string[];
  /** The google.protobuf.FileDescriptorProto with comments and json_name, in base64. */
  readonly encoded: string;
}

/** A method of a service as it was generated. */
export interface MethodFunctions {
  readonly request: MessageFunctions;
  readonly response: MessageFunctions;
  readonly requestStream?: boolean;
  readonly responseStream?: boolean;
  readonly operations?: Readonly<Record<string, OperationFields>>;
}

/** What was generated of a package. Messages, enums and services by their names without the package; nested: "Outer_Inner". */
export interface GeneratedPackage {
  readonly files: readonly ContractFile[];
  readonly imports: readonly { readonly files: readonly ContractFile[] }[];
  readonly messages: Readonly<Record<string, MessageFunctions>>;
  readonly enums: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly services: Readonly<Record<string, Readonly<Record<string, MethodFunctions>>>>;
}

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
export function contract<Messages extends object>(packageName: string, generated: GeneratedPackage): Contract<Messages> {
  return new GeneratedContract<Messages>(packageName, generated);
}

class GeneratedContract<Messages extends object> implements Contract<Messages> {
  readonly packageName: string;
  readonly files: readonly ContractFile[];
  readonly #generated: GeneratedPackage;
  readonly #services = new Map<string, ServiceContract<object>>();

  constructor(packageName: string, generated: GeneratedPackage) {
    this.packageName = packageName;
    this.files = [...new Set([...generated.imports.flatMap((one) => one.files), ...generated.files])];
    this.#generated = generated;
  }

  message<Name extends keyof Messages & string>(name: Name): CodecOf<Messages[Name]> {
    const functions = own(this.#generated.messages, name);
    if (functions === undefined) throw new Error(`no message ${this.packageName}.${name} in the contracts`);
    const codec: MessageCodec = { encode: encoderOf(functions), decode: decoderOf(functions) };
    return codec as CodecOf<Messages[Name]>;
  }

  enumNames(name: string): readonly string[] {
    const values = own(this.#generated.enums, name);
    if (values === undefined) throw new Error(`no enum ${this.packageName}.${name} in the contracts`);
    return Object.entries(values)
      .toSorted(([, a], [, b]) => a - b)
      .map(([value]) => value);
  }

  service<M extends object>(name: string): ServiceContract<M> {
    const fullName = `${this.packageName}.${name}`;
    const known =
      this.#services.get(name) ?? new LazyService<M>(fullName, this, () => methodsOf(fullName, own(this.#generated.services, name)));
    this.#services.set(name, known);
    return known as ServiceContract<M>;
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

function methodsOf(service: string, methods: Readonly<Record<string, MethodFunctions>> | undefined): Methods {
  if (methods === undefined) throw new Error(`no service ${service} in the contracts`);
  return Object.fromEntries(Object.entries(methods).map(([name, functions]) => [name, methodOf(service, name, functions)]));
}

function methodOf(service: string, name: string, method: MethodFunctions): Method {
  const { request, response, requestStream, responseStream, operations = {} } = method;
  return {
    path: `/${service}/${name}`,
    name,
    service,
    requestStream: requestStream === true,
    responseStream: responseStream === true,
    encodeRequest: encoderOf(request),
    decodeRequest: decoderOf(request),
    encodeResponse: encoderOf(response),
    decodeResponse: decoderOf(response),
    unknownEnumIn: (message) => request.unknownEnumIn?.(message),
    functions: { request, response },
    operations,
  };
}

/** Functions of a message run to their end before another message is begun: one writer serves all. */
const WRITER = new Writer();

function encoderOf(functions: MessageFunctions): MessageCodec["encode"] {
  const write = (writer: Writer, message: object): void => functions.write(writer, message);
  return (message, bytesMax = Infinity) => WRITER.encode(write, message, bytesMax);
}

function decoderOf(functions: MessageFunctions): MessageCodec["decode"] {
  return (bytes) => functions.read(new Reader(bytes));
}

function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
