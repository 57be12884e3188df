import { schemaToWire } from "@concord/rows-wire";
import type { UnaryHandler } from "@concord/rpc";
import type { Serving } from "../context.ts";

/** The table definitions, read again at quorum. */
export function getSchemaHandler(serving: Serving): UnaryHandler {
  return async (request: { readonly schemaVersion: bigint }) => {
    const { schema } = serving();
    await schema.reload();
    return schemaToWire(await schema.having([], request.schemaVersion));
  };
}
