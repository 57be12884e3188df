import type { UnaryHandler } from "@concord/rpc";
import { definitionToJson } from "@concord/schema";
import type { Parts } from "../node-parts.ts";

/** The table definitions, read again at quorum. */
export function getSchemaHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly schemaVersion: bigint }) => {
    const { schema } = parts();
    await schema.reload();
    const catalogue = await schema.having([], request.schemaVersion);
    return { schemaVersion: catalogue.version, tables: [...catalogue.tables.values()].map(definitionToJson) };
  };
}
