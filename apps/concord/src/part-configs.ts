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
  readonly groupCount?: number | undefined;
  readonly clientToken?: string | undefined;
  readonly logFolder?: string | undefined;
  readonly log?: string | undefined;
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
      return { coordinators: config.nodes, storageProxies: nodes, groupCount: config.groupCount ?? nodes.length };
    case "objects":
      // The storage's reserve is for all.
      return { dataFolder, reserveBytes: 0, coordinators: addresses, storageProxies: addresses, transactionToken: config.clientToken };
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

/** Of a configuration that the program's schema accepted. */
export function partConfigs(config: SharedConfig): PartConfigs {
  return {
    storage: storageProxySchema.parse(partValues("storage", config)),
    transactions: txnCoordinatorSchema.parse(partValues("transactions", config)),
    objects: objectGatewaySchema.parse(partValues("objects", config)),
    messages: dedupWorkerSchema.parse(partValues("messages", config)),
  };
}
