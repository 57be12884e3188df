import { leavesToWire } from "@concord/adapter-ring";
import type { ReplicaService } from "@concord/protos-storage";
import { SEGMENT_SLACK } from "@concord/repair";
import type { Handler } from "@concord/rpc";
import { timestampUsFromWire } from "../../rpc/numbers.ts";
import { checkCount } from "../../rpc/checks.ts";
import { REPLICA_ITEMS_MAX } from "../limits.ts";
import type { RingNode } from "../ring-node.ts";
import { leaveOut } from "./replica-part.ts";

/** Sums of this node's plain rows, for a peer that compares them with its own. */
export function repairSumsHandler(node: () => RingNode): Handler<ReplicaService, "RepairSums"> {
  return async ({ fromKey, toKey }) => {
    const { comparedRows, forgotten } = node();
    const { to, leaves } = await comparedRows.sums({ from: fromKey, to: toKey }, SEGMENT_SLACK);
    return { toKey: to, leaves: leavesToWire(leaves), collection: forgotten.collection };
  };
}

/** This node's rows in leaves whose sums differ. */
export function repairRowsHandler(node: () => RingNode): Handler<ReplicaService, "RepairRows"> {
  return async ({ fromKey, toKey, leaves }) => {
    const segment = await node().comparedRows.rows({ from: fromKey, to: toKey }, new Set(leaves), 1);
    const { rows, leftOut } = leaveOut(segment.rows.map(({ value }) => value));
    return { toKey: segment.to, rows, leftOut };
  };
}

/** For the node that collects tombstones of plain rows: which are here, or which go. */
export function tombstonesHandler(node: () => RingNode): Handler<ReplicaService, "Tombstones"> {
  return async (request) => {
    checkCount(request.tombstones.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "tombstones");
    const { plainTombstones } = node();
    const tombstones = request.tombstones.map(({ key, deletedAtUs }) => {
      return { key, deletedAtUs: timestampUsFromWire(deletedAtUs, "deleted_at_us") };
    });
    if (!request.drop) return { held: await plainTombstones.held(tombstones) };
    await plainTombstones.drop(tombstones);
    return { held: [] };
  };
}
