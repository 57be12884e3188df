import type { ListedMembership, Membership, SelfVerdict, Verdict } from "@concord/failure-detection";
import type { Clock, Log } from "@concord/runtime";
import { askedToRelease } from "./hand-over.ts";
import { servingMember, type View } from "./view.ts";

export interface OwnersOptions {
  readonly membership: Membership | ListedMembership;
  /** The member that the membership has under this number; undefined: one of a list that does not count any more. */
  readonly nameAt: (member: number) => string | undefined;
  readonly nodeName: string;
  readonly view: View;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
}

/** Who owns each unit now: the view's placement, what the majority says of its members, and which of them leave (TX14, TX17). Every member decides the same by itself. */
export class Owners {
  readonly #options: OwnersOptions;
  /** What the majority says of the others, and since when. */
  readonly #verdicts = new Map<string, { readonly verdict: Verdict; readonly sinceMs: number }>();
  /** Those that are about to stop: their units are for others, though they still beat. */
  readonly #leaving = new Set<string>();
  #view: View;
  #self: SelfVerdict = "joining";

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#view = options.view;
  }

  /** Beats from now on. `onChange` after every change of an opinion, `onNewerList` when a member counts by a newer list. Rejects when it cannot. */
  start(onChange: () => void, onNewerList?: (version: number) => void): Promise<void> {
    const { nameAt, membership, clock, log, nodeName } = this.#options;
    return membership.start((change) => {
      const about = change.kind === "self" ? nodeName : nameAt(change.member);
      if (about === undefined) return;
      if (change.kind === "self") this.#self = change.verdict;
      else {
        // One that is gone, or works again, does not leave: the same name may have begun another life.
        this.#leaving.delete(about);
        this.#verdicts.set(about, { verdict: change.verdict, sinceMs: clock.monotonicMs() });
      }
      log.debug("an opinion of the members changed", { about, opinion: change.verdict });
      onChange();
    }, onNewerList);
  }

  stop(): Promise<void> {
    return this.#options.membership.stop();
  }

  get view(): View {
    return this.#view;
  }

  /** Nothing is known any more of members that this one does not have. */
  set view(view: View) {
    this.#view = view;
    const names = new Set(view.members.map(({ name }) => name));
    for (const known of [this.#leaving, this.#verdicts]) for (const name of known.keys()) if (!names.has(name)) known.delete(name);
  }

  /** A majority hears this member, and none can have called it gone yet (I2 of the failure-detection README). */
  get works(): boolean {
    const { clock, membership } = this.#options;
    return this.#self === "works" && clock.monotonicMs() < membership.leaseEndMs();
  }

  /** When a majority was heard to have lost the member, on this one's monotonic clock; undefined: it has not. */
  goneSinceMs(name: string): number | undefined {
    const known = this.#verdicts.get(name);
    return known?.verdict === "gone" ? known.sinceMs : undefined;
  }

  /** What the majority says of another member; one that leaves has not failed yet. */
  hasFailed(name: string): boolean {
    const verdict = this.#verdicts.get(name)?.verdict;
    return verdict === "gone" || verdict === "stuck";
  }

  /** A majority hears the member, and so does this one. */
  hears(name: string): boolean {
    return name === this.#options.nodeName ? this.works : this.#verdicts.get(name)?.verdict === "works";
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
    const opinions = { failed: (name: string) => this.hasFailed(name), leaving: (name: string) => this.#leaving.has(name) };
    return askedToRelease(this.#view, unit, this.#options.nodeName, opinions, follows);
  }

  /** This member should serve the unit, and may rely on it. */
  owns(unit: string): boolean {
    return this.works && this.ownerOf(unit) === this.#options.nodeName;
  }

  #isOut(name: string): boolean {
    if (this.#leaving.has(name)) return true;
    return name === this.#options.nodeName ? this.#self === "lost" : this.hasFailed(name);
  }
}
