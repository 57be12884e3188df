import { readFileSync } from "node:fs";
import { nodeClock, nodeEnvironment, nodeRandom, openFilesMax, tuneV8 } from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess, watchTls } from "@concord/config";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { connectionLimits } from "@concord/runtime";
import { createLog, createMetrics, startAdmin, startTracing } from "@concord/telemetry";
import { composeStorageProxy, endWithSchemaCommand, schemaCommandOf, STORAGE_PROXY_METRICS, storageProxySchema } from "./index.ts";

tuneV8();

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const { command, process: configured } = schemaCommandOf(process);
const config = configOfProcess("storage-proxy", storageProxySchema, configured, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
if (command !== undefined) await endWithSchemaCommand(command, { config, clock: nodeClock, log, process });
const metrics = createMetrics({ definitions: STORAGE_PROXY_METRICS, process: true, build });
const tracing = startTracing(config, {
  program: "storage-proxy",
  version: build.version,
  clock: nodeClock,
  random: nodeRandom,
  log,
  metrics,
});
const tls = watchTls(config, { readFile, clock: nodeClock, log });
const { inputBufferBytes: inputBytesMax, outputBufferBytes: outputBytesMax } = config;
const connections = connectionLimits(openFilesMax());
const transport = grpcTransport({
  clock: nodeClock,
  log,
  metrics,
  connectionsMax: connections.grpc,
  inputBytesMax,
  outputBytesMax,
  ...tls.grpc,
});
const environment = nodeEnvironment({ transport, log, metrics, env: process.env, tracer: tracing.tracer });
const service = composeStorageProxy(config, {
  environment,
});

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  signal.addEventListener("abort", () => void service.stop());
  const pages = { "/replicas": () => service.replicas(), "/tasks": environment.tasks.page };
  const admin = await startAdmin({
    address: config.adminAddress,
    metrics,
    ready: () => !isLeaving() && service.ready,
    waitsFor: () => environment.startWaits.current,
    writes: () => service.writes,
    warnings: () => service.warnings,
    log,
    connectionsMax: connections.admin,
    pages,
  });
  log.info("admin", { address: admin.address });
  await service.start();
  return {
    stop: () =>
      environment.stopProgress.inOrder({
        "the storage-proxy": () => service.stop(),
        traces: () => tracing.close(),
        "the admin port": () => admin.close(),
      }),
  };
}

await runMain({ process, clock: nodeClock, log, build: { ...build }, config, progress: environment.stopProgress, start });
