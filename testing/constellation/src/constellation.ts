// The services as processes of their own: for `npm start`, the demo, the benchmarks and the crash loops.
import { fileURLToPath } from "node:url";
import { FolderInUseError, lockFolder, type LockedFolder, type Tokens } from "./data-folder.ts";
import { OWN_ENGINES, prepareEngines, type Engines } from "./engines.ts";
import {
  configOf,
  planFromBase,
  planFromPorts,
  PORT_BASE,
  portsOf,
  SERVICES,
  type Members,
  type NodePlan,
  type Service,
} from "./layout.ts";
import { NodeProcess, type Exit } from "./node-process.ts";
import { reservePorts, takenOf, type ReservedPorts } from "./ports.ts";

export { FolderInUseError, PORT_BASE, type Exit, type Members, type NodePlan, type NodeProcess, type Service, type Tokens };

/** The programs that the services are, from the packages that this one declares. */
const PROGRAMS: Readonly<Record<Service, string>> = {
  "storage-proxy": fileURLToPath(import.meta.resolve("@concord/storage-proxy/main")),
  "txn-coordinator": fileURLToPath(import.meta.resolve("@concord/txn-coordinator/main")),
  "object-gateway": fileURLToPath(import.meta.resolve("@concord/object-gateway/main")),
  "dedup-worker": fileURLToPath(import.meta.resolve("@concord/dedup-worker/main")),
  concord: fileURLToPath(import.meta.resolve("@concord/concord/main")),
};
/** Tests and loads end after it; `npm start` waits as long as the nodes give signs of life. */
export const READY_TIMEOUT_MS = 480_000;

/** Transactions and batches; the other services need naming. */
const MEMBERS_DEFAULT: Members = { "storage-proxy": 3, "txn-coordinator": 3 };

/** `all`: every node of the constellation, with its addresses. */
export type ConfigOfNode = (node: NodePlan, all: readonly NodePlan[]) => object;

export interface ConstellationOptions {
  readonly dataFolder: string;
  /** How many nodes of which service; three storage-proxies and three txn-coordinators when not given. */
  readonly members?: Members;
  /** "free": ports of its own, reserved until it stops. */
  readonly portBase?: number | "free";
  /** Engines under rows and messages; their own when not given. */
  readonly engines?: Engines;
  /** More configuration for the nodes of a service: the same for each, or by node. */
  readonly config?: Partial<Record<Service, object | ConfigOfNode>>;
  /** More environment for single nodes, by name. */
  readonly environment?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** More arguments of Node itself for single nodes, by name: "--cpu-prof" and the like. */
  readonly nodeArguments?: Readonly<Record<string, readonly string[]>>;
  /** Program with arguments that starts each process in its place: see NodeProcessOptions. */
  readonly launcher?: readonly string[] | undefined;
  /** The programs to run instead of the apps' own. */
  readonly programs?: Partial<Record<Service, string>>;
  /** How long a node may take until it is ready, READY_TIMEOUT_MS when not given; Infinity: as long as it gives signs of life. */
  readonly readyTimeoutMs?: number;
  /** Wait before it is first reported what a node waits for, and longest silence of a node that starts: see NodeProcess. */
  readonly reportMs?: number;
  readonly silenceMsMax?: number;
  /** Aborted: a start that is not done drains what runs and fails with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (line: string) => void;
  /** A node ended though neither stop nor kill was called. */
  readonly onCrash?: (node: NodeProcess, exit: Exit) => void;
}

export interface Constellation {
  readonly nodes: readonly NodePlan[];
  readonly tokens: Tokens;
  readonly coordinators: readonly string[];
  readonly storageProxies: readonly string[];
  readonly dedupWorkers: readonly string[];
  /** S3 endpoints, "http://127.0.0.1:7321". */
  readonly s3Endpoints: readonly string[];
  process(name: string): NodeProcess;
  /** SIGKILL. */
  kill(name: string): Promise<void>;
  /** Starts a node that was killed or has ended, and waits until it is ready. */
  restart(name: string, environment?: Readonly<Record<string, string>>): Promise<void>;
  /** Drains gateways and workers, then the coordinators, then the proxies; releases folder and ports. */
  stop(): Promise<void>;
}

/** Starts all nodes and waits until each is ready; on a failure none is left running. FolderInUseError when the folder is taken. */
export async function startConstellation(options: ConstellationOptions): Promise<Constellation> {
  const folder = lockFolder(options.dataFolder);
  const processes = new Map<string, NodeProcess>();
  let reserved: ReservedPorts | undefined;
  const release = async (): Promise<void> => {
    await reserved?.release();
    folder.release();
  };
  try {
    const ofEngines = await prepareEngines(options.engines ?? OWN_ENGINES, folder.path, PROGRAMS["storage-proxy"]);
    if (options.portBase === "free") reserved = await reservePorts(portsOf(options.members ?? MEMBERS_DEFAULT));
    const plans = await plansFor(options, reserved);
    for (const plan of plans) processes.set(plan.name, processFor(plan, plans, folder, options, ofEngines[plan.service]));
    const constellation = new RunningConstellation(plans, processes, folder, release);
    await Promise.race([constellation.start(options), ...(options.signal === undefined ? [] : [aborted(options.signal)])]);
    return constellation;
  } catch (error) {
    const isStopped = options.signal?.aborted === true;
    await Promise.all([...processes.values()].map((node) => (isStopped ? node.stop() : node.kill())));
    await release();
    throw error;
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = (): void => reject(signal.reason as Error);
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail, { once: true });
  });
}

async function plansFor(options: ConstellationOptions, reserved: ReservedPorts | undefined): Promise<readonly NodePlan[]> {
  const { members = MEMBERS_DEFAULT } = options;
  if (reserved !== undefined) return planFromPorts(reserved.ports, members);
  const portBase = typeof options.portBase === "number" ? options.portBase : PORT_BASE;
  const plans = planFromBase(portBase, members);
  const taken = await takenOf(plans.flatMap((plan) => [plan.address, plan.adminAddress, plan.httpAddress ?? []].flat()));
  if (taken.length > 0) throw new Error(`${taken.join(", ")} is in use; stop the program that listens there or give another --port-base`);
  return plans;
}

function processFor(
  plan: NodePlan,
  plans: readonly NodePlan[],
  folder: LockedFolder,
  options: ConstellationOptions,
  ofEngines: object | undefined,
): NodeProcess {
  const nodeFolder = folder.nodeFolder(plan.name);
  const more = options.config?.[plan.service] ?? {};
  return new NodeProcess({
    plan,
    program: options.programs?.[plan.service] ?? PROGRAMS[plan.service],
    folder: nodeFolder,
    config: configOf(
      plan,
      {
        all: plans,
        tokens: folder.tokens,
        folder: nodeFolder,
        sharedFolder: folder.nodeFolder("objects"),
        logFolder: folder.nodeFolder("messages"),
      },
      { ...ofEngines, ...(isByNode(more) ? more(plan, plans) : more) },
    ),
    launcher: options.launcher,
    onCrash: options.onCrash ?? (() => undefined),
  });
}

function isByNode(config: object | ConfigOfNode): config is ConfigOfNode {
  return typeof config === "function";
}

class RunningConstellation implements Constellation {
  readonly nodes: readonly NodePlan[];
  readonly #processes: ReadonlyMap<string, NodeProcess>;
  readonly #folder: LockedFolder;
  readonly #release: () => Promise<void>;
  #readyTimeoutMs = READY_TIMEOUT_MS;

  constructor(nodes: readonly NodePlan[], processes: ReadonlyMap<string, NodeProcess>, folder: LockedFolder, release: () => Promise<void>) {
    this.nodes = nodes;
    this.#processes = processes;
    this.#folder = folder;
    this.#release = release;
  }

  get tokens(): Tokens {
    return this.#folder.tokens;
  }

  get coordinators(): readonly string[] {
    return this.#addresses("txn-coordinator");
  }

  get storageProxies(): readonly string[] {
    return this.#addresses("storage-proxy");
  }

  get dedupWorkers(): readonly string[] {
    return this.#addresses("dedup-worker");
  }

  get s3Endpoints(): readonly string[] {
    return this.nodes.flatMap((node) => (node.httpAddress === undefined ? [] : [`http://${node.httpAddress}`]));
  }

  async start(options: ConstellationOptions): Promise<void> {
    const { environment = {}, nodeArguments = {}, onProgress = () => undefined, readyTimeoutMs, reportMs, silenceMsMax } = options;
    this.#readyTimeoutMs = readyTimeoutMs ?? READY_TIMEOUT_MS;
    for (const node of this.#processes.values()) node.spawn(environment[node.plan.name], nodeArguments[node.plan.name]);
    this.#remember();
    await Promise.all(
      [...this.#processes.values()].map(async (node) => {
        await node.ready({ timeoutMs: this.#readyTimeoutMs, onWait: onProgress, reportMs, silenceMsMax });
        onProgress(`${node.plan.name} is ready`);
      }),
    );
  }

  process(name: string): NodeProcess {
    const node = this.#processes.get(name);
    if (node === undefined) throw new Error(`there is no node ${name}; there are ${[...this.#processes.keys()].join(", ")}`);
    return node;
  }

  async kill(name: string): Promise<void> {
    await this.process(name).kill();
  }

  async restart(name: string, environment: Readonly<Record<string, string>> = {}): Promise<void> {
    const node = this.process(name);
    node.spawn(environment);
    this.#remember();
    await node.ready({ timeoutMs: this.#readyTimeoutMs });
  }

  async stop(): Promise<void> {
    for (const service of SERVICES.toReversed()) {
      await Promise.all([...this.#processes.values()].filter((node) => node.plan.service === service).map((node) => node.stop()));
    }
    await this.#release();
  }

  /** Where the service is, in programs of its own or in those of everything. */
  #addresses(service: Service): readonly string[] {
    return this.nodes.filter((node) => node.service === service || node.service === "concord").map((node) => node.address);
  }

  #remember(): void {
    this.#folder.rememberProcesses([...this.#processes.values()].flatMap((node) => node.pid ?? []));
  }
}
