import type { DetectionLimits, MemberAddress, MembershipChange, ReadList } from "@concord/failure-detection";

/** What the worker starts from. */
export interface WorkerInput {
  /** The configured members, which count for ever; or the first version of a list that changes. */
  readonly members: readonly MemberAddress[] | ReadList;
  readonly self: number;
  readonly incarnation: bigint;
  readonly secret: string;
  readonly limits: DetectionLimits;
  /** Where it binds: "host:port". */
  readonly listenAddress: string;
  readonly memory: SharedArrayBuffer;
  /** Is there a way over gRPC? */
  readonly hasStreams: boolean;
  /** Main thread's monotonic clock minus the system's, milliseconds. */
  readonly clockOffsetMs: number;
}

/** Since the last of them. */
export interface Traffic {
  readonly sent: number;
  readonly received: number;
  /** Sent over gRPC, too. */
  readonly streamed: number;
  /** Without the cluster's seal. */
  readonly foreign: number;
  /** Sealed, but no beat of this list of members. */
  readonly malformed: number;
}

export type Input = StreamedInput | { readonly kind: "list"; readonly list: ReadList };

/** Sealed datagrams that came over gRPC. */
export interface StreamedInput {
  readonly kind: "streamed";
  readonly datagrams: readonly Uint8Array[];
  /** Their sender hears none of ours by UDP. */
  readonly hearsNoUdp: boolean;
}

export type WorkerOutput =
  | { readonly kind: "bound" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "change"; readonly change: MembershipChange }
  /** A member counts by this newer version of the list. */
  | { readonly kind: "newer-list"; readonly version: number }
  /** To be sent over gRPC as well. `hearsNoUdp`: nothing of that member comes here by UDP. */
  | { readonly kind: "stream"; readonly to: number; readonly datagram: Uint8Array; readonly hearsNoUdp: boolean }
  /** A member beats, and nothing of it comes by UDP. Once per member. */
  | { readonly kind: "blocked"; readonly member: number }
  | { readonly kind: "traffic"; readonly traffic: Traffic };
