import type { SchemaService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Context, Serving } from "../context.ts";
import { createTables } from "../rows/create-tables.ts";
import { budgetMs } from "./budget.ts";
import { ConcordError } from "@concord/runtime";

/** Plain tables where no txn-coordinator is deployed. */
export function createTablesHandler(serving: Serving): Handler<SchemaService, "CreateTables"> {
  return async (request, context) => {
    const { config, clock } = serving();
    return { schemaVersion: await runCreate(serving(), request.statements, budgetMs(context, clock, config.writeTimeoutMs)) };
  };
}

export function runCreate(proxy: Context, statements: readonly string[], timeoutMs: number): Promise<bigint> {
  const { config, rows, schema, writeClock } = proxy;
  if (config.schemaAuthority === "coordinator") {
    throw new ConcordError("USE_TRANSACTION", "tables of this store are created at a txn-coordinator");
  }
  return createTables(statements, { rows, schema, context: proxy, drawTimestamp: () => writeClock.draw(), timeoutMs });
}
