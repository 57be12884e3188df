import { nodeHttpServer } from "@concord/adapter-http";
import {
  nodeDigestThread,
  nodeDisk,
  overlayDisk,
  requireWritable,
  nodeMachine,
  tuneV8,
  writableOf,
  type Writable,
} from "@concord/adapter-node-runtime";
import { readText, runServer, ServerProgram, settingsOf, type Served } from "@concord/server";
import { WRITES_TAKEN } from "@concord/runtime";
import { composeObjectGateway, OBJECT_GATEWAY_METRICS, objectGatewaySchema, type ObjectGatewayOptions } from "./index.ts";

tuneV8();

const settings = settingsOf("object-gateway", objectGatewaySchema, import.meta.dirname, process);
const { config } = settings;
const { dataFolder, dataStoreFolder } = config;
const program = new ServerProgram({ ...settings, definitions: OBJECT_GATEWAY_METRICS, env: process.env, machine: nodeMachine });

type Stored = Required<Pick<ObjectGatewayOptions, "disk" | "writes">>;

/** On a file system that takes no writes, what the gateway writes to start is kept in memory and forgotten. */
function diskOf(writable: Writable): Stored {
  if (writable.kind === "writable") return { disk: nodeDisk(dataFolder), writes: WRITES_TAKEN };
  return { disk: overlayDisk(nodeDisk(dataFolder, "reading")), writes: { kind: "refused", reason: writable.reason } };
}

async function open(): Promise<Served<object>> {
  const { disk, writes } = diskOf(await writableOf(dataFolder));
  // Shared blobs are no gateway's own: others may change what this one would serve.
  if (writes.kind !== "refused" && dataStoreFolder !== undefined) await requireWritable(dataStoreFolder);
  const { environment, http } = program;
  const service = composeObjectGateway(config, {
    environment,
    disk,
    writes,
    readFile: readText,
    ...(dataStoreFolder === undefined ? {} : { dataDisk: nodeDisk(dataStoreFolder) }),
    digestThread: nodeDigestThread(environment),
    http: nodeHttpServer(http),
  });
  return { name: "the gateway", service, admin: { writes: () => writes, pages: { "/scrub": () => service.scrub() } } };
}

await runServer(program, open, process);
