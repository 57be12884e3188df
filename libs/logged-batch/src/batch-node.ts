import type { Clock, TimeId } from "@concord/runtime";

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
  /** Its failure zone (LB3). */
  readonly datacenter: string;
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
  readonly killPoint: (name: string) => void;
}

export function quorumOf(ring: BatchRing): number {
  return Math.floor(ring.nodes.length / 2) + 1;
}

/**
 * Who keeps the batch (LB3): two other nodes, in different failure zones where there are such; with only one other reachable it and
 * this node; alone in single-node mode this node. Undefined: nobody else is reachable in a larger ring.
 */
export function chooseHolders(ring: BatchRing): readonly BatchNode[] | undefined {
  const own = ring.nodes.filter((node) => node.name === ring.self);
  if (ring.nodes.length === 1) return own;
  const others = ring.nodes.filter((node) => node.name !== ring.self && node.rows.reachable);
  const datacenter = own[0]?.datacenter;
  const first = others.find((node) => node.datacenter !== datacenter) ?? others[0];
  if (first === undefined) return undefined;
  const rest = others.filter((node) => node !== first);
  const second = rest.find((node) => node.datacenter !== first.datacenter) ?? rest[0];
  return second === undefined ? [first, ...own] : [first, second];
}
