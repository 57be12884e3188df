import type { AdvanceRequest, AppendOutcome, AppendRequest, GroupLog, GroupOwner, LogTail, RaiseOutcome } from "@concord/ports";
import { assert, ConcordError, silentLog, type Clock, type Epoch, type Log, type Seq, type Span } from "@concord/runtime";
import { checkAdvance, checkAppendRequest, checkOwned, encodedName } from "./check-requests.ts";
import { collect } from "./collect.ts";
import { AppliedByAll } from "./applied-by-all.ts";
import { Followers } from "./followers.ts";
import { NEWEST_THIRD_MS, RAISE_ALL_MS } from "./limits.ts";
import { mergeTails } from "./merge-tails.ts";
import { Acceptance, ReplicaLink, type Attempt, type Offer } from "./replica-link.ts";
import type { LogRaiseReply, LogReplica, ReplicaLogState } from "./replica.ts";

export interface RingGroupLogOptions {
  /** 1 or 3 (TXR4); any order. */
  readonly replicas: readonly LogReplica[];
  readonly clock: Clock;
  /** Hears of replicas' failed assertions and corrupt data. */
  readonly log?: Log;
  /** Hears how many replicas follow the owner of a group that appends here, when that changes. */
  readonly onFollowers?: (group: string, followers: number) => void;
}

/**
 * The group log over the ring's replicas (TXR1-TXR4). Every operation asks all replicas and answers with the fastest majority; what
 * the slow one still does goes on in the background, at most until the call's time budget ends. Keeps no state of its own but hints of
 * what every replica has applied: a coordinator may use another node's ring for its next call.
 */
export class RingGroupLog implements GroupLog {
  /** Replicas decide in one. */
  readonly exchangesMax = 1;
  readonly #links: readonly ReplicaLink[];
  readonly #clock: Clock;
  readonly #majority: number;
  readonly #applied: AppliedByAll;
  readonly #followers: Followers;

  constructor(options: RingGroupLogOptions) {
    assert(options.replicas.length === 1 || options.replicas.length === 3, "a ring has 1 or 3 nodes (TXR4)");
    this.#applied = new AppliedByAll(options.replicas.length);
    this.#followers = new Followers(options.replicas.length, options.onFollowers ?? (() => undefined));
    const replicas = options.replicas.map((replica) => this.#applied.watch(replica));
    this.#links = replicas.map((replica) => new ReplicaLink(replica, options.clock, options.log ?? silentLog));
    this.#clock = options.clock;
    this.#majority = (options.replicas.length + 1) / 2;
    assert(2 * this.#majority > this.#links.length, "two majorities share a replica (I2)");
    assert(new Set(options.replicas.map(({ name }) => name)).size === this.#links.length, "replicas are distinct");
  }

  /**
   * Another incarnation of a replica's store was heard of: answers to what was asked of the replica before are no votes any more, since its
   * store may have lost what they say (I10). Called before that replica reads what this node holds to catch up.
   */
  restarted(replica: string): void {
    this.#applied.restarted(replica);
    for (const link of this.#links) if (link.replica.name === replica) link.restarted();
  }

  /** REPLICAS_UNAVAILABLE when no majority answered. */
  async status(group: string, timeoutMs: number): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }> {
    encodedName(group);
    const states = await this.#states(group, timeoutMs, (answers) => answers.length >= this.#majority);
    if (states.length < this.#majority)
      throw new ConcordError("REPLICAS_UNAVAILABLE", `${states.length} of ${this.#links.length} replicas answered`);
    const { promisedEpoch, owner } = states.reduce(newerPromise);
    return { promisedEpoch, owner };
  }

  /**
   * No entry that was decided before the call is behind it; the entry itself may be undecided, then it is decided or replaced soon. Of two
   * answers that differ the larger counts: the third, waited for NEWEST_THIRD_MS at most, tells an entry that only one replica holds. Needs no
   * look at epochs (TXD1): a majority holds whatever was answered as logged. REPLICAS_UNAVAILABLE when no majority answered.
   */
  async newestSeq(group: string, timeoutMs: number): Promise<Seq> {
    encodedName(group);
    const flows = this.#links.map((link) => link.attempt((replica) => replica.logState(group, timeoutMs)));
    const waitMs = Math.min(NEWEST_THIRD_MS, timeoutMs);
    const first = await collect(this.#clock, waitMs, flows, (attempts, pending) => {
      const seqs = lastSeqsOf(attempts);
      return pending === 0 || (seqs.length >= this.#majority && seqs[0] === seqs.at(-1)) ? seqs : undefined;
    });
    const enough = (attempts: readonly Attempt<ReplicaLogState>[], pending: number): readonly Seq[] | undefined => {
      const seqs = lastSeqsOf(attempts);
      return pending === 0 || seqs.length >= this.#majority ? seqs : undefined;
    };
    const seqs = first.length >= this.#majority ? first : await collect(this.#clock, Math.max(1, timeoutMs - waitMs), flows, enough);
    if (seqs.length < this.#majority)
      throw new ConcordError("REPLICAS_UNAVAILABLE", `${seqs.length} of ${this.#links.length} replicas answered`);
    // An entry that a majority may hold: those that did not answer are taken to hold it.
    const newest = seqs[this.#majority - 1 - (this.#links.length - seqs.length)];
    assert(newest !== undefined, "TXD5: a majority answered, so one of its answers is the newest that a majority may hold");
    return newest;
  }

  /**
   * Refused also when only a minority has promised another owner: the caller raises above it, or that replica would never follow (TXR3). A replica that
   * is not reachable when the majority has promised, or does not answer within RAISE_ALL_MS after that, is not waited for.
   */
  async raise(owner: GroupOwner, timeoutMs: number): Promise<RaiseOutcome> {
    checkOwned(owner);
    const deadlineAtMs = this.#clock.monotonicMs() + timeoutMs;
    const flows = this.#links.map(async (link): Promise<Attempt<PromiseOf>> => {
      const attempt = await link.attempt((replica) => replica.logRaise(owner, timeoutMs));
      return attempt.kind === "answer" ? { ...attempt, answer: { link, ...attempt.answer } } : attempt;
    });
    const decision = await collect(this.#clock, timeoutMs, flows, (attempts, pending) => this.#raised(answersOf(attempts), pending));
    if (decision.kind !== "promised") return decision;
    const waitMs = Math.min(RAISE_ALL_MS, Math.max(0, deadlineAtMs - this.#clock.monotonicMs()));
    const reachable = flows.filter((_, at) => this.#links[at]!.replica.reachable);
    const all = await collect(this.#clock, waitMs, reachable, (attempts, pending) => (pending === 0 ? answersOf(attempts) : undefined));
    // Also of a replica that had answered before it was not reachable any more.
    const refused = refusalIn([...decision.replies, ...all]);
    if (refused !== undefined) return refused;
    this.#followers.raised(owner.group);
    assert(decision.promises.length >= this.#majority, "a majority promised (TXR3)");
    const tail = mergeTails(decision.promises.map((promise) => promise.state));
    const spread = await this.#spreadBase(owner, decision.promises, tail, deadlineAtMs);
    return spread ? { kind: "raised", tail } : { kind: "unknown" };
  }

  /** SEQUENCE_GAP: what comes before the entry is not there. IDEMPOTENCY_MISMATCH: (seq, epoch) is taken by other content. MALFORMED_REQUEST: also of rows that do not decode. */
  async append(request: AppendRequest, timeoutMs: number, span?: Span): Promise<AppendOutcome> {
    checkAppendRequest(request);
    const offers = this.#offerToAll(request, timeoutMs, span);
    return collect(this.#clock, timeoutMs, offers, (answers, pending) => this.#appended(request.epoch, answers, pending));
  }

  /**
   * A replica that missed the raise promises late, as it would at an append: else a majority that changes behind an owner that appends nothing could
   * not confirm it.
   */
  async verify(owner: GroupOwner, timeoutMs: number): Promise<"current" | "fenced" | "unknown"> {
    checkOwned(owner);
    const isOwn = (state: ReplicaLogState): boolean => state.promisedEpoch === owner.epoch && state.owner === owner.owner;
    const acceptance = new Acceptance(this.#links);
    const flows = this.#links.map(async (link) => {
      const attempt = await link.attempt((replica) => this.#promiseOf(replica, owner, { link, acceptance, isOwn, timeoutMs }));
      acceptance.record(link, "ended");
      return attempt;
    });
    const states = await collect(this.#clock, timeoutMs, flows, (attempts, pending) => {
      const answers = answersOf(attempts);
      const own = answers.filter(isOwn).length;
      return pending === 0 || Math.max(own, answers.length - own) >= this.#majority ? answers : undefined;
    });
    assert(states.length <= this.#links.length, "each replica is counted once");
    const others = states.filter((state) => !isOwn(state));
    if (states.length - others.length >= this.#majority) return "current";
    return others.length >= this.#majority || others.some((state) => state.promisedEpoch >= owner.epoch) ? "fenced" : "unknown";
  }

  /** What the replica has promised. An older promise is raised only where another replica follows this owner: no question makes its caller one (I6). */
  async #promiseOf(replica: LogReplica, owner: GroupOwner, round: VerifyRound): Promise<ReplicaLogState> {
    const { link, acceptance, isOwn, timeoutMs } = round;
    const deadlineAtMs = this.#clock.monotonicMs() + timeoutMs;
    const state = await replica.logState(owner.group, timeoutMs);
    acceptance.record(link, isOwn(state) ? "accepted" : "behind");
    if (state.promisedEpoch >= owner.epoch || !(await acceptance.known)) return state;
    const leftMs = deadlineAtMs - this.#clock.monotonicMs();
    return leftMs <= 0 ? state : (await replica.logRaise(owner, leftMs)).state;
  }

  async advance(request: AdvanceRequest, timeoutMs: number): Promise<"advanced" | "unknown"> {
    checkAdvance(request);
    const { group, decided } = request;
    const note = { ...request, appliedByAllSeq: this.#applied.seqOf(group) };
    const flows = this.#links.map((link) =>
      link.attempt(async (replica) => {
        const { appliedSeq } = await replica.logAdvance(note, timeoutMs);
        if (appliedSeq < decided.seq) await replica.logCatchUp(group, decided.seq, timeoutMs);
      }),
    );
    return collect(this.#clock, timeoutMs, flows, (attempts, pending) => {
      const advanced = answersOf(attempts).length;
      assert(advanced + pending <= this.#links.length, "each replica is counted once");
      if (advanced >= this.#majority) return "advanced" as const;
      return advanced + pending < this.#majority ? ("unknown" as const) : undefined;
    });
  }

  /** States as soon as they are enough, or all there will be. */
  #states(
    group: string,
    timeoutMs: number,
    areEnough: (states: readonly ReplicaLogState[]) => boolean,
  ): Promise<readonly ReplicaLogState[]> {
    const flows = this.#links.map((link) => link.attempt((replica) => replica.logState(group, timeoutMs)));
    return collect(this.#clock, timeoutMs, flows, (attempts, pending) => {
      const states = answersOf(attempts);
      return pending === 0 || areEnough(states) ? states : undefined;
    });
  }

  #raised(replies: readonly PromiseOf[], pending: number): RaiseDecision | undefined {
    assert(replies.length + pending <= this.#links.length, "each replica is counted once");
    const promises = replies.filter((reply) => reply.promised);
    // two promised, so whatever was logged is in their tails (TXR3)
    if (promises.length >= this.#majority) return { kind: "promised", promises, replies };
    if (promises.length + pending >= this.#majority) return undefined;
    return refusalIn(replies) ?? { kind: "unknown" };
  }

  /**
   * Has the others that promised apply what one of them has applied, so that the owner's first append connects at a majority, and its
   * reads see all of it, even when that one replica dies now.
   */
  async #spreadBase(
    { group }: GroupOwner,
    promises: readonly PromiseOf[],
    { appliedSeq }: LogTail,
    deadlineAtMs: number,
  ): Promise<boolean> {
    const behind = promises.filter((promise) => promise.state.appliedSeq < appliedSeq);
    assert(behind.length < promises.length, "the merged mark is one replica's own");
    if (promises.length - behind.length >= this.#majority) return true;
    const timeoutMs = Math.max(1, deadlineAtMs - this.#clock.monotonicMs());
    const flows = behind.map(({ link }) => link.attempt((replica) => replica.logCatchUp(group, appliedSeq, timeoutMs)));
    return collect(this.#clock, timeoutMs, flows, (attempts, pending) => {
      if (promises.length - behind.length + answersOf(attempts).length >= this.#majority) return true;
      return pending === 0 ? false : undefined;
    });
  }

  #appended(epoch: Epoch, offers: readonly Offer[], pending: number): AppendOutcome | undefined {
    assert(offers.length + pending <= this.#links.length, "each replica answers an offer once");
    const accepted = offers.filter((offer) => offer.kind === "accepted" && offer.counts()).length;
    // two synced it in the same epoch: logged (TXR2, TX27)
    if (accepted >= this.#majority) return { kind: "logged" };
    if (accepted + pending >= this.#majority) return undefined;
    const promises = offers.filter((offer) => offer.kind === "fenced" || offer.kind === "behind");
    // No majority without a replica that promised another owner: only a raise above that promise helps, by this owner's next life or another.
    if (promises.length >= this.#majority || promises.some((offer) => offer.promisedEpoch >= epoch)) {
      return { kind: "fenced", promisedEpoch: promises.reduce(newerPromise).promisedEpoch };
    }
    for (const offer of offers) if (offer.kind === "failed" && REFUSALS.has(offer.error.code)) throw offer.error;
    // not logged for sure, but the last answers may tell why
    if (pending > 0) return undefined;
    if (offers.length === this.#links.length && offers.every((offer) => offer.kind === "gap")) {
      throw new ConcordError("SEQUENCE_GAP", "the entry before is not in the log", { applied: "unknown" });
    }
    return { kind: "unknown" };
  }

  #offerToAll(request: AppendRequest, timeoutMs: number, span: Span | undefined): Promise<Offer>[] {
    const deadlineAtMs = this.#clock.monotonicMs() + timeoutMs;
    const appliedByAllSeq: Seq = this.#applied.seqOf(request.group);
    const acceptance = new Acceptance(this.#links);
    const onRefused = (replica: string): void => this.#followers.refused(request.group, replica);
    const round = { request, appliedByAllSeq, deadlineAtMs, links: this.#links, acceptance, onRefused, span };
    return this.#links.map((link) => link.offer(round));
  }
}

/** Of the request itself: no replica that has all before it will ever accept it. */
const REFUSALS: ReadonlySet<string> = new Set(["IDEMPOTENCY_MISMATCH", "MALFORMED_REQUEST"]);

interface VerifyRound {
  readonly link: ReplicaLink;
  readonly acceptance: Acceptance;
  readonly isOwn: (state: ReplicaLogState) => boolean;
  readonly timeoutMs: number;
}

interface PromiseOf extends LogRaiseReply {
  readonly link: ReplicaLink;
}

type RaiseDecision =
  | { readonly kind: "promised"; readonly promises: readonly PromiseOf[]; readonly replies: readonly PromiseOf[] }
  | Exclude<RaiseOutcome, { readonly kind: "raised" }>;

function answersOf<Answer>(attempts: readonly Attempt<Answer>[]): Answer[] {
  return attempts.flatMap((attempt) => (attempt.kind === "answer" && attempt.counts() ? [attempt.answer] : []));
}

/** Of the replicas that answered, largest first. */
function lastSeqsOf(attempts: readonly Attempt<ReplicaLogState>[]): readonly Seq[] {
  const seqs = answersOf(attempts).map(({ lastSeq }) => lastSeq);
  return seqs.sort((left, right) => (left > right ? -1 : left < right ? 1 : 0));
}

/** Undefined: none refused. */
function refusalIn(replies: readonly PromiseOf[]): Extract<RaiseOutcome, { readonly kind: "refused" }> | undefined {
  const refusals = replies.filter((reply) => !reply.promised).map((reply) => reply.state);
  if (refusals.length === 0) return undefined;
  const { promisedEpoch, owner } = refusals.reduce(newerPromise);
  return { kind: "refused", promisedEpoch, owner };
}

function newerPromise<State extends { readonly promisedEpoch: Epoch }>(left: State, right: State): State {
  return left.promisedEpoch >= right.promisedEpoch ? left : right;
}
