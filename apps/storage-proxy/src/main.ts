import { readFileSync } from "node:fs";
import { nodeClock, nodeEnvironment } from "@concord/adapter-node-runtime";
import { loadConfig, tlsOf } from "@concord/config";
import { grpcTransport, runMain, type Running } from "@concord/rpc";
import { createLog, createMetrics, startAdmin } from "@concord/telemetry";
import { composeStorageProxy, STORAGE_PROXY_METRICS, storageProxySchema } from "./index.ts";

const readFile = (path: string): string => readFileSync(path, "utf8");
const loaded = loadConfig({ name: "storage-proxy", schema: storageProxySchema, argv: process.argv.slice(2), env: process.env, readFile });
if (loaded.kind === "invalid") {
  process.stderr.write(`${loaded.problems.join("\n")}\n`);
  process.exitCode = 2;
} else if (loaded.kind !== "config") {
  process.stdout.write(loaded.text);
} else {
  const { config } = loaded;
  const log = createLog({ name: config.nodeName, level: config.logLevel });
  const metrics = createMetrics({ definitions: STORAGE_PROXY_METRICS });
  const tls = tlsOf(config, readFile);
  const transport = grpcTransport({ clock: nodeClock, log, metrics, ...(tls === undefined ? {} : { tls }) });
  const service = composeStorageProxy(config, { environment: nodeEnvironment({ transport, log, metrics, env: process.env }) });
  const start = async (signal: AbortSignal): Promise<Running> => {
    signal.addEventListener("abort", () => void service.stop());
    const { address, close } = await startAdmin({ address: config.adminAddress, metrics, ready: () => service.ready, log });
    log.info("admin", { address });
    await service.start();
    return { stop: () => service.stop().then(close) };
  };
  await runMain({ process, clock: nodeClock, log, start });
}
