import type { Membership, SelfVerdict } from "@concord/failure-detection";
import { askedToRelease, dutyOf, place, servingMember, type Duty, type View } from "@concord/ownership";
import type { Clock, Log, Metrics } from "@concord/runtime";
import { SYSTEM_GROUP, type GroupMap } from "@concord/schema";
import { RANKS } from "../limits.ts";
import type { Coordinator, Masters } from "./coordinators.ts";

export interface StandingOptions {
  readonly coordinators: readonly Coordinator[];
  readonly nodeName: string;
  readonly masters: Masters;
  readonly membership: Membership;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What the cluster says of each coordinator, and which groups this one should therefore serve (TX14, TX16, TX17). */
export class Standing {
  readonly #options: StandingOptions;
  readonly #failed = new Set<string>();
  /** Coordinators that are about to stop: their groups are for others, though they still beat. */
  readonly #leaving = new Set<string>();
  #self: SelfVerdict = "joining";
  #losses = 0;
  #view: View;
  #changed = Promise.withResolvers<void>();

  constructor(options: StandingOptions) {
    this.#options = options;
    this.#view = viewOf(options, undefined);
  }

  /** Beats from now on. Rejects when it cannot. */
  start(): Promise<void> {
    const { coordinators, membership, log, metrics } = this.#options;
    return membership.start((change) => {
      if (change.kind === "self") {
        this.#self = change.verdict;
        if (change.verdict === "lost") this.#losses += 1;
      } else {
        const { name } = coordinators[change.member]!;
        this.#leaving.delete(name);
        if (change.verdict === "gone" || change.verdict === "stuck") this.#failed.add(name);
        else this.#failed.delete(name);
      }
      const about = change.kind === "self" ? this.#options.nodeName : coordinators[change.member]!.name;
      log.info("the coordinators' opinion changed", { about, opinion: change.verdict });
      metrics.count("coordinator_verdicts_total", 1, { about, verdict: change.verdict });
      this.wake();
    });
  }

  stop(): Promise<void> {
    return this.#options.membership.stop();
  }

  /** Standbys are computed from it, at each coordinator alike (I2 of the ownership README). */
  mapRead(map: GroupMap): void {
    this.#view = viewOf(this.#options, map);
    this.wake();
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
    return this.#options.coordinators.length === 1;
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
    return this.#failed.has(name);
  }

  /** Neither failed nor leaving, as far as this coordinator knows. */
  isPresent(name: string): boolean {
    return !this.#isOut(name);
  }

  /**
   * The coordinators that may serve the group now and can be asked to release it: those that leave, and those after this one in the ranks. `follows`:
   * this one saw a master before it at work, so none after it serves.
   */
  releasing(group: string, follows: boolean): readonly string[] {
    const opinions = { failed: (name: string) => this.#failed.has(name), leaving: (name: string) => this.#leaving.has(name) };
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
    return name === this.#options.nodeName ? this.#self === "lost" : this.#failed.has(name);
  }
}

/** Masters as the map has them, where they are configured; standbys in other datacenters (TX16). The first coordinator has the system group. */
function viewOf({ coordinators, masters }: StandingOptions, map: GroupMap | undefined): View {
  const groups = map?.groups ?? [];
  const placed = place(
    groups.map(({ id }) => id),
    coordinators,
    { ranks: RANKS, before: new Map(groups.map(({ id, master }) => [id, [master]])), owners: masters },
  );
  const before = new Map([[SYSTEM_GROUP, [coordinators[0]!.name]]]);
  const system = place([SYSTEM_GROUP], coordinators, { ranks: RANKS, before });
  return { version: map?.version ?? 0n, members: coordinators, placement: new Map([...system, ...placed]) };
}
