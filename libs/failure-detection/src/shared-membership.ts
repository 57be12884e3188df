import type { Membership, MembershipChange } from "./membership.ts";

/**
 * One membership for several parts of a process. Each has a `Membership` of its own from `share`: one that starts later first learns what is
 * known already. Beats begin with the first start and end when all that started have stopped.
 */
export class SharedMembership {
  readonly #membership: Membership;
  /** The newest change about each subject. */
  readonly #known = new Map<number | "self", MembershipChange>();
  readonly #listeners = new Set<(change: MembershipChange) => void>();
  #started: Promise<void> | undefined;

  constructor(membership: Membership) {
    this.#membership = membership;
  }

  share(): Membership {
    let listener: ((change: MembershipChange) => void) | undefined;
    return {
      start: async (onChange) => {
        listener = onChange;
        this.#listeners.add(onChange);
        for (const change of this.#known.values()) onChange(change);
        await (this.#started ??= this.#membership.start((change) => this.#tell(change)));
      },
      leaseEndMs: () => this.#membership.leaseEndMs(),
      stop: async () => {
        if (listener === undefined || !this.#listeners.delete(listener)) return;
        if (this.#listeners.size === 0) await this.#membership.stop();
      },
    };
  }

  #tell(change: MembershipChange): void {
    this.#known.set(change.kind === "self" ? "self" : change.member, change);
    for (const listener of this.#listeners) listener(change);
  }
}
