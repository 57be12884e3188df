import {
  DETECTION_LIMITS,
  leaseEndMs,
  newDetector,
  step,
  type Beat,
  type DetectionLimits,
  type DetectorEffect,
  type Message,
  type Statement,
  type DetectorState,
  type Verdict,
} from "../index.ts";

/** What happens to one datagram: milliseconds until it arrives; undefined = lost. */
export type Link = (from: number, to: number, nowMs: number) => number | undefined;

export interface Change {
  readonly atMs: number;
  readonly at: number;
  readonly about: number | "self";
  readonly verdict: string;
}

interface Member {
  state: DetectorState;
  alive: boolean;
  /** Executes nothing until then; datagrams wait. */
  pausedUntilMs: number;
  loopStuckSinceMs: number | undefined;
  /** Its own monotonic clock minus the simulated one. */
  offsetMs: number;
  lives: number;
}

const LOSSLESS: Link = () => 1;

/** Members on simulated time: ticks and datagrams one after the other, no timers, no I/O. */
export class Mesh {
  nowMs = 0;
  link: Link = LOSSLESS;
  readonly changes: Change[] = [];
  readonly members: Member[];
  sent = 0;
  readonly #limits: DetectionLimits;
  readonly #ticks: number[];
  /** By the millisecond in which they arrive, or in which their receiver may be awake. */
  readonly #underWay = new Map<number, { readonly to: number; readonly message: Message }[]>();

  constructor(members: number, options: { readonly limits?: DetectionLimits; readonly phaseOf?: (at: number) => number } = {}) {
    this.#limits = options.limits ?? DETECTION_LIMITS;
    this.members = Array.from({ length: members }, (_, at) => ({
      state: this.#newLife(at, members, 1, at * 100_000),
      alive: true,
      pausedUntilMs: 0,
      loopStuckSinceMs: undefined,
      offsetMs: at * 100_000,
      lives: 1,
    }));
    this.#ticks = this.members.map((_, at) => options.phaseOf?.(at) ?? (at * 3) % this.#limits.tickMs);
  }

  advance(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (; this.nowMs < untilMs; this.nowMs += 1) this.#turn();
  }

  kill(at: number): void {
    this.members[at]!.alive = false;
    for (const [atMs, messages] of this.#underWay)
      this.#underWay.set(
        atMs,
        messages.filter(({ to }) => to !== at),
      );
  }

  restart(at: number): void {
    const member = this.members[at]!;
    member.lives += 1;
    member.offsetMs = this.#random(at) * 1_000;
    member.state = this.#newLife(at, this.members.length, member.lives, this.nowMs + member.offsetMs);
    Object.assign(member, { alive: true, pausedUntilMs: 0, loopStuckSinceMs: undefined });
  }

  pause(at: number, ms: number): void {
    this.members[at]!.pausedUntilMs = this.nowMs + ms;
  }

  verdict(at: number, about: number): Verdict {
    return this.members[at]!.state.peers[about]!.verdict;
  }

  self(at: number): string {
    return this.members[at]!.state.verdict;
  }

  /** On simulated time. */
  leaseEndMs(at: number): number {
    return leaseEndMs(this.members[at]!.state) - this.members[at]!.offsetMs;
  }

  /** Hands one beat over as if it had just arrived. */
  deliver(to: number, beat: Beat): void {
    this.#step(to, { kind: "beat", beat });
  }

  /** The same with a statement. */
  hear(to: number, statement: Statement): void {
    this.#step(to, { kind: "statement", statement });
  }

  #turn(): void {
    for (const [at, tickAtMs] of this.#ticks.entries()) {
      const member = this.members[at]!;
      if (this.nowMs < tickAtMs || this.nowMs < member.pausedUntilMs) continue;
      this.#ticks[at] = this.nowMs + this.#limits.tickMs;
      const stalledSince = member.loopStuckSinceMs;
      if (member.alive) this.#step(at, { kind: "tick", loopStalledMs: stalledSince === undefined ? 0 : this.nowMs - stalledSince });
    }
    const due = this.#underWay.get(this.nowMs);
    if (due === undefined) return;
    this.#underWay.delete(this.nowMs);
    for (const { to, message } of due) {
      const { alive, pausedUntilMs } = this.members[to]!;
      if (this.nowMs < pausedUntilMs) this.#put(Math.ceil(pausedUntilMs), to, message);
      else if (alive) this.#step(to, message);
    }
  }

  #put(atMs: number, to: number, message: Message): void {
    const there = this.#underWay.get(atMs);
    if (there === undefined) this.#underWay.set(atMs, [{ to, message }]);
    else there.push({ to, message });
  }

  #step(at: number, event: Parameters<typeof step>[1]): void {
    const member = this.members[at]!;
    for (const effect of step(member.state, event, this.nowMs + member.offsetMs)) this.#run(at, effect);
  }

  #run(at: number, effect: DetectorEffect): void {
    if (effect.kind === "self") this.changes.push({ atMs: this.nowMs, at, about: "self", verdict: effect.verdict });
    else if (effect.kind === "verdict") this.changes.push({ atMs: this.nowMs, at, about: effect.member, verdict: effect.verdict });
    else {
      this.sent += 1;
      const delayMs = this.link(at, effect.to, this.nowMs);
      const message: Message =
        effect.kind === "send" ? { kind: "beat", beat: effect.beat } : { kind: "statement", statement: effect.statement };
      if (delayMs !== undefined && this.members[effect.to]!.alive)
        this.#put(Math.max(this.nowMs + 1, this.nowMs + delayMs), effect.to, message);
    }
  }

  #random(at: number): number {
    return (at * 7919 + this.nowMs) % 1_000;
  }

  #newLife(self: number, members: number, life: number, nowMs: number): DetectorState {
    const incarnation = BigInt(self + 1) * 1_000_000n + BigInt(life);
    return newDetector({ limits: this.#limits, members, self, incarnation }, nowMs);
  }
}
