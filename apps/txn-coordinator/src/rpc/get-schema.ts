import type { UnaryHandler } from "@concord/rpc";
import { definitionToJson } from "@concord/schema";
import type { Parts } from "../parts.ts";

/** The table definitions known here, at least of the version asked for (TX3). SCHEMA_BEHIND. */
export function getSchemaHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly schemaVersion: bigint }) => {
    const catalogue = await parts.schema.having([], request.schemaVersion);
    return { schemaVersion: catalogue.version, tables: [...catalogue.tables.values()].map(definitionToJson) };
  };
}
