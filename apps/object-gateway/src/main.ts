import { readFileSync } from "node:fs";
import { nodeHttpServer } from "@concord/adapter-http";
import {
  nodeClock,
  nodeDigestThread,
  nodeDisk,
  nodeEnvironment,
  nodeRandom,
  openFilesMax,
  overlayDisk,
  tuneV8,
  requireWritable,
  writableOf,
  type Writable,
} from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess, watchTls } from "@concord/config";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { connectionLimits, WRITES_TAKEN } from "@concord/runtime";
import { createLog, createMetrics, startAdmin, startTracing } from "@concord/telemetry";
import {
  composeObjectGateway,
  OBJECT_GATEWAY_METRICS,
  objectGatewaySchema,
  type ObjectGatewayOptions,
  type ObjectGatewayService,
} from "./index.ts";

tuneV8();

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const config = configOfProcess("object-gateway", objectGatewaySchema, process, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
const metrics = createMetrics({ definitions: OBJECT_GATEWAY_METRICS, process: true, build });
const tracing = startTracing(config, {
  program: "object-gateway",
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
let isStopping = (): boolean => false;

function compose(stored: Stored): ObjectGatewayService {
  return composeObjectGateway(config, {
    environment,
    ...stored,
    readFile,
    ...(config.dataStoreFolder === undefined ? {} : { dataDisk: nodeDisk(config.dataStoreFolder) }),
    digestThread: nodeDigestThread({ clock: nodeClock, log }),
    http: nodeHttpServer({
      clock: nodeClock,
      log,
      metrics,
      limits: { connectionsMax: connections.http },
      isLeaving: () => isStopping(),
      ...tls.http,
    }),
  });
}

type Stored = Required<Pick<ObjectGatewayOptions, "disk" | "writes">>;

/** On a file system that takes no writes, what the gateway writes to start is kept in memory and forgotten. */
function diskOf(writable: Writable): Stored {
  if (writable.kind === "writable") return { disk: nodeDisk(config.dataFolder), writes: WRITES_TAKEN };
  return { disk: overlayDisk(nodeDisk(config.dataFolder, "reading")), writes: { kind: "refused", reason: writable.reason } };
}

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  isStopping = isLeaving;
  const { disk, writes } = diskOf(await writableOf(config.dataFolder));
  // Shared blobs are no gateway's own: others may change what this one would serve.
  if (writes.kind !== "refused" && config.dataStoreFolder !== undefined) await requireWritable(config.dataStoreFolder);
  const service = compose({ disk, writes });
  signal.addEventListener("abort", () => void service.stop());
  const pages = { "/scrub": () => service.scrub(), "/tasks": environment.tasks.page };
  const admin = await startAdmin({
    address: config.adminAddress,
    metrics,
    ready: () => !isLeaving() && service.ready,
    waitsFor: () => environment.startWaits.current,
    writes: () => writes,
    log,
    connectionsMax: connections.admin,
    pages,
  });
  log.info("admin", { address: admin.address });
  await service.start();
  return {
    stop: () =>
      environment.stopProgress.inOrder({
        "the gateway": () => service.stop(),
        traces: () => tracing.close(),
        "the admin port": () => admin.close(),
      }),
  };
}

await runMain({ process, clock: nodeClock, log, build: { ...build }, config, progress: environment.stopProgress, start });
