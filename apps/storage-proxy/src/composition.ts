import { join } from "node:path";
import { openLevel } from "@concord/adapter-level";
import { PeerSession, RemoteLogReplica, RemoteRowReplica } from "@concord/adapter-ring";
import { tokensOf } from "@concord/config";
import type { KeyValue } from "@concord/ports";
import { startHost, tokenAuthenticator } from "@concord/rpc";
import type { ConcordError, Environment } from "@concord/runtime";
import type { StorageProxyConfig } from "./config.ts";
import { formRing } from "./ring/formation/form-ring.ts";
import { openNodeParts } from "./node-parts.ts";
import { defineServices } from "./rpc/services.ts";
import { StorageProxyService } from "./service.ts";

export interface StorageProxyHost {
  readonly environment: Environment;
  /** The node's store by node name; a level store in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<KeyValue>;
  /** The store failed: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The only place that knows every adapter of a storage-proxy. */
export function composeStorageProxy(config: StorageProxyConfig, host: StorageProxyHost): StorageProxyService {
  const { environment } = host;
  const { clock, log, metrics, transport, checksum } = environment;
  const members = config.ring.length === 0 ? [config.nodeName] : config.ring.map((node) => node.name).sort();
  const others = config.ring.filter((node) => node.name !== config.nodeName);
  const ours = { transport, clock, log, metrics, peerToken: config.peerToken, self: config.nodeName, members };
  const sessions = others.map(({ name, address }) => new PeerSession({ ...ours, name, address }));
  const peers = sessions.map((session) => ({ session, rows: new RemoteRowReplica(session), log: new RemoteLogReplica(session) }));
  const authenticator = tokenAuthenticator(tokensOf(config));
  const onFailed = host.onFailed ?? ((cause: ConcordError): void => void Promise.reject(cause));
  return new StorageProxyService({
    config,
    log,
    openStore: () => (host.openKeyValue === undefined ? openLevel(join(config.dataFolder, "store")) : host.openKeyValue(config.nodeName)),
    services: (store, parts) => defineServices({ config, environment, authenticator, members, store, parts }),
    host: (services) => startHost({ transport, address: config.listenAddress, services, clock, log, reflection: config.reflection }),
    form: (store, signal) => formRing({ store, peers: sessions, members, clock, checksum, log, settleMs: config.writeTimeoutMs, signal }),
    open: (store) => openNodeParts({ config, environment, store, peers, onFailed }),
    closePeers: () => sessions.forEach((session) => session.close()),
  });
}
