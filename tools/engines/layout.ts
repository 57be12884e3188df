import type { EngineName } from "./command-line.ts";

/** Fixed at a cluster's first start. */
export interface Layout {
  readonly engine: EngineName;
  readonly version: string;
  readonly nodes: number;
  readonly ports: readonly number[];
  /** Nodes of Cassandra are racks of one datacenter. Absent in older clusters: false. */
  readonly oneDatacenter?: boolean;
  /** Nodes of Cassandra that ask for a role and its permissions. Absent: anyone may do anything. */
  readonly hasRoles?: boolean;
  /** Nodes of Cassandra that live for minutes, compiled in a hurry: fewer seconds of CPU until ready, fewer operations a second later on. */
  readonly isShortLived?: boolean;
}

/** An engine as a new cluster of it needs it. */
export interface NewCluster {
  readonly name: EngineName;
  version(): string;
  portCount(nodes: number): number;
}
