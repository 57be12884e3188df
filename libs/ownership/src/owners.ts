import type { Membership, SelfVerdict } from "@concord/failure-detection";
import type { Clock, Log } from "@concord/runtime";
import { askedToRelease } from "./hand-over.ts";
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

/** Who owns each unit now: the view's placement, what the majority says of its members, and which of them leave (TX14, TX17). Every member decides the same by itself. */
export class Owners {
  readonly #options: OwnersOptions;
  /** Those a majority has lost, or calls stuck, and since when. */
  readonly #failed = new Map<string, { readonly verdict: "gone" | "stuck"; readonly sinceMs: number }>();
  /** Those that are about to stop: their units are for others, though they still beat. */
  readonly #leaving = new Set<string>();
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
      // One that is gone, or works again, does not leave: the same name may have begun another life.
      if (change.kind !== "self") this.#leaving.delete(about);
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

  /** What the majority says of another member; one that leaves has not failed yet. */
  hasFailed(name: string): boolean {
    return this.#failed.has(name);
  }

  /** The member, perhaps this one, is about to stop. Until it is gone or back. */
  left(name: string): void {
    this.#leaving.add(name);
  }

  /** A member that takes units does not leave. */
  returned(name: string): void {
    this.#leaving.delete(name);
  }

  /** Neither failed nor leaving, as far as this member knows. */
  isPresent(name: string): boolean {
    return !this.#isOut(name);
  }

  /** The member that serves the unit, or is about to. */
  ownerOf(unit: string): string {
    return servingMember(this.#view, unit, (name) => this.#isOut(name));
  }

  /** This member works, and one before it in the unit's ranks should serve. */
  follows(unit: string): boolean {
    const ranks = this.#view.placement.get(unit) ?? [];
    return this.works && ranks.indexOf(this.ownerOf(unit)) < ranks.indexOf(this.#options.nodeName);
  }

  /** See `askedToRelease`. */
  askedToRelease(unit: string, follows: boolean): readonly string[] {
    const opinions = { failed: (name: string) => this.#failed.has(name), leaving: (name: string) => this.#leaving.has(name) };
    return askedToRelease(this.#view, unit, this.#options.nodeName, opinions, follows);
  }

  /** This member should serve the unit, and may rely on it. */
  owns(unit: string): boolean {
    return this.works && this.ownerOf(unit) === this.#options.nodeName;
  }

  #isOut(name: string): boolean {
    if (this.#leaving.has(name)) return true;
    return name === this.#options.nodeName ? this.#self === "lost" : this.#failed.has(name);
  }
}
