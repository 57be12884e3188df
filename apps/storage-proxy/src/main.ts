import { nodeClock, nodeMachine, tuneV8 } from "@concord/adapter-node-runtime";
import { runServer, ServerProgram, settingsOf } from "@concord/server";
import { composeStorageProxy, endWithSchemaCommand, schemaCommandOf, STORAGE_PROXY_METRICS, storageProxySchema } from "./index.ts";

tuneV8();

const { command, process: configured } = schemaCommandOf(process);
const settings = settingsOf("storage-proxy", storageProxySchema, import.meta.dirname, configured);
const { config, log } = settings;
if (command !== undefined) await endWithSchemaCommand(command, { config, clock: nodeClock, log, process });
const program = new ServerProgram({ ...settings, definitions: STORAGE_PROXY_METRICS, env: process.env, machine: nodeMachine });
const service = composeStorageProxy(config, { environment: program.environment });
const admin = {
  writes: () => service.writes,
  warnings: () => service.warnings,
  pages: { "/replicas": () => service.replicas() },
};
await runServer(program, async () => ({ name: "the storage-proxy", service, admin }), process);
