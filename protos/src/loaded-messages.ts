/** Codecs without generated code: proto-loader makes them from a description, for contracts that hardly any call uses. */
import { createRequire } from "node:module";
import type { MessageTypeDefinition, PackageDefinition } from "@grpc/proto-loader";
import type { MessageFunctions } from "./types.ts";

const OPTIONS = { longs: BigInt as unknown as Function, enums: String, defaults: true, oneofs: true };

/** A namespace of protobufjs in JSON. A bundled program has no .proto files beside it. */
export type Description = Parameters<typeof import("@grpc/proto-loader").fromJSON>[0];

/**
 * The functions of messages of a description by their names, which are those of `packageName` without it. proto-loader is loaded with the
 * first message: a program that is never asked does without it.
 */
export function loadedMessages<Name extends string>(
  packageName: string,
  description: Description,
  names: readonly Name[],
): Readonly<Record<Name, MessageFunctions>> {
  let definitions: PackageDefinition | undefined;
  const typeOf = (name: Name): MessageTypeDefinition<object, object> => {
    definitions ??= load(description);
    return definitions[`${packageName}.${name}`] as MessageTypeDefinition<object, object>;
  };
  const functionsOf = (name: Name): MessageFunctions => ({
    write: (writer, message) => writer.raw(typeOf(name).serialize(message)),
    read: (reader) => typeOf(name).deserialize(reader.rest()),
  });
  return Object.fromEntries(names.map((name) => [name, functionsOf(name)])) as Record<Name, MessageFunctions>;
}

function load(description: Description): PackageDefinition {
  const { fromJSON } = createRequire(import.meta.url)("@grpc/proto-loader") as typeof import("@grpc/proto-loader");
  return fromJSON(description, OPTIONS);
}
