import { readFileSync } from "node:fs";
import { nodeClock, nodeDisk, nodeEnvironment, tuneHeap } from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess, watchTls } from "@concord/config";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { createLog, createMetrics, startAdmin } from "@concord/telemetry";
import { composeDedupWorker, DEDUP_WORKER_METRICS, dedupWorkerSchema } from "./index.ts";

tuneHeap();

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const config = configOfProcess("dedup-worker", dedupWorkerSchema, process, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
const metrics = createMetrics({ definitions: DEDUP_WORKER_METRICS, process: true, build });
const tls = watchTls(config, { readFile, clock: nodeClock, log });
const { outputBufferBytes: outputBytesMax } = config;
const transport = grpcTransport({ clock: nodeClock, log, metrics, outputBytesMax, ...tls.grpc });
const environment = nodeEnvironment({ transport, log, metrics, env: process.env });
const kafkaCa = config.kafkaTlsCaFile === undefined ? {} : { kafkaCa: readFile(config.kafkaTlsCaFile) };
const logDisk = config.logFolder === undefined ? {} : { logDisk: nodeDisk(config.logFolder) };
const service = composeDedupWorker(config, { environment, disk: nodeDisk(config.dataFolder), ...logDisk, ...kafkaCa });

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  signal.addEventListener("abort", () => void service.stop());
  const admin = await startAdmin({ address: config.adminAddress, metrics, ready: () => !isLeaving() && service.ready, log });
  log.info("admin", { address: admin.address });
  await service.start();
  return { stop: () => service.stop().then(() => admin.close()) };
}

await runMain({ process, clock: nodeClock, log, build: { ...build }, config, start });
