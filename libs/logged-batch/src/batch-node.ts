import { assert, type Clock, type TimeId } from "@concord/runtime";

/** The batchlog of one node, own or behind a connection. Resolves after sync (LBD2); rejects with a ConcordError within `timeoutMs`. */
export interface BatchLogReplica {
  /** IDEMPOTENCY_MISMATCH when an id is held with another payload, OVERLOADED when the log is full. */
  put(entries: readonly Uint8Array[], timeoutMs: number): Promise<void>;
  remove(ids: readonly TimeId[], timeoutMs: number): Promise<void>;
}

/** The rows of one node: quorum's RowReplica is one. */
export interface BatchRows {
  /** False: the last contact failed and no new one was made since. */
  readonly reachable: boolean;
  /** Resolves when every mutation is merged and synced. */
  applyRows(mutations: readonly Uint8Array[], timeoutMs: number): Promise<void>;
}

/** One node of the ring; every node holds every row. */
export interface BatchNode {
  readonly name: string;
  readonly batchLog: BatchLogReplica;
  readonly rows: BatchRows;
}

/** What executing and replaying need of the ring. */
export interface BatchRing {
  /** This node. */
  readonly self: string;
  /** 1 or 3, this node among them. */
  readonly nodes: readonly BatchNode[];
  readonly clock: Clock;
  /** Time budget of each phase: the log write, the apply, a replay. */
  readonly writeTimeoutMs: number;
  readonly failpoint: (name: string) => void;
}

export function quorumOf(ring: BatchRing): number {
  assert(ring.nodes.length === 1 || ring.nodes.length === 3, "a ring has 1 or 3 nodes (TXR4)");
  return Math.floor(ring.nodes.length / 2) + 1;
}

/**
 * Who keeps the batch (LB3): the two other nodes, which stand in other failure zones; with only one of them reachable it and this
 * node; in single-node mode this node. Undefined: in a ring of 3 no other node is reachable.
 */
export function chooseHolders(ring: BatchRing): readonly BatchNode[] | undefined {
  const own = ring.nodes.filter((node) => node.name === ring.self);
  assert(own.length === 1, "this node is in the ring once");
  if (ring.nodes.length === 1) return own;
  const others = ring.nodes.filter((node) => node.name !== ring.self && node.rows.reachable);
  if (others.length === 0) return undefined;
  return others.length === 2 ? others : [...others, ...own];
}
