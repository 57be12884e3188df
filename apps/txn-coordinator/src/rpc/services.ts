import { MemberListService } from "@concord/protos-cluster";
import { IdService } from "@concord/protos-ids";
import { CoordinatorService, SchemaService, TopologyService, TransactionService } from "@concord/protos-txn";
import { defineService, type Authenticator, type Role, type Service } from "@concord/rpc";
import type { Context } from "../context.ts";
import { TOPOLOGY_WATCHES_MAX } from "../limits.ts";
import { commitHandler } from "./commit.ts";
import { coordinatorListMethods } from "./coordinator-list.ts";
import { createTablesHandler } from "./create-tables.ts";
import { executeHandler } from "./execute.ts";
import { generateIdsHandler } from "./generate-ids.ts";
import { getSchemaHandler } from "./get-schema.ts";
import { getTopologyHandler } from "./get-topology.ts";
import { leaveHandler, releaseHandler } from "./hand-over.ts";
import { lockHandler } from "./lock.ts";
import { queryHandler } from "./query.ts";
import { readHandler } from "./read.ts";
import { resolveOutcomeHandler } from "./resolve-outcome.ts";
import { rollbackHandler } from "./rollback.ts";
import { startHandler } from "./start.ts";
import { watchTopologyHandler } from "./watch-topology.ts";
import { writeHandler } from "./write.ts";

const CALLERS: readonly Role[] = ["client", "coordinator", "operator"];

/** Contracts that `defineServices` implements. */
export const CONTRACTS = [TransactionService, SchemaService, TopologyService, CoordinatorService, MemberListService, IdService] as const;

/** Every service of a txn-coordinator; all but two are for clients. */
export function defineServices(coordinator: Context, authenticator: Authenticator): readonly Service[] {
  const { clock, log, metrics, tracer } = coordinator.environment;
  const environment = { clock, log, metrics, authenticator, tracer };
  const transactions = {
    Start: startHandler(coordinator),
    Lock: lockHandler(coordinator),
    Read: readHandler(coordinator),
    Query: queryHandler(coordinator),
    Write: writeHandler(coordinator),
    Commit: commitHandler(coordinator),
    Rollback: rollbackHandler(coordinator),
    ResolveOutcome: resolveOutcomeHandler(coordinator),
    Execute: executeHandler(coordinator),
  };
  const schema = { CreateTables: createTablesHandler(coordinator), GetSchema: getSchemaHandler(coordinator) };
  return [
    defineService({ contract: TransactionService, unary: transactions, roles: CALLERS }, environment),
    defineService({ contract: SchemaService, unary: schema, roles: CALLERS }, environment),
    defineService(
      {
        contract: TopologyService,
        unary: { GetTopology: getTopologyHandler(coordinator) },
        streams: { WatchTopology: watchTopologyHandler(coordinator) },
        limits: { streamsMax: TOPOLOGY_WATCHES_MAX },
        roles: CALLERS,
      },
      environment,
    ),
    defineService(
      {
        contract: CoordinatorService,
        unary: { Leave: leaveHandler(coordinator), Release: releaseHandler(coordinator) },
        roles: ["coordinator"],
      },
      environment,
    ),
    defineService(
      { contract: MemberListService, unary: coordinatorListMethods(coordinator), roles: ["coordinator", "operator"] },
      environment,
    ),
    defineService({ contract: IdService, unary: { Generate: generateIdsHandler(coordinator) }, roles: CALLERS }, environment),
  ];
}
