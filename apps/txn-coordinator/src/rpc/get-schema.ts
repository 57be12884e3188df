import { schemaToWire } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import type { Parts } from "../parts.ts";

/** The table definitions known here, at least of the version asked for (TX3). SCHEMA_BEHIND. */
export function getSchemaHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly schemaVersion: bigint }) => {
    return schemaToWire(await parts.schema.having([], request.schemaVersion));
  };
}
