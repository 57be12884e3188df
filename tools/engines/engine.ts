import type { EngineName } from "./command-line.ts";
import type { Cluster } from "./cluster.ts";
import type { Layout } from "./layout.ts";

/** A program an engine needs, and how Debian and Ubuntu install it. */
export interface Requirement {
  readonly program: string;
  readonly install: string;
}

/** How one engine is configured, started and recognised as ready; recording, stopping and reporting are the cluster's. */
export interface Engine {
  readonly name: EngineName;
  readonly nodeCounts: readonly number[];
  /** What this machine must have. */
  requirements(): readonly Requirement[];
  version(): string;
  portCount(nodes: number): number;
  /** Its processes in the order in which they start; they stop in the opposite order. */
  processNames(layout: Layout): readonly string[];
  /** Configures what is new, starts these processes and resolves when they serve. */
  start(cluster: Cluster, names: readonly string[]): Promise<void>;
  /** What a client needs to connect. */
  connection(cluster: Cluster): string;
}
