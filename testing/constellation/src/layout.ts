// Who runs where: each service's nodes spread over three datacenters, their ports, and the configuration file of each. A service is one
// of four, each in processes of its own, or all of them together in one program, concord.
import { join } from "node:path";
import type { Tokens } from "./data-folder.ts";

export const SERVICES = ["storage-proxy", "txn-coordinator", "object-gateway", "dedup-worker", "concord"] as const;
export type Service = (typeof SERVICES)[number];

/** How many nodes of each service; a service that is not named has none. */
export type Members = Partial<Record<Service, number>>;

export interface NodePlan {
  readonly name: string;
  readonly service: Service;
  readonly datacenter: string;
  /** Host and port for gRPC. */
  readonly address: string;
  /** Host and port of /healthz, /readyz and /metrics. */
  readonly adminAddress: string;
  /** Host and port of the S3 endpoint, where there is one. */
  readonly httpAddress?: string;
}

export const DATACENTERS = ["dc1", "dc2", "dc3"] as const;
export const PORT_BASE = 7100;
export const NODES_MAX = DATACENTERS.length;
/** What a newcomer gets: one process with everything in it. */
export const ONE_PROCESS: Members = { concord: 1 };
/** Everything, each service in processes of its own. */
export const EVERYTHING: Members = { "storage-proxy": 3, "txn-coordinator": 3, "object-gateway": 1, "dedup-worker": 1 };
const HOST = "127.0.0.1";
type PortKind = "rpc" | "admin" | "http";
/** Offsets from the port base; the nodes of a service follow each other. Programs of one service are never beside the program of all. */
const OFFSETS: Readonly<Record<Service, Partial<Record<PortKind, number>>>> = {
  "storage-proxy": { rpc: 1, admin: 11 },
  "txn-coordinator": { rpc: 101, admin: 111 },
  "object-gateway": { rpc: 201, admin: 211, http: 221 },
  "dedup-worker": { rpc: 301, admin: 311 },
  concord: { rpc: 1, admin: 11, http: 21 },
};
export const PORTS_SPAN = 320;

/** The nodes on fixed ports: see OFFSETS. */
export function planFromBase(portBase: number, members: Members): readonly NodePlan[] {
  return plan(members, (service, at, kind) => portBase + OFFSETS[service][kind]! + at);
}

/** The nodes on the given ports, in any order; `portsOf(members)` of them. */
export function planFromPorts(ports: readonly number[], members: Members): readonly NodePlan[] {
  const left = [...ports];
  return plan(members, () => left.pop()!);
}

export function portsOf(members: Members): number {
  return SERVICES.reduce((sum, service) => sum + (members[service] ?? 0) * Object.keys(OFFSETS[service]).length, 0);
}

function plan(members: Members, portOf: (service: Service, at: number, kind: PortKind) => number): readonly NodePlan[] {
  return SERVICES.flatMap((service) =>
    DATACENTERS.slice(0, members[service] ?? 0).map((datacenter, at) => ({
      name: nameOf(service, at, members[service]!),
      service,
      datacenter,
      address: `${HOST}:${portOf(service, at, "rpc")}`,
      adminAddress: `${HOST}:${portOf(service, at, "admin")}`,
      ...(OFFSETS[service].http === undefined ? {} : { httpAddress: `${HOST}:${portOf(service, at, "http")}` }),
    })),
  );
}

/** The node that is all of Concord has a name of its own, so that its data is never taken for one of three. */
function nameOf(service: Service, at: number, count: number): string {
  return service === "concord" && count === 1 ? service : `${service}-${at + 1}`;
}

export interface LayoutContext {
  readonly all: readonly NodePlan[];
  readonly tokens: Tokens;
  /** The node's own folder. */
  readonly folder: string;
  /** Folders that several gateways, and several workers, use together. */
  readonly sharedFolder: string;
  readonly logFolder: string;
}

/** The configuration of a node as its config.ts reads it. */
export function configOf(node: NodePlan, context: LayoutContext, overrides: object = {}): object {
  return {
    nodeName: node.name,
    listenAddress: node.address,
    adminAddress: node.adminAddress,
    ...ownConfig(node, context),
    ...overrides,
  };
}

function ownConfig(node: NodePlan, { all, tokens, folder, sharedFolder, logFolder }: LayoutContext): object {
  const members = (service: Service): object[] =>
    all
      .filter((other) => other.service === service)
      .map((other) => ({ name: other.name, address: other.address, datacenter: other.datacenter }));
  const { datacenter } = node;
  switch (node.service) {
    case "storage-proxy": {
      const store = { dataFolder: join(folder, "store"), ring: members("storage-proxy"), schemaAuthority: "coordinator" };
      return { datacenter, ...store, coordinatorToken: tokens.coordinator, peerToken: tokens.peer, operatorToken: tokens.operator };
    }
    case "txn-coordinator": {
      const nodes = { coordinators: members("txn-coordinator"), storageProxies: members("storage-proxy") };
      return { datacenter, ...nodes, coordinatorToken: tokens.coordinator };
    }
    case "object-gateway":
      return {
        ...gatewayConfig(node, all, sharedFolder),
        dataFolder: join(folder, "store"),
        accessKeys: tokens.accessKeys,
        operatorToken: tokens.operator,
      };
    case "concord":
      return { datacenter, ...concordConfig(node, members("concord"), { folder, sharedFolder, logFolder }), ...tokensOf(tokens) };
    case "dedup-worker":
      return { dataFolder: join(folder, "store"), operatorToken: tokens.operator };
  }
}

/** One gateway keeps its metadata itself; several keep it in transactions and share the blobs. */
function gatewayConfig(node: NodePlan, all: readonly NodePlan[], sharedFolder: string): object {
  const { httpAddress } = node;
  if (all.filter(({ service }) => service === "object-gateway").length === 1) return { httpAddress };
  const coordinators = all.filter(({ service }) => service === "txn-coordinator").map(({ address }) => address);
  return { httpAddress, metadata: "transactions", coordinators, dataStoreFolder: sharedFolder };
}

type Folders = Pick<LayoutContext, "folder" | "sharedFolder" | "logFolder">;

/** One node keeps the rows of its objects itself; several keep them in transactions and share the blobs and the logs of messages. They share a machine, too. */
function concordConfig({ httpAddress }: NodePlan, nodes: readonly object[], folders: Folders): object {
  const { folder, sharedFolder: dataStoreFolder, logFolder } = folders;
  const shared = nodes.length === 1 ? {} : { nodes, masters: "together", metadata: "transactions", dataStoreFolder, logFolder };
  return { httpAddress, dataFolder: join(folder, "store"), ...shared };
}

function tokensOf({ coordinator, peer, operator, accessKeys }: Tokens): object {
  return { coordinatorToken: coordinator, peerToken: peer, operatorToken: operator, accessKeys };
}
