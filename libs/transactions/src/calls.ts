import type { LockMode } from "@concord/locks";
import type { Row, RowKey } from "@concord/ports";
import type { Epoch, Span, TimeId } from "@concord/runtime";
import type { TableCondition } from "@concord/schema";
import type { CommitToken } from "./flush.ts";
import type { TransactionOwner } from "./owners.ts";
import type { TableWrite } from "./pending-rows.ts";

/** One call of a client about one transaction. */
export interface OperationCall {
  readonly id: TimeId;
  /** 1 for the first, then without gaps. */
  readonly number: number;
  /** Undefined for a unary call. */
  readonly sessionId: number | undefined;
  /** Monotonic. */
  readonly deadlineAtMs: number;
  /** Span of the call, when it is traced. */
  readonly span?: Span | undefined;
  /** Called when the call begins to wait for a lock. */
  readonly onWait?: (() => void) | undefined;
  /** Its caller; undefined: Concord itself. */
  readonly owner?: TransactionOwner | undefined;
}

export interface StartOptions {
  readonly key: RowKey;
  readonly mode: LockMode;
  readonly read: "read" | "skip";
  /** Start of the first try of this work; undefined = the id's time (TXD9). */
  readonly firstStartMs: number | undefined;
  /** Shorter than the group's limit, or undefined. */
  readonly lifetimeMs: number | undefined;
}

export interface StartAnswer {
  readonly row: Row | undefined;
  readonly group: string;
  readonly epoch: Epoch;
}

/** Outcome of a transaction; the same for ever (TXD7). */
export type ResolvedOutcome =
  | { readonly kind: "committed"; readonly token: CommitToken }
  | { readonly kind: "aborted" }
  | { readonly kind: "expired" };

export interface CommitOptions {
  /** Longest wait for companions in the flush (TXD10). */
  readonly maxDelayMs: number;
  /** Committed though the disks are almost full. */
  readonly freesSpace?: boolean;
  /** Logged though it writes nothing. */
  readonly isLogged?: boolean;
}

/** A commit's last writes; decoding them may have to wait for a newer schema. */
export type WritesOf = () => readonly TableWrite[] | Promise<readonly TableWrite[]>;

/** Facts about a call, for those that work for it. */
export type Waiting = Pick<OperationCall, "deadlineAtMs" | "span" | "onWait">;

/** Where a one-statement transaction comes from, and what must hold for it (UN20). */
export interface Origin extends Pick<OperationCall, "span" | "owner" | "onWait"> {
  readonly conditions?: readonly TableCondition[] | undefined;
}
