import type { SchemaService } from "@concord/protos-storage";
import { schemaToWire } from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";

/** The table definitions, read again at quorum. */
export function getSchemaHandler(serving: Serving): Handler<SchemaService, "GetSchema"> {
  return async (request) => {
    const { schema } = serving();
    await schema.reload();
    return schemaToWire(await schema.having([], request.schemaVersion));
  };
}
