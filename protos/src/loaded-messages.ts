/** Codecs without generated code: proto-loader makes them from the .proto files, for contracts that hardly any call uses. */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { MessageTypeDefinition, PackageDefinition } from "@grpc/proto-loader";
import type { MessageFunctions } from "./contract.ts";

const PROTOS = join(import.meta.dirname, "..");
const OPTIONS = { includeDirs: [PROTOS], longs: BigInt as unknown as Function, enums: String, defaults: true, oneofs: true };

/**
 * The functions of messages of `files` by their names, which are those of `packageName` without it. proto-loader is loaded with the
 * first message: a program that is never asked does without it.
 */
export function loadedMessages<Name extends string>(
  packageName: string,
  files: readonly string[],
  names: readonly Name[],
): Readonly<Record<Name, MessageFunctions>> {
  let definitions: PackageDefinition | undefined;
  const typeOf = (name: Name): MessageTypeDefinition<object, object> => {
    definitions ??= load(files);
    return definitions[`${packageName}.${name}`] as MessageTypeDefinition<object, object>;
  };
  const functionsOf = (name: Name): MessageFunctions => ({
    write: (writer, message) => writer.raw(typeOf(name).serialize(message)),
    read: (reader) => typeOf(name).deserialize(reader.rest()),
  });
  return Object.fromEntries(names.map((name) => [name, functionsOf(name)])) as Record<Name, MessageFunctions>;
}

function load(files: readonly string[]): PackageDefinition {
  const { loadSync } = createRequire(import.meta.url)("@grpc/proto-loader") as typeof import("@grpc/proto-loader");
  return loadSync([...files], OPTIONS);
}
