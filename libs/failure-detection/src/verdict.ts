/** What the cluster thinks of a member: an opinion that a majority of the configured members shares (TX14). */
export type Verdict = "unknown" | "works" | "stuck" | "gone";

/** What a member must think of itself. `joining`: it has not yet worked in this life. Only a member that works may serve. */
export type SelfVerdict = "joining" | "works" | "lost";
