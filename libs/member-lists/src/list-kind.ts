import type { MemberKind } from "@concord/protos-cluster";

/** Of which servers a list is, and what operators know them by. */
export interface ListKind {
  readonly wire: MemberKind;
  readonly program: string;
  /** Several, and one. */
  readonly noun: "coordinators" | "workers";
  readonly member: string;
  /** What is placed over them. */
  readonly units: string;
  /** The key of the configuration with the secret that they share. */
  readonly token: string;
}

export const COORDINATOR_LIST: ListKind = {
  wire: "MEMBER_KIND_COORDINATOR",
  program: "txn-coordinator",
  noun: "coordinators",
  member: "coordinator",
  units: "groups",
  token: "coordinatorToken",
};

export const WORKER_LIST: ListKind = {
  wire: "MEMBER_KIND_WORKER",
  program: "dedup-worker",
  noun: "workers",
  member: "worker",
  units: "partitions",
  token: "workerToken",
};

/** What an operator types to add a member. */
export function addCommandOf({ program, noun }: ListKind): string {
  return `${program} ${noun} add`;
}
