import type { RowImage, RowKey } from "@concord/ports";
import { assert, ConcordError, TIMESTAMP_ZERO, type Epoch, type TimeId } from "@concord/runtime";
import type { CommitToken } from "./flush.ts";
import type { LargeCommit, LargeCommits } from "./large-commits.ts";
import type { TransactionLimits } from "./limits.ts";
import { OperationOrder } from "./operation-order.ts";
import { approximateImageBytes, PendingRows } from "./pending-rows.ts";
import type { TransactionOwner } from "./owners.ts";
import { limitExceeded } from "./transaction-limit.ts";
import type { HeldBytes } from "./transaction-memory.ts";

/** A call that waits for a commit's decision; after `answerByMs` (monotonic) it gets OUTCOME_UNKNOWN. */
export interface DecisionWaiter {
  readonly answerByMs: number;
  readonly resolve: (token: CommitToken) => void;
  readonly reject: (error: ConcordError) => void;
}

/**
 * open: operations run. committing: it is in the commit queue or in a flush; it can no longer be aborted, only decided. ended: the locks
 * are gone and `error` or `token` is its outcome.
 */
export type TransactionState =
  | { readonly kind: "open" }
  | { readonly kind: "committing"; readonly digest: bigint; readonly waiters: DecisionWaiter[] }
  | { readonly kind: "committed"; readonly token: CommitToken }
  | { readonly kind: "aborted"; readonly error: ConcordError };

export interface TransactionOpening {
  readonly id: TimeId;
  /** Of the first try: a retry keeps it (TXD9). */
  readonly firstStartMs: number;
  readonly epoch: Epoch;
  /** Monotonic. */
  readonly nowMs: number;
  readonly lifetimeMs: number;
  readonly limits: TransactionLimits;
  readonly owner: TransactionOwner;
  readonly heldBytes: HeldBytes;
}

/** One transaction at its group's master: what it holds and has buffered. Decides nothing by itself. */
export class Transaction {
  readonly id: TimeId;
  readonly firstStartMs: number;
  /** It commits only under the epoch it began under (TXD1). */
  readonly epoch: Epoch;
  readonly openedAtMs: number;
  readonly endsAtMs: number;
  readonly order: OperationOrder;
  /** The caller that began it, and alone may use it (SEC13). */
  readonly owner: TransactionOwner;
  readonly pending = new PendingRows();
  /** Committed images read under a lock of ours: they cannot change while it is held. */
  readonly held = new Map<string, RowImage>();
  readonly heldBytes: HeldBytes;
  state: TransactionState = { kind: "open" };
  /** A key that was found to be of the group. */
  ownKey: RowKey | undefined;
  /** The first row it named. */
  entityKey: RowKey | undefined;
  newestReadUs = TIMESTAMP_ZERO;
  /** Its commit is a large one on its way. */
  #large: LargeCommit | undefined;
  writeCount = 0;
  writeBytes = 0;
  rowsRead = 0;
  lastHeardMs: number;
  /** The session that spoke for it last; undefined = a unary call. */
  sessionId: number | undefined;
  /** Aborted then unless another session continues it; Infinity while the session lives. */
  lostAtMs = Infinity;

  constructor(opening: TransactionOpening) {
    this.id = opening.id;
    this.firstStartMs = opening.firstStartMs;
    this.epoch = opening.epoch;
    this.openedAtMs = opening.nowMs;
    this.endsAtMs = opening.nowMs + opening.lifetimeMs;
    this.lastHeardMs = opening.nowMs;
    this.owner = opening.owner;
    this.heldBytes = opening.heldBytes;
    this.order = new OperationOrder(opening.limits.answersKeptMax, opening.limits.operationsQueuedMax);
  }

  /** Locks are held from their grant to the end of the transaction. */
  get hasLocks(): boolean {
    return this.state.kind === "open" || this.state.kind === "committing";
  }

  heard(nowMs: number, sessionId: number | undefined): void {
    assert(this.hasLocks, "what ended hears of no call");
    this.lastHeardMs = nowMs;
    this.sessionId = sessionId;
    this.lostAtMs = Infinity;
  }

  /** Throws what ended the transaction; TRANSACTION_STATE when it is committing or committed. */
  requireOpen(): void {
    switch (this.state.kind) {
      case "open":
        return;
      case "aborted":
        throw this.state.error;
      default:
        throw new ConcordError("TRANSACTION_STATE", "the transaction is committed or committing and takes no more operations");
    }
  }

  /** Its last writes came. OVERLOADED when they are too many bytes for now. */
  enter(commits: LargeCommits, deadlineAtMs: number): void {
    assert(this.state.kind === "open", "the last writes come before the commit");
    this.leave();
    this.#large = commits.enter(this.writeBytes, deadlineAtMs);
  }

  leave(): void {
    this.#large?.leave();
    this.#large = undefined;
  }

  /** Of a lock: a large commit does not count its time. */
  waiting(wait: Promise<void>): Promise<void> {
    assert(this.state.kind === "open", "TX4: only an open transaction waits for a lock");
    const large = this.#large;
    if (large === undefined) return wait;
    large.waits();
    return wait.then(() => large.goesOn());
  }

  /** Keeps an image that was read under a lock. LIMIT_EXCEEDED, OVERLOADED: it was not kept. */
  hold(text: string, image: RowImage): void {
    if (!this.held.has(text)) this.heldBytes.add(text.length + approximateImageBytes(image));
    this.held.set(text, image);
  }

  countRead(rows: number, limits: TransactionLimits): void {
    assert(rows >= 0, "what was read only grows");
    if (this.rowsRead + rows > limits.rowsReadPerTransactionMax) {
      throw limitExceeded("rowsReadPerTransactionMax", limits.rowsReadPerTransactionMax, "reads more rows");
    }
    this.rowsRead += rows;
  }

  countWrites(count: number, bytes: number, limits: TransactionLimits): void {
    assert(count >= 0 && bytes >= 0, "what is buffered only grows");
    if (this.writeCount + count > limits.writesPerTransactionMax) {
      throw limitExceeded("writesPerTransactionMax", limits.writesPerTransactionMax, "buffers more writes");
    }
    if (this.writeBytes + bytes > limits.bytesPerTransactionMax) {
      throw limitExceeded("bytesPerTransactionMax", limits.bytesPerTransactionMax, "buffers more bytes");
    }
    this.heldBytes.add(bytes);
    this.writeCount += count;
    this.writeBytes += bytes;
  }
}
