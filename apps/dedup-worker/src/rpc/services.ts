import { loadService } from "@concord/protos";
import { defineService, type Authenticator, type Role, type Service, type StreamHandler, type UnaryHandler } from "@concord/rpc";
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
    name: string,
    unary: Readonly<Record<string, UnaryHandler>>,
    streams: Readonly<Record<string, StreamHandler>> = {},
  ): Service => {
    const roles = Object.fromEntries([...Object.keys(unary), ...Object.keys(streams)].map((method) => [method, CALLERS]));
    const methods = loadService(`concord.dedup.v1.${name}`);
    const definition = { name: `concord.dedup.v1.${name}`, methods, unary, streams, roles, session: "Session" };
    return defineService(definition, { clock, log, metrics, authenticator });
  };
  return [
    define("IngestService", { Ingest: ingestHandler(parts) }),
    define("OutputService", { Read: readHandler(parts), GetBounds: getBoundsHandler(parts) }, { Consume: consumeHandler(parts) }),
    define("WindowService", { Seen: seenHandler(parts), GetStatistics: getStatisticsHandler(parts) }),
  ];
}
