import { schemaToWire } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import type { Parts } from "../node-parts.ts";

/** The table definitions, read again at quorum. */
export function getSchemaHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly schemaVersion: bigint }) => {
    const { schema } = parts();
    await schema.reload();
    return schemaToWire(await schema.having([], request.schemaVersion));
  };
}
