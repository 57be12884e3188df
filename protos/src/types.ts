/** What the generated modules say about messages and methods. Types only: nothing here exists at run time. */
import type { Reader } from "./wire-reader.ts";
import type { Writer } from "./wire-writer.ts";

/**
 * A oneof as it is decoded: `Name` is the property that names the case which is set, and only that case is there. Neither is set when
 * the sender set none.
 */
export type OneOf<Name extends string, Cases extends object> =
  | { [Case in keyof Cases]: { readonly [N in Name]: Case } & OnlyCase<Cases, Case> }[keyof Cases]
  | ({ readonly [N in Name]?: undefined } & NoCase<Cases>);

/** A oneof as it is given to be encoded: one case or none; the property that names it may be left out. */
export type OneOfInit<Name extends string, Cases extends object> = { readonly [N in Name]?: keyof Cases | undefined } & {
  readonly [C in keyof Cases]?: Cases[C] | undefined;
};

type OnlyCase<Cases extends object, Case extends keyof Cases> = { readonly [C in Case]: Cases[C] } & NoCase<Omit<Cases, Case>>;
type NoCase<Cases extends object> = { readonly [C in keyof Cases]?: undefined };

/** A message without fields. */
export type Empty = Readonly<Record<string, never>>;

/** A message as it is decoded (every field is there) and as it may be given to be encoded (a field left out has its default). */
export interface MessageTypes<Decoded extends object = object, Init extends object = object> {
  readonly decoded: Decoded;
  readonly init: Init;
}

/** The generated functions of a message. */
export interface MessageFunctions {
  write(writer: Writer, message: object): void;
  read(reader: Reader): object;
  /** Left out where the message holds no enum or is part of no request. */
  unknownEnumIn?(message: object): string | undefined;
}

export interface MessageCodec<Decoded extends object = object, Init extends object = object> {
  /** MessageTooLarge when it takes more than `bytesMax` bytes (no limit), TypeError when it is no such message. */
  encode(message: Init, bytesMax?: number): Uint8Array;
  /** Throws on bytes that are not such a message. */
  decode(bytes: Uint8Array): Decoded;
}

/** Where an operation stands in the frames of its service's session: the numbers of its fields in a call and in a reply. */
export interface OperationFields {
  readonly call: number;
  readonly reply: number;
}

/** One method of a service. Structurally a `MethodDescriptor` of the runtime lib, with what servers need besides. */
export interface Method<
  Request extends object = object,
  Response extends object = object,
  RequestInit extends object = object,
  ResponseInit extends object = object,
> {
  /** "/concord.storage.v1.RowsService/Read" */
  readonly path: string;
  /** "Read" */
  readonly name: string;
  /** "concord.storage.v1.RowsService" */
  readonly service: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  /** MessageTooLarge when it takes more than `bytesMax` bytes (no limit), TypeError when it is no such message. */
  encodeRequest(message: RequestInit, bytesMax?: number): Uint8Array;
  /** Throws on bytes that are not such a message. */
  decodeRequest(bytes: Uint8Array): Request;
  /** As `encodeRequest`. */
  encodeResponse(message: ResponseInit, bytesMax?: number): Uint8Array;
  decodeResponse(bytes: Uint8Array): Response;
  /** The first enum field with a number this build has no name for; undefined when there is none. */
  unknownEnumIn(request: Request): string | undefined;
  /** What is behind the codecs, for frames that hold many messages. */
  readonly functions: { readonly request: MessageFunctions; readonly response: MessageFunctions };
  /** Of a session: its operations by name. */
  readonly operations: Readonly<Record<string, OperationFields>>;
}

export interface UnaryMethod<
  Request extends object = object,
  Response extends object = object,
  RequestInit extends object = object,
  ResponseInit extends object = object,
> extends Method<Request, Response, RequestInit, ResponseInit> {
  readonly requestStream: false;
  readonly responseStream: false;
}

export type Methods = Readonly<Record<string, Method>>;
