import { leavesToWire } from "@concord/adapter-ring";
import type { ReplicaService } from "@concord/protos-storage";
import { SEGMENT_SLACK } from "@concord/repair";
import type { Handler } from "@concord/rpc";
import type { RingNode } from "../ring-node.ts";

/** Sums of this node's plain rows, for a peer that compares them with its own. */
export function repairSumsHandler(node: () => RingNode): Handler<ReplicaService, "RepairSums"> {
  return async ({ fromKey, toKey }) => {
    const { to, leaves } = await node().comparedRows.sums({ from: fromKey, to: toKey }, SEGMENT_SLACK);
    return { toKey: to, leaves: leavesToWire(leaves) };
  };
}

/** This node's rows in leaves whose sums differ. */
export function repairRowsHandler(node: () => RingNode): Handler<ReplicaService, "RepairRows"> {
  return async ({ fromKey, toKey, leaves }) => {
    const { to, rows } = await node().comparedRows.rows({ from: fromKey, to: toKey }, new Set(leaves), 1);
    return { toKey: to, rows: rows.map(({ value }) => value) };
  };
}
