import { assert, type Clock, type TimeId } from "@concord/runtime";

/** One write to a batchlog: one step there, so one sync. Any of the lists may be empty. */
export interface BatchLogWrite {
  /** Sealed entries to keep. */
  readonly entries: readonly Uint8Array[];
  /** Held batches that two holders have (one in single-node mode): their rows are merged (I1). */
  readonly decided: readonly TimeId[];
  /** Batches that every replica has; unknown ids are no error (LB7). */
  readonly removed: readonly TimeId[];
}

/**
 * `mismatch`: the id is held with another payload; `full-entries`, `full-bytes`: the log takes no more until some are completed;
 * `expired`: a deletion that is as new is forgotten at that node, so that deleted rows could come back.
 */
export type PutResult = "kept" | "mismatch" | "full-entries" | "full-bytes" | "expired";

/** In the order of the request. */
export interface BatchLogWritten {
  readonly results: readonly PutResult[];
  /** True: the batch is held and every row of it is merged and synced. */
  readonly applied: readonly boolean[];
}

/** The batchlog of one node, own or behind a connection. Resolves after sync (LBD2); rejects with a ConcordError within `timeoutMs`. */
export interface BatchLogReplica {
  write(request: BatchLogWrite, timeoutMs: number): Promise<BatchLogWritten>;
}

/** The rows of one node: quorum's RowReplica is one. */
export interface BatchRows {
  /** False: the last contact failed and no new one was made since. */
  readonly reachable: boolean;
  /** Resolves when every mutation is merged and synced. A batch's timestamp is fixed: what it lost to changes nothing. */
  applyRows(mutations: readonly Uint8Array[], timeoutMs: number): Promise<unknown>;
}

/** One node of the ring; every node holds every row. */
export interface BatchNode {
  readonly name: string;
  readonly batchLog: BatchLogReplica;
  readonly rows: BatchRows;
  /** A reader waits for the decision of a batch that this node coordinates: `BatchExecutor.want` there. May be lost. */
  want(): void;
}

/** What executing and replaying need of the ring. */
export interface BatchRing {
  /** This node. */
  readonly self: string;
  /** 1 or 3, this node among them. */
  readonly nodes: readonly BatchNode[];
  readonly clock: Clock;
  /** Time budget of each phase of a small batch: the log write, the apply, a replay. A larger one has the time of its bytes besides (`writeMs`). */
  readonly writeTimeoutMs: number;
  readonly failpoint: (name: string) => void;
  /** Rejects with LIMIT_EXCEEDED when a row would become too large; undefined: none can. Quorum's RowSizes has one. */
  readonly checkSizes?: (mutations: readonly Uint8Array[]) => Promise<void> | undefined;
  /**
   * Resolves when the mutations are on this node's disk for a node that did not confirm them (LB9), or without space for them the note that a comparison of
   * all rows with it is due, which sends what is on this node's disk.
   */
  readonly hint: (node: string, createdMs: number, mutations: readonly Uint8Array[]) => Promise<"hint" | "comparison">;
}

export function quorumOf(ring: BatchRing): number {
  assert(ring.nodes.length === 1 || ring.nodes.length === 3, "a ring has 1 or 3 nodes (TXR4)");
  return Math.floor(ring.nodes.length / 2) + 1;
}

/** Who keeps a batch, by rank of replay: every node of the ring, the coordinator last (LB3, LBD4). */
export function holdersOf(ring: BatchRing): readonly string[] {
  const others = ring.nodes.filter((node) => node.name !== ring.self);
  assert(others.length === ring.nodes.length - 1, "this node is in the ring once");
  return [...others.map((node) => node.name), ring.self];
}
