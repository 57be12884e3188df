import { nodeHttpServer } from "@concord/adapter-http";
import { nodeDigestThread, nodeDisk, nodeMachine, requireWritable } from "@concord/adapter-node-runtime";
import { readText, ServerProgram, type Served, type Settings } from "@concord/server";
import { composeConcord } from "./composition.ts";
import type { ConcordConfig } from "./config.ts";
import { CONCORD_METRICS } from "./metrics.ts";
import type { Addresses } from "./service.ts";

export interface Program {
  readonly program: ServerProgram<ConcordConfig>;
  /** Rejects when a folder of the node takes no writes. */
  open(): Promise<Served<Addresses>>;
}

/** One node on this machine: its disk, its sockets, its admin port. Without `env` the process is not the node's. */
export function openProgram(settings: Settings<ConcordConfig>, env: NodeJS.ProcessEnv | undefined): Program {
  const { config } = settings;
  const program = new ServerProgram({ ...settings, definitions: CONCORD_METRICS, env, machine: nodeMachine });
  const { environment, http, onFailed } = program;
  const digestThread = nodeDigestThread(environment);
  const service = composeConcord(config, {
    environment,
    disk: nodeDisk,
    readFile: readText,
    digestThread,
    http: nodeHttpServer(http),
    onFailed,
  });
  const admin = {
    problems: () => service.unready,
    warnings: () => service.warnings,
    pages: {
      "/replicas": () => service.replicas(),
      "/scrub": () => service.scrub(),
      "/transactions": async () => service.transactions(),
      "/parts": async () => service.parts(),
    },
  };
  const open = async (): Promise<Served<Addresses>> => {
    for (const folder of [config.dataFolder, config.dataStoreFolder, config.logFolder])
      if (folder !== undefined) await requireWritable(folder);
    return { name: "the parts", service, admin };
  };
  return { program, open };
}
