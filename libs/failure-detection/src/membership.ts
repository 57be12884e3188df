import type { SelfVerdict, Verdict } from "./verdict.ts";

/** What the owner of a member learns, in order. */
export type MembershipChange =
  | { readonly kind: "verdict"; readonly member: number; readonly verdict: Verdict }
  | { readonly kind: "self"; readonly verdict: SelfVerdict };

/** Port: this process as one of the configured members. Before `start` it is joining and knows nothing of others. */
export interface Membership {
  /** Beats from now on. Rejects when it cannot, as when its port is taken. Called once. */
  start(onChange: (change: MembershipChange) => void): Promise<void>;
  /** I2 of the README, on the process's own monotonic clock: reads memory, so it may be asked before every answer. */
  leaseEndMs(): number;
  /** Silent from now on: others will call this member gone. */
  stop(): Promise<void>;
}

export interface MemberAddress {
  readonly name: string;
  readonly address: string;
}

/** A version of a list of members that changes while they run (TX32), as it was read. */
export interface ReadList {
  /** 0 = as configured. */
  readonly version: number;
  /** Names of version 0, in order: they tell one cluster from another. */
  readonly founders: readonly string[];
  /** By place; undefined: a place without a member. */
  readonly members: readonly (MemberAddress | undefined)[];
  /** When the reading began, on the process's own monotonic clock. */
  readonly readAtMs: number;
}

/** The membership of a process whose list of members changes while it runs (I5). */
export interface ListedMembership extends Membership {
  /**
   * The list as it was read: once before the start, then often enough that the lease goes on. An older version than before changes nothing. The own
   * place stays as it was, or this member must stop instead.
   */
  listRead(list: ReadList): void;
  /** `onNewerList`: a member counts by this newer version, so the list is to be read. Once per version. */
  start(onChange: (change: MembershipChange) => void, onNewerList?: (version: number) => void): Promise<void>;
}

/** The membership of one configured member: it works as long as it lives. */
export const ALONE: Membership = {
  start: async (onChange) => onChange({ kind: "self", verdict: "works" }),
  leaseEndMs: () => Number.POSITIVE_INFINITY,
  stop: async () => {},
};
