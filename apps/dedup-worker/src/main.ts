import { readFileSync } from "node:fs";
import { nodeClock, nodeDisk, nodeEnvironment, nodeRandom, openFilesMax, requireWritable, tuneV8 } from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess, watchTls } from "@concord/config";
import { endWithListCommand, listCommandOf, listUsage, WORKER_LIST } from "@concord/member-lists";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { connectionLimits, type ConcordError } from "@concord/runtime";
import { createLog, createMetrics, startAdmin, startTracing } from "@concord/telemetry";
import { DEAD_LETTERS_USAGE, deadLettersCommandOf, endWithDeadLetterCommand } from "./dead-letters/command.ts";
import { composeDedupWorker, DEDUP_WORKER_METRICS, dedupWorkerSchema } from "./index.ts";

tuneV8();

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const deadLetters = deadLettersCommandOf(process);
const { command, process: configured } = listCommandOf(WORKER_LIST, deadLetters.process);
if (process.argv[2] === "--help") console.log(`${listUsage(WORKER_LIST)}${DEAD_LETTERS_USAGE}`);
const config = configOfProcess("dedup-worker", dedupWorkerSchema, configured, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
const metrics = createMetrics({ definitions: DEDUP_WORKER_METRICS, process: true, build });
const tracing = startTracing(config, {
  program: "dedup-worker",
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
if (command !== undefined) {
  const { workers, listenAddress, operatorToken, workerToken } = config;
  const addresses = workers.length > 0 ? workers.map(({ address }) => address) : [listenAddress];
  await endWithListCommand(command, {
    list: WORKER_LIST,
    addresses,
    transport,
    token: operatorToken ?? workerToken,
    clock: nodeClock,
    process,
  });
}
if (deadLetters.command !== undefined)
  await endWithDeadLetterCommand(deadLetters.command, { config, transport, clock: nodeClock, process });
const failed = Promise.withResolvers<never>();
const environment = nodeEnvironment({ transport, log, metrics, env: process.env, tracer: tracing.tracer });
const kafkaCa = config.kafkaTlsCaFile === undefined ? {} : { kafkaCa: readFile(config.kafkaTlsCaFile) };
const logDisk = config.logFolder === undefined ? {} : { logDisk: nodeDisk(config.logFolder) };
const onFailed = (cause: ConcordError): void => failed.reject(cause);
const service = composeDedupWorker(config, { environment, disk: nodeDisk(config.dataFolder), ...logDisk, ...kafkaCa, onFailed });

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  for (const folder of [config.dataFolder, config.logFolder]) if (folder !== undefined) await requireWritable(folder);
  signal.addEventListener("abort", () => void service.stop());
  const admin = await startAdmin({
    address: config.adminAddress,
    metrics,
    ready: () => !isLeaving() && service.ready,
    problems: () => service.problems,
    waitsFor: () => environment.startWaits.current,
    log,
    connectionsMax: connections.admin,
    pages: { "/tasks": environment.tasks.page },
  });
  log.info("admin", { address: admin.address });
  await service.start();
  return {
    stop: () =>
      environment.stopProgress.inOrder({
        "the worker": () => service.stop(),
        traces: () => tracing.close(),
        "the admin port": () => admin.close(),
      }),
  };
}

await runMain({
  process,
  clock: nodeClock,
  log,
  build: { ...build },
  config,
  progress: environment.stopProgress,
  failed: failed.promise,
  start,
});
