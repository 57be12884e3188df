import type { Mutation, Row } from "@concord/ports";
import { encodeRowsPart } from "@concord/rows";
import { assert, ConcordError, sleep, timeIdMs, toConcordError, type Epoch, type TimeId, type TimestampUs } from "@concord/runtime";
import type { CommitOptions, OperationCall, Origin, ResolvedOutcome, StartAnswer, StartOptions, Waiting, WritesOf } from "./calls.ts";
import { CommittedRows } from "./committed-rows.ts";
import { payloadOf, requireSamePayload, type Payload } from "./digest.ts";
import { abortedError, endedError, expiredError, stateError, unknownTransaction } from "./ended-errors.ts";
import { EpochCheck } from "./epoch-check.ts";
import { encodeFlushed, type FlushedTransaction } from "./flush-entry.ts";
import type { CommitItem, CommitToken } from "./flush.ts";
import { GroupCommit, lateCommit, outcomeUnknown } from "./group-commit.ts";
import type { GroupContext } from "./group-context.ts";
import { GroupLocks } from "./group-locks.ts";
import { ANSWER_MARGIN_MS, FINISH_POLL_MS } from "./limits.ts";
import { isAwaited, OpenTransactions } from "./open-transactions.ts";
import { TransactionOperations, type OperationContext } from "./operations.ts";
import { decidedOutcome, Outcomes } from "./outcomes.ts";
import { isOwnedBy, OWN_TRANSACTIONS, ownerHash, requireOutcomeOwner, requireOwner, type TransactionOwner } from "./owners.ts";
import { addChangedRows, changeMutations, type ChangedRow, type TableWrite } from "./pending-rows.ts";
import { RecentOutcomes } from "./recent-outcomes.ts";
import { committingExecute } from "./repeated-execute.ts";
import { RowReader } from "./row-reader.ts";
import { StoredOutcomes } from "./stored-outcomes.ts";
import { ConditionsFailed, decodeRefusal, refusedTransaction } from "./refusal.ts";
import type { TakenOver } from "./takeover.ts";
import { Timestamps } from "./timestamps.ts";
import { limitExceeded } from "./transaction-limit.ts";
import { HeldBytes } from "./transaction-memory.ts";
import type { KeyNames, TransactionStatus } from "./transaction-status.ts";
import { Transaction } from "./transaction.ts";

const AT_ONCE: CommitOptions = { maxDelayMs: 0 };
/** Options of an execute with conditions: their success is an outcome even when nothing is written, as a later copy might be refused (UN20). */
const CONDITIONAL: CommitOptions = { maxDelayMs: 0, isLogged: true };

/** A one-statement transaction on its way. */
interface Execution {
  readonly digest: bigint;
  readonly transaction: Transaction;
  readonly answer: Promise<CommitToken>;
}

/** A group's master while its epoch holds: everything that is lost when it is fenced. */
export class ServingMaster {
  readonly epoch: Epoch;
  readonly #context: GroupContext;
  readonly #locks: GroupLocks;
  readonly #committed: CommittedRows;
  readonly #commit: GroupCommit;
  readonly #recent: RecentOutcomes;
  readonly #outcomes: Outcomes;
  readonly #open: OpenTransactions;
  readonly #epochCheck: EpochCheck;
  readonly #timestamps: Timestamps;
  readonly #operationContext: OperationContext;
  readonly #executions = new Map<TimeId, Execution>();
  readonly #labels: { readonly group: string };
  #draining = false;

  constructor(context: GroupContext, taken: TakenOver, onFenced: (error: ConcordError) => void) {
    const { settings, clock, rows } = context;
    this.epoch = taken.epoch;
    this.#context = context;
    this.#labels = { group: settings.group };
    this.#timestamps = new Timestamps(taken.ceilingUs);
    // Ids up to now may have been decided by an earlier master, whose clock may have been ahead of ours: its timestamps tell (TXD7).
    const askBeforeMs = Math.max(clock.nowMs(), Number(taken.ceilingUs / 1000n)) + settings.clockSkewMaxMs;
    const reader = new RowReader(rows, clock, settings.storageTimeoutMs, settings.limits.readKeysMax);
    const stored = new StoredOutcomes(context, reader);
    const { limits } = settings;
    this.#recent = new RecentOutcomes(
      limits.recentOutcomesMax,
      askBeforeMs,
      () => this.#commit.appliedSeq,
      (id, outcome) => {
        assert(outcome.seq <= this.#commit.appliedSeq, "TXD7: an outcome that no row says yet is not forgotten");
        stored.forgotten(id, outcome);
      },
    );
    this.#locks = new GroupLocks(settings.lockLimits, clock, (id, error) => this.#doomed(id, error));
    this.#open = new OpenTransactions(context, this.#locks, this.#recent, () => this.#report());
    this.#committed = new CommittedRows({
      ...settings,
      store: rows,
      // Where the owner applies rows, a replica cannot say how far it is.
      local: taken.appliesRows ? context.localRows : undefined,
      reader,
      cachedRowsMax: limits.cachedRowsMax,
      shares: context.cachedRowShares,
      appliedSeq: taken.lastSeq,
    });
    this.#epochCheck = new EpochCheck(context, { group: context.settings.group, epoch: taken.epoch, owner: taken.owner }, onFenced);
    this.#commit = new GroupCommit(context, taken, {
      onLogged: (items, seq) => this.#committed.logged(items, seq),
      onApplied: (seq) => this.#committed.applied(seq),
      onFenced,
    });
    for (const { seq, transaction } of taken.decided) {
      assert(transaction.timestampUs <= taken.ceilingUs, "TXD4: the next timestamp is above all that was decided");
      this.#recent.set(transaction.id, { kind: "decided", outcome: { ...transaction, seq } });
    }
    const outcomesOptions = {
      context,
      recent: this.#recent,
      stored,
      commit: this.#commit,
      timestamps: this.#timestamps,
    };
    this.#outcomes = new Outcomes(outcomesOptions);
    const { largeCommits } = context;
    this.#operationContext = {
      settings,
      clock,
      committed: this.#committed,
      locks: this.#locks,
      largeCommits,
      keepsVersions: taken.appliesRows,
    };
  }

  /** Opens a transaction, locks one row and reads it (TX25). Idempotent by id and operation number 1. */
  start(call: OperationCall, options: StartOptions): StartAnswer | Promise<StartAnswer> {
    const { id, number } = call;
    const existing = this.#interactive(call);
    if (existing !== undefined) {
      return this.#ordered<StartAnswer>(existing, call, () => {
        throw stateError("the transaction is open already");
      });
    }
    if (number !== 1) throw new ConcordError("SEQUENCE_GAP", `a transaction opens with operation 1, not ${number}`);
    const recent = this.#recent.get(id);
    if (recent !== undefined) throw endedError(recent, call.owner);
    const transaction = this.#admit(id, call.owner, options);
    return this.#ordered(transaction, call, () => {
      try {
        const answer = this.#lockFirst(transaction, call, options);
        return answer instanceof Promise ? answer.catch((thrown: unknown) => this.#abortStart(transaction, thrown)) : answer;
      } catch (thrown) {
        return this.#abortStart(transaction, thrown);
      }
    });
  }

  #lockFirst(transaction: Transaction, call: OperationCall, { key, mode, read }: StartOptions): StartAnswer | Promise<StartAnswer> {
    const lock = (): StartAnswer | Promise<StartAnswer> => {
      transaction.requireOpen();
      const rows = this.#operations(transaction, call).lock([key], mode, read);
      return rows instanceof Promise ? rows.then(([row]) => this.#started(row)) : this.#started(rows[0]);
    };
    const stored = this.#outcomes.storedIfOld(call.id);
    if (stored === undefined) return lock();
    return stored.then((outcome) => {
      if (outcome !== undefined) throw endedError({ kind: "decided", outcome }, call.owner);
      return lock();
    });
  }

  #started(row: Row | undefined): StartAnswer {
    return { row, group: this.#context.settings.group, epoch: this.epoch };
  }

  #abortStart(transaction: Transaction, thrown: unknown): never {
    this.#open.abort(transaction, toConcordError(thrown));
    throw thrown;
  }

  /** Runs one operation of an open transaction in its order. A failure that is not the caller's mistake ends the transaction. */
  operate<Answer>(call: OperationCall, body: (operations: TransactionOperations) => Answer | Promise<Answer>): Answer | Promise<Answer> {
    const transaction = this.#interactive(call);
    if (transaction === undefined) throw this.#endedError(call);
    return this.#ordered(transaction, call, () => this.#guarded(transaction, () => body(this.#operations(transaction, call))));
  }

  /**
   * Buffers the last writes, then commits (TX6). Idempotent by id: a repeat gets the first outcome, other writes IDEMPOTENCY_MISMATCH.
   * `writesOf` is called when the commit's turn has come.
   */
  commit(call: OperationCall, writesOf: WritesOf, options: CommitOptions): CommitToken | Promise<CommitToken> {
    const transaction = this.#interactive(call);
    if (transaction === undefined) return this.#commitEnded(call, writesOf);
    if (transaction.state.kind === "committing") return this.#commitAgain(transaction, writesOf, call);
    return this.#ordered(transaction, call, () =>
      this.#guarded(transaction, () => {
        const writes = writesOf();
        if (!(writes instanceof Promise)) return this.#commitWrites(transaction, call, writes, options);
        return writes.then((known) => this.#commitWrites(transaction, call, known, options));
      }),
    );
  }

  #commitWrites(
    transaction: Transaction,
    call: OperationCall,
    writes: readonly TableWrite[],
    options: CommitOptions,
  ): Promise<CommitToken> {
    const decide = (): Promise<CommitToken> => this.#decide(transaction, payloadOf(writes).digest, options, call);
    const written = this.#operations(transaction, call).write(writes, "last");
    return written === undefined ? decide() : written.then(decide);
  }

  /** Frees locks and memory (TX6). Idempotent; a commit on its way is not stopped: TRANSACTION_STATE. `identity`: see `requireOwner`. */
  rollback(id: TimeId, identity?: string): void {
    const transaction = this.#open.get(id);
    if (transaction === undefined) return;
    requireOwner(transaction.owner, identity);
    if (transaction.state.kind === "committing") throw stateError("the transaction is committing; ask ResolveOutcome");
    this.#open.abort(transaction, abortedError("the transaction was rolled back by its client"));
  }

  /**
   * A one-statement transaction (TX8). Idempotent by id; one that failed with nothing applied may be tried again under its id, unless it failed by
   * its conditions: then the refusal is logged as the id's outcome (UN20), and every copy gets it. PRECONDITION_FAILED.
   */
  async execute(id: TimeId, writes: readonly TableWrite[], deadlineAtMs: number, origin: Origin = {}): Promise<CommitToken> {
    const payload = payloadOf(writes, origin.conditions);
    const running = this.#executions.get(id);
    if (running !== undefined) {
      requireOwner(running.transaction.owner, (origin.owner ?? OWN_TRANSACTIONS).identity);
      requireSamePayload(running.digest, payload, this.#context.checksum);
      return running.answer;
    }
    const committing = committingExecute(this.#open.get(id), payload, origin, this.#context.checksum);
    if (committing !== undefined) return this.#decisionOf(committing, deadlineAtMs);
    const before = this.#recent.get(id);
    const known = await this.#outcomes.decided(id);
    if (known !== undefined) return this.#outcomes.answerOf(known, payload, origin.owner);
    // Others may have spoken for the id while its row was read: look again.
    const isSpokenFor = this.#executions.has(id) || this.#open.get(id) !== undefined || this.#recent.get(id) !== before;
    if (isSpokenFor) return this.execute(id, writes, deadlineAtMs, origin);
    const transaction = this.#admit(id, origin.owner, { firstStartMs: undefined, lifetimeMs: undefined });
    const answer = this.#execute(transaction, payload, { deadlineAtMs, span: origin.span, onWait: origin.onWait }).finally(() =>
      this.#executions.delete(id),
    );
    this.#executions.set(id, { digest: payload.digest, transaction, answer });
    return answer;
  }

  /** Committed, aborted or expired, never unknown (TXD7): an undecided id is aborted in the log first. `identity`: see `requireOwner`. */
  async resolveOutcome(id: TimeId, deadlineAtMs: number, identity?: string): Promise<ResolvedOutcome> {
    if (this.#outcomes.isExpired(id)) return { kind: "expired" };
    const transaction = this.#open.get(id);
    if (transaction !== undefined) requireOwner(transaction.owner, identity);
    if (transaction?.state.kind === "committing") return decidedOutcome(this.#decisionOf(transaction, deadlineAtMs));
    if (transaction !== undefined)
      this.#open.abort(transaction, abortedError("aborted because its outcome was asked for; repeat the transaction"));
    const before = this.#recent.get(id);
    if (before?.kind === "aborted-here") requireOutcomeOwner(before.owner, identity);
    const known = await this.#outcomes.decided(id);
    if (known !== undefined) requireOutcomeOwner(known.owner, identity);
    if (known !== undefined)
      return known.kind === "committed" ? { kind: "committed", token: this.#outcomes.tokenOf(known) } : { kind: "aborted" };
    // Others may have spoken for the id while its row was read: look again.
    if (this.#open.get(id) !== undefined || this.#recent.get(id) !== before) return this.resolveOutcome(id, deadlineAtMs, identity);
    // This master may have ended while the row was read: its log takes nothing any more, the next master is to be asked.
    if (this.#draining) throw outcomeUnknown();
    await this.#outcomes.abortInLog(id);
    return { kind: "aborted" };
  }

  /** Is a transaction of this caller open here under the id? */
  hasOpen(id: TimeId, identity: string): boolean {
    return this.#open.get(id)?.owner.identity === identity;
  }

  /** Is it remembered as committed, and this caller's? */
  hasCommitted(id: TimeId, identity: string): boolean {
    const recent = this.#recent.get(id);
    if (recent?.kind !== "decided" && recent?.kind !== "read-only") return false;
    return recent.outcome.kind === "committed" && isOwnedBy(recent.outcome.owner, identity);
  }

  /** Is the transaction open here, or remembered? */
  knows(id: TimeId): boolean {
    return this.#open.get(id) !== undefined || this.#recent.get(id) !== undefined;
  }

  sessionEnded(sessionId: number): void {
    this.#open.sessionEnded(sessionId);
  }

  /** Begins nothing new; resolves when nothing is open any more, or after `graceMs`. */
  async finish(graceMs: number): Promise<void> {
    const { clock } = this.#context;
    this.#draining = true;
    const endsAtMs = clock.monotonicMs() + graceMs;
    while (this.#open.size > 0 && clock.monotonicMs() < endsAtMs) await sleep(clock, FINISH_POLL_MS);
  }

  /** Aborts what is open, finishes what is committing, resolves when everything logged is applied. */
  async drain(error: ConcordError): Promise<void> {
    this.#draining = true;
    this.#open.abortAll(error);
    await this.#commit.drained();
    assert(this.#commit.queued === 0, "what was queued is decided before the master ends");
    this.stop(error);
  }

  /** The end: fenced, drained or crashed. Drops every open transaction (TXD1). */
  stop(error: ConcordError): void {
    this.#draining = true;
    this.#commit.stop(error);
    this.#open.abortAll(error);
    assert(this.#locks.waiting === 0, "TX4: after the end no lock is waited for");
    this.#open.stop();
    this.#committed.close();
    this.#report();
  }

  /** The oldest open transactions, for operators. */
  statuses(max: number, names: KeyNames): readonly TransactionStatus[] {
    return this.#open.statuses(max, names);
  }

  /** For gauges and tests. */
  stats(): {
    readonly open: number;
    readonly lockWaits: number;
    readonly unappliedRows: number;
    readonly cachedBytes: number;
    readonly queued: number;
    readonly locks: number;
  } {
    return {
      open: this.#open.size,
      lockWaits: this.#locks.waiting,
      unappliedRows: this.#committed.unappliedRows,
      cachedBytes: this.#committed.cachedBytes,
      queued: this.#commit.queued,
      locks: this.#locks.stats().held,
    };
  }

  #operations(transaction: Transaction, call: Waiting): TransactionOperations {
    return new TransactionOperations(this.#operationContext, transaction, call);
  }

  #ordered<Answer>(transaction: Transaction, call: OperationCall, operation: () => Answer | Promise<Answer>): Answer | Promise<Answer> {
    const { clock, metrics, settings } = this.#context;
    transaction.heard(clock.monotonicMs(), call.sessionId);
    return transaction.order.run(call.number, () => {
      transaction.heldBytes.beginAnswer(call.number);
      if (call.deadlineAtMs > clock.monotonicMs()) return operation();
      // What follows may count on it: the transaction ends (I9).
      metrics.count("txn_work_dropped_total", 1, { group: settings.group, kind: "operation" });
      return this.#guarded<Answer>(transaction, () => {
        throw new ConcordError("DEADLINE_EXCEEDED", "the deadline passed before the operation's turn came", { applied: "no" });
      });
    });
  }

  #guarded<Answer>(transaction: Transaction, operation: () => Answer | Promise<Answer>): Answer | Promise<Answer> {
    let answer: Answer | Promise<Answer>;
    try {
      transaction.requireOpen();
      answer = operation();
    } catch (thrown) {
      return this.#operationFailed(transaction, thrown);
    }
    if (!(answer instanceof Promise)) return this.#operationDone(transaction, answer);
    return answer.then(
      (value) => this.#operationDone(transaction, value),
      (thrown: unknown) => this.#operationFailed(transaction, thrown),
    );
  }

  #operationDone<Answer>(transaction: Transaction, answer: Answer): Answer {
    transaction.lastHeardMs = this.#context.clock.monotonicMs();
    return answer;
  }

  #operationFailed(transaction: Transaction, thrown: unknown): never {
    const error = toConcordError(thrown);
    if (error.kind !== "rejected") this.#open.abort(transaction, error);
    // A commit that was refused may be sent again, otherwise.
    else if (transaction.state.kind === "open") transaction.leave();
    transaction.lastHeardMs = this.#context.clock.monotonicMs();
    throw thrown;
  }

  /** The open transaction of this caller, unless it is an execute on its way: that one takes no operations. */
  #interactive({ id, owner = OWN_TRANSACTIONS }: OperationCall): Transaction | undefined {
    if (this.#executions.has(id)) throw stateError("the id belongs to an execute on its way");
    const transaction = this.#open.get(id);
    if (transaction !== undefined) requireOwner(transaction.owner, owner.identity);
    return transaction;
  }

  /** Checks that an id may open now and opens it. */
  #admit(
    id: TimeId,
    owner: TransactionOwner = OWN_TRANSACTIONS,
    { firstStartMs, lifetimeMs }: Pick<StartOptions, "firstStartMs" | "lifetimeMs">,
  ): Transaction {
    const { settings, clock, memory } = this.#context;
    if (this.#draining)
      throw new ConcordError("DRAINING", "this coordinator hands the group over or is shutting down; repeat the transaction");
    this.#outcomes.requireTimely(id);
    if (this.#open.size >= settings.limits.openTransactionsMax) {
      throw new ConcordError("OVERLOADED", `${this.#open.size} transactions are open in the group`, {
        metadata: { limit: "openTransactionsMax" },
      });
    }
    const transaction = new Transaction({
      id,
      firstStartMs: firstStartMs ?? timeIdMs(id),
      epoch: this.epoch,
      nowMs: clock.monotonicMs(),
      lifetimeMs: Math.min(lifetimeMs ?? settings.lifetimeMs, settings.lifetimeMs),
      limits: settings.limits,
      owner,
      heldBytes: new HeldBytes(memory, owner, settings.limits),
    });
    this.#open.add(transaction);
    return transaction;
  }

  async #execute(transaction: Transaction, payload: Payload, call: Waiting): Promise<CommitToken> {
    const { writes, conditions, digest } = payload;
    const decide = (): Promise<CommitToken> => this.#decide(transaction, digest, conditions.length === 0 ? AT_ONCE : CONDITIONAL, call);
    const operations = this.#operations(transaction, call);
    const write = (): Promise<CommitToken> => {
      const written = operations.write(writes, "last");
      return written === undefined ? decide() : written.then(decide);
    };
    try {
      const compared = (): Promise<CommitToken> => operations.compare(conditions, writes).then(write);
      return await transaction.order.run(1, conditions.length === 0 ? write : compared);
    } catch (thrown) {
      const isRefusal = thrown instanceof ConditionsFailed;
      const error = isRefusal ? await this.#refuse(transaction, payload, thrown, call).catch((failure: unknown) => failure) : thrown;
      this.#open.abort(transaction, toConcordError(error));
      if (this.#recent.get(transaction.id)?.kind === "aborted-here") this.#recent.forget(transaction.id);
      throw error;
    }
  }

  /** Logs with the locks held that conditions failed, then throws the rows as the log has them (UN20). */
  async #refuse(transaction: Transaction, payload: Payload, { failed }: ConditionsFailed, { deadlineAtMs }: Waiting): Promise<never> {
    transaction.requireOpen();
    assert(transaction.pending.size === 0, "UN20: nothing is buffered before the conditions are compared");
    this.#commit.requireRoom();
    const { clock } = this.#context;
    if (deadlineAtMs <= clock.monotonicMs()) throw lateCommit();
    const timestampUs = this.#timestamps.draw(clock.nowUs(), transaction.newestReadUs);
    const flushed = refusedTransaction(transaction, failed, payload, timestampUs);
    const encoded = encodeFlushed(flushed, this.#commit.appliesRows ? "replicas apply" : "owner applies");
    this.#committing(transaction, payload.digest);
    const decision = this.#decisionOf(transaction, deadlineAtMs);
    this.#commit.enqueue({
      ...this.#item(transaction, { flushed, changed: [], encoded, rows: encodeRowsPart([]), dueAtMs: clock.monotonicMs() }),
      logged: ({ seq }) => {
        this.#recent.set(flushed.id, { kind: "decided", outcome: { ...flushed, seq } });
        this.#open.lose(transaction, new ConditionsFailed(decodeRefusal(flushed.refusal, payload)));
      },
    });
    await decision;
    assert(false, "UN20: a refusal is no commit");
  }

  /** Hands the transaction to the log: from here on only its decision ends it. */
  #decide(transaction: Transaction, digest: bigint, options: CommitOptions, { deadlineAtMs, span }: Waiting): Promise<CommitToken> {
    transaction.requireOpen();
    // TXD1: it commits only under the epoch it began under; a master has one epoch for life (I1).
    assert(transaction.epoch === this.epoch, "a transaction lives under its master's epoch");
    if (transaction.pending.size === 0 && options.isLogged !== true) return this.#commitReadOnly(transaction, digest);
    this.#commit.requireRoom();
    const { clock, settings, noSpace } = this.#context;
    const refusal = options.freesSpace === true ? undefined : noSpace?.();
    if (refusal !== undefined && transaction.pending.addRows) throw refusal;
    // Its caller no longer waits: what is not on its way yet is not worth the work.
    if (deadlineAtMs <= clock.monotonicMs()) throw lateCommit();
    // TX7: drawn with all locks held.
    const timestampUs = this.#timestamps.draw(clock.nowUs(), transaction.newestReadUs);
    const { flushed, changed } = this.#flushedOf(transaction, digest, timestampUs);
    const encoded = encodeFlushed(flushed, this.#commit.appliesRows ? "replicas apply" : "owner applies");
    const rows = encodeRowsPart(this.#commit.appliesRows ? changed.map(({ image }) => image) : []);
    if (encoded.length + rows.length > settings.limits.flushBytesMax) {
      throw limitExceeded("flushBytesMax", settings.limits.flushBytesMax, "takes more bytes in the log");
    }
    const delayMs = Math.min(options.maxDelayMs, settings.limits.commitDelayMsMax);
    this.#committing(transaction, digest);
    const decision = this.#decisionOf(transaction, deadlineAtMs);
    const trace = span === undefined ? undefined : { call: span, queued: span.child("commit queue") };
    this.#commit.enqueue(this.#item(transaction, { flushed, changed, encoded, rows, dueAtMs: clock.monotonicMs() + delayMs, trace }));
    return decision;
  }

  /** Every row was read under its lock, so its whole image is known (TX21, TXD14). */
  #flushedOf(transaction: Transaction, digest: bigint, timestampUs: TimestampUs): { flushed: FlushedTransaction; changed: ChangedRow[] } {
    const mutations: Mutation[] = [];
    const changed: ChangedRow[] = [];
    for (const [text, row] of transaction.pending.entries()) {
      const committed = transaction.held.get(text);
      assert(committed !== undefined, "a written row was read under its lock");
      addChangedRows(changed, text, row, committed, timestampUs);
      if (!this.#commit.appliesRows) mutations.push(...changeMutations(row, committed, timestampUs));
    }
    const owner = ownerHash(transaction.owner.identity);
    return { flushed: { kind: "committed", id: transaction.id, timestampUs, digest, owner, mutations }, changed };
  }

  #item(
    transaction: Transaction,
    { flushed, changed, encoded, rows, dueAtMs, trace }: Omit<CommitItem, "isWanted" | "logged" | "lost">,
  ): CommitItem {
    return {
      flushed,
      changed,
      encoded,
      rows,
      dueAtMs,
      trace,
      isWanted: (nowMs) => isAwaited(transaction, nowMs),
      logged: (token) => {
        assert(token.seq === this.#commit.lastSeq, "I2: logged before it is acknowledged");
        assert(token.seq === this.#committed.loggedSeq, "I3: its rows are in memory before its locks go");
        this.#recent.set(flushed.id, {
          kind: "decided",
          outcome: { ...flushed, seq: token.seq },
        });
        this.#open.committed(transaction, token);
      },
      lost: (error) => this.#open.lose(transaction, error),
    };
  }

  /** Nothing to write, so nothing to log: but what was read counts only if the epoch still held afterwards (TXD1). */
  async #commitReadOnly(transaction: Transaction, digest: bigint): Promise<CommitToken> {
    this.#committing(transaction, digest);
    try {
      await this.#epochCheck.current();
    } catch (thrown) {
      this.#open.lose(transaction, toConcordError(thrown));
      throw thrown;
    }
    const { group } = this.#context.settings;
    const token: CommitToken = { group, seq: this.#commit.lastSeq, timestampUs: this.#timestamps.last, flushSize: 0 };
    this.#recent.set(transaction.id, {
      kind: "read-only",
      outcome: { kind: "committed", timestampUs: token.timestampUs, seq: token.seq, digest, owner: ownerHash(transaction.owner.identity) },
    });
    this.#open.committed(transaction, token);
    return token;
  }

  #committing(transaction: Transaction, digest: bigint): void {
    assert(transaction.state.kind === "open", "a transaction commits once");
    transaction.state = { kind: "committing", digest, waiters: [] };
    this.#locks.setCommitting(transaction.id);
  }

  #decisionOf(transaction: Transaction, deadlineAtMs: number): Promise<CommitToken> {
    const { state } = transaction;
    assert(state.kind === "committing", "only a committing transaction has a decision to come");
    return new Promise((resolve, reject) => state.waiters.push({ answerByMs: deadlineAtMs - ANSWER_MARGIN_MS, resolve, reject }));
  }

  /** The commit is on its way under another call: the same answer to both. */
  async #commitAgain(transaction: Transaction, writesOf: WritesOf, call: OperationCall): Promise<CommitToken> {
    const payload = payloadOf(await writesOf());
    if (transaction.state.kind !== "committing") return this.#commitEnded(call, writesOf);
    requireSamePayload(transaction.state.digest, payload, this.#context.checksum);
    return this.#decisionOf(transaction, call.deadlineAtMs);
  }

  async #commitEnded({ id, owner }: OperationCall, writesOf: WritesOf): Promise<CommitToken> {
    const payload = payloadOf(await writesOf());
    const recent = this.#recent.get(id);
    if (recent?.kind === "aborted-here") throw endedError(recent, owner);
    if (this.#outcomes.isExpired(id)) throw expiredError();
    const known = await this.#outcomes.decided(id);
    if (known !== undefined) return this.#outcomes.answerOf(known, payload, owner);
    // Only our memory says that nothing was committed: it counts if we are still the master.
    await this.#epochCheck.current();
    throw unknownTransaction();
  }

  #endedError({ id, owner }: OperationCall): ConcordError {
    const recent = this.#recent.get(id);
    return recent === undefined ? unknownTransaction() : endedError(recent, owner);
  }

  #doomed(id: TimeId, error: ConcordError): void {
    const transaction = this.#open.get(id);
    assert(transaction?.state.kind === "open", "TX4: only what is open is ended for a lock");
    this.#open.abort(transaction, error);
  }

  #report(): void {
    const { metrics } = this.#context;
    const [labels, stats] = [this.#labels, this.stats()];
    metrics.gauge("txn_open_transactions", stats.open, labels);
    metrics.gauge("txn_lock_waits", stats.lockWaits, labels);
    metrics.gauge("txn_unapplied_rows", stats.unappliedRows, labels);
    metrics.gauge("txn_cached_row_bytes", stats.cachedBytes, labels);
    metrics.gauge("txn_commit_queue", stats.queued, labels);
    metrics.gauge("txn_held_bytes", this.#context.memory.used);
  }
}
