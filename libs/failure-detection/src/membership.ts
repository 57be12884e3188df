import type { SelfVerdict, Verdict } from "./state.ts";

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

/** The membership of one configured member: it works as long as it lives. */
export const ALONE: Membership = {
  start: async (onChange) => onChange({ kind: "self", verdict: "works" }),
  leaseEndMs: () => Number.POSITIVE_INFINITY,
  stop: async () => {},
};
