import { connectThrough, type ConcordClient, type ConnectOptions } from "@concord/client";
import { sleep, type Environment, type Transport } from "@concord/runtime";
import { World, type FaultTargets } from "@concord/simulation";
import { composeStorageProxy, storageProxySchema } from "@concord/storage-proxy";
import { drawSwarm, type Swarm } from "./swarm.ts";

const DATACENTERS = ["dc1", "dc2", "dc3"] as const;
export const COORDINATORS: readonly string[] = DATACENTERS.map((_, at) => `coordinator-${at + 1}`);
export const PROXIES: readonly string[] = DATACENTERS.map((_, at) => `proxy-${at + 1}`);
const addressOf = (node: string): string => `${node}:7000`;

/** Batches left behind by a dead coordinator are picked up within a few seconds of simulated time. */
const BATCH_GRACE_MS = 1_000;
const BATCH_REPLAY_INTERVAL_MS = 400;

const CONNECT_AGAIN_MS = 50;

export interface Client {
  readonly db: ConcordClient;
  readonly env: Environment;
}

export interface ClusterOptions {
  readonly keepTrace: boolean;
}

/** The services that main.ts runs, composed by the same factories, on simulated machines; and clients beside them. */
export class Cluster {
  readonly world: World;
  readonly swarm: Swarm;
  readonly #clientNames: string[] = [];

  constructor(seed: string, options: ClusterOptions) {
    const quiet = new World(seed);
    this.swarm = drawSwarm(quiet.random("swarm"));
    const { network, clockSkewMs, clockDrift } = this.swarm;
    this.world = new World(seed, { keepTrace: options.keepTrace, network, clockSkewMs, clockDrift });
  }

  /** Nodes for a fault plan. */
  targets(points: readonly string[]): FaultTargets {
    return { all: [...PROXIES, ...this.#clientNames], servers: PROXIES, disks: PROXIES, replaceable: [], points };
  }

  startProxies(schemaAuthority: "ring" | "coordinator"): void {
    for (const [at, name] of PROXIES.entries()) this.#startProxy(name, DATACENTERS[at]!, schemaAuthority);
  }

  /** A client process with its connected client; it lives as long as the world. */
  async client(name: string, options: ConnectOptions, transportOf: (env: Environment) => Transport = ({ transport }) => transport): Promise<Client> {
    this.#clientNames.push(name);
    const connected = new Promise<Client>((resolve) => {
      this.world.node(name, async ({ env }) => {
        void connectPatiently(options, env, transportOf(env)).then((db) => resolve({ db, env }));
      });
    });
    return this.world.complete(connected, 60_000);
  }

  get proxyAddresses(): string[] {
    return PROXIES.map(addressOf);
  }

  #startProxy(name: string, datacenter: string, schemaAuthority: "ring" | "coordinator"): void {
    const config = storageProxySchema.parse({
      nodeName: name,
      datacenter,
      listenAddress: addressOf(name),
      ring: PROXIES.map((node, at) => ({ name: node, address: addressOf(node), datacenter: DATACENTERS[at] })),
      schemaAuthority,
      reflection: false,
      peerToken: "simulated-peer",
      coordinatorToken: "simulated-coordinator",
      readTimeoutMs: 1_000,
      writeTimeoutMs: 1_000,
      batchGraceMs: BATCH_GRACE_MS,
      batchReplayIntervalMs: BATCH_REPLAY_INTERVAL_MS,
    });
    this.world.node(name, async (host) => {
      const service = composeStorageProxy(config, {
        environment: host.env,
        openKeyValue: (store) => host.openKeyValue(store),
        onFailed: (cause) => host.exit(cause.message),
      });
      await service.start();
      return { stop: () => service.stop() };
    });
  }
}

/** Connects as soon as somebody answers. */
async function connectPatiently(options: ConnectOptions, env: Environment, transport: Transport): Promise<ConcordClient> {
  const { clock, random } = env;
  for (;;) {
    try {
      return await connectThrough(options, { clock, random, transport });
    } catch {
      await sleep(clock, CONNECT_AGAIN_MS);
    }
  }
}
