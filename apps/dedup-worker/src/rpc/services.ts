import { MemberListService } from "@concord/protos-cluster";
import type { ServiceContract } from "@concord/protos";
import { IngestService, OutputService, WindowService, WorkerService } from "@concord/protos-dedup";
import { defineService, type Authenticator, type Role, type Service, type ServiceEnvironment } from "@concord/rpc";
import type { Context } from "../context.ts";
import { consumeHandler } from "./consume.ts";
import { getBoundsHandler } from "./get-bounds.ts";
import { getStatisticsHandler } from "./get-statistics.ts";
import { getServedHandler, leaveHandler, releaseHandler } from "./hand-over.ts";
import { ingestHandler } from "./ingest.ts";
import { readHandler } from "./read.ts";
import { seenHandler } from "./seen.ts";
import { workerListMethods } from "./worker-list.ts";

/** Every method is for clients, but for the hand-over between workers. */
const roles: readonly Role[] = ["client", "operator"];
/** These are passed on between workers too. */
const passedOn: readonly Role[] = [...roles, "peer"];

/** Contracts that `defineServices` implements; the list of members where workers share a log. */
export const contractsOf = (isShared: boolean): readonly ServiceContract<object>[] => [
  IngestService,
  OutputService,
  WindowService,
  WorkerService,
  ...(isShared ? [MemberListService] : []),
];

/** The services of a dedup-worker. `isShared`: it shares its log with others. */
export function defineServices(context: Context, authenticator: Authenticator, isShared: boolean): readonly Service[] {
  const { clock, log, metrics, tracer } = context.environment;
  const environment: ServiceEnvironment = { clock, log, metrics, authenticator, tracer };
  const list = defineService({ contract: MemberListService, unary: workerListMethods(context), roles: ["peer", "operator"] }, environment);
  const handOver = { Leave: leaveHandler(context), Release: releaseHandler(context), GetServed: getServedHandler(context) };
  return [
    defineService({ contract: IngestService, unary: { Ingest: ingestHandler(context) }, roles: passedOn }, environment),
    defineService(
      {
        contract: OutputService,
        unary: { Read: readHandler(context), GetBounds: getBoundsHandler(context) },
        streams: { Consume: consumeHandler(context) },
        roles,
      },
      environment,
    ),
    defineService(
      {
        contract: WindowService,
        unary: { Seen: seenHandler(context), GetStatistics: getStatisticsHandler(context) },
        roles: passedOn,
      },
      environment,
    ),
    defineService({ contract: WorkerService, unary: handOver, roles: ["peer"] }, environment),
    ...(isShared ? [list] : []),
  ];
}
