import { backoff, sleep, type Backoff } from "@concord/runtime";
import type { Entity, Transaction, TransactionOptions } from "./api.ts";
import { toClientError, withoutEffect } from "./client-error.ts";
import { ConcordClientError } from "./errors.ts";
import { TRANSACTION_BACKOFF, TRANSACTION_DEADLINE_MS, TRANSACTION_TRIES_MAX } from "./limits.ts";
import type { TransactionContext } from "./resolve-outcome.ts";
import { SessionTransaction, type StartOptions } from "./transaction.ts";

/** Deadline and first start time of a new transaction, kept by all its tries (TXD9). */
export function startOptions(context: TransactionContext, options: TransactionOptions): StartOptions {
  const { clock } = context;
  return {
    deadlineAtMs: clock.monotonicMs() + (options.deadlineMs ?? TRANSACTION_DEADLINE_MS),
    firstStartMs: clock.nowMs(),
    mode: options.mode ?? "exclusive",
    maxCommitDelayMs: options.maxCommitDelayMs ?? 0,
    freesSpace: options.freesSpace ?? false,
    changed: new Set(),
    span: options.span,
  };
}

/** See `ConcordClient.runTransaction`. One function: every async one in the path of a transaction that succeeds costs as much as a write. */
export async function runTransaction<T>(
  context: TransactionContext,
  entity: Entity,
  work: (txn: Transaction) => Promise<T>,
  options: TransactionOptions,
): Promise<T> {
  const tries = new Tries(context, startOptions(context, options));
  for (;;) {
    let txn: SessionTransaction | undefined;
    try {
      const table = context.directory.find(entity.table) ?? (await context.directory.table(entity.table));
      txn = new SessionTransaction(context, table, entity, tries.options);
      txn.started(await txn.sendStart());
    } catch (thrown) {
      const error = txn?.startFailed(thrown) ?? withoutEffect(thrown);
      if (txn?.isRefusedForItsTime(error)) await tries.withNewTime(error);
      else await tries.again(error);
      continue;
    }
    let value: T;
    try {
      value = await work(txn);
    } catch (thrown) {
      // No commit was sent and none will be: running again is safe even where the answer to an operation got lost.
      void txn.rollback();
      const isOurs = txn.owns(thrown) && thrown.retryable;
      if (!isOurs && !(await hasLearntTable(context, thrown))) throw thrown;
      await tries.after(toClientError(thrown));
      continue;
    }
    try {
      txn.committed(await txn.sendCommit());
    } catch (thrown) {
      const error = await uncommitted(txn, thrown);
      if (error === undefined) return value;
      if (error.applied !== "no") throw error;
      await tries.again(error);
      continue;
    }
    return value;
  }
}

/** Only a try that certainly had no effect is followed by another (I1); all have one deadline and first start time (I2). */
class Tries {
  options: StartOptions;
  readonly #context: TransactionContext;
  #made = 0;
  #backoff: Backoff | undefined;

  constructor(context: TransactionContext, options: StartOptions) {
    this.#context = context;
    this.options = options;
  }

  /** Resolves when the next try may begin; throws the error when repeating does not help. */
  async again(error: ConcordClientError): Promise<void> {
    if (!error.retryable) throw error;
    await this.after(error);
  }

  /** As `after`. What the clock showed at first may have been wrong. */
  async withNewTime(error: ConcordClientError): Promise<void> {
    this.options = { ...this.options, firstStartMs: this.#context.clock.nowMs() };
    await this.after(error);
  }

  /** Resolves when the next try may begin; throws the error when there is none. */
  async after(error: ConcordClientError): Promise<void> {
    const { clock, random, directory } = this.#context;
    this.#made += 1;
    this.#backoff ??= backoff(clock, { ...TRANSACTION_BACKOFF, jitter: random });
    const delayMs = (error.retryAfterMs ?? 0) + this.#backoff.nextMs();
    const isTooLate = clock.monotonicMs() + delayMs >= this.options.deadlineAtMs;
    if (isTooLate || this.#made >= TRANSACTION_TRIES_MAX) throw error;
    // A refusal that shows old knowledge brings new knowledge, as far as a server answers.
    if (error.code === "NOT_MASTER" || error.code === "CONNECTION_LOST") await directory.refreshTopology().catch(() => undefined);
    await sleep(clock, delayMs);
  }
}

/** What became of a commit that failed: undefined when it happened all the same (TXD7). */
async function uncommitted(txn: SessionTransaction, thrown: unknown): Promise<ConcordClientError | undefined> {
  try {
    await txn.commitFailed(thrown);
    return undefined;
  } catch (error) {
    return toClientError(error);
  }
}

/** The work named a table that this client did not know and that exists by now. */
async function hasLearntTable({ directory }: TransactionContext, thrown: unknown): Promise<boolean> {
  if (!(thrown instanceof ConcordClientError) || thrown.code !== "TABLE_UNKNOWN") return false;
  const name = thrown.metadata["table"];
  if (name === undefined || directory.find(name) !== undefined) return false;
  await directory.learn(name).catch(() => undefined);
  return directory.find(name) !== undefined;
}
