import { readFileSync } from "node:fs";
import { nodeClock, nodeEnvironment, nodeRandom, openFilesMax, tuneV8 } from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess, watchTls } from "@concord/config";
import { COORDINATOR_LIST, endWithListCommand, listCommandOf, listUsage } from "@concord/member-lists";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { connectionLimits } from "@concord/runtime";
import { createLog, createMetrics, startAdmin, startTracing } from "@concord/telemetry";
import { composeTxnCoordinator, TXN_COORDINATOR_METRICS, txnCoordinatorSchema } from "./index.ts";

tuneV8();

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const { command, process: configured } = listCommandOf(COORDINATOR_LIST, process);
if (process.argv[2] === "--help") console.log(listUsage(COORDINATOR_LIST));
const config = configOfProcess("txn-coordinator", txnCoordinatorSchema, configured, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
const metrics = createMetrics({ definitions: TXN_COORDINATOR_METRICS, process: true, build });
const tracing = startTracing(config, {
  program: "txn-coordinator",
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
  const { coordinators, listenAddress, operatorToken, coordinatorToken } = config;
  const addresses = coordinators.length > 0 ? coordinators.map(({ address }) => address) : [listenAddress];
  const token = operatorToken ?? coordinatorToken;
  await endWithListCommand(command, { list: COORDINATOR_LIST, addresses, transport, token, clock: nodeClock, process });
}
const failed = Promise.withResolvers<never>();
const environment = nodeEnvironment({ transport, log, metrics, env: process.env, tracer: tracing.tracer });
const service = composeTxnCoordinator(config, {
  environment,
  onFailed: (cause) => failed.reject(cause),
});

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  signal.addEventListener("abort", () => void service.stop());
  const admin = await startAdmin({
    address: config.adminAddress,
    metrics,
    ready: () => !isLeaving() && service.ready,
    waitsFor: () => environment.startWaits.current,
    log,
    connectionsMax: connections.admin,
    pages: { "/tasks": environment.tasks.page, "/transactions": async () => service.transactions() },
  });
  log.info("admin", { address: admin.address });
  await service.start();
  return {
    stop: () =>
      environment.stopProgress.inOrder({
        "the coordinator": () => service.stop(),
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
