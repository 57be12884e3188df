import {
  DETECTION_LIMITS,
  leaseEndMs,
  newDetector,
  step,
  type Beat,
  type DetectionLimits,
  type DetectorEffect,
  type MemberList,
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

/** How often a member reads the list, besides when it hears of a newer one. */
const READ_EVERY_MS = 1_000;
const READ_TAKES_MS = 8;

/** The list of members, as storage has it. */
interface Recorded {
  list: MemberList;
  writtenAtMs: number;
}

interface Read {
  readonly at: number;
  readonly life: number;
  readonly list: MemberList;
  readonly beganAtMs: number;
}

interface Member {
  state: DetectorState;
  alive: boolean;
  /** Executes nothing until then; datagrams wait. */
  pausedUntilMs: number;
  loopStuckSinceMs: number | undefined;
  /** Reads of the list get no answer. */
  isUnread: boolean;
  /** Its own monotonic clock minus the simulated one. */
  offsetMs: number;
  /** How fast it runs: 1 = as simulated time. */
  readonly rate: number;
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
  /** Undefined: the configured members are all there ever are. */
  readonly recorded: Recorded | undefined;
  readonly #limits: DetectionLimits;
  readonly #ticks: number[];
  /** By the millisecond in which they end. */
  readonly #reads = new Map<number, Read[]>();
  /** By the millisecond in which they arrive, or in which their receiver may be awake. */
  readonly #underWay = new Map<number, { readonly to: number; readonly message: Message }[]>();

  /** `listed`: the first so many of the members are those of a list that changes; the others do not run yet. */
  constructor(
    members: number,
    options: {
      readonly limits?: DetectionLimits;
      readonly phaseOf?: (at: number) => number;
      readonly listed?: number;
      readonly rateOf?: (at: number) => number;
    } = {},
  ) {
    const { listed } = options;
    this.#limits = options.limits ?? DETECTION_LIMITS;
    const names = Array.from({ length: listed ?? 0 }, (_, at) => `m${at}`);
    this.recorded = listed === undefined ? undefined : { list: { version: 0, names }, writtenAtMs: Number.NEGATIVE_INFINITY };
    this.members = Array.from({ length: members }, (_, at) => ({
      state: this.#newLife(listed === undefined || at < listed ? at : 0, members, 1, at * 100_000),
      alive: listed === undefined || at < listed,
      pausedUntilMs: 0,
      loopStuckSinceMs: undefined,
      isUnread: false,
      offsetMs: at * 100_000,
      rate: options.rateOf?.(at) ?? 1,
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
    member.state = this.#newLife(at, this.members.length, member.lives, this.#ownMs(member));
    Object.assign(member, { alive: true, pausedUntilMs: 0, loopStuckSinceMs: undefined });
  }

  /** The next version of the list, with the member at this place or without it; a new one runs from then on. False while it is too early for it. */
  changeList(at: number): boolean {
    const recorded = this.recorded!;
    const { names, version } = recorded.list;
    const isIn = names[at] !== undefined;
    const left = names.filter((name) => name !== undefined).length - 1;
    if (this.nowMs < recorded.writtenAtMs + this.#limits.nextListAfterMs || (isIn && left < 2)) return false;
    const next = Array.from({ length: Math.max(names.length, at + 1) }, (_, place) => (place === at ? undefined : names[place]));
    if (!isIn) next[at] = `m${at}`;
    recorded.list = { version: version + 1, names: next };
    recorded.writtenAtMs = this.nowMs;
    if (!isIn) this.restart(at);
    return true;
  }

  /** Members of the newest version of the list. */
  get listed(): readonly number[] {
    const { recorded } = this;
    return [...this.members.keys()].filter((at) => recorded === undefined || recorded.list.names[at] !== undefined);
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
    const { state, offsetMs, rate } = this.members[at]!;
    return (leaseEndMs(state) - offsetMs) / rate;
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
      if (member.alive && (this.nowMs + at) % READ_EVERY_MS < this.#limits.tickMs) this.#read(at);
      if (member.alive)
        this.#step(at, { kind: "tick", loopStalledMs: stalledSince === undefined ? 0 : (this.nowMs - stalledSince) * member.rate });
    }
    this.#endReads();
    const due = this.#underWay.get(this.nowMs);
    if (due === undefined) return;
    this.#underWay.delete(this.nowMs);
    for (const { to, message } of due) {
      const { alive, pausedUntilMs } = this.members[to]!;
      if (this.nowMs < pausedUntilMs) this.#put(Math.ceil(pausedUntilMs), to, message);
      else if (alive) this.#step(to, message);
    }
  }

  #read(at: number): void {
    const { isUnread, lives } = this.members[at]!;
    if (this.recorded === undefined || isUnread) return;
    const read = { at, life: lives, list: this.recorded.list, beganAtMs: this.nowMs };
    const endsAtMs = this.nowMs + READ_TAKES_MS;
    this.#reads.set(endsAtMs, [...(this.#reads.get(endsAtMs) ?? []), read]);
  }

  #endReads(): void {
    const due = this.#reads.get(this.nowMs) ?? [];
    this.#reads.delete(this.nowMs);
    for (const read of due) {
      const { at, life, list, beganAtMs } = read;
      const member = this.members[at]!;
      if (!member.alive || member.lives !== life) continue;
      const wakesAtMs = Math.ceil(member.pausedUntilMs);
      if (this.nowMs < wakesAtMs) this.#reads.set(wakesAtMs, [...(this.#reads.get(wakesAtMs) ?? []), read]);
      else if (list.names[at] === undefined) this.kill(at);
      else this.#step(at, { kind: "list", list, readAtMs: this.#ownMs(member, beganAtMs) });
    }
  }

  #put(atMs: number, to: number, message: Message): void {
    const there = this.#underWay.get(atMs);
    if (there === undefined) this.#underWay.set(atMs, [{ to, message }]);
    else there.push({ to, message });
  }

  #step(at: number, event: Parameters<typeof step>[1]): void {
    const member = this.members[at]!;
    for (const effect of step(member.state, event, this.#ownMs(member))) this.#run(at, effect);
  }

  /** Of the member's own clock. */
  #ownMs({ offsetMs, rate }: Pick<Member, "offsetMs" | "rate">, atMs = this.nowMs): number {
    return atMs * rate + offsetMs;
  }

  #run(at: number, effect: DetectorEffect): void {
    if (effect.kind === "self") this.changes.push({ atMs: this.nowMs, at, about: "self", verdict: effect.verdict });
    else if (effect.kind === "verdict") this.changes.push({ atMs: this.nowMs, at, about: effect.member, verdict: effect.verdict });
    else if (effect.kind === "newer-list") this.#read(at);
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
    const options = { limits: this.#limits, members, self, incarnation };
    if (this.recorded === undefined) return newDetector(options, nowMs);
    return newDetector({ ...options, list: { list: this.recorded.list, untilMs: nowMs + this.#limits.listValidMs } }, nowMs);
  }
}
