import { ConcordClientError, connectThrough, type ConcordClient, type ConnectOptions } from "@concord/client";
import { composeConcord, concordSchema } from "@concord/concord";
import { observerOf } from "@concord/failure-detection";
import { sleep, toConcordError, type Environment, type Transport } from "@concord/runtime";
import { World, type FaultTargets, type WorldOptions } from "@concord/simulation";
import { composeStorageProxy, storageProxySchema, type StorageProxyConfig } from "@concord/storage-proxy";
import { changeList, COORDINATOR_LIST } from "@concord/member-lists";
import { composeTxnCoordinator, txnCoordinatorSchema } from "@concord/txn-coordinator";
import { openSimulatedStore } from "./stores.ts";
import { simulatedListedMembership, simulatedMembership } from "./membership.ts";
import { drawSwarm, type Swarm } from "./swarm.ts";

const DATACENTERS = ["dc1", "dc2", "dc3"] as const;
export const COORDINATORS: readonly string[] = DATACENTERS.map((_, at) => `coordinator-${at + 1}`);
export const PROXIES: readonly string[] = DATACENTERS.map((_, at) => `proxy-${at + 1}`);
/** With everything in one process each. */
const NODES: readonly string[] = DATACENTERS.map((_, at) => `node-${at + 1}`);
export const addressOf = (node: string): string => `${node}:7000`;

/** Batches left behind by a dead coordinator are picked up within a few seconds of simulated time. */
const BATCH_GRACE_MS = 1_000;
const BATCH_REPLAY_INTERVAL_MS = 400;
const REPAIR_INTERVAL_MS = 2_000;

export const PEER_TOKEN = "simulated-peer";
const COORDINATOR_TOKEN = "simulated-coordinator";
/** Above the largest clock step of a fault plan: a client with a wrong clock is another scenario. */
const CLOCK_SKEW_MAX_MS = 300_000;
/** Beside the work of transactions: what the parts of a node that nothing calls do by themselves. */
const IDLE_PARTS = {
  accessKeys: [{ accessKeyId: "simulated", secretAccessKey: "simulated", tenant: "main" }],
  partitions: 1,
  collectIntervalMs: 2_000,
};
/** Settings of a storage-proxy, alone or in a bundle. */
const RING_SETTINGS = {
  reflection: false,
  peerToken: PEER_TOKEN,
  coordinatorToken: COORDINATOR_TOKEN,
  readTimeoutMs: 1_000,
  writeTimeoutMs: 1_000,
  batchGraceMs: BATCH_GRACE_MS,
  batchReplayIntervalMs: BATCH_REPLAY_INTERVAL_MS,
  repairIntervalMs: REPAIR_INTERVAL_MS,
};
const CONNECT_AGAIN_MS = 50;
const LIST_CHANGE_TIMEOUT_MS = 120_000;

/** Settings of coordinators that a scenario wants otherwise. */
export interface CoordinatorSettings {
  readonly clockSkewMaxMs?: number;
  readonly outcomeRetentionMs?: number;
}

/** Settings of storage-proxies that a scenario wants otherwise. */
export type ProxySettings = Partial<Pick<StorageProxyConfig, "hintBytesMax" | "repairIntervalMs" | "tombstoneIntervalMs">>;

export interface Client {
  readonly db: ConcordClient;
  readonly env: Environment;
}

export interface Operator {
  /** Resolves when the list is so. */
  change(wanted: { readonly kind: "add" | "remove"; readonly name: string }): Promise<void>;
}

export interface ClusterOptions extends Pick<WorldOptions, "keepTrace" | "stopsAtViolation"> {
  /** What the seed does not decide. */
  readonly swarm?: Partial<Swarm>;
}

/** The services that main.ts runs, composed by the same factories, on simulated machines; and clients beside them. */
export class Cluster {
  readonly world: World;
  readonly swarm: Swarm;
  readonly #clientNames: string[] = [];
  /** What the newest process of each node runs. */
  readonly #services = new Map<string, { readonly ready: boolean }>();
  readonly #lives = new Map<string, number>();
  #proxies: readonly string[] = [];
  #coordinators: readonly string[] = [];

  constructor(seed: string, { swarm, ...options }: ClusterOptions) {
    const quiet = new World(seed);
    this.swarm = { ...drawSwarm(quiet.random("swarm")), ...swarm };
    const { network, clockSkewMs, clockDrift } = this.swarm;
    this.world = new World(seed, { ...options, network, clockSkewMs, clockDrift });
  }

  /** Nodes for a fault plan. */
  targets(points: readonly string[]): FaultTargets {
    const servers = [...new Set([...this.#proxies, ...this.#coordinators])];
    // A node that is replaced while it runs would share its disk with the new one.
    const replaceable = this.#coordinators.filter((node) => !this.#proxies.includes(node));
    const all = [...servers, ...this.#clientNames];
    const zones = DATACENTERS.map((_, zone) => all.filter((node) => zoneOf(node) === zone));
    return { all, zones, servers, disks: this.#proxies, replaceable, points };
  }

  /** What serves transactions, in the topology of the seed. */
  startServers(settings: CoordinatorSettings = {}): void {
    if (this.swarm.topology === "bundle") {
      this.#startNodes(settings);
      return;
    }
    this.startProxies("coordinator");
    this.startCoordinators(settings);
  }

  get coordinators(): readonly string[] {
    return this.#coordinators;
  }

  get proxies(): readonly string[] {
    return this.#proxies;
  }

  /** Nodes that serve transactions and say that they are not ready. */
  unready(): string[] {
    return this.#coordinators.filter((name) => this.#services.get(name)?.ready !== true);
  }

  #startNodes(settings: CoordinatorSettings): void {
    this.#proxies = NODES;
    this.#coordinators = NODES;
    for (const [at, name] of NODES.entries()) this.#startNode(name, DATACENTERS[at]!, settings);
  }

  startProxies(schemaAuthority: "ring" | "coordinator", settings: ProxySettings = {}): void {
    this.#proxies = PROXIES;
    for (const [at, name] of PROXIES.entries()) this.#startProxy(name, DATACENTERS[at]!, schemaAuthority, settings);
  }

  /** Number of times that the node was started. */
  livesOf(name: string): number {
    return this.#lives.get(name) ?? 0;
  }

  startCoordinators(settings: CoordinatorSettings = {}): void {
    this.#coordinators = COORDINATORS;
    for (const [at, name] of COORDINATORS.entries()) this.#startCoordinator(name, DATACENTERS[at]!, settings);
  }

  /** A process from which the list of coordinators is changed, by the command's own calls (TX32). */
  async operator(): Promise<Operator> {
    const started = new Promise<Environment>((resolve) => this.world.node("operator", async ({ env }) => resolve(env)));
    const { transport, clock } = await this.world.complete(started, 1_000);
    return {
      change: async ({ kind, name }) => {
        const at = COORDINATORS.length + Number(/\d+$/.exec(name)![0]) - 1;
        const node = { name, address: addressOf(name), datacenter: datacenterOf(at % DATACENTERS.length) };
        // It may run before or after it is in the list; one that was removed before waits to be added again.
        if (kind === "remove") this.#coordinators = this.#coordinators.filter((one) => one !== name);
        else if (!this.#services.has(name)) this.#startCoordinator(name, node.datacenter, {});
        const options = { addresses: this.coordinatorAddresses, transport, clock, token: COORDINATOR_TOKEN };
        const change = kind === "add" ? { kind, ...node } : { kind, name };
        const say = (line: string): void => this.world.trace.line(1000 * this.world.nowMs, line);
        const command = (): Promise<unknown> =>
          changeList(change, { list: COORDINATOR_LIST, ...options, timeoutMs: LIST_CHANGE_TIMEOUT_MS, say });
        // What is refused while others are down, as an operator does.
        while (!(await command().then(() => true, isDecided))) await sleep(clock, CONNECT_AGAIN_MS);
        if (kind === "add") this.#coordinators = [...this.#coordinators, name];
      },
    };
  }

  /** A client process with its connected client; it lives as long as the world. */
  async client(
    name: string,
    options: ConnectOptions,
    transportOf: (env: Environment) => Transport = ({ transport }) => transport,
  ): Promise<Client> {
    this.#clientNames.push(name);
    const connected = new Promise<Client>((resolve) => {
      this.world.node(name, async ({ env }) => {
        void connectPatiently(options, env, transportOf(env)).then((db) => resolve({ db, env }));
      });
    });
    return this.world.complete(connected, 60_000);
  }

  get proxyAddresses(): string[] {
    return this.#proxies.map(addressOf);
  }

  get coordinatorAddresses(): string[] {
    return this.#coordinators.map(addressOf);
  }

  #startCoordinator(name: string, datacenter: string, settings: CoordinatorSettings): void {
    const { groupCount, lockTimeoutMs, masters } = this.swarm;
    const config = txnCoordinatorSchema.parse({
      nodeName: name,
      datacenter,
      listenAddress: addressOf(name),
      coordinators: members(COORDINATORS),
      storageProxies: members(PROXIES),
      reflection: false,
      coordinatorToken: COORDINATOR_TOKEN,
      groupCount,
      masters,
      lockTimeoutMs,
      clockSkewMaxMs: CLOCK_SKEW_MAX_MS,
      ...settings,
    });
    this.world.node(
      name,
      async (context) => {
        const service = composeTxnCoordinator(config, {
          environment: context.env,
          limits: this.swarm.transactions,
          membership: simulatedListedMembership(context, name),
          onFailed: (cause) => context.exit(cause.message),
        });
        this.#services.set(name, service);
        await service.start();
        return { stop: () => service.stop() };
      },
      this.swarm.cpu,
    );
  }

  #startNode(name: string, datacenter: string, settings: CoordinatorSettings): void {
    const { groupCount, lockTimeoutMs, masters } = this.swarm;
    const config = concordSchema.parse({
      ...IDLE_PARTS,
      nodeName: name,
      datacenter,
      listenAddress: addressOf(name),
      httpAddress: `${name}:9000`,
      nodes: members(NODES),
      ...RING_SETTINGS,
      groupCount,
      masters,
      lockTimeoutMs,
      clockSkewMaxMs: CLOCK_SKEW_MAX_MS,
      ...settings,
    });
    this.world.node(
      name,
      async (context) => {
        const service = composeConcord(config, {
          environment: context.env,
          disk: () => context.disk,
          http: context.http,
          openKeyValue: (folder) => openSimulatedStore(context, folder, this.swarm.store),
          transactionLimits: this.swarm.transactions,
          membership: simulatedMembership(context, config.nodes, name),
          onFailed: (cause) => context.exit(cause.message),
        });
        this.#services.set(name, service);
        await service.start();
        return { stop: () => service.stop() };
      },
      this.swarm.cpu,
    );
  }

  #startProxy(name: string, datacenter: string, schemaAuthority: "ring" | "coordinator", settings: ProxySettings): void {
    const config = storageProxySchema.parse({
      nodeName: name,
      datacenter,
      listenAddress: addressOf(name),
      ring: members(PROXIES),
      schemaAuthority,
      ...RING_SETTINGS,
      ...settings,
    });
    this.world.node(
      name,
      async (context) => {
        this.#lives.set(name, this.livesOf(name) + 1);
        const service = composeStorageProxy(config, {
          environment: context.env,
          failures: observerOf(simulatedMembership(context, config.ring, name), PROXIES),
          disk: context.disk,
          openKeyValue: (folder) => openSimulatedStore(context, folder, this.swarm.store),
          onFailed: (cause) => context.exit(cause.message),
        });
        await service.start();
        return { stop: () => service.stop() };
      },
      this.swarm.cpu,
    );
  }
}

/** Throws what an operator would not try again. */
function isDecided(thrown: unknown): false {
  if (toConcordError(thrown).code !== "PRECONDITION_FAILED") throw thrown;
  return false;
}

/** Of the node at this place among its kind. */
export function datacenterOf(at: number): string {
  return DATACENTERS[at]!;
}

/** Nodes with equal numbers stand in one datacenter. */
function zoneOf(node: string): number {
  const number = /\d+$/.exec(node);
  return number === null ? 0 : (Number(number[0]) - 1) % DATACENTERS.length;
}

function members(names: readonly string[]): object[] {
  return names.map((name, at) => ({ name, address: addressOf(name), datacenter: DATACENTERS[at] }));
}

/** Creates tables as soon as a node can. */
export async function createPatiently({ db, env }: Client, tables: readonly string[]): Promise<void> {
  for (;;) {
    try {
      await db.createTables(tables);
      return;
    } catch (thrown) {
      if (!(thrown instanceof ConcordClientError) || !thrown.retryable || thrown.applied !== "no") throw thrown;
      await sleep(env.clock, CONNECT_AGAIN_MS);
    }
  }
}

/** Connects as soon as a node answers. */
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
