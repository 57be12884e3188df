// What each part is configured with: the keys it shares with the program, and those that follow from the nodes and the data folder.
import { join } from "node:path";
import { dedupWorkerSchema, type DedupWorkerConfig } from "@concord/dedup-worker";
import { objectGatewaySchema, type ObjectGatewayConfig } from "@concord/object-gateway";
import { storageProxySchema, type StorageProxyConfig } from "@concord/storage-proxy";
import { txnCoordinatorSchema, type TxnCoordinatorConfig } from "@concord/txn-coordinator";

export interface Node {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

/** The keys that others are derived from. */
export interface SharedConfig {
  readonly nodeName: string;
  readonly datacenter: string;
  readonly listenAddress: string;
  readonly dataFolder: string;
  readonly nodes: readonly Node[];
  readonly clientToken?: string | undefined;
  readonly logFolder?: string | undefined;
  readonly log?: string | undefined;
  readonly metadata?: string | undefined;
  readonly windowMaxAgeMs?: number | undefined;
  readonly eventsMaxAgeMs?: number | undefined;
  readonly accessKeys?: readonly { readonly tenant: string }[];
  readonly eventTargets?: readonly { readonly name: string; readonly tenant: string; readonly workers?: readonly string[] }[];
}

export interface PartConfigs {
  readonly storage: StorageProxyConfig;
  readonly transactions: TxnCoordinatorConfig;
  readonly objects: ObjectGatewayConfig;
  readonly messages: DedupWorkerConfig;
}

export const PART_SCHEMAS = {
  storage: storageProxySchema,
  transactions: txnCoordinatorSchema,
  objects: objectGatewaySchema,
  messages: dedupWorkerSchema,
} as const;

export type PartName = keyof PartConfigs;
export const PART_NAMES = Object.keys(PART_SCHEMAS) as readonly PartName[];

/** A node alone is reached where it listens. */
function nodesOf({ nodes, nodeName, listenAddress, datacenter }: SharedConfig): readonly Node[] {
  return nodes.length > 0 ? nodes : [{ name: nodeName, address: listenAddress, datacenter }];
}

/** Values for the part's own schema, not yet checked by it. */
export function partValues(part: PartName, config: SharedConfig): Readonly<Record<string, unknown>> {
  const known = Object.keys(PART_SCHEMAS[part].shape);
  const values: Record<string, unknown> = { ...config, ...derivedValues(part, config) };
  return Object.fromEntries(Object.entries(values).filter(([key, value]) => known.includes(key) && value !== undefined));
}

function derivedValues(part: PartName, config: SharedConfig): Readonly<Record<string, unknown>> {
  const dataFolder = join(config.dataFolder, part);
  const nodes = nodesOf(config);
  const addresses = nodes.map(({ address }) => address);
  switch (part) {
    case "storage":
      return { dataFolder, ring: config.nodes, schemaAuthority: "coordinator" };
    case "transactions":
      return { coordinators: config.nodes, storageProxies: nodes };
    case "objects":
      // The storage keeps the reserve that all borrow from.
      return {
        dataFolder,
        reserveBytes: 0,
        coordinators: addresses,
        storageProxies: addresses,
        transactionToken: config.clientToken,
        ...eventsOf(config, nodes),
      };
    case "messages":
      // Different on every node: the ids that workers make differ.
      return {
        dataFolder,
        reserveBytes: 0,
        workers: config.logFolder === undefined && config.log !== "kafka" ? [] : config.nodes,
        snowflakeWorkerId: nodes
          .map(({ name }) => name)
          .sort()
          .indexOf(config.nodeName),
      };
  }
}

/**
 * Events go to the messages of the same nodes, as configured; with keys of one tenant alone it has a target without being configured. Nodes that share
 * buckets but no log cannot: an event could come out at two of them.
 */
function eventsOf(config: SharedConfig, nodes: readonly Node[]): object {
  const { eventTargets = [], accessKeys = [], clientToken, nodeName, windowMaxAgeMs = 0, eventsMaxAgeMs } = config;
  const sharesLog = config.logFolder !== undefined || config.log === "kafka";
  const near = sharesLog ? nodes : nodes.filter(({ name }) => name === nodeName && (nodes.length === 1 || config.metadata === "local"));
  const addresses = near.map(({ address }) => address);
  const [tenant, ...others] = new Set(accessKeys.map((key) => key.tenant));
  const standard: NonNullable<SharedConfig["eventTargets"]> =
    tenant === undefined || others.length > 0 || near.length === 0 ? [] : [{ name: STANDARD_TARGET, tenant }];
  const targets = eventTargets.length === 0 ? standard : eventTargets;
  return {
    dedupWorkerToken: clientToken,
    eventTargets: targets.map((target) => ({ ...target, workers: target.workers?.length ? target.workers : addresses })),
    // Well before the messages forget an id.
    ...(windowMaxAgeMs > 0 && eventsMaxAgeMs !== undefined
      ? { eventsMaxAgeMs: Math.max(1, Math.min(eventsMaxAgeMs, Math.floor(windowMaxAgeMs / 2))) }
      : {}),
  };
}

/** Its ARN in rules of buckets: arn:aws:sqs:REGION:TENANT:messages. */
const STANDARD_TARGET = "messages";

/** Of a configuration that the program's schema accepted. */
export function partConfigs(config: SharedConfig): PartConfigs {
  return {
    storage: storageProxySchema.parse(partValues("storage", config)),
    transactions: txnCoordinatorSchema.parse(partValues("transactions", config)),
    objects: objectGatewaySchema.parse(partValues("objects", config)),
    messages: dedupWorkerSchema.parse(partValues("messages", config)),
  };
}
