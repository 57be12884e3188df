import type { AnyContract, ContractFile } from "@concord/protos";
import { contract as googleRpc } from "@concord/protos/google.rpc";
import { contract as health } from "@concord/protos/grpc.health.v1";
import { ServerReflection, type ServerReflectionRequest, type ServerReflectionResponseInit } from "@concord/protos/grpc.reflection.v1";
import { ServerReflection as ServerReflectionAlpha } from "@concord/protos/grpc.reflection.v1alpha";
import { ConcordError, type CallContext, type MessageStream, type Metrics, type ServedMethod } from "@concord/runtime";
import type { Authenticator } from "./auth.ts";
import { begunStream, Places, type Place } from "./places.ts";
import { GRPC_STATUS_NUMBERS } from "./status.ts";

type Answer = Omit<ServerReflectionResponseInit, "validHost" | "originalRequest">;

/** Open reflection streams of one server; one more is answered with OVERLOADED. */
export const REFLECTION_STREAMS_MAX = 64;
/** Questions of one stream that wait for the answers before them; one more ends the stream with OVERLOADED. An answer has a thousand times their bytes. */
export const REFLECTION_QUESTIONS_MAX = 64;

export interface ReflectionOptions {
  readonly contracts: readonly AnyContract[];
  /** Those to list. */
  readonly serviceNames: readonly string[];
  readonly metrics: Metrics;
  /** Callers of every role may ask. */
  readonly authenticator: Authenticator;
}

/**
 * grpc.reflection v1 and v1alpha: what grpcurl and its like ask before they call. Answers from the image made at build time: comments,
 * json_name and the names of the .proto files are those of the contracts.
 */
export function reflectionMethods({ contracts, serviceNames, metrics, authenticator }: ReflectionOptions): readonly ServedMethod[] {
  const services = [ServerReflection, ServerReflectionAlpha];
  const listed = [...serviceNames, ...services.map((service) => service.name)].toSorted().map((name) => ({ name }));
  const own = [googleRpc, health, ...services.map((service) => service.contract)];
  const files = new Map([...contracts, ...own].flatMap((contract) => contract.files.map((file) => [file.name, file])));
  const places = new Places({
    service: "reflection",
    metrics,
    limit: "REFLECTION_STREAMS_MAX",
    what: "streams open",
    max: REFLECTION_STREAMS_MAX,
  });
  const admit = (context: CallContext): Place => places.enter(authenticator.authenticate(context.metadata), context.peer);
  const handle = (stream: MessageStream, context: CallContext): void => {
    const place = begunStream(stream, context, admit);
    if (place === undefined) return;
    answerInOrder(stream, (question) => ({ validHost: "", originalRequest: question, ...answer(files, listed, question) }), place);
  };
  return services.map((service) => ({ kind: "stream", method: service.methods.ServerReflectionInfo, admit, handle }));
}

/** One question after the other, the next when the client has taken the answer. */
function answerInOrder(
  stream: MessageStream,
  answerTo: (question: ServerReflectionRequest) => ServerReflectionResponseInit,
  place: Place,
): void {
  const waiting: ServerReflectionRequest[] = [];
  let isFull = false;
  let isFinishing = false;
  const next = (): void => {
    while (!isFull && waiting.length > 0) isFull = !stream.send(answerTo(waiting.shift()!));
    if (isFinishing && waiting.length === 0) stream.end();
  };
  stream.onMessage((message) => {
    if (waiting.length < REFLECTION_QUESTIONS_MAX) {
      waiting.push(message as ServerReflectionRequest);
      next();
      return;
    }
    const metadata = { limit: "REFLECTION_QUESTIONS_MAX", value: String(REFLECTION_QUESTIONS_MAX) };
    waiting.length = 0;
    stream.end(new ConcordError("OVERLOADED", "too many questions wait for the answers before them: read those first", { metadata }));
  });
  stream.onDrain(() => {
    isFull = false;
    next();
  });
  stream.onEnd((error) => {
    place.leave();
    if (error !== undefined) waiting.length = 0;
    isFinishing = error === undefined;
    next();
  });
}

type Files = ReadonlyMap<string, ContractFile>;

function answer(files: Files, listed: readonly { readonly name: string }[], question: ServerReflectionRequest): Answer {
  switch (question.messageRequest) {
    case "listServices":
      return { listServicesResponse: { service: listed } };
    case "fileByFilename":
      return fileAnswer(files, files.get(question.fileByFilename), question.fileByFilename);
    case "fileContainingSymbol":
      return fileAnswer(files, fileOfSymbol(files, question.fileContainingSymbol), question.fileContainingSymbol);
    case "fileContainingExtension":
    case "allExtensionNumbersOfType":
    case undefined:
      return { errorResponse: { errorCode: GRPC_STATUS_NUMBERS.UNIMPLEMENTED, errorMessage: "proto3 has no extensions" } };
  }
}

/** The file that declares a message, enum, service, method or field. */
function fileOfSymbol(files: Files, symbol: string): ContractFile | undefined {
  return [...files.values()].find((file) => file.symbols.some((one) => symbol === one || symbol.startsWith(`${one}.`)));
}

function fileAnswer(files: Files, file: ContractFile | undefined, asked: string): Answer {
  if (file === undefined)
    return { errorResponse: { errorCode: GRPC_STATUS_NUMBERS.NOT_FOUND, errorMessage: `${asked} is not known here` } };
  const found = new Set<ContractFile>([file]);
  for (const one of found) for (const name of one.dependencies) found.add(files.get(name)!);
  return { fileDescriptorResponse: { fileDescriptorProto: [...found].map((one) => Buffer.from(one.encoded, "base64")) } };
}
