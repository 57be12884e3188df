import type { Log } from "@concord/runtime";
import type { CassandraNode, CassandraSession } from "./session.ts";

/** With so many nodes in the coordinator's datacenter Cassandra logs a batch at two others; with fewer at one, at last at the coordinator itself. */
const NODES_FOR_TWO_COPIES = 3;

/**
 * Copies of the log of a batch that is sent now (LBC1): Cassandra keeps them in the datacenter of the coordinator, which is the own one while a node of
 * it is up. Of several others the smallest counts.
 */
export function batchlogCopies(nodes: readonly CassandraNode[], datacenter: string): 1 | 2 {
  const sizes = new Map<string, number>();
  for (const { datacenter: name } of nodes.filter(({ isUp }) => isUp)) sizes.set(name, (sizes.get(name) ?? 0) + 1);
  const size = sizes.get(datacenter) ?? Math.min(...sizes.values());
  return Number.isFinite(size) && size >= NODES_FOR_TWO_COPIES ? 2 : 1;
}

/** The start-up check of LBC1: whether there is a second copy is the operator's to know, and to change. */
export function checkBatchlogCopies(session: Pick<CassandraSession, "nodes">, datacenter: string, log: Log): void {
  const nodes = session.nodes();
  const copies = batchlogCopies(nodes, datacenter);
  if (copies > 1) return;
  const up = nodes.filter((node) => node.isUp && node.datacenter === datacenter).length;
  log.warn(
    `Cassandra logs each batch over several partitions at one node: with that one lost a batch may stay half applied. ${NODES_FOR_TWO_COPIES} nodes in a datacenter give two copies`,
    { datacenter, nodes: up },
  );
}
