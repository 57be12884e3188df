import { fileOfSymbol, loadService, type ProtoFile, type ProtoSet } from "@concord/protos";
import type { MessageStream, ServedMethod } from "@concord/runtime";
import { GRPC_STATUS_NUMBERS } from "./status.ts";

type Question =
  | { readonly messageRequest: "listServices" }
  | { readonly messageRequest: "fileByFilename"; readonly fileByFilename: string }
  | { readonly messageRequest: "fileContainingSymbol"; readonly fileContainingSymbol: string }
  | { readonly messageRequest: "fileContainingExtension" | "allExtensionNumbersOfType" | undefined };

/** grpc.reflection v1 and v1alpha: what grpcurl and its like ask before they call. `serviceNames` are those to list. */
export function reflectionMethods(protos: ProtoSet, serviceNames: readonly string[]): readonly ServedMethod[] {
  const services = ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];
  const listed = [...serviceNames, ...services].toSorted().map((name) => ({ name }));
  const handle = (stream: MessageStream): void => {
    stream.onMessage((question) => {
      stream.send({ validHost: "", originalRequest: question, ...answer(protos, listed, question as Question) });
    });
    stream.onEnd((error) => {
      if (error === undefined) stream.end();
    });
  };
  return services.map((service) => ({ kind: "stream", method: loadService(service)["ServerReflectionInfo"]!, handle }));
}

function answer(protos: ProtoSet, listed: readonly { readonly name: string }[], question: Question): object {
  switch (question.messageRequest) {
    case "listServices":
      return { listServicesResponse: { service: listed } };
    case "fileByFilename":
      return fileAnswer(
        protos,
        protos.files().find((file) => file.name === question.fileByFilename),
        question.fileByFilename,
      );
    case "fileContainingSymbol":
      return fileAnswer(protos, fileOfSymbol(protos.files(), question.fileContainingSymbol), question.fileContainingSymbol);
    case "fileContainingExtension":
    case "allExtensionNumbersOfType":
    case undefined:
      return { errorResponse: { errorCode: GRPC_STATUS_NUMBERS.UNIMPLEMENTED, errorMessage: "proto3 has no extensions" } };
  }
}

function fileAnswer(protos: ProtoSet, file: ProtoFile | undefined, asked: string): object {
  if (file === undefined)
    return { errorResponse: { errorCode: GRPC_STATUS_NUMBERS.NOT_FOUND, errorMessage: `${asked} is not known here` } };
  const found = new Set<ProtoFile>([file]);
  for (const one of found) for (const name of one.dependencies) found.add(protos.files().find((other) => other.name === name)!);
  return { fileDescriptorResponse: { fileDescriptorProto: [...found].map((one) => one.bytes) } };
}
