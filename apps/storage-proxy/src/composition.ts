import { join } from "node:path";
import { openLevel } from "@concord/adapter-level";
import { PeerSession, RemoteLogReplica, RemoteRowReplica } from "@concord/adapter-ring";
import { tokensOf } from "@concord/config";
import { Engine } from "@concord/engine";
import { localLogReplica, openReplicaLog, RingGroupLog } from "@concord/group-log";
import type { KeyValue } from "@concord/ports";
import { LocalRowReplica, QuorumRowStore, WriteClock } from "@concord/quorum";
import { startHost, tokenAuthenticator } from "@concord/rpc";
import type { ConcordError, Environment } from "@concord/runtime";
import { openBatches } from "./batches.ts";
import type { StorageProxyConfig } from "./config.ts";
import { formRing } from "./formation/form-ring.ts";
import type { NodeParts } from "./node-parts.ts";
import { defineServices } from "./rpc/services.ts";
import { PageTokens } from "./rows/page-token.ts";
import { SchemaCache } from "./rows/schema-cache.ts";
import { StorageProxyService } from "./service.ts";

export interface StorageProxyHost {
  readonly environment: Environment;
  /** The node's store by node name; a level store in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<KeyValue>;
  /** The store failed: the process must end and start again. Thrown as an uncaught error when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The only place that knows every adapter of a storage-proxy. */
export function composeStorageProxy(config: StorageProxyConfig, host: StorageProxyHost): StorageProxyService {
  const { environment } = host;
  const { clock, log, metrics, transport, checksum } = environment;
  const members = config.ring.length === 0 ? [config.nodeName] : config.ring.map((node) => node.name).sort();
  const peers = config.ring
    .filter((node) => node.name !== config.nodeName)
    .map(
      ({ name, address }) =>
        new PeerSession({ name, address, transport, clock, log, peerToken: config.peerToken, self: config.nodeName, members }),
    );
  const openStore = host.openKeyValue ?? ((): Promise<KeyValue> => openLevel(join(config.dataFolder, "store")));
  const authenticator = tokenAuthenticator(tokensOf(config));

  async function build(store: KeyValue, onFailed: (cause: ConcordError) => void): Promise<NodeParts> {
    const engine = new Engine({ store, clock, metrics, onFailed });
    const replicaLog = await openReplicaLog(store, checksum);
    const localLog = localLogReplica(config.nodeName, replicaLog, engine);
    const localRows = new LocalRowReplica({ name: config.nodeName, runner: engine, reader: engine, checksum, log });
    const rows = new QuorumRowStore({ replicas: [localRows, ...peers.map((peer) => new RemoteRowReplica(peer))], clock, metrics });
    const groupLog = new RingGroupLog({ replicas: [localLog, ...peers.map((peer) => new RemoteLogReplica(peer))], clock });
    const schema = new SchemaCache({ rows, timeoutMs: config.readTimeoutMs, log });
    const writeClock = new WriteClock(clock);
    const pageTokens = new PageTokens(checksum);
    const batches = await openBatches({ config, environment, store, engine, localRows, peers, writeClock });
    return { config, engine, localRows, localLog, rows, groupLog, schema, writeClock, pageTokens, batches, sources: environment };
  }

  const fail = (cause: ConcordError): void => {
    log.error("the store failed: this node must start again", { reason: cause.message });
    if (host.onFailed !== undefined) host.onFailed(cause);
    else
      clock.defer(() => {
        throw cause;
      });
  };
  return new StorageProxyService(
    {
      config,
      environment,
      openStore: () => openStore(config.nodeName),
      services: (store, parts) => defineServices({ config, environment, authenticator, members, store, parts }),
      host: (services) => startHost({ transport, address: config.listenAddress, services, clock, log, reflection: config.reflection }),
      form: (store, signal) => formRing({ store, peers, members, clock, checksum, log, settleMs: config.writeTimeoutMs, signal }),
      build,
      closePeers: () => peers.forEach((peer) => peer.close()),
    },
    fail,
  );
}
