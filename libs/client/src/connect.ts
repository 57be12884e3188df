import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import type { ConcordClient, ConnectOptions } from "./api.ts";
import { connectThrough } from "./connect-through.ts";
import { systemClock, systemRandom } from "./platform.ts";

/** Connects over gRPC; resolves when topology and schema are known. Fails when no server answers in `timeoutMs`. */
export function connect(options: ConnectOptions): Promise<ConcordClient> {
  const { tls } = options;
  const channel = tls === undefined ? undefined : { serverCa: tls.ca, ...optional(tls) };
  const transport = grpcTransport({
    clock: systemClock,
    log: silentLog,
    metrics: silentMetrics,
    ...(channel === undefined ? {} : { tls: { channel } }),
  });
  return connectThrough(options, { clock: systemClock, random: systemRandom, transport });
}

function optional(tls: NonNullable<ConnectOptions["tls"]>): { certificate?: string; key?: string; serverName?: string } {
  return {
    ...(tls.certificate === undefined ? {} : { certificate: tls.certificate }),
    ...(tls.key === undefined ? {} : { key: tls.key }),
    ...(tls.serverName === undefined ? {} : { serverName: tls.serverName }),
  };
}
