import type { Membership } from "./membership.ts";
import type { Verdict } from "./verdict.ts";

/** Port: what a majority thinks of each member, for a component that acts on it and serves whatever it is. */
export interface FailureObserver {
  /** Called once. Rejects when nothing will be heard. */
  start(onVerdict: (member: string, verdict: Verdict) => void): Promise<void>;
  stop(): Promise<void>;
}

/** Beats as a member of its own; its verdicts by name. */
export function observerOf(membership: Membership, members: readonly string[]): FailureObserver {
  return {
    start: (onVerdict) =>
      membership.start((change) => {
        if (change.kind === "verdict") onVerdict(members[change.member]!, change.verdict);
      }),
    stop: () => membership.stop(),
  };
}

/** Verdicts that another component of the process hears; those before `start` are not kept. */
export class VerdictRelay implements FailureObserver {
  #onVerdict: ((member: string, verdict: Verdict) => void) | undefined;

  heard(member: string, verdict: Verdict): void {
    this.#onVerdict?.(member, verdict);
  }

  async start(onVerdict: (member: string, verdict: Verdict) => void): Promise<void> {
    this.#onVerdict = onVerdict;
  }

  async stop(): Promise<void> {
    this.#onVerdict = undefined;
  }
}
