import { nodeHttpServer } from "@concord/adapter-http";
import {
  nodeClock,
  nodeDigestThread,
  nodeDisk,
  nodeEnvironment,
  nodeRandom,
  openFilesMax,
  requireWritable,
} from "@concord/adapter-node-runtime";
import { watchTls, type Build } from "@concord/config";
import { grpcTransport } from "@concord/rpc";
import { connectionLimits, type ConcordError, type Log, type StopProgress } from "@concord/runtime";
import { createMetrics, startAdmin, startTracing, type Admin } from "@concord/telemetry";
import { composeConcord } from "./composition.ts";
import type { ConcordConfig } from "./config.ts";
import { CONCORD_METRICS } from "./metrics.ts";
import type { Addresses, ConcordService } from "./service.ts";

export interface ProgramOptions {
  readonly log: Log;
  readonly build: Build;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile: (path: string) => string;
  /** Also the metrics of the whole process. Off where it is not ours. */
  readonly processMetrics: boolean;
}

export interface ProgramAddresses extends Addresses {
  /** /metrics, /healthz, /readyz. */
  readonly adminAddress: string;
}

export interface Program {
  /** Rejects when the program cannot go on without a part that failed: it must be stopped and started again. */
  readonly failed: Promise<never>;
  /**
   * Resolves when every part serves, or is out and tried again. Rejects when it must not start, or is stopped meanwhile; then all is closed. It is not ready while `isLeaving`
   * says so.
   */
  start(isLeaving?: () => boolean): Promise<ProgramAddresses>;
  /** Names what the stop waits for. */
  readonly stopProgress: StopProgress;
  /** Drains, then closes. Never rejects; a second call waits for the first. */
  stop(): Promise<void>;
}

/** One node on this machine: its disk, its sockets, its admin port. */
export function openProgram(config: ConcordConfig, options: ProgramOptions): Program {
  const { log, build, env, readFile, processMetrics } = options;
  const metrics = createMetrics({ definitions: CONCORD_METRICS, process: processMetrics, build });
  const tracing = startTracing(config, { program: "concord", version: build.version, clock: nodeClock, random: nodeRandom, log, metrics });
  const tls = watchTls(config, { readFile, clock: nodeClock, log });
  const connections = connectionLimits(openFilesMax());
  const failed = Promise.withResolvers<never>();
  let isStopping = (): boolean => false;
  const transport = grpcTransport({
    clock: nodeClock,
    log,
    metrics,
    connectionsMax: connections.grpc,
    inputBytesMax: config.inputBufferBytes,
    outputBytesMax: config.outputBufferBytes,
    ...tls.grpc,
  });
  const environment = nodeEnvironment({ transport, log, metrics, env, tracer: tracing.tracer });
  const service = composeConcord(config, {
    environment,
    disk: nodeDisk,
    readFile,
    digestThread: nodeDigestThread({ clock: nodeClock, log }),
    http: nodeHttpServer({
      clock: nodeClock,
      log,
      metrics,
      limits: { connectionsMax: connections.http },
      isLeaving: () => isStopping(),
      ...tls.http,
    }),
    onFailed: (cause: ConcordError) => failed.reject(cause),
  });
  let admin: Admin | undefined;
  const stop = async (): Promise<void> => {
    tls.close();
    await service.stop();
    await environment.stopProgress.inOrder({ traces: () => tracing.close(), "the admin port": async () => admin?.close() });
  };
  return {
    failed: failed.promise,
    stopProgress: environment.stopProgress,
    start: async (isLeaving = () => false) => {
      isStopping = isLeaving;
      for (const folder of [config.dataFolder, config.dataStoreFolder, config.logFolder])
        if (folder !== undefined) await requireWritable(folder);
      admin = await startAdmin({
        address: config.adminAddress,
        metrics,
        ready: () => !isLeaving() && service.ready,
        problems: () => service.unready,
        waitsFor: () => environment.startWaits.current,
        warnings: () => service.warnings,
        log,
        connectionsMax: connections.admin,
        pages: { ...pagesOf(service), "/tasks": environment.tasks.page },
      });
      log.info("admin", { address: admin.address });
      try {
        return { ...(await service.start()), adminAddress: admin.address };
      } catch (thrown) {
        await stop();
        throw thrown;
      }
    },
    stop,
  };
}

/** Pages of the admin port besides metrics and readiness. */
function pagesOf(service: ConcordService): Readonly<Record<string, () => Promise<object>>> {
  return {
    "/replicas": () => service.replicas(),
    "/scrub": () => service.scrub(),
    "/transactions": async () => service.transactions(),
    "/parts": async () => service.parts(),
  };
}
