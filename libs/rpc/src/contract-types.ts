/** What a service's contract says about its methods, for the types of handlers and clients. */
import type { Method, ServiceContract, UnaryMethod } from "@concord/protos";

type AnyService = ServiceContract<object>;
type MethodOf<S extends AnyService, Name extends keyof S["methods"]> = S["methods"][Name] extends Method ? S["methods"][Name] : never;

/** The unary methods of a service by name. */
export type UnaryName<S extends AnyService> = {
  [Name in keyof S["methods"] & string]: S["methods"][Name] extends UnaryMethod ? Name : never;
}[keyof S["methods"] & string];

/** The streams of a service that are no sessions. */
export type StreamName<S extends AnyService> = Exclude<keyof S["methods"] & string, UnaryName<S> | "Session">;

export type RequestOf<S extends AnyService, Name extends keyof S["methods"]> = ReturnType<MethodOf<S, Name>["decodeRequest"]>;
export type RequestInitOf<S extends AnyService, Name extends keyof S["methods"]> = Parameters<MethodOf<S, Name>["encodeRequest"]>[0];
export type ResponseOf<S extends AnyService, Name extends keyof S["methods"]> = ReturnType<MethodOf<S, Name>["decodeResponse"]>;
export type ResponseInitOf<S extends AnyService, Name extends keyof S["methods"]> = Parameters<MethodOf<S, Name>["encodeResponse"]>[0];

/**
 * What a handler answers: every field is named, also one that stays at its default (undefined). TypeScript does not look for unknown
 * properties in what an arrow function returns, so a field that the contract renamed is found by its new name that is missing.
 */
export type AnswerOf<S extends AnyService, Name extends keyof S["methods"]> = Complete<ResponseOf<S, Name>, ResponseInitOf<S, Name>>;
/** The cases of a oneof may be undefined in a decoded message and are left out here; all other fields are required. */
type Complete<Decoded, Init> = Init & {
  readonly [Key in keyof Init as Key extends keyof Decoded ? (undefined extends Decoded[Key] ? never : Key) : never]-?:
    | Init[Key]
    | undefined;
};

/** The operations of a service's session, by the names of their oneof cases: "read", "logAppend". */
export type OperationName<S extends AnyService> = Uncapitalize<UnaryName<S>>;
/** The method behind an operation: "logAppend" -> "LogAppend". */
export type MethodOfOperation<S extends AnyService, O extends OperationName<S>> = Capitalize<O> & UnaryName<S>;
