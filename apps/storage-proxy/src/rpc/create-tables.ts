import type { UnaryHandler } from "@concord/rpc";
import type { NodeParts, Parts } from "../node-parts.ts";
import { createTables } from "../rows/create-tables.ts";
import { budgetMs } from "./budget.ts";
import { ConcordError } from "@concord/runtime";

/** Plain tables where no txn-coordinator is deployed. */
export function createTablesHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly statements: readonly string[] }, context) => {
    const { config, sources } = parts();
    return { schemaVersion: await runCreate(parts(), request.statements, budgetMs(context, sources.clock, config.writeTimeoutMs)) };
  };
}

export function runCreate(parts: NodeParts, statements: readonly string[], timeoutMs: number): Promise<bigint> {
  const { config, rows, schema, sources, writeClock } = parts;
  if (config.schemaAuthority === "coordinator") {
    throw new ConcordError("USE_TRANSACTION", "tables of this ring are created at a txn-coordinator");
  }
  return createTables(statements, { rows, schema, sources, drawTimestamp: () => writeClock.draw(), timeoutMs });
}
