import type { AnyContract, ContractFile } from "@concord/protos";
import { contract as googleRpc } from "@concord/protos/google.rpc";
import { contract as health } from "@concord/protos/grpc.health.v1";
import { ServerReflection, type ServerReflectionRequest, type ServerReflectionResponseInit } from "@concord/protos/grpc.reflection.v1";
import { ServerReflection as ServerReflectionAlpha } from "@concord/protos/grpc.reflection.v1alpha";
import type { MessageStream, ServedMethod } from "@concord/runtime";
import { GRPC_STATUS_NUMBERS } from "./status.ts";

type Answer = Omit<ServerReflectionResponseInit, "validHost" | "originalRequest">;

/**
 * grpc.reflection v1 and v1alpha: what grpcurl and its like ask before they call. Answers from the image made at build time: comments,
 * json_name and the names of the .proto files are those of the contracts. `serviceNames` are those to list.
 */
export function reflectionMethods(contracts: readonly AnyContract[], serviceNames: readonly string[]): readonly ServedMethod[] {
  const services = [ServerReflection, ServerReflectionAlpha];
  const listed = [...serviceNames, ...services.map((service) => service.name)].toSorted().map((name) => ({ name }));
  const own = [googleRpc, health, ...services.map((service) => service.contract)];
  const files = new Map([...contracts, ...own].flatMap((contract) => contract.files.map((file) => [file.name, file])));
  const handle = (stream: MessageStream): void => {
    stream.onMessage((message) => {
      const question = message as ServerReflectionRequest;
      stream.send({ validHost: "", originalRequest: question, ...answer(files, listed, question) } satisfies ServerReflectionResponseInit);
    });
    stream.onEnd((error) => {
      if (error === undefined) stream.end();
    });
  };
  return services.map((service) => ({ kind: "stream", method: service.methods.ServerReflectionInfo, handle }));
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
