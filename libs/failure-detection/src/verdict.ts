/** Verdict of the cluster about a member: an opinion that a majority of the configured members shares (TX14). */
export type Verdict = "unknown" | "works" | "stuck" | "gone";

/** Verdict of a member about itself. `joining`: it has not yet worked in this life. Only a member that works may serve. */
export type SelfVerdict = "joining" | "works" | "lost";
