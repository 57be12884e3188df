import type { UnaryHandler } from "@concord/rpc";
import type { Context, Serving } from "../context.ts";
import { createTables } from "../rows/create-tables.ts";
import { budgetMs } from "./budget.ts";
import { ConcordError } from "@concord/runtime";

/** Plain tables where no txn-coordinator is deployed. */
export function createTablesHandler(serving: Serving): UnaryHandler {
  return async (request: { readonly statements: readonly string[] }, context) => {
    const { config, clock } = serving();
    return { schemaVersion: await runCreate(serving(), request.statements, budgetMs(context, clock, config.writeTimeoutMs)) };
  };
}

export function runCreate(proxy: Context, statements: readonly string[], timeoutMs: number): Promise<bigint> {
  const { config, rows, schema, writeClock } = proxy;
  if (config.schemaAuthority === "coordinator") {
    throw new ConcordError("USE_TRANSACTION", "tables of this store are created at a txn-coordinator");
  }
  return createTables(statements, { rows, schema, sources: proxy, drawTimestamp: () => writeClock.draw(), timeoutMs });
}
