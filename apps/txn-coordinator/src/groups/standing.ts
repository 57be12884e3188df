import type { ListedMembership, Membership, SelfVerdict, Verdict } from "@concord/failure-detection";
import {
  askedToRelease,
  assignable,
  dutyOf,
  place,
  servingMember,
  type Duty,
  type ListedState,
  type MemberLists,
  type RecordedList,
  type View,
} from "@concord/ownership";
import type { Clock, Log, Metrics } from "@concord/runtime";
import { SYSTEM_GROUP, type GroupMap } from "@concord/schema";
import { RANKS } from "../limits.ts";
import type { Masters } from "./coordinators.ts";

export interface StandingOptions {
  readonly lists: MemberLists<RecordedList>;
  readonly nodeName: string;
  readonly masters: Masters;
  readonly membership: Membership | ListedMembership;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What the cluster says of each coordinator, and which groups this one should therefore serve (TX14, TX16, TX17). */
export class Standing {
  readonly #options: StandingOptions;
  /** The newest about each. */
  readonly #verdicts = new Map<string, Verdict>();
  /** Coordinators that are about to stop: their groups are for others, though they still beat. */
  readonly #leaving = new Set<string>();
  #self: SelfVerdict = "joining";
  #losses = 0;
  #map: GroupMap | undefined;
  #view: View;
  #changed = Promise.withResolvers<void>();

  constructor(options: StandingOptions) {
    this.#options = options;
    this.#view = viewOf(options.lists.current, options.masters, undefined);
  }

  /** Resolves when this coordinator is in the list, with its state there. Rejects when it is stopped before. */
  async listed(signal: AbortSignal): Promise<ListedState | undefined> {
    const { lists, nodeName } = this.#options;
    await lists.start(signal, () => this.#relisted());
    this.#relisted();
    return lists.current.members.find(({ name }) => name === nodeName)?.state;
  }

  /** Beats from now on. Rejects when it cannot. */
  async start(): Promise<void> {
    const { lists, membership, log, metrics, nodeName } = this.#options;
    const onNewerList = (): void => lists.readSoon();
    await membership.start((change) => {
      const about = change.kind === "self" ? nodeName : lists.at(change.member)?.name;
      // Of a member that the newest list does not have.
      if (about === undefined) return;
      if (change.kind === "self") {
        this.#self = change.verdict;
        if (change.verdict === "lost") this.#losses += 1;
      } else {
        this.#leaving.delete(about);
        this.#verdicts.set(about, change.verdict);
      }
      log.info("the coordinators' opinion changed", { about, opinion: change.verdict });
      metrics.count("coordinator_verdicts_total", 1, { about, verdict: change.verdict });
      this.wake();
    }, onNewerList);
  }

  stop(): Promise<void> {
    const { lists, membership } = this.#options;
    lists.stop();
    return membership.stop();
  }

  /** Standbys are computed from it, at each coordinator alike (I2 of the ownership README). */
  mapRead(map: GroupMap): void {
    this.#map = map;
    this.#relisted();
  }

  /** Whatever is computed from the list is computed anew (TX3). */
  #relisted(): void {
    const { lists, masters } = this.#options;
    this.#view = viewOf(lists.current, masters, this.#map);
    const names = new Set(this.#view.members.map(({ name }) => name));
    for (const known of [this.#leaving, this.#verdicts]) for (const name of known.keys()) if (!names.has(name)) known.delete(name);
    this.wake();
  }

  /** The list and the map from which masters and standbys are computed; another object after each change of them. */
  get view(): View {
    return this.#view;
  }

  /** A majority hears this coordinator, and none can have called it gone yet (I2 of the failure-detection README). */
  get works(): boolean {
    const { clock, membership } = this.#options;
    return this.#self === "works" && clock.monotonicMs() < membership.leaseEndMs();
  }

  /** A majority has lost this coordinator. */
  get isLost(): boolean {
    return this.#self === "lost";
  }

  /** How often a majority has lost it. Whatever was known before a loss may be wrong after it: a standby may have acted. */
  get losses(): number {
    return this.#losses;
  }

  get isAlone(): boolean {
    return this.#options.lists.isAlone;
  }

  duty(group: string): Duty {
    return dutyOf(this.#view, group, this.#options.nodeName, (name) => this.#isOut(name));
  }

  /** The coordinator, perhaps this one, is about to stop. Until it is gone or back. */
  left(name: string): void {
    this.#leaving.add(name);
    this.wake();
  }

  /** A coordinator that serves groups again does not leave. */
  returned(name: string): void {
    if (this.#leaving.delete(name)) this.wake();
  }

  /** What the majority says of another coordinator; one that leaves has not failed yet. */
  hasFailed(name: string): boolean {
    const verdict = this.#verdicts.get(name);
    return verdict === "gone" || verdict === "stuck";
  }

  /** A majority hears the coordinator, and so does this one. */
  hears(name: string): boolean {
    return name === this.#options.nodeName ? this.works : this.#verdicts.get(name) === "works";
  }

  /** Neither failed nor leaving, as far as this coordinator knows. */
  isPresent(name: string): boolean {
    return !this.#isOut(name);
  }

  /**
   * The coordinators that may serve the group now and can be asked to release it. `follows`: by the view as it is this one saw a master before it at
   * work, so only those that leave may.
   */
  releasing(group: string, follows: boolean): readonly string[] {
    const opinions = { failed: (name: string) => this.hasFailed(name), leaving: (name: string) => this.#leaving.has(name) };
    return askedToRelease(this.#view, group, this.#options.nodeName, opinions, follows);
  }

  /** Of all coordinators the one that serves the group, or is about to. */
  masterOf(group: string): string {
    return servingMember(this.#view, group, (name) => this.#isOut(name));
  }

  ranksOf(group: string): readonly string[] {
    return this.#view.placement.get(group) ?? [];
  }

  /** Resolves at the next change of any opinion. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Has all who wait for a change look again. */
  wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }

  #isOut(name: string): boolean {
    if (this.#leaving.has(name)) return true;
    return name === this.#options.nodeName ? this.#self === "lost" : this.hasFailed(name);
  }
}

/**
 * Masters as the map has them, where the list has these; standbys in other datacenters (TX16). The first coordinator has the system group. From list and map
 * alone, so that all who have read the same agree, whatever came before (TX3).
 */
function viewOf(list: RecordedList, masters: Masters, map: GroupMap | undefined): View {
  const groups = map?.groups ?? [];
  const members = assignable(list);
  const placed = place(
    groups.map(({ id }) => id),
    members,
    { ranks: RANKS, before: new Map(groups.map(({ id, master }) => [id, [master]])), owners: masters },
  );
  const before = new Map([[SYSTEM_GROUP, [members[0]!.name]]]);
  const system = place([SYSTEM_GROUP], members, { ranks: RANKS, before });
  return { version: BigInt(list.version), members: list.members, placement: new Map([...system, ...placed]) };
}
