import type { ServiceContract } from "@concord/protos";
import { IdService } from "@concord/protos-ids";
import { SchemaService, TopologyService, TransactionService } from "@concord/protos-txn";
import { defineUntypedService, type Authenticator, type Role, type Service, type UnaryHandler } from "@concord/rpc";
import type { Parts } from "../parts.ts";
import { commitHandler } from "./commit.ts";
import { createTablesHandler } from "./create-tables.ts";
import { executeHandler } from "./execute.ts";
import { generateIdsHandler } from "./generate-ids.ts";
import { getSchemaHandler } from "./get-schema.ts";
import { getTopologyHandler } from "./get-topology.ts";
import { lockHandler } from "./lock.ts";
import { queryHandler } from "./query.ts";
import { readHandler } from "./read.ts";
import { resolveOutcomeHandler } from "./resolve-outcome.ts";
import { rollbackHandler } from "./rollback.ts";
import { startHandler } from "./start.ts";
import { writeHandler } from "./write.ts";

const CALLERS: readonly Role[] = ["client", "coordinator", "operator"];

/** Every service of a txn-coordinator; all of them are for clients. */
export function defineServices(parts: Parts, authenticator: Authenticator): readonly Service[] {
  const define = (contract: ServiceContract<object>, unary: Readonly<Record<string, UnaryHandler>>): Service => {
    const { clock, log, metrics } = parts.environment;
    return defineUntypedService({ contract, unary, roles: CALLERS }, { clock, log, metrics, authenticator });
  };
  return [
    define(TransactionService, {
      Start: startHandler(parts),
      Lock: lockHandler(parts),
      Read: readHandler(parts),
      Query: queryHandler(parts),
      Write: writeHandler(parts),
      Commit: commitHandler(parts),
      Rollback: rollbackHandler(parts),
      ResolveOutcome: resolveOutcomeHandler(parts),
      Execute: executeHandler(parts),
    }),
    define(SchemaService, { CreateTables: createTablesHandler(parts), GetSchema: getSchemaHandler(parts) }),
    define(TopologyService, { GetTopology: getTopologyHandler(parts) }),
    define(IdService, { Generate: generateIdsHandler(parts) }),
  ];
}
