import { join } from "node:path";
import { UdpMembership } from "@concord/adapter-heartbeats";
import { openLevel, openLevelCopy, reportFiltersTo } from "@concord/adapter-level";
import { nodeDescriptors, nodeDisk, overlayDisk, writableOf } from "@concord/adapter-node-runtime";
import { PeerSession, RemoteComparedRows, RemoteLogReplica, RemoteRowReplica, RemoteTombstones } from "@concord/adapter-ring";
import { observerOf, VerdictRelay, type FailureObserver } from "@concord/failure-detection";
import { LOG_ENTRY_NAMESPACE } from "@concord/group-log";
import { BATCH_ENTRY_NAMESPACE } from "@concord/logged-batch";
import type { Store } from "@concord/ports";
import type { Service } from "@concord/rpc";
import { ConcordError, lendingDisk, SpaceGuard, SpaceReserve, WRITES_TAKEN, type Disk, type Writes } from "@concord/runtime";
import { describeSuspects, openStore } from "@concord/store";
import type { BackendOptions, OpenedBackend } from "../backend-definition.ts";
import type { RingConfig } from "./config.ts";
import { RingBackend } from "./ring-backend.ts";
import { RingSpace } from "./ring-space.ts";
import { replicaService } from "./rpc/replica-service.ts";
import { admittingRows } from "./suspect-rows.ts";

/** Opens this node's store. Its peers are answered Hello from the moment the services are mounted (I1). */
export async function openRing(options: BackendOptions<RingConfig>): Promise<OpenedBackend> {
  const { config, environment, authenticator, drawTimestampUs, writeClock, onFailed } = options;
  const { clock, log, metrics, transport } = environment;
  const members = config.ring.length === 0 ? [config.nodeName] : config.ring.map((node) => node.name).sort();
  const others = config.ring.filter((node) => node.name !== config.nodeName);
  const { disk, writes } = await diskOf(options);
  const reserve = disk === undefined || writes.kind === "refused" ? undefined : reserveOf(options, disk);
  const own = spaceOf(options, reserve);
  await own.open();
  const open =
    options.openKeyValue?.(config.nodeName) ??
    openOwnStore(options, reserve === undefined ? disk! : lendingDisk({ disk: disk!, reserve, log }), writes);
  const store = await open.catch((thrown: unknown) => {
    own.close();
    throw thrown;
  });
  const { incarnation } = store;
  const shared = { transport, clock, log, metrics, peerToken: config.peerToken, self: config.nodeName, members, incarnation, writeClock };
  const sessions = others.map(({ name, address }) => new PeerSession({ ...shared, name, address }));
  const peers = sessions.map((session) => ({
    session,
    rows: new RemoteRowReplica(session),
    compared: new RemoteComparedRows(session),
    tombstones: new RemoteTombstones(session),
    log: new RemoteLogReplica(session),
  }));
  const heartbeats = options.failures === undefined ? heartbeatsOf(options) : undefined;
  const failures = options.failures ?? heartbeats?.failures ?? new VerdictRelay();
  const space = new RingSpace({ own, peers: sessions, clock, tasks: environment.tasks });
  const backend = new RingBackend({ config, environment, store, sessions, peers, members, failures, space, drawTimestampUs, onFailed });
  const service = replicaService({ name: config.nodeName, environment, authenticator, members, store, backend, space, writes, writeClock });
  service.setState("serving");
  return { backend, services: [service, ...(heartbeats?.services ?? [])], replicas: () => backend.replicas(), writes };
}

interface Heartbeats {
  readonly failures: FailureObserver;
  readonly services: readonly Service[];
}

/** One node alone has nothing to hear. The members' order is the same at every node, whatever its configuration's. */
function heartbeatsOf({ config, environment, authenticator }: BackendOptions<RingConfig>): Heartbeats | undefined {
  const { ring, nodeName, listenAddress, peerToken } = config;
  if (ring.length <= 1) return undefined;
  const members = ring.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  const fallback = { transport: environment.transport, authenticator, token: peerToken };
  const membership = new UdpMembership({ ...environment, members, nodeName, listenAddress, secret: peerToken!, fallback });
  const names = members.map(({ name }) => name);
  return { failures: observerOf(membership, names), services: membership.services };
}

const STORE_FOLDER = "store";
/** Entries of logs go once every replica has applied them. */
export const SHORT_LIVED = Uint8Array.of(LOG_ENTRY_NAMESPACE, BATCH_ENTRY_NAMESPACE);

function reserveOf({ config, reserve }: BackendOptions<RingConfig>, disk: Disk): SpaceReserve {
  return reserve ?? new SpaceReserve(disk, config.reserveBytes);
}

/** Stores that are not on a disk have space without an end. */
function spaceOf({ config, environment }: BackendOptions<RingConfig>, reserve: SpaceReserve | undefined): SpaceGuard {
  if (reserve === undefined) return new SpaceGuard({ ...environment, service: "storage", disks: [], lowBytes: 0 });
  return new SpaceGuard({ ...environment, service: "storage", disks: [reserve.disk], lowBytes: config.lowSpaceBytes, reserve });
}

/**
 * The data folder, unless it is given. On a file system that takes no writes a node alone serves reads, and forgets what it writes to start; a
 * node of three would promise and accept what it forgets: STORE_FAILED, the other two serve.
 */
async function diskOf(options: BackendOptions<RingConfig>): Promise<{ readonly disk: Disk | undefined; readonly writes: Writes }> {
  const { config, environment } = options;
  if (options.disk !== undefined || options.openKeyValue !== undefined) return { disk: options.disk, writes: WRITES_TAKEN };
  const writable = await writableOf(config.dataFolder);
  if (writable.kind === "writable") return { disk: nodeDisk(config.dataFolder), writes: WRITES_TAKEN };
  const { reason } = writable;
  if (config.ring.length > 1) {
    const what = `${reason}: a node of a ring votes on what it stores; mount it for writing and start again, the other nodes serve meanwhile`;
    throw new ConcordError("STORE_FAILED", what, { applied: "no" });
  }
  environment.log.error("only reads are served: mount the data folder for writing and start again", { reason });
  return { disk: overlayDisk(nodeDisk(config.dataFolder, "reading")), writes: { kind: "refused", reason } };
}

/** Opening the backing store takes the lock of the data folder. */
async function openOwnStore({ config, environment, onFailed }: BackendOptions<RingConfig>, disk: Disk, writes: Writes): Promise<Store> {
  const open = writes.kind === "taken" ? openLevel : openLevelCopy;
  const options = { ...environment, disk, folder: STORE_FOLDER, keepsCuts: true, shortLived: SHORT_LIVED, onFailed };
  const mends = { ...reportFiltersTo(environment.log), ...admittingRows(options) };
  const backing = await open(join(config.dataFolder, STORE_FOLDER), nodeDescriptors(), mends);
  const store = await openStore({ ...options, backing });
  const end = config.ring.length > 1 ? "are copied from both peers before this node serves" : "are refused";
  for (const range of store.suspects.ranges) environment.log.error(`${describeSuspects(range)} ${end}`, { folder: STORE_FOLDER });
  return store;
}
