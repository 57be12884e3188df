import type { DetectionLimits, MembershipChange } from "@concord/failure-detection";

/** What the worker starts from. */
export interface WorkerInput {
  readonly members: readonly { readonly name: string; readonly address: string }[];
  readonly self: number;
  readonly incarnation: bigint;
  readonly secret: string;
  readonly limits: DetectionLimits;
  /** Where it binds: "host:port". */
  readonly listenAddress: string;
  readonly memory: SharedArrayBuffer;
  /** Main thread's monotonic clock minus the system's, milliseconds. */
  readonly clockOffsetMs: number;
}

/** Since the last of them. */
export interface Traffic {
  readonly sent: number;
  readonly received: number;
  /** Without the cluster's seal. */
  readonly foreign: number;
  /** Sealed, but no beat of this list of members. */
  readonly malformed: number;
}

export type WorkerOutput =
  | { readonly kind: "bound" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "change"; readonly change: MembershipChange }
  | { readonly kind: "traffic"; readonly traffic: Traffic };
