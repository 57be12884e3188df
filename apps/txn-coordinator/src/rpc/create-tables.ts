import { SchemaService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { createTables } from "../schema/create-tables.ts";
import { atSystemMaster } from "./system-master.ts";

/** CreateTables, at the system group's master (TX3). */
export function createTablesHandler(coordinator: Context): Handler<SchemaService, "CreateTables"> {
  return async (request, context) => {
    const call = { method: SchemaService.methods.CreateTables, request };
    const response = await atSystemMaster(coordinator, context, call, async (group) => {
      return { schemaVersion: await createTables(request.statements, group, coordinator, context.deadlineAtMs) };
    });
    // A client that creates a table here is likely to use it here next.
    await coordinator.schema.having([], response.schemaVersion).catch(() => undefined);
    return response;
  };
}
