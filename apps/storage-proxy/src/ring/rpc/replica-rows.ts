import type { ReadGroupRequest, ReplicaService } from "@concord/protos-storage";
import type { GroupRead } from "@concord/quorum";
import type { Handler } from "@concord/rpc";
import { seqOf } from "@concord/runtime";
import { REPLICA_ITEMS_MAX } from "../limits.ts";
import { budgetMs } from "../../rpc/budget.ts";
import { positionsFromWire } from "../../rpc/numbers.ts";
import type { RingNode } from "../ring-node.ts";
import { checkCount } from "../../rpc/checks.ts";
import { leaveOut } from "./replica-part.ts";

/** Peers' calls on this node's rows. Bytes are in the storage format and are checked where they are decoded. */
export function applyRowsHandler(node: () => RingNode): Handler<ReplicaService, "ApplyRows"> {
  return async (request) => {
    checkCount(request.mutations.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "mutations");
    const { localRows, forgotten } = node();
    if (request.copies) {
      const areTaken = await localRows.applyCopies(request.mutations, request.collection);
      return { stale: !areTaken, collection: forgotten.collection, supersededUs: undefined };
    }
    return { stale: undefined, collection: undefined, supersededUs: await localRows.applyRows(request.mutations) };
  };
}

export function readRowsHandler(node: () => RingNode): Handler<ReplicaService, "ReadRows"> {
  return async (request, context) => {
    checkCount(request.keys.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "keys");
    const { clock, writeTimeoutMs, localRows } = node();
    const timeoutMs = budgetMs(context, clock, writeTimeoutMs);
    const { rows, leftOut } = leaveOut(await localRows.readRows(request.keys, timeoutMs, positionsFromWire(request.after)));
    return { images: rows, leftOut };
  };
}

export function readRowRangeHandler(node: () => RingNode): Handler<ReplicaService, "ReadRowRange"> {
  return async (request, context) => {
    checkCount(request.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "images");
    const { fromKey, toKey, reverse, limit } = request;
    const { clock, writeTimeoutMs, localRows } = node();
    const timeoutMs = budgetMs(context, clock, writeTimeoutMs);
    const range = { from: fromKey, to: toKey, reverse, limit };
    const page = await localRows.readRowRange(range, timeoutMs, positionsFromWire(request.after));
    const { rows, leftOut } = leaveOut(page.rows);
    return { images: rows, more: page.more, leftOut };
  };
}

export function readGroupHandler(node: () => RingNode): Handler<ReplicaService, "ReadGroup"> {
  return async (request, context) => {
    const { clock, writeTimeoutMs, groupRows } = node();
    const read: GroupRead = { group: request.group, seq: seqOf(request.seq), rows: groupRowsFromWire(request) };
    const { rows, more, appliedSeq } = await groupRows.readGroup(read, budgetMs(context, clock, writeTimeoutMs));
    return { images: rows, more, appliedSeq };
  };
}

function groupRowsFromWire({ keys, range }: ReadGroupRequest): GroupRead["rows"] {
  if (range === null) {
    checkCount(keys.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "keys");
    return { kind: "keys", keys };
  }
  checkCount(range.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "images");
  const { fromKey, toKey, reverse, limit } = range;
  return { kind: "range", range: { from: fromKey, to: toKey, reverse, limit } };
}
