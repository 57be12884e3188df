import { backoff, sleep, type Backoff } from "@concord/runtime";
import type { Entity, Transaction, TransactionOptions } from "./api.ts";
import { toClientError } from "./client-error.ts";
import { ConcordClientError } from "./errors.ts";
import { TRANSACTION_BACKOFF, TRANSACTION_DEADLINE_MS, TRANSACTION_TRIES_MAX } from "./limits.ts";
import type { TransactionContext } from "./resolve-outcome.ts";
import { SessionTransaction, type StartOptions } from "./transaction.ts";

/** What one try came to. Only a try that certainly had no effect may be followed by another (TXD7). */
type Try<T> =
  | { readonly kind: "committed"; readonly value: T }
  | { readonly kind: "again"; readonly error: ConcordClientError }
  | { readonly kind: "failed"; readonly thrown: unknown };

/** Deadline and first start time of a new transaction, kept by all its tries (TXD9). */
export function startOptions(context: TransactionContext, options: TransactionOptions): StartOptions {
  const { clock } = context;
  return {
    deadlineAtMs: clock.monotonicMs() + (options.deadlineMs ?? TRANSACTION_DEADLINE_MS),
    firstStartMs: clock.nowMs(),
    mode: options.mode ?? "exclusive",
    maxCommitDelayMs: options.maxCommitDelayMs ?? 0,
  };
}

/** See `ConcordClient.runTransaction`. */
export async function runTransaction<T>(
  context: TransactionContext,
  entity: Entity,
  work: (txn: Transaction) => Promise<T>,
  options: TransactionOptions,
): Promise<T> {
  const start = startOptions(context, options);
  let retry: Backoff | undefined;
  for (let tries = 1; ; tries += 1) {
    const result = await tryOnce(context, entity, work, start);
    if (result.kind === "committed") return result.value;
    if (result.kind === "failed") throw result.thrown;
    retry ??= backoff(context.clock, { ...TRANSACTION_BACKOFF, jitter: context.random });
    const delayMs = (result.error.retryAfterMs ?? 0) + retry.nextMs();
    const isTooLate = context.clock.monotonicMs() + delayMs >= start.deadlineAtMs;
    if (isTooLate || tries >= TRANSACTION_TRIES_MAX) throw result.error;
    await learnFrom(context, result.error);
    await sleep(context.clock, delayMs);
  }
}

async function tryOnce<T>(
  context: TransactionContext,
  entity: Entity,
  work: (txn: Transaction) => Promise<T>,
  options: StartOptions,
): Promise<Try<T>> {
  let txn: SessionTransaction;
  try {
    txn = await SessionTransaction.start(context, entity, options);
  } catch (thrown) {
    // Nothing was written yet, whatever became of the start.
    const error = toClientError(thrown);
    return error.retryable ? { kind: "again", error } : { kind: "failed", thrown: error };
  }
  let value: T;
  try {
    value = await work(txn);
  } catch (thrown) {
    // No commit was sent and none will be: running again is safe even where the answer to an operation got lost.
    void txn.rollback();
    const isOurs = txn.owns(thrown) && thrown.retryable;
    return isOurs || (await hasLearntTable(context, thrown)) ? { kind: "again", error: toClientError(thrown) } : { kind: "failed", thrown };
  }
  try {
    await txn.commit();
    return { kind: "committed", value };
  } catch (thrown) {
    const error = toClientError(thrown);
    return error.applied === "no" && error.retryable ? { kind: "again", error } : { kind: "failed", thrown: error };
  }
}

/** The work named a table that this client did not know and that exists by now. */
async function hasLearntTable({ directory }: TransactionContext, thrown: unknown): Promise<boolean> {
  if (!(thrown instanceof ConcordClientError) || thrown.code !== "TABLE_UNKNOWN") return false;
  const name = thrown.metadata["table"];
  if (name === undefined || directory.find(name) !== undefined) return false;
  await directory.refreshSchema(0n).catch(() => undefined);
  return directory.find(name) !== undefined;
}

/** A refusal that shows old knowledge brings new knowledge, as far as a server answers. */
async function learnFrom(context: TransactionContext, error: ConcordClientError): Promise<void> {
  const { directory } = context;
  if (error.code === "NOT_MASTER" || error.code === "CONNECTION_LOST") await directory.refreshTopology().catch(() => undefined);
}
