import { join } from "node:path";
import { openLevel } from "@concord/adapter-level";
import { nodeDisk } from "@concord/adapter-node-runtime";
import { PeerSession, RemoteLogReplica, RemoteRowReplica } from "@concord/adapter-ring";
import type { Store } from "@concord/ports";
import { openStore } from "@concord/store";
import type { BackendOptions, OpenedBackend } from "../backend-definition.ts";
import type { RingConfig } from "./config.ts";
import { RingBackend } from "./ring-backend.ts";
import { replicaService } from "./rpc/replica-service.ts";

/** Opens this node's store. Its peers are answered Hello from the moment the services are mounted (I1). */
export async function openRing(options: BackendOptions<RingConfig>): Promise<OpenedBackend> {
  const { config, environment, authenticator, drawTimestampUs, onFailed } = options;
  const { clock, log, metrics, transport } = environment;
  const members = config.ring.length === 0 ? [config.nodeName] : config.ring.map((node) => node.name).sort();
  const others = config.ring.filter((node) => node.name !== config.nodeName);
  const store = await (options.openKeyValue?.(config.nodeName) ?? openOwnStore(options));
  const { incarnation } = store;
  const shared = { transport, clock, log, metrics, peerToken: config.peerToken, self: config.nodeName, members, incarnation };
  const sessions = others.map(({ name, address }) => new PeerSession({ ...shared, name, address }));
  const peers = sessions.map((session) => ({ session, rows: new RemoteRowReplica(session), log: new RemoteLogReplica(session) }));
  const backend = new RingBackend({ config, environment, store, sessions, peers, members, drawTimestampUs, onFailed });
  const service = replicaService({ name: config.nodeName, environment, authenticator, members, store, backend });
  service.setState("serving");
  return { backend, services: [service] };
}

const STORE_FOLDER = "store";

/** Opening the backing store takes the lock of the data folder. */
async function openOwnStore({ config, environment }: BackendOptions<RingConfig>): Promise<Store> {
  const backing = await openLevel(join(config.dataFolder, STORE_FOLDER));
  return openStore({ ...environment, disk: nodeDisk(config.dataFolder), folder: STORE_FOLDER, backing, keepsCuts: true });
}
