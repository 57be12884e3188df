import { compareBytes } from "@concord/codec";
import type {
  AdvanceRequest,
  AppendOutcome,
  AppendRequest,
  GroupLog,
  GroupOwner,
  LogEntry,
  LogPosition,
  LogTail,
  RaiseOutcome,
} from "@concord/ports";
import { ConcordError, sleep, type Clock, type Epoch, type Seq } from "@concord/runtime";
import { checkAdvance, checkAppend, checkGroup, checkOwned } from "./check-requests.ts";
import { failureOf, readError, type CassandraFailure } from "./failure.ts";
import { contentId, headerOf, heldEntry, logEntry, type LogHeader } from "./group-log-record.ts";
import { GroupLogStatements, type Marks } from "./group-log-statements.ts";
import { Lanes } from "./lanes.ts";
import { APPLIED_GROUPS_MAX, APPLIED_POLL_MS, DECIDING_READ_SHARE, LWT_RETRY_MS, LWT_TIMEOUT_MS, TAIL_PAGE_ENTRIES } from "./limits.ts";
import type { Answer, CassandraSession, ResultRow, Statement } from "./session.ts";

export interface CassandraGroupLogOptions {
  readonly session: CassandraSession;
  readonly keyspace: string;
  readonly clock: Clock;
}

/** An append on its way. */
interface Flush {
  readonly request: AppendRequest;
  readonly id: Uint8Array;
  /** Not behind what the header was seen to have. */
  marks: Marks;
}

/** What one lightweight transaction came to. */
type Swap = { readonly kind: "applied" } | { readonly kind: "refused"; readonly row: ResultRow | undefined } | { readonly kind: "unknown" };

/** What the header says about an append, whether or not its own lightweight transaction is known. */
type Judgement =
  | { readonly kind: "logged" | "absent" }
  | { readonly kind: "fenced"; readonly promisedEpoch: Epoch }
  /** Held under an older epoch, with the same content. */
  | { readonly kind: "to-adopt"; readonly lastSeq: Seq };

/**
 * The group log in one partition per group (TXC1-TXC3): a flush is one lightweight transaction; an answer that did not come is decided by a
 * serial read; only the identical flush is sent again. A decided entry never changes.
 */
export class CassandraGroupLog implements GroupLog {
  readonly #session: CassandraSession;
  readonly #clock: Clock;
  readonly #statements: GroupLogStatements;
  /** A raise: lightweight transaction, header, tail. An append of an entry that is held: refused, the entry, adopted. */
  readonly exchangesMax = 3;
  /** Of one group one lightweight transaction at a time: two at once time each other out. */
  readonly #lanes = new Lanes();
  /** Marks as they were seen last. */
  readonly #applied = new Map<string, Seq>();

  constructor({ session, keyspace, clock }: CassandraGroupLogOptions) {
    this.#session = session;
    this.#clock = clock;
    this.#statements = new GroupLogStatements(keyspace);
  }

  async status(group: string, timeoutMs: number): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }> {
    checkGroup(group);
    const { epoch, owner } = await this.#header(group, this.#deadline(timeoutMs));
    return { promisedEpoch: epoch, owner };
  }

  async raise(owner: GroupOwner, timeoutMs: number): Promise<RaiseOutcome> {
    checkOwned(owner);
    const deadline = this.#deadline(timeoutMs);
    return this.#lanes.run(owner.group, () => this.#untilKnown(deadline, () => this.#raiseOnce(owner, deadline)));
  }

  async append(request: AppendRequest, timeoutMs: number): Promise<AppendOutcome> {
    checkAppend(request);
    const deadline = this.#deadline(timeoutMs);
    const { decided, timestampCeilingUs: ceilingUs } = request;
    const flush: Flush = { request, id: contentId(request), marks: { ceilingUs, appliedSeq: decided.seq, appliedEpoch: decided.epoch } };
    return this.#lanes.run(request.group, () => this.#untilKnown(deadline, () => this.#appendOnce(flush, deadline)));
  }

  async verify(owner: GroupOwner, timeoutMs: number): Promise<"current" | "fenced" | "unknown"> {
    checkOwned(owner);
    try {
      return isOwned(await this.#header(owner.group, this.#deadline(timeoutMs)), owner) ? "current" : "fenced";
    } catch {
      return "unknown";
    }
  }

  async advance(request: AdvanceRequest, timeoutMs: number): Promise<"advanced" | "unknown"> {
    checkAdvance(request);
    const { group, decided } = request;
    if (decided.seq === 0n) return "advanced";
    const deadline = this.#deadline(timeoutMs);
    const outcome = await this.#lanes.run(group, () => this.#untilKnown(deadline, () => this.#advanceOnce(request, deadline)));
    return outcome === "advanced" ? "advanced" : "unknown";
  }

  /** Resolves when the marks of these commits' groups have passed them: their owner has applied the rows at a quorum. READ_TIMEOUT. */
  async whenApplied(after: readonly LogPosition[], timeoutMs: number): Promise<void> {
    const deadline = this.#deadline(timeoutMs);
    await Promise.all(
      after.map(async ({ group, seq }) => {
        // A mark that was seen once needs no look: it never moves back (I7).
        while ((this.#applied.get(group) ?? 0n) < seq && (await this.#header(group, deadline)).appliedSeq < seq) {
          if (this.#leftMs(deadline) <= APPLIED_POLL_MS)
            throw new ConcordError("READ_TIMEOUT", `commit ${seq} of group ${group} is not applied yet`);
          await sleep(this.#clock, APPLIED_POLL_MS);
        }
      }),
    );
  }

  /** One try; undefined: try again. */
  async #raiseOnce(owner: GroupOwner, deadline: number): Promise<RaiseOutcome | undefined> {
    await this.#swap(this.#statements.raise(owner), deadline);
    // Whatever came of it: this read decides it.
    let header = await this.#header(owner.group, deadline);
    if (header.epoch === 0n) {
      await this.#swap(this.#statements.createHeader(owner), deadline);
      header = await this.#header(owner.group, deadline);
    }
    if (!isOwned(header, owner)) {
      return header.epoch >= owner.epoch ? { kind: "refused", promisedEpoch: header.epoch, owner: header.owner } : undefined;
    }
    const entries = await this.#tail(owner.group, header, deadline);
    return entries === undefined ? undefined : { kind: "raised", tail: tailOf(header, entries) };
  }

  async #advanceOnce(request: AdvanceRequest, deadline: number): Promise<"advanced" | { readonly kind: "unknown" } | undefined> {
    const { seq, epoch } = request.decided;
    const swap = await this.#swap(this.#statements.advance(request, seq, epoch), deadline);
    if (swap.kind === "applied") return "advanced";
    // The same again is refused if this one was carried out: the mark is there then.
    if (swap.kind === "unknown") return undefined;
    const isOwn = swap.row?.["epoch"] === request.epoch && swap.row["owner"] === request.owner;
    const appliedSeq = swap.row?.["applied_seq"];
    return isOwn && typeof appliedSeq === "bigint" && appliedSeq >= seq ? "advanced" : { kind: "unknown" };
  }

  /** Undefined: what was read is of several moments, as a newer owner trims. */
  async #tail(group: string, { appliedSeq, lastSeq }: LogHeader, deadline: number): Promise<readonly LogEntry[] | undefined> {
    const statement = this.#statements.readTail(group, appliedSeq);
    const entries: LogEntry[] = [];
    let pageState: string | undefined;
    do {
      const answer: Answer = await this.#readSerial(statement, deadline, pageState);
      entries.push(...answer.rows.map(logEntry));
      pageState = answer.pageState;
    } while (pageState !== undefined);
    const isWhole = entries.every(({ seq }, at) => seq === appliedSeq + BigInt(at) + 1n) && appliedSeq + BigInt(entries.length) === lastSeq;
    return isWhole ? entries : undefined;
  }

  async #appendOnce(flush: Flush, deadline: number): Promise<AppendOutcome | undefined> {
    const { request, id } = flush;
    let swap = await this.#swap(this.#statements.append(request, id, flush.marks), deadline);
    const refusing = refusingHeader(swap);
    if (refusing !== undefined && isNext(refusing, request)) {
      // Only a mark was behind what the header has.
      flush.marks = ahead(refusing, flush.marks);
      swap = await this.#swap(this.#statements.append(request, id, flush.marks), deadline);
    }
    if (swap.kind === "applied") return { kind: "logged" };
    // The conditions name the whole header: a refused lightweight transaction has read it (TXC1).
    const judgement = await this.#judge(flush, refusingHeader(swap) ?? (await this.#header(request.group, deadline)), deadline);
    switch (judgement.kind) {
      case "logged":
        return { kind: "logged" };
      case "fenced":
        return { kind: "fenced", promisedEpoch: judgement.promisedEpoch };
      case "to-adopt": {
        // Applied: its condition keeps the entry that was judged, its content with it (I6). Otherwise judged again.
        const adopted = await this.#swap(this.#statements.adopt(request, request.seq, judgement.lastSeq), deadline);
        return adopted.kind === "applied" ? { kind: "logged" } : undefined;
      }
      case "absent":
        return undefined;
    }
  }

  /** What the log says of this flush, by its header and a serial read (TXC2). SEQUENCE_GAP, IDEMPOTENCY_MISMATCH. */
  async #judge({ request, id }: Flush, header: LogHeader, deadline: number): Promise<Judgement> {
    const { seq, epoch, previousEpoch } = request;
    if (!isOwned(header, request)) return { kind: "fenced", promisedEpoch: header.epoch };
    if (seq <= header.appliedSeq) return { kind: "logged" };
    const gap = new ConcordError("SEQUENCE_GAP", `the entry before ${seq} is not in the log`, { applied: "unknown" });
    if (seq > header.lastSeq) {
      if (isNext(header, request)) return { kind: "absent" };
      throw gap;
    }
    const { rows } = await this.#readSerial(this.#statements.readHeld(request.group, seq), deadline);
    const [held, before] = [seq, seq - 1n].map((wanted) => rows.map(heldEntry).find((entry) => entry.seq === wanted));
    // Trimmed since the header was read.
    if (held === undefined) return { kind: "absent" };
    if (before !== undefined && before.epoch !== previousEpoch) throw gap;
    if (compareBytes(held.contentId, id) !== 0)
      throw new ConcordError("IDEMPOTENCY_MISMATCH", `entry ${seq} is held with other content`, { applied: "no" });
    return held.epoch === epoch ? { kind: "logged" } : { kind: "to-adopt", lastSeq: header.lastSeq };
  }

  /** Until an answer is known, or the time is up: then what was sent may still be carried out. */
  async #untilKnown<Outcome>(
    deadline: number,
    tryOnce: () => Promise<Outcome | undefined>,
  ): Promise<Outcome | { readonly kind: "unknown" }> {
    for (;;) {
      try {
        const outcome = await tryOnce();
        if (outcome !== undefined) return outcome;
      } catch (thrown) {
        if (thrown instanceof ConcordError && UNREADABLE.has(thrown.code)) return { kind: "unknown" };
        throw thrown;
      }
      if (!(await this.#pause(deadline))) return { kind: "unknown" };
    }
  }

  /** Not sent once the time is up (I8). Leaves a share of the time for the serial read that decides what has no answer (I5). */
  async #swap(statements: readonly Statement[], deadline: number): Promise<Swap> {
    const leftMs = this.#leftMs(deadline);
    if (leftMs === 0) return { kind: "unknown" };
    const timeoutMs = Math.min(LWT_TIMEOUT_MS, leftMs - Math.floor(leftMs / DECIDING_READ_SHARE));
    try {
      const answer = await this.#session.compareAndSet(statements, { timeoutMs });
      return answer.isApplied ? { kind: "applied" } : { kind: "refused", row: answer.rows[0] };
    } catch (thrown) {
      refuse(failureOf(thrown));
      return { kind: "unknown" };
    }
  }

  async #header(group: string, deadline: number): Promise<LogHeader> {
    const header = headerOf((await this.#readSerial(this.#statements.readHeader(group), deadline)).rows[0]);
    // The group looked at last stays longest.
    this.#applied.delete(group);
    this.#applied.set(group, header.appliedSeq);
    if (this.#applied.size > APPLIED_GROUPS_MAX) this.#applied.delete(this.#applied.keys().next().value!);
    return header;
  }

  async #readSerial(statement: Statement, deadline: number, pageState?: string): Promise<Answer> {
    const paged = pageState === undefined ? {} : { pageState };
    for (;;) {
      const timeoutMs = this.#leftMs(deadline);
      if (timeoutMs === 0) throw new ConcordError("READ_TIMEOUT", "the time was up before the read was sent");
      try {
        return await this.#session.read(statement, { consistency: "serial", timeoutMs, pageRows: TAIL_PAGE_ENTRIES, ...paged });
      } catch (thrown) {
        const error = readError(failureOf(thrown));
        // Under load a serial read fails as a write does; it may be asked again (TXC2).
        if (!UNREADABLE.has(error.code) || !(await this.#pause(deadline))) throw error;
      }
    }
  }

  /** False: the time is up. */
  async #pause(deadline: number): Promise<boolean> {
    if (this.#leftMs(deadline) <= LWT_RETRY_MS) return false;
    await sleep(this.#clock, LWT_RETRY_MS);
    return true;
  }

  #deadline(timeoutMs: number): number {
    return this.#clock.monotonicMs() + timeoutMs;
  }

  /** Whole ones. */
  #leftMs(deadline: number): number {
    return Math.max(0, Math.floor(deadline - this.#clock.monotonicMs()));
  }
}

/** Codes of serial reads that may be asked again. */
const UNREADABLE: ReadonlySet<string> = new Set(["READ_TIMEOUT", "REPLICAS_UNAVAILABLE"]);

function refusingHeader(swap: Swap): LogHeader | undefined {
  return swap.kind === "refused" ? headerOf(swap.row) : undefined;
}

function isOwned(header: LogHeader, { epoch, owner }: GroupOwner): boolean {
  return header.epoch === epoch && header.owner === owner;
}

function isNext(header: LogHeader, request: AppendRequest): boolean {
  return isOwned(header, request) && header.lastSeq === request.seq - 1n && header.lastEpoch === request.previousEpoch;
}

/** The marks of a request that are not behind the header's. */
function ahead(header: LogHeader, marks: Marks): Marks {
  const ceilingUs = header.ceilingUs > marks.ceilingUs ? header.ceilingUs : marks.ceilingUs;
  if (header.appliedSeq >= marks.appliedSeq) return { ceilingUs, appliedSeq: header.appliedSeq, appliedEpoch: header.appliedEpoch };
  const appliedEpoch = header.appliedEpoch > marks.appliedEpoch ? header.appliedEpoch : marks.appliedEpoch;
  return { ceilingUs, appliedSeq: marks.appliedSeq, appliedEpoch };
}

function tailOf(header: LogHeader, entries: readonly LogEntry[]): LogTail {
  const { appliedSeq, lastSeq, lastEpoch, appliedEpoch, ceilingUs } = header;
  return {
    appliesRows: false,
    appliedSeq,
    // The mark's epoch may be newer than the entry's: what is appended next stands on the entry.
    appliedEpoch: appliedSeq === lastSeq ? lastEpoch : appliedEpoch,
    entries,
    timestampCeilingUs: ceilingUs,
  };
}

/** What would fail again is an error, not an unknown outcome. */
function refuse(failure: CassandraFailure): void {
  if (failure.kind === "refused" || failure.kind === "too-large") throw readError(failure);
}
