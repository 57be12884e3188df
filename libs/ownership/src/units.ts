// The units that one member serves: taken, kept, handed over and ended by the table of the README (I8). None of it is needed for safety: the epoch
// in the log is (TXD1, DDD4).
import { assert, ConcordError, sleep, StopProgress, toConcordError, unreachable, type Clock, type Log } from "@concord/runtime";
import { tenureDecision, type TenureWaits } from "./hand-over.ts";
import { UNIT_POLL_MS, VAIN_OPENING_PAUSE_MS_MAX, VAIN_OPENINGS_FORGOTTEN_MS } from "./limits.ts";
import type { Owners } from "./owners.ts";
import type { ListedMember } from "./recorded-list.ts";
import { unitOfTenure, type Ended, type Tenure, type Unit } from "./unit.ts";

/** The other members, as partners of a planned hand-over. A call that fails means that the other one has no part in it. */
export interface HandOverPeers {
  /** This member leaves. Resolves when the one at the address serves what falls to it. */
  leave(address: string, timeoutMs: number): Promise<void>;
  /**
   * Resolves when the member at the address serves the unit no longer, with the version of the list that it knows: by a newer one it released nothing.
   */
  release(address: string, request: { readonly unit: string; readonly listVersion: number }, timeoutMs: number): Promise<number>;
}

/** Bounds of each step of a hand-over, in milliseconds. */
export interface UnitTimes extends TenureWaits {
  /** Time for calls in flight in a unit that is released. */
  readonly drainMs: number;
  /** Longest wait for another member's release; the drain there fits in. */
  readonly releaseTimeoutMs: number;
  /** After a release this member does not take the unit back, whatever it thinks, unless the other one fails: opinions spread in less. */
  readonly holdMs: number;
  /** Pause before a unit that another member has fenced is opened again: two that disagree would fence each other without end. */
  readonly againMs: number;
  /** Pause before a member that serves units takes those of a failed one. */
  readonly takeOverPauseMs: number;
  /** Longest wait for what falls to this member when another leaves. */
  readonly leaveMs: number;
}

export interface UnitsOptions<U extends Unit> {
  readonly owners: Owners;
  readonly peers: HandOverPeers;
  /** A new tenure of the unit. */
  readonly tenure: (name: string) => U;
  readonly times: UnitTimes;
  /** Name of a unit in the log. */
  readonly noun: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Names the units that a stop waits for. */
  readonly stopProgress?: StopProgress;
  /** The unit serves, or does again after a loss of this member. */
  readonly onServing?: (name: string) => void;
}

interface Held<U extends Unit> {
  readonly name: string;
  tenure: Tenure<U>;
  /** While this member did not own the unit, one before it in the ranks worked: none after it serves. */
  follows: boolean;
  /** Since when the unit is served here without being this member's. */
  unownedSinceMs: number | undefined;
  /**
   * The member that the unit was released to, and until when that alone may open it, whatever this one thinks of the owner. `works`: this one knows
   * that it does, so a failure of it is a new one.
   */
  released: { readonly to: string; readonly untilMs: number; works: boolean } | undefined;
  /** Not opened before, after it was fenced or openings of it were in vain. */
  pausedUntilMs: number;
  /** Openings here, one after another, that ended before the unit served: another member took it over, or was to have it. */
  vainOpenings: number;
  /** How often this member had been lost when the log last confirmed the epoch. */
  confirmedAt: number;
  /** When the unit is looked at next without an event. */
  look: { readonly atMs: number; cancel(): void } | undefined;
}

const CLOSED = { kind: "closed" } as const;

/** The units of one member; which of them it serves follows from `Owners`. */
export class Units<U extends Unit> {
  readonly #options: UnitsOptions<U>;
  readonly #held = new Map<string, Held<U>>();
  /** `own`, until a tenure changes. */
  #own: readonly U[] | undefined;
  readonly #progress: StopProgress;
  #isStopped = false;
  #changed = Promise.withResolvers<void>();

  constructor(options: UnitsOptions<U>) {
    this.#options = options;
    this.#progress = options.stopProgress ?? new StopProgress();
  }

  /** Receives verdicts about the members from now on. Rejects when it cannot. */
  start(): Promise<void> {
    return this.#options.owners.start((isNewList) => this.#ownersChanged(isNewList));
  }

  /**
   * Serves the unit whenever it is this member's, from now on. Resolves when it serves, or when it is another's now; rejects when the first opening
   * fails, and tries again as after any failure.
   */
  async add(name: string): Promise<void> {
    assert(!this.#held.has(name), `unit ${name} is added once`);
    const held: Held<U> = {
      name,
      tenure: CLOSED,
      follows: this.#options.owners.follows(name),
      unownedSinceMs: undefined,
      released: undefined,
      pausedUntilMs: Number.NEGATIVE_INFINITY,
      vainOpenings: 0,
      confirmedAt: 0,
      look: undefined,
    };
    this.#held.set(name, held);
    await this.#settle(held);
  }

  tenure(name: string): Tenure<U> {
    return this.#held.get(name)?.tenure ?? CLOSED;
  }

  /** Units of all tenures, those on their way here or out included. */
  get own(): readonly U[] {
    this.#own ??= [...this.#held.values()].flatMap(({ tenure }) => unitOfTenure(tenure) ?? []);
    return this.#own;
  }

  /** Number of units that are open here, on their way here or on their way out. */
  get served(): number {
    return [...this.#held.values()].filter(({ tenure }) => tenure.kind !== "closed").length;
  }

  /** Resolves when the unit is serving or closed; undefined: it is. Never rejects. */
  moving(name: string): Promise<void> | undefined {
    if (this.#isStopped) return undefined;
    const tenure = this.tenure(name);
    return tenure.kind === "opening" || tenure.kind === "leaving" ? tenure.settled.promise : undefined;
  }

  /** The log has confirmed the unit's epoch since the last time that another member may have raised it (TX14). */
  isConfirmed(name: string): boolean {
    return this.#held.get(name)?.confirmedAt === this.#options.owners.losses;
  }

  /** Resolves at the next change of an opinion, of the list or of a tenure. */
  changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Resolves `changed`. */
  wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }

  /**
   * Another member is about to stop: its units are for the next of their ranks, which asks it to release them. Resolves when this one serves what falls
   * to it, or after `leaveMs`. MALFORMED_REQUEST: the list does not have it.
   */
  async left(name: string): Promise<void> {
    const { owners, times } = this.#options;
    await this.#checkOther(name);
    owners.left(name);
    for (const held of this.#held.values()) {
      if (held.released?.to === name) held.released = undefined;
      this.#forgetVain(held);
      this.#look(held);
    }
    this.wake();
    await this.#within(this.#untilServing(), times.leaveMs);
  }

  /**
   * The member `to` is to serve the unit, by this version of the list. Resolves when this one does not any more, and what was in flight has ended. By a
   * newer list the unit may be another's: nothing is released then. Answers the version known here. MALFORMED_REQUEST: the list does not have `to`.
   */
  async release(name: string, to: string, listVersion: number): Promise<number> {
    const { clock, log, owners, noun, times } = this.#options;
    if (owners.listVersion < listVersion) await this.#refresh();
    await this.#checkOther(to);
    if (owners.listVersion > listVersion) return owners.listVersion;
    owners.returned(to);
    this.wake();
    const held = this.#held.get(name);
    if (held === undefined) return owners.listVersion;
    held.released = { to, untilMs: clock.monotonicMs() + times.holdMs, works: !owners.hasFailed(to) };
    if (held.tenure.kind !== "closed") log.info(`a ${noun} is handed over`, { unit: name, to });
    await this.#leave(held, times.drainMs);
    this.#look(held);
    return owners.listVersion;
  }

  /**
   * A planned stop: the others learn that this member leaves, and take its units over one by one while it goes on to serve those not yet asked for.
   * Resolves when those that live serve them; at most after `graceMs`.
   */
  async handOver(graceMs: number): Promise<void> {
    const { owners, peers } = this.#options;
    const others = owners.present;
    if (!owners.works || others.length === 0 || graceMs === 0) return;
    owners.left(owners.self);
    for (const held of this.#held.values()) this.#look(held);
    this.wake();
    const answered = others.map((member) => this.#untilAnswered(member, peers.leave(member.address, graceMs)));
    await this.#progress.during(
      () => `${this.#options.noun}s to be handed over: ${this.served}`,
      () => this.#within(Promise.all(answered), graceMs),
    );
  }

  /** Ends what is in flight in order, at once after `graceMs`. Then the others find this one gone. Never rejects. */
  async stop(graceMs = Number.POSITIVE_INFINITY): Promise<void> {
    const { log, noun, owners } = this.#options;
    this.#isStopped = true;
    this.wake();
    const held = [...this.#held.values()];
    for (const { look } of held) look?.cancel();
    const left = held.map((one) => this.#progress.during(`${noun} ${one.name}`, () => this.#leave(one, 0)));
    const isDrained = await this.#within(Promise.all(left), graceMs);
    if (!isDrained) await Promise.all(this.own.map((unit) => unit.stop()));
    await this.#progress
      .during("the membership", () => owners.stop())
      .catch((thrown: unknown) => log.warn("the membership did not stop well", { reason: String(thrown) }));
  }

  #ownersChanged(isNewList: boolean): void {
    const { clock, owners, times } = this.#options;
    const isServing = [...this.#held.values()].some(({ tenure }) => tenure.kind === "opening" || tenure.kind === "serving");
    for (const held of this.#held.values()) {
      if (isNewList) {
        this.#forgetVain(held);
        // Any other member may have served it by the list before; and the member that it was released to need not be its owner any more.
        held.follows = false;
        if (held.released !== undefined && !owners.hasFailed(held.released.to)) held.released = undefined;
      }
      if (!owners.owns(held.name)) held.follows = owners.follows(held.name);
      if (held.released !== undefined && !owners.hasFailed(held.released.to)) held.released.works = true;
      if (held.tenure.kind === "closed" && isServing && times.takeOverPauseMs > 0)
        this.#lookAt(held, clock.monotonicMs() + times.takeOverPauseMs);
      else this.#look(held);
    }
    this.wake();
  }

  /** Acts on the unit as the table demands now. */
  #look(held: Held<U>): void {
    const { log, noun } = this.#options;
    this.#settle(held).catch((thrown: unknown) =>
      log.warn(`a ${noun} could not be opened`, { unit: held.name, reason: toConcordError(thrown).message }),
    );
  }

  /** Resolves at once unless it opens the unit. */
  async #settle(held: Held<U>): Promise<void> {
    const stage = held.tenure.kind;
    if (this.#isStopped || stage === "leaving") return;
    const { clock, owners, times } = this.#options;
    const nowMs = clock.monotonicMs();
    const isOwner = owners.ownerOf(held.name) === owners.self;
    const { works, lostMs } = owners;
    held.unownedSinceMs = isOwner || stage === "closed" ? undefined : (held.unownedSinceMs ?? nowMs);
    const unownedMs = nowMs - (held.unownedSinceMs ?? nowMs);
    const decision = tenureDecision({ stage, works, isOwner, unownedMs, lostMs }, times);
    switch (decision) {
      case "take":
        return await this.#take(held);
      case "hand-over":
        return this.#end(held, times.drainMs);
      case "end":
        return this.#end(held, undefined);
      case "await-release":
        return this.#lookAt(held, nowMs + times.releaseMs - unownedMs);
      case "keep":
        if (lostMs !== undefined) this.#lookAt(held, nowMs + (stage === "opening" ? times.lostOpeningMs : times.lostServingMs) - lostMs);
        return;
      case "nothing":
        // A lease that comes back in time is no change of an opinion.
        if (isOwner && owners.isHeard) this.#lookAt(held, nowMs + UNIT_POLL_MS);
        return;
      default:
        unreachable(decision);
    }
  }

  async #take(held: Held<U>): Promise<void> {
    const waitsUntilMs = Math.max(held.pausedUntilMs, this.#heldUntilMs(held));
    if (waitsUntilMs > this.#options.clock.monotonicMs()) return this.#lookAt(held, waitsUntilMs);
    await this.#open(held).finally(() => this.#look(held));
  }

  #end(held: Held<U>, graceMs: number | undefined): void {
    const { log, noun } = this.#options;
    if (held.tenure.kind === "opening") this.#openedInVain(held);
    log.info(`a ${noun} belongs to another member now`, { unit: held.name });
    void this.#leave(held, graceMs).then(() => this.#look(held));
  }

  #heldUntilMs({ released }: Held<U>): number {
    if (released === undefined || (released.works && this.#options.owners.hasFailed(released.to))) return Number.NEGATIVE_INFINITY;
    return released.untilMs;
  }

  /** Resolves when it serves, or is not to be opened any more. Rejects when it could not be opened. */
  async #open(held: Held<U>): Promise<void> {
    const { clock, owners } = this.#options;
    assert(this.tenure(held.name).kind === "closed", "a closed unit is opened");
    const tenure: Extract<Tenure<U>, { kind: "opening" }> = { kind: "opening", unit: undefined, settled: Promise.withResolvers() };
    this.#become(held, tenure);
    try {
      await this.#askAll(held);
      if (held.tenure !== tenure) return;
      if (this.#isStopped || !owners.owns(held.name) || this.#heldUntilMs(held) > clock.monotonicMs()) {
        this.#become(held, CLOSED);
        return;
      }
      const unit = this.#options.tenure(held.name);
      tenure.unit = unit;
      this.#own = undefined;
      // Losses before the raise: after one that comes during it the log is asked again.
      held.confirmedAt = owners.losses;
      void unit.ended.then((how) => this.#ended(held, unit, how));
      // A tenure that failed stays with its reason; one that was fenced is left by `#ended`.
      await unit.open().finally(() => {
        if (held.tenure === tenure) this.#become(held, { kind: "serving", unit });
      });
      const now = this.tenure(held.name);
      if (now.kind !== "serving" || now.unit !== unit) return;
      held.vainOpenings = 0;
      if (this.isConfirmed(held.name)) this.#options.onServing?.(held.name);
      if (unit.confirm !== undefined) void this.#confirmWhenNeeded(held, unit, unit.confirm.bind(unit));
    } finally {
      tenure.settled.resolve();
      this.wake();
    }
  }

  /** Only calls gain by it: whatever the others answer, or none, the epoch decides. One that knows a newer list has released nothing: by that list all are asked again. */
  async #askAll(held: Held<U>): Promise<void> {
    const { owners } = this.#options;
    for (let version = -1; version < owners.listVersion && owners.owns(held.name) && !this.#isStopped;) {
      version = owners.listVersion;
      await Promise.all(owners.askedToRelease(held.name, held.follows).map((member) => this.#askRelease(held.name, member)));
    }
  }

  #askRelease(name: string, member: ListedMember): Promise<void> {
    const { owners, peers, times } = this.#options;
    const request = { unit: name, listVersion: owners.listVersion };
    const released = peers.release(member.address, request, times.releaseTimeoutMs).then(async (version) => {
      if (version > owners.listVersion) await this.#refresh();
    });
    return this.#untilAnswered(member, released);
  }

  /** The other member has answered in whatever way, or is called gone, or this one stops. */
  async #untilAnswered({ name }: ListedMember, call: Promise<void>): Promise<void> {
    const { log, owners } = this.#options;
    let isOver = false;
    const answered = call
      .catch((thrown: unknown) => log.debug("a call to another member failed", { name, reason: toConcordError(thrown).message }))
      .finally(() => (isOver = true));
    while (!isOver && !this.#isStopped && !owners.hasFailed(name)) await Promise.race([answered, this.changed()]);
  }

  /** The tenure ended by itself. A member alone stays as it is: two of one name would fence each other without end. */
  #ended(held: Held<U>, unit: U, how: Ended): void {
    const { clock, log, noun, owners, times } = this.#options;
    this.wake();
    if (this.#isStopped || owners.isAlone || how === "failed" || held.tenure.kind === "leaving" || unitOfTenure(held.tenure) !== unit)
      return;
    // Another one serves it: the next opening here asks for it.
    held.follows = false;
    held.pausedUntilMs = clock.monotonicMs() + times.againMs;
    if (held.tenure.kind === "opening") this.#openedInVain(held);
    log.info(`a ${noun} belongs to another member now`, { unit: held.name });
    void this.#refresh();
    void this.#leave(held, undefined).then(() => this.#look(held));
  }

  /**
   * An opening may take longer than the time between two verdicts. Members that take the unit from each other at each verdict would never serve it, so all but
   * its first rank leave it more and more time.
   */
  #openedInVain(held: Held<U>): void {
    const { clock, owners, times } = this.#options;
    if (owners.view.placement.get(held.name)?.[0] === owners.self) return;
    const nowMs = clock.monotonicMs();
    if (nowMs - held.pausedUntilMs > VAIN_OPENINGS_FORGOTTEN_MS) held.vainOpenings = 0;
    held.vainOpenings += 1;
    // None after the first one: the failure may have ended.
    const pauseMs = held.vainOpenings === 1 ? 0 : Math.min(times.againMs * 2 ** (held.vainOpenings - 2), VAIN_OPENING_PAUSE_MS_MAX);
    held.pausedUntilMs = Math.max(held.pausedUntilMs, nowMs + pauseMs);
  }

  /** The reason why openings were in vain is over: it is asked to take the unit, or another list may have given it to this member. */
  #forgetVain(held: Held<U>): void {
    if (held.vainOpenings === 0) return;
    held.vainOpenings = 0;
    held.pausedUntilMs = Number.NEGATIVE_INFINITY;
  }

  #become(held: Held<U>, tenure: Tenure<U>): void {
    held.tenure = tenure;
    this.#own = undefined;
  }

  /** `graceMs`: for what is in flight; undefined: at once. Resolves when it is closed. Never rejects. */
  async #leave(held: Held<U>, graceMs: number | undefined): Promise<void> {
    const { tenure } = held;
    if (tenure.kind === "closed") return;
    if (tenure.kind === "leaving") return await tenure.settled.promise;
    const { log, noun } = this.#options;
    const { unit } = tenure;
    const settled = Promise.withResolvers<void>();
    this.#become(held, { kind: "leaving", unit, settled });
    this.wake();
    try {
      await (graceMs === undefined ? unit?.stop() : unit?.drain(graceMs));
    } catch (thrown) {
      log.error(`a ${noun} was not closed well`, { unit: held.name, reason: toConcordError(thrown).message });
    } finally {
      // After the stop it stays as it is: calls that are still on their way find that it has stopped.
      if (!this.#isStopped) this.#become(held, CLOSED);
      held.unownedSinceMs = undefined;
      settled.resolve();
      this.wake();
    }
  }

  /**
   * The log is asked whether the epoch still holds: after each loss of this member, before the unit serves anything new; and again and again while the
   * unit is another's, which may have taken it over.
   */
  async #confirmWhenNeeded(held: Held<U>, unit: U, confirm: NonNullable<Unit["confirm"]>): Promise<void> {
    const { clock, owners, times, onServing } = this.#options;
    let unanswered = 0;
    while (!this.#isStopped && held.tenure.kind === "serving" && held.tenure.unit === unit) {
      const { losses } = owners;
      const isUnowned = owners.ownerOf(held.name) !== owners.self;
      if (owners.lostMs !== undefined || (this.isConfirmed(held.name) && !isUnowned)) {
        unanswered = 0;
        await this.changed();
        continue;
      }
      const isCurrent = await confirm(unanswered).catch(() => false);
      unanswered = isCurrent ? 0 : unanswered + 1;
      if (isCurrent && held.confirmedAt !== losses) {
        held.confirmedAt = losses;
        if (this.isConfirmed(held.name)) onServing?.(held.name);
        this.wake();
      }
      const pauseMs = this.isConfirmed(held.name) ? times.againMs : UNIT_POLL_MS;
      await Promise.race([sleep(clock, pauseMs), this.changed()]);
    }
  }

  /** Resolves when all units of this member are served here. */
  async #untilServing(): Promise<void> {
    const { owners } = this.#options;
    const isMissing = ({ name, tenure }: Held<U>): boolean => owners.owns(name) && tenure.kind !== "serving";
    while (!this.#isStopped && [...this.#held.values()].some(isMissing)) await this.changed();
  }

  /** One that was added just now may be in a list that is not read yet. */
  async #checkOther(name: string): Promise<void> {
    const { owners } = this.#options;
    const isOther = (): boolean => name !== owners.self && owners.member(name) !== undefined;
    if (!isOther()) await this.#refresh();
    if (!isOther()) throw new ConcordError("MALFORMED_REQUEST", `${name} is none of the other members`);
  }

  async #refresh(): Promise<void> {
    const { log, owners } = this.#options;
    await owners
      .refresh()
      .catch((thrown: unknown) => log.error("the list of members cannot be read", { reason: toConcordError(thrown).message }));
  }

  /** Answers whether the work was done in time. */
  async #within(work: Promise<unknown>, ms: number): Promise<boolean> {
    const done = new AbortController();
    const ended = work.finally(() => done.abort());
    await (ms === Number.POSITIVE_INFINITY ? ended : Promise.race([ended, sleep(this.#options.clock, ms, done.signal)]));
    return done.signal.aborted;
  }

  /** Looks at the unit at that time, or before. */
  #lookAt(held: Held<U>, atMs: number): void {
    if (this.#isStopped || atMs === Number.POSITIVE_INFINITY || (held.look !== undefined && held.look.atMs <= atMs)) return;
    held.look?.cancel();
    const { clock } = this.#options;
    const timer = clock.setTimer(Math.max(0, atMs - clock.monotonicMs()), () => {
      held.look = undefined;
      this.#look(held);
    });
    held.look = { atMs, cancel: () => timer.cancel() };
  }
}
