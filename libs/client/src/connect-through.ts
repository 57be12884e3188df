import type { Clock, Random, Transport } from "@concord/runtime";
import type { ConcordClient, ConnectOptions } from "./api.ts";
import { clientError, toClientError, withoutEffect } from "./client-error.ts";
import { RoutingClient } from "./client.ts";
import { Connections } from "./connections.ts";
import { Directory } from "./directory.ts";
import type { ConcordClientError } from "./errors.ts";
import { HedgeBudget } from "./hedged-call.ts";
import { CALL_TIMEOUT_MS, SPECULATION_DELAY_MS, STANDBY_DELAY_MS } from "./limits.ts";
import { WorkerMessages } from "./messages.ts";
import { ServerClock } from "./server-clock.ts";
import { Storage } from "./storage.ts";
import { TopologyWatch } from "./topology-watch.ts";

/** What the client runs on; tests and the simulator pass their own. */
export interface ClientContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
}

/** `connect` over any transport. */
export async function connectThrough(options: ConnectOptions, context: ClientContext): Promise<ConcordClient> {
  const { random, transport } = context;
  const clock = new ServerClock(context.clock);
  const { coordinators = [], storageProxies = [], dedupWorker, timeoutMs = CALL_TIMEOUT_MS } = options;
  const hasRows = coordinators.length + storageProxies.length > 0;
  if (!hasRows && dedupWorker === undefined) throw clientError("MALFORMED_REQUEST", "give coordinators, storageProxies or dedupWorker");
  const connections = new Connections(transport, clock, options);
  const directory = new Directory({ connections, clock, coordinators, storageProxies, timeoutMs });
  const { datacenter, speculationDelayMs = SPECULATION_DELAY_MS, standbyDelayMs = STANDBY_DELAY_MS } = options;
  const storage = new Storage({ connections, directory, clock, random, datacenter, speculationDelayMs, timeoutMs });
  try {
    if (hasRows) await directory.refreshTopology();
    if (hasRows) await directory.refreshSchema(0n);
  } catch (thrown) {
    connections.close();
    throw connectError(toClientError(thrown), [...coordinators, ...storageProxies], timeoutMs);
  }
  const watch = new TopologyWatch({ connections, clock, onTopology: (topology) => directory.heard(topology) });
  if (directory.topology.coordinators.length > 1) watch.follow(directory.coordinators());
  const messages = new WorkerMessages({ connections, clock, random, addresses: [dedupWorker ?? []].flat(), timeoutMs });
  return new RoutingClient({
    messages,
    noteCommit: (token) => storage.noteCommit(token),
    connections,
    directory,
    storage,
    watch,
    standbyDelayMs,
    queuedStarts: new HedgeBudget(clock),
    tracer: options.tracer,
    clock,
    random,
    timeoutMs,
  });
}

/** Connecting reads only, so nothing was applied, whatever became of its calls. */
function connectError(error: ConcordClientError, addresses: readonly string[], timeoutMs: number): ConcordClientError {
  const { code, message, metadata, cause } = withoutEffect(error);
  if (code !== "CONNECTION_LOST" && code !== "DEADLINE_EXCEEDED") return withoutEffect(error);
  const asked = `${addresses.join(", ")} did not answer within ${timeoutMs} ms (${message})`;
  return clientError(code, `cannot connect: ${asked}; check the addresses, and that the servers run`, { applied: "no", metadata, cause });
}
