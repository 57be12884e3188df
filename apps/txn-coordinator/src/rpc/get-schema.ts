import type { SchemaService } from "@concord/protos-txn";
import { schemaToWire } from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

/** The table definitions known here, at least of the version asked for (TX3). SCHEMA_BEHIND. */
export function getSchemaHandler(coordinator: Context): Handler<SchemaService, "GetSchema"> {
  return async (request) => {
    return schemaToWire(await coordinator.schema.having([], request.schemaVersion));
  };
}
