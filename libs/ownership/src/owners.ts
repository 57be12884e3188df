import type { Membership, SelfVerdict } from "@concord/failure-detection";
import type { Clock, Log } from "@concord/runtime";
import type { Member } from "./placement.ts";
import { servingMember, type View } from "./view.ts";

export interface OwnersOptions {
  readonly membership: Membership;
  /** As the membership numbers them. */
  readonly members: readonly Member[];
  readonly nodeName: string;
  readonly view: View;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
}

/** Who owns each unit now: the view's placement and what the majority says of its members (TX14, TX17). Every member decides the same by itself. */
export class Owners {
  readonly #options: OwnersOptions;
  /** Those a majority has lost, or calls stuck, and since when. */
  readonly #failed = new Map<string, { readonly verdict: "gone" | "stuck"; readonly sinceMs: number }>();
  #view: View;
  #self: SelfVerdict = "joining";

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#view = options.view;
  }

  /** Beats from now on. `onChange` after every change of an opinion. Rejects when it cannot. */
  start(onChange: () => void): Promise<void> {
    const { members, membership, clock, log, nodeName } = this.#options;
    return membership.start((change) => {
      const about = change.kind === "self" ? nodeName : members[change.member]!.name;
      if (change.kind === "self") this.#self = change.verdict;
      else if (change.verdict === "gone" || change.verdict === "stuck")
        this.#failed.set(about, { verdict: change.verdict, sinceMs: clock.monotonicMs() });
      else this.#failed.delete(about);
      log.debug("an opinion of the members changed", { about, opinion: change.verdict });
      onChange();
    });
  }

  stop(): Promise<void> {
    return this.#options.membership.stop();
  }

  get view(): View {
    return this.#view;
  }

  set view(view: View) {
    this.#view = view;
  }

  /** A majority hears this member, and none can have called it gone yet (I2 of the failure-detection README). */
  get works(): boolean {
    const { clock, membership } = this.#options;
    return this.#self === "works" && clock.monotonicMs() < membership.leaseEndMs();
  }

  /** When a majority was heard to have lost the member, on this one's monotonic clock; undefined: it has not. */
  goneSinceMs(name: string): number | undefined {
    const failed = this.#failed.get(name);
    return failed?.verdict === "gone" ? failed.sinceMs : undefined;
  }

  /** The member that serves the unit, or is about to. */
  ownerOf(unit: string): string {
    const { nodeName } = this.#options;
    return servingMember(this.#view, unit, (name) => (name === nodeName ? this.#self === "lost" : this.#failed.has(name)));
  }

  /** This member should serve the unit, and may rely on it. */
  owns(unit: string): boolean {
    return this.works && this.ownerOf(unit) === this.#options.nodeName;
  }
}
