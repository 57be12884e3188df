// Who runs where: three datacenters, each with one storage-proxy and one txn-coordinator, and the configuration file of each.
import { join } from "node:path";
import type { Tokens } from "./data-folder.ts";

export type Service = "storage-proxy" | "txn-coordinator";

export interface NodePlan {
  readonly name: string;
  readonly service: Service;
  readonly datacenter: string;
  /** Host and port for gRPC. */
  readonly address: string;
  /** Host and port of /healthz, /readyz and /metrics. */
  readonly adminAddress: string;
}

export const DATACENTERS = ["dc1", "dc2", "dc3"] as const;
export const PORT_BASE = 7100;
const HOST = "127.0.0.1";
/** Offsets from the port base; datacenters follow each other. */
const OFFSETS: Readonly<Record<Service, { readonly rpc: number; readonly admin: number }>> = {
  "storage-proxy": { rpc: 1, admin: 11 },
  "txn-coordinator": { rpc: 101, admin: 111 },
};
export const PORTS_PER_CONSTELLATION = 12;

/** The nodes on fixed ports: storage-proxies from base + 1, txn-coordinators from base + 101, admin ports ten above. */
export function planFromBase(portBase: number): readonly NodePlan[] {
  return plan((service, at, kind) => portBase + OFFSETS[service][kind] + at);
}

/** The nodes on the given ports, in any order; PORTS_PER_CONSTELLATION of them. */
export function planFromPorts(ports: readonly number[]): readonly NodePlan[] {
  const left = [...ports];
  return plan(() => left.pop()!);
}

function plan(portOf: (service: Service, at: number, kind: "rpc" | "admin") => number): readonly NodePlan[] {
  const services: Service[] = ["storage-proxy", "txn-coordinator"];
  return services.flatMap((service) =>
    DATACENTERS.map((datacenter, at) => ({
      name: `${service}-${at + 1}`,
      service,
      datacenter,
      address: `${HOST}:${portOf(service, at, "rpc")}`,
      adminAddress: `${HOST}:${portOf(service, at, "admin")}`,
    })),
  );
}

/** The configuration of a node as its config.ts reads it. */
export function configOf(node: NodePlan, all: readonly NodePlan[], folder: string, tokens: Tokens, overrides: object = {}): object {
  const { name, datacenter, address, adminAddress } = node;
  const base = { nodeName: name, datacenter, listenAddress: address, adminAddress, coordinatorToken: tokens.coordinator };
  const members = (service: Service): object[] =>
    all
      .filter((other) => other.service === service)
      .map((other) => ({ name: other.name, address: other.address, datacenter: other.datacenter }));
  if (node.service === "storage-proxy") {
    const store = { dataFolder: join(folder, "store"), ring: members("storage-proxy"), schemaAuthority: "coordinator" };
    return { ...base, ...store, peerToken: tokens.peer, ...overrides };
  }
  return { ...base, coordinators: members("txn-coordinator"), storageProxies: members("storage-proxy"), ...overrides };
}
