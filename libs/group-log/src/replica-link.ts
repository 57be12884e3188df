import type { AppendRequest, LogEntry } from "@concord/ports";
import {
  assert,
  ConcordError,
  nextSeq,
  toConcordError,
  unreachable,
  type Clock,
  type Epoch,
  type Log,
  type Seq,
  type Span,
} from "@concord/runtime";
import { LINK_IN_FLIGHT_MAX, LOG_READ_BYTES_MAX, LOG_READ_ENTRIES_MAX, OFFER_ATTEMPTS_MAX } from "./limits.ts";
import type { LogAppendReply, LogAppendRequest, LogReplica, ReplicaLogState } from "./replica.ts";

interface Position {
  readonly seq: Seq;
  /** Epoch of the entry before. */
  readonly previousEpoch: Epoch;
}

interface Page {
  readonly offer: LogAppendRequest;
  readonly next: Position | undefined;
}

export type Attempt<Answer> =
  /** `counts`: no other incarnation of the replica's store has been heard of since it was asked (I10). */
  | { readonly kind: "answer"; readonly answer: Answer; readonly counts: () => boolean }
  | { readonly kind: "failed"; readonly error: ConcordError };

/** What came of offering an entry to one replica; `counts` as in `Attempt`. */
export type Offer = Offered & { readonly counts: () => boolean };

type Offered =
  | { readonly kind: "accepted" }
  /** A newer epoch, or the same of another owner, is promised here. */
  | { readonly kind: "fenced"; readonly promisedEpoch: Epoch }
  /** An older epoch is promised here: this replica missed the raise, or there was none. */
  | { readonly kind: "behind"; readonly promisedEpoch: Epoch }
  /** No replica that answered has what this one lacks. */
  | { readonly kind: "gap" }
  | { readonly kind: "failed"; readonly error: ConcordError };

/** The replicas among which an entry is offered; shared by the offers of one append. */
export interface OfferRound {
  readonly request: AppendRequest;
  /** Every replica has applied up to here. */
  readonly appliedByAllSeq: Seq;
  readonly deadlineAtMs: number;
  readonly links: readonly ReplicaLink[];
  readonly acceptance: Acceptance;
  /** Hears of a replica that has promised a newer epoch, or the same to another owner. */
  readonly onRefused: (replica: string) => void;
  readonly span?: Span | undefined;
}

/** Whether any replica accepted; known when one did, when a majority is behind, so that none may, or when all have ended. */
export class Acceptance {
  readonly known: Promise<boolean>;
  readonly #silent: Set<ReplicaLink>;
  readonly #majority: number;
  #behind = 0;
  #tell: (accepted: boolean) => void = () => undefined;

  constructor(links: readonly ReplicaLink[]) {
    assert(links.length === 1 || links.length === 3, "a ring has 1 or 3 nodes (TXR4)");
    this.#silent = new Set(links);
    this.#majority = (links.length + 1) / 2;
    this.known = new Promise((resolve) => (this.#tell = resolve));
  }

  /** A link reported behind still reports its end. */
  record(link: ReplicaLink, status: "accepted" | "behind" | "ended"): void {
    this.#silent.delete(link);
    if (status === "behind") this.#behind += 1;
    if (status === "accepted") this.#tell(true);
    else if (this.#silent.size === 0 || this.#behind >= this.#majority) this.#tell(false);
  }
}

/** A replica with a bound on the calls in flight to it, so that a slow one costs bounded memory. */
export class ReplicaLink {
  readonly replica: LogReplica;
  readonly #clock: Clock;
  readonly #log: Log;
  #inFlight = 0;
  /** Incarnations of the replica's store that were heard of. */
  #incarnations = 0;

  constructor(replica: LogReplica, clock: Clock, log: Log) {
    this.replica = replica;
    this.#clock = clock;
    this.#log = log;
  }

  /** The replica may have forgotten what it answered: what was asked of it before does not count any more (I10). */
  restarted(): void {
    this.#incarnations += 1;
  }

  /** Never rejects. */
  async attempt<Answer>(call: (replica: LogReplica) => Promise<Answer>): Promise<Attempt<Answer>> {
    if (this.#inFlight >= LINK_IN_FLIGHT_MAX) {
      return { kind: "failed", error: new ConcordError("OVERLOADED", `${LINK_IN_FLIGHT_MAX} calls to ${this.replica.name} are in flight`) };
    }
    this.#inFlight += 1;
    assert(this.#inFlight <= LINK_IN_FLIGHT_MAX, "calls to one replica are bounded");
    const incarnation = this.#incarnations;
    try {
      return { kind: "answer", answer: await call(this.replica), counts: () => incarnation === this.#incarnations };
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.code === "INTERNAL" || error.code === "CORRUPT_DATA") {
        this.#log.error("group log replica failed", { replica: this.replica.name, code: error.code, message: error.message });
      }
      return { kind: "failed", error };
    } finally {
      assert(this.#inFlight > 0, "a call ends once");
      this.#inFlight -= 1;
    }
  }

  /** Offers an entry until the replica has accepted it, is fenced or cannot be helped. Never rejects. */
  async offer(round: OfferRound): Promise<Offer> {
    const attempt = await this.attempt(() => this.#offer(round));
    const offer: Offer = attempt.kind === "answer" ? { ...attempt.answer, counts: attempt.counts } : { ...attempt, counts: () => false };
    round.acceptance.record(this, offer.kind === "accepted" ? "accepted" : "ended");
    return offer;
  }

  async #offer(round: OfferRound): Promise<Offered> {
    const { request } = round;
    let reply = await this.#append(round, offerOf(round));
    for (let attempt = 1; attempt < OFFER_ATTEMPTS_MAX; attempt += 1) {
      switch (reply.result) {
        case "accepted":
          return { kind: "accepted" };
        case "fenced": {
          const { promisedEpoch } = reply.state;
          if (promisedEpoch >= request.epoch) {
            round.onRefused(this.replica.name);
            return { kind: "fenced", promisedEpoch };
          }
          if (!(await this.#joins(round))) return { kind: "behind", promisedEpoch };
          reply = await this.#append(round, offerOf(round));
          break;
        }
        case "gap": {
          const caughtUp = await this.#catchUp(round, reply.state);
          if (caughtUp === undefined) return { kind: "gap" };
          reply = caughtUp;
          break;
        }
        default:
          return unreachable(reply);
      }
    }
    if (reply.result === "accepted") return { kind: "accepted" };
    return { kind: "failed", error: new ConcordError("WRITE_TIMEOUT", `${this.replica.name} could not be caught up`) };
  }

  /**
   * This replica missed the raise. It may promise late, because the raise is its owner's; but only when another replica has
   * accepted under that epoch: no append makes its sender the owner (I6).
   */
  async #joins(round: OfferRound): Promise<boolean> {
    round.acceptance.record(this, "behind");
    if (!(await round.acceptance.known)) return false;
    const { group, epoch, owner } = round.request;
    const reply = await this.replica.logRaise({ group, epoch, owner }, this.#remainingMs(round));
    return reply.promised;
  }

  /** Copies what this replica lacks from one that has it. Undefined: none has it; throws when a replica did not answer. */
  async #catchUp(round: OfferRound, held: ReplicaLogState): Promise<LogAppendReply | undefined> {
    let failure: ConcordError | undefined;
    assert(round.links.includes(this), "an entry is offered within its round");
    for (const source of round.links) {
      if (source === this) continue;
      const copied = await source.attempt(() => this.#copyFrom(source, round, held));
      if (copied.kind === "failed") failure = copied.error;
      else if (copied.answer !== undefined) return copied.answer;
    }
    if (failure !== undefined) throw failure;
    return undefined;
  }

  /** Page by page; the entry itself comes with the last one, or after it when both do not fit one message. */
  async #copyFrom(source: ReplicaLink, round: OfferRound, held: ReplicaLogState): Promise<LogAppendReply | undefined> {
    const { request } = round;
    let from = startOf(held, request.epoch);
    for (;;) {
      const read = { group: request.group, fromSeq: from.seq, limit: LOG_READ_ENTRIES_MAX };
      const page = pageOf(await source.replica.logRead(read, this.#remainingMs(round)), from, round);
      if (page === undefined) return undefined;
      const reply = await this.#append(round, page.offer);
      if (reply.result !== "accepted" || page.next === undefined) return reply;
      assert(page.next.seq > from.seq, "I4: each page goes on where the one before ended");
      from = page.next;
    }
  }

  #append(round: OfferRound, request: LogAppendRequest): Promise<LogAppendReply> {
    return this.replica.logAppend(request, this.#remainingMs(round), round.span);
  }

  #remainingMs(round: OfferRound): number {
    const remainingMs = round.deadlineAtMs - this.#clock.monotonicMs();
    if (remainingMs <= 0) throw new ConcordError("DEADLINE_EXCEEDED", "the append's time budget ran out");
    return remainingMs;
  }
}

function offerOf({ request, appliedByAllSeq }: OfferRound): LogAppendRequest {
  const { group, epoch, owner, previousEpoch, timestampCeilingUs, decided } = request;
  assert(
    decided.seq < request.seq && previousEpoch <= epoch,
    "an entry is decided after it was offered, on top of an older or the same epoch",
  );
  const entries = [{ seq: request.seq, epoch, bytes: request.bytes, rows: request.rows }];
  return { group, epoch, owner, previousEpoch, entries, timestampCeilingUs, decided, appliedByAllSeq };
}

/** Where a replica's history may differ from the owner's: after its last entry of the owner's epoch, else after what is applied. */
function startOf(held: ReplicaLogState, epoch: Epoch): Position {
  if (held.lastEpoch === epoch) return { seq: nextSeq(held.lastSeq), previousEpoch: epoch };
  return { seq: nextSeq(held.appliedSeq), previousEpoch: held.appliedEpoch };
}

/**
 * What to offer from `from` on, taken from the state of a source replica; without `next` the request's own entry is the last. Undefined:
 * the source has not promised this epoch, has dropped what is lacking, or lacks the entry before the request's as well.
 */
function pageOf(source: ReplicaLogState, from: Position, round: OfferRound): Page | undefined {
  const { request } = round;
  if (source.promisedEpoch !== request.epoch || source.owner !== request.owner) return undefined;
  const before = source.entries.filter((entry) => entry.seq >= from.seq && entry.seq < request.seq);
  const own = offerOf(round);
  const last = before.at(-1);
  if (last === undefined)
    return from.seq === request.seq ? { offer: { ...own, previousEpoch: from.previousEpoch }, next: undefined } : undefined;
  if (before[0]!.seq !== from.seq) return undefined;
  const next = { seq: nextSeq(last.seq), previousEpoch: last.epoch };
  const isWhole = next.seq === request.seq;
  if (!isWhole && last.seq >= source.lastSeq) return undefined;
  if (isWhole && last.seq > source.appliedSeq && last.epoch !== request.previousEpoch) return undefined;
  // A replica that accepts the owner's entry applies what the owner's mark says: with the whole history before it the mark holds here, too.
  const applied = { seq: source.appliedSeq, epoch: source.appliedEpoch };
  const decided = isWhole && own.decided.seq > applied.seq ? own.decided : applied;
  const offer = { ...own, previousEpoch: from.previousEpoch, decided };
  if (!isWhole || bytesOf(before) + bytesOf(own.entries) > LOG_READ_BYTES_MAX) return { offer: { ...offer, entries: before }, next };
  return { offer: { ...offer, entries: [...before, ...own.entries] }, next: undefined };
}

function bytesOf(entries: readonly LogEntry[]): number {
  return entries.reduce((sum, entry) => sum + entry.bytes.length + entry.rows.length, 0);
}
