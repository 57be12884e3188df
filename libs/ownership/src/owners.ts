import type { ListedMembership, Membership, SelfVerdict, Verdict } from "@concord/failure-detection";
import type { Clock, Log } from "@concord/runtime";
import { askedToRelease } from "./hand-over.ts";
import type { MemberLists } from "./member-lists.ts";
import type { ListedMember, ListedState, RecordedList } from "./recorded-list.ts";
import { servingMember, type View } from "./view.ts";

export interface OwnersOptions {
  readonly membership: Membership | ListedMembership;
  readonly lists: MemberLists<RecordedList>;
  /** The view by the list as it is now. */
  readonly view: () => View;
  readonly nodeName: string;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Log;
  /** Receives each verdict, this member's own included. */
  readonly onVerdict?: (about: string, verdict: Verdict | SelfVerdict) => void;
}

/** Owner of each unit now: the list of members, the majority's verdicts and the members that leave together (TX14, TX17). Every member decides the same by itself. */
export class Owners {
  readonly #options: OwnersOptions;
  /** What the majority says of the others, and since when. */
  readonly #verdicts = new Map<string, { readonly verdict: Verdict; readonly sinceMs: number }>();
  /** Members that are about to stop: their units are for others, though they still beat. */
  readonly #leaving = new Set<string>();
  #view: View;
  #self: SelfVerdict = "joining";
  #losses = 0;
  #lostSinceMs = 0;
  #onChange: (isNewList: boolean) => void = () => undefined;

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#view = options.view();
  }

  /** Resolves when this member is in the list, with its state there. Rejects when the signal is aborted before. */
  async listed(signal: AbortSignal): Promise<ListedState | undefined> {
    const { lists, nodeName } = this.#options;
    await lists.start(signal, () => this.relist());
    this.relist();
    return this.member(nodeName)?.state;
  }

  /** Beats from now on. `onChange` after every change; `isNewList`: of the list. Rejects when nothing will be heard of the others. */
  start(onChange: (isNewList: boolean) => void): Promise<void> {
    const { lists, membership, clock, log, nodeName, onVerdict } = this.#options;
    this.#onChange = onChange;
    const onNewerList = (): void => lists.readSoon();
    return membership.start((change) => {
      const about = change.kind === "self" ? nodeName : lists.at(change.member)?.name;
      // The newest list does not have the member.
      if (about === undefined) return;
      if (change.kind === "self") this.#judged(change.verdict);
      else {
        // One that is gone, or works again, does not leave: the same name may have begun another life.
        this.#leaving.delete(about);
        this.#verdicts.set(about, { verdict: change.verdict, sinceMs: clock.monotonicMs() });
      }
      log.debug("an opinion of the members changed", { about, opinion: change.verdict });
      onVerdict?.(about, change.verdict);
      onChange(false);
    }, onNewerList);
  }

  async stop(): Promise<void> {
    this.#options.lists.stop();
    await this.#options.membership.stop();
  }

  #judged(verdict: SelfVerdict): void {
    this.#self = verdict;
    if (verdict !== "lost") return;
    this.#losses += 1;
    this.#lostSinceMs = this.#options.clock.monotonicMs();
  }

  /** Computes the view anew (TX3), and forgets what is known of members that it does not have. */
  relist(): void {
    this.#view = this.#options.view();
    const names = new Set(this.#view.members.map(({ name }) => name));
    for (const known of [this.#leaving, this.#verdicts]) for (const name of known.keys()) if (!names.has(name)) known.delete(name);
    this.#onChange(true);
  }

  /** Goes by the list as it is now. Rejects when it cannot be read. */
  refresh(): Promise<void> {
    return this.#options.lists.refresh();
  }

  get view(): View {
    return this.#view;
  }

  /** This member's name. */
  get self(): string {
    return this.#options.nodeName;
  }

  /** One configured member, which no other will join. */
  get isAlone(): boolean {
    return this.#options.lists.isAlone;
  }

  get listVersion(): number {
    return this.#options.lists.current.version;
  }

  member(name: string): ListedMember | undefined {
    return this.#options.lists.current.members.find((member) => member.name === name);
  }

  /** The other members that neither failed nor leave. */
  get present(): readonly ListedMember[] {
    return this.#options.lists.current.members.filter(({ name }) => name !== this.self && !this.#isOut(name));
  }

  /** A majority receives this member's heartbeats, as far as it can see; its lease may have ended all the same. */
  get isHeard(): boolean {
    return this.#self === "works";
  }

  /** A majority hears this member, and none can have called it gone yet (I2 of the failure-detection README). */
  get works(): boolean {
    const { clock, membership } = this.#options;
    return this.#self === "works" && clock.monotonicMs() < membership.leaseEndMs();
  }

  /** Time since a majority lost this member; undefined: it has not. */
  get lostMs(): number | undefined {
    return this.#self === "lost" ? this.#options.clock.monotonicMs() - this.#lostSinceMs : undefined;
  }

  /** Number of times that a majority lost this member. Whatever was known before a loss may be wrong after it: another may have acted. */
  get losses(): number {
    return this.#losses;
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
    return name === this.self ? this.works : this.#verdicts.get(name)?.verdict === "works";
  }

  /** The member, perhaps this one, is about to stop. Until it is gone or back. */
  left(name: string): void {
    this.#leaving.add(name);
  }

  /** A member that takes units does not leave. */
  returned(name: string): void {
    this.#leaving.delete(name);
  }

  /** The member that serves the unit, or is about to. */
  ownerOf(unit: string): string {
    return servingMember(this.#view, unit, (name) => this.#isOut(name));
  }

  /** True: this member works, and receives beats of one before it in the unit's ranks that should serve. One that never beat may be gone for long, with another serving. */
  follows(unit: string): boolean {
    const ranks = this.#view.placement.get(unit) ?? [];
    const owner = this.ownerOf(unit);
    return this.works && this.hears(owner) && ranks.indexOf(owner) < ranks.indexOf(this.self);
  }

  /** The members to ask, with their addresses; see `askedToRelease`. */
  askedToRelease(unit: string, follows: boolean): readonly ListedMember[] {
    const opinions = { failed: (name: string) => this.hasFailed(name), leaving: (name: string) => this.#leaving.has(name) };
    return askedToRelease(this.#view, unit, this.self, opinions, follows).flatMap((name) => this.member(name) ?? []);
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
