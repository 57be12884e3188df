// One gateway with rows of its own, or several that share data and rows: through a node that keeps them, or in transactions. Two know of each
// other's death by rows that stand still, three by the verdict of a majority.
import { contract, type ObjectAdminService } from "@concord/protos-object";
import { bearer, type RequestInitOf, type ResponseOf, type UnaryName } from "@concord/rpc";
import { KEYS_WRAPPED, SCRUB_FINDING } from "@concord/objects";
import { composeObjectGateway, objectGatewaySchema, type ObjectGatewayConfig } from "@concord/object-gateway";
import type { ObjectMetadata } from "@concord/ports";
import { unreachable, type Disk, type Environment } from "@concord/runtime";
import { FAULT_KINDS, type FaultKind, type FaultTargets, type NodeContext, type SeededRandom } from "@concord/simulation";
import { PROXIES, type Cluster } from "../cluster.ts";
import { simulatedMembership } from "../membership.ts";
import { openSimulatedStore } from "../stores.ts";
import { managedKeys, serviceKeys, type KeyPhase } from "./encrypted.ts";
import { EVENT_CONFIG, EventHistory } from "./event-history.ts";
import { EXPIRING_CONFIG } from "./expiring.ts";
import { PART_BYTES_MIN } from "./limits.ts";
import { RemoteMetadata, serveMetadata } from "./metadata-node.ts";
import { ACCESS_KEY } from "./s3-client.ts";
import { SealedHistory } from "./sealed.ts";

const ROWS = "rows";
const ROWS_ADDRESS = "rows:7000";
const DATA = "pieces";
const OPERATOR = "simulated-operator";
const ADMIN = contract.service("ObjectAdminService").methods;
const ADMIN_TIMEOUT_MS = 20_000;
/** Where a gateway stands still while another recovers its epoch and collects garbage; each is followed by a wait for a disk or a client. */
const PAUSE_POINTS: readonly string[] = [
  "object:before-create",
  "object:after-create",
  "object:before-seal",
  "object:before-seal",
  "piece:written",
  "gateway:before-answer",
  "gateway:before-answer",
];
/** The most as in production. */
const BLOCK_NAMES_CHOICES: readonly number[] = [1, 16, 1024];
const SCRUB_INTERVAL_MS = 300;
const EVENT_SCAN_MS = 300;
const ROTATION_INTERVAL_MS = 400;
export const RECOVERY_INTERVAL_MS = 500;
/** With garbage collected at work a request is shorter than the grace, whatever clocks say. */
const SHORT_REQUEST_MS = 1_000;
/** Later than a gateway waits for the decision of an unresolved commit. */
const LATE_MS_MAX = 2_500;
const NAMES = ["gateway-1", "gateway-2", "gateway-3"];
/** Longer than any clock can be wrong. */
const LONG_GRACE_MS = 600_000;

export type Rows = "local" | "node" | "transactions";

/** What a seed decides about the gateways. */
export interface GatewayPlan {
  readonly rows: Rows;
  readonly names: readonly string[];
  /** They beat to each other and recover a dead one's epochs at the verdict. */
  readonly hasVerdicts: boolean;
  readonly shards: number;
  readonly journal: ObjectGatewayConfig["journal"];
  /** Blobs up to this length share files. */
  readonly packBytesMax: number;
  /** Garbage is collected while clients work; then no clock may be far off (OGD10). */
  readonly collects: boolean;
  readonly graceMs: number;
  readonly rowTimeoutMs: number;
  readonly epochDeadAfterMs: number;
  /** Names of blobs that are reserved at once: with the fewest uploads wait for them. */
  readonly blockNames: number;
  /** Of so many commits at the node one is left indeterminate for no reason; 0: none. */
  readonly doubtOneIn: number;
}

export function drawGateways(random: SeededRandom, clockSkewMs: number, blocks: SeededRandom): GatewayPlan {
  const rows = random.pick<Rows>([
    "local",
    "local",
    "local",
    "node",
    "node",
    "node",
    "node",
    "node",
    "node",
    "node",
    "node",
    "transactions",
  ]);
  const collects = random.chance(0.5);
  const drawn: Omit<GatewayPlan, "names" | "hasVerdicts"> = {
    rows,
    blockNames: blocks.pick(BLOCK_NAMES_CHOICES),
    shards: random.pick([1, 1, 3]),
    journal: random.pick(["reservation", "reservation", "reservation", "per-transaction", "per-transaction-basic"]),
    packBytesMax: random.pick([0, 20_500, 100_000]),
    collects,
    graceMs: collects ? 2 * clockSkewMs + 1_500 : LONG_GRACE_MS,
    rowTimeoutMs: random.pick([60, 300, 1_500]),
    epochDeadAfterMs: random.pick([400, 900, 2_000, 45_000]),
    doubtOneIn: random.pick([0, 0, 10, 40]),
  };
  const hasVerdicts = rows !== "local" && random.chance(0.4);
  return { ...drawn, hasVerdicts, names: NAMES.slice(0, rows === "local" ? 1 : hasVerdicts ? 3 : 2) };
}

export class Gateways {
  readonly plan: GatewayPlan;
  /** The bucket has lifecycle rules, which are carried out amid the work. */
  readonly hasRules: boolean;
  /** Undefined: the bucket has no event rules. */
  readonly events: EventHistory | undefined;
  /** Events that wait; in some seeds so few that writes are refused. */
  readonly #eventBytesMax: number;
  /** The bucket encrypts by default (SSE-S3). */
  readonly isEncrypted: boolean;
  /** Undefined: no client asks for encryption by itself. */
  readonly sealed: SealedHistory | undefined;
  /** Clients make buckets of their own. */
  readonly hasOwnBuckets: boolean;
  /** Undefined: no master key is replaced. Else with what gateways start from now on. */
  keyPhase: KeyPhase | undefined;
  /** Gateways whose last pass of key rotation found nothing more to wrap, each since it started with the present keys first. */
  readonly rotated = new Set<string>();
  /** The gateways start without any key. */
  areKeysGone = false;
  /** What is on the disk is not what the gateways wrote: the scrub finds it. */
  isTampered = false;
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.plan = drawGateways(cluster.world.random("gateways"), cluster.swarm.clockSkewMs, cluster.world.random("blocks"));
    this.hasRules = cluster.world.random("lifecycle").chance(0.4);
    const random = cluster.world.random("events");
    this.events = random.chance(0.4) ? new EventHistory(cluster.world) : undefined;
    this.#eventBytesMax = random.pick([3_000, 1_000_000, 1_000_000]);
    this.isEncrypted = cluster.world.random("encryption").chance(0.4);
    this.hasOwnBuckets = cluster.world.random("own buckets").chance(0.4);
    this.sealed = cluster.world.random("sealed").chance(0.4) ? new SealedHistory(cluster.world, this.isEncrypted) : undefined;
    const hasKeys = this.isEncrypted || this.sealed !== undefined;
    this.keyPhase = hasKeys && cluster.world.random("rotation").chance(0.7) ? "earlier-first" : undefined;
  }

  get s3Addresses(): readonly string[] {
    return this.plan.names.map(s3Address);
  }

  /** The disk that holds the blobs. */
  files(): Disk {
    return this.#cluster.world.filesOn(this.plan.rows === "local" ? this.plan.names[0]! : DATA);
  }

  start(): void {
    const { world } = this.#cluster;
    const { rows, names } = this.plan;
    switch (rows) {
      case "local":
        break;
      case "node":
        world.node(ROWS, (context) => serveMetadata(context, ROWS_ADDRESS, this.#cluster.swarm.store));
        break;
      case "transactions":
        this.#cluster.startProxies("coordinator");
        this.#cluster.startCoordinators();
        break;
      default:
        unreachable(rows);
    }
    if (rows !== "local") world.sharedDisk(DATA, names);
    for (const name of names) world.node(name, (context) => this.#boot(context, name));
  }

  /** What faults may hit, and which: clocks stay right where grace is short. */
  targets(clients: readonly string[], points: readonly string[]): { readonly targets: FaultTargets; readonly kinds: readonly FaultKind[] } {
    const { rows, names, collects } = this.plan;
    const behind = rows === "node" ? [ROWS] : rows === "transactions" ? this.#cluster.targets([]).servers : [];
    // Gateways more often than each of those behind them.
    const servers = [...names, ...names, ...behind];
    const disks = rows === "transactions" ? [...names, ...PROXIES] : [...names, ...behind];
    return {
      targets: { all: [...names, ...behind, ...clients], zones: [], servers, disks, replaceable: [], points, pausePoints: PAUSE_POINTS },
      kinds: [...FAULT_KINDS, "pause-at-point" as const].filter((kind) => !collects || kind !== "clock-step"),
    };
  }

  /** Asks a gateway as an operator. */
  async ask<Name extends UnaryName<ObjectAdminService>>(
    env: Environment,
    name: string,
    method: Name,
    request: RequestInitOf<ObjectAdminService, Name> = {},
  ): Promise<ResponseOf<ObjectAdminService, Name>> {
    const channel = env.transport.connect(grpcAddress(name));
    try {
      const answer = await channel.unary(ADMIN[method]!, request, { timeoutMs: ADMIN_TIMEOUT_MS, metadata: bearer(OPERATOR) });
      return answer as ResponseOf<ObjectAdminService, Name>;
    } finally {
      channel.close();
    }
  }

  async #boot(context: NodeContext, name: string): Promise<{ stop(): Promise<void> }> {
    const { rows, epochDeadAfterMs, blockNames, hasVerdicts, names } = this.plan;
    const members = names.map((member) => ({ name: member, address: grpcAddress(member), datacenter: member }));
    this.rotated.delete(name);
    const service = composeObjectGateway(this.#config(name), {
      environment: { ...context.env, log: this.#watched(context.env, name, this.keyPhase) },
      disk: context.disk,
      http: context.http,
      openKeyValue: (folder) => openSimulatedStore(context, folder, this.#cluster.swarm.store),
      onFailed: (cause) => context.exit(cause.message),
      tuning: {
        limits: { partBytesMin: PART_BYTES_MIN, resolveWaitMs: 1_500, completeStaleMs: 3_000 },
        recoveryIntervalMs: RECOVERY_INTERVAL_MS,
        epochHeartbeatMs: 300,
        epochBlockNames: blockNames,
        epochDeadAfterMs,
        eventScanMs: EVENT_SCAN_MS,
        rotationIntervalMs: ROTATION_INTERVAL_MS,
      },
      openSink: () => this.events!.sinkFor(context.env),
      ...(rows === "local" ? {} : { dataDisk: context.sharedDisk(DATA) }),
      ...(hasVerdicts ? { peers: { membership: simulatedMembership(context, members, name), members } } : {}),
      ...(rows === "node" ? { metadata: this.#remoteRows(context.env) } : {}),
    });
    await service.start();
    return { stop: () => service.stop() };
  }

  /** The scrub runs at work: what it finds is not there, or our bug. Of key rotation an operator sees when nothing is left. */
  #watched({ log }: Environment, name: string, phase: KeyPhase | undefined): Environment["log"] {
    const { world } = this.#cluster;
    return {
      ...log,
      info: (message, fields) => {
        if (message === KEYS_WRAPPED && phase === "present-first") this.#passed(name, fields?.["wrapped"], fields?.["left"]);
        log.info(message, fields);
      },
      error: (message, fields) => {
        if (message === SCRUB_FINDING && !this.isTampered) world.violation("scrub", `${message}: ${JSON.stringify(fields)}`);
        log.error(message, fields);
      },
    };
  }

  #passed(name: string, wrapped: unknown, left: unknown): void {
    if (wrapped === 0 && left === 0) this.rotated.add(name);
    else this.rotated.delete(name);
    this.#cluster.world.count("object:keys-wrapped", Number(wrapped));
  }

  #remoteRows(env: Environment): ObjectMetadata {
    const { rowTimeoutMs: timeoutMs, doubtOneIn } = this.plan;
    // Until the world heals: a commit that stays unresolved for ever is no liveness.
    const isHealed = (): boolean => this.#cluster.world.isHealed;
    return new RemoteMetadata(env, { address: ROWS_ADDRESS, timeoutMs, doubtOneIn, lateByMsMax: LATE_MS_MAX, isHealed });
  }

  #config(name: string): ObjectGatewayConfig {
    const { rows, shards, journal, packBytesMax, collects, graceMs } = this.plan;
    return objectGatewaySchema.parse({
      nodeName: name,
      listenAddress: grpcAddress(name),
      httpAddress: s3Address(name),
      reflection: false,
      accessKeys: [ACCESS_KEY],
      operatorToken: OPERATOR,
      shards,
      journal,
      packBytesMax,
      metadata: rows === "transactions" ? "transactions" : "local",
      coordinators: rows === "transactions" ? this.#cluster.coordinatorAddresses : [],
      gcGraceMs: graceMs,
      longestRequestMs: collects ? SHORT_REQUEST_MS : 30_000,
      scrubIntervalMs: SCRUB_INTERVAL_MS,
      ...(this.hasRules ? EXPIRING_CONFIG : {}),
      ...(this.events === undefined ? {} : { ...EVENT_CONFIG, eventBytesMax: this.#eventBytesMax }),
      ...(this.isEncrypted && !this.areKeysGone ? managedKeys(this.keyPhase ?? "present-first") : {}),
      // Clients' keys are refused over plain HTTP; no simulated stream reads the files.
      ...(this.sealed === undefined ? {} : { tlsCertificateFile: "simulated", tlsKeyFile: "simulated" }),
      ...(this.sealed === undefined || this.areKeysGone ? {} : serviceKeys(this.keyPhase ?? "present-alone")),
      collectIntervalMs: collects ? 150 : LONG_GRACE_MS,
      checkpointIntervalMs: 100,
      drainGraceMs: 1_000,
    });
  }
}

const grpcAddress = (name: string): string => `${name}:7000`;
const s3Address = (name: string): string => `${name}:7001`;
