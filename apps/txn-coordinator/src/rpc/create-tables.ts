import { SchemaService } from "@concord/protos-txn";
import { bearer, type Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { SYSTEM_GROUP } from "@concord/schema";
import { FORWARD_TIMEOUT_MS_MAX } from "../limits.ts";
import type { Context } from "../context.ts";
import { createTables } from "../schema/create-tables.ts";

/** CreateTables, at the system group's master or passed on to it once (TX3). */
export function createTablesHandler(coordinator: Context): Handler<SchemaService, "CreateTables"> {
  return async (request, context) => {
    const { config, environment, groups, schema } = coordinator;
    const master = groups.masterOf(SYSTEM_GROUP);
    if (master.name === config.nodeName) {
      return { schemaVersion: await createTables(request.statements, groups.groupById(SYSTEM_GROUP), coordinator, context.deadlineAtMs) };
    }
    if (context.caller.role === "coordinator") throw new ConcordError("NOT_MASTER", "this coordinator does not serve the system group");
    const timeoutMs = Math.min(FORWARD_TIMEOUT_MS_MAX, context.deadlineAtMs - environment.clock.monotonicMs());
    const method = SchemaService.methods.CreateTables;
    const options = { timeoutMs, metadata: bearer(config.coordinatorToken) };
    const response = (await coordinator.coordinatorAt(master.address).unary(method, request, options)) as {
      readonly schemaVersion: bigint;
    };
    // A client that creates a table here is likely to use it here next.
    await schema.having([], response.schemaVersion).catch(() => undefined);
    return response;
  };
}
