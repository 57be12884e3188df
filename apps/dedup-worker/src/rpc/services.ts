import type { ServiceContract } from "@concord/protos";
import { IngestService, OutputService, WindowService } from "@concord/protos-dedup";
import {
  defineUntypedService,
  type Authenticator,
  type Role,
  type Service,
  type UntypedServiceDefinition,
  type UnaryHandler,
} from "@concord/rpc";
import type { Parts } from "../parts.ts";
import { consumeHandler } from "./consume.ts";
import { getBoundsHandler } from "./get-bounds.ts";
import { getStatisticsHandler } from "./get-statistics.ts";
import { ingestHandler } from "./ingest.ts";
import { readHandler } from "./read.ts";
import { seenHandler } from "./seen.ts";

const CALLERS: readonly Role[] = ["client", "operator"];

/** Every service of a dedup-worker; all of them are for clients. */
export function defineServices(parts: Parts, authenticator: Authenticator): readonly Service[] {
  const { clock, log, metrics } = parts.environment;
  const define = (
    contract: ServiceContract<object>,
    unary: Readonly<Record<string, UnaryHandler>>,
    streams: NonNullable<UntypedServiceDefinition["streams"]> = {},
  ): Service => {
    return defineUntypedService({ contract, unary, streams, roles: CALLERS }, { clock, log, metrics, authenticator });
  };
  return [
    define(IngestService, { Ingest: ingestHandler(parts) }),
    define(OutputService, { Read: readHandler(parts), GetBounds: getBoundsHandler(parts) }, { Consume: consumeHandler(parts) }),
    define(WindowService, { Seen: seenHandler(parts), GetStatistics: getStatisticsHandler(parts) }),
  ];
}
