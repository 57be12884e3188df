import type { RowKeyInit } from "@concord/protos-common";
import { TransactionService, type ResolveOutcomeRequestInit, type ResolveOutcomeResponse } from "@concord/protos-txn";
import { backoff, fromHex, sleep, type Random } from "@concord/runtime";
import type { ClientTracer, CommitToken, Outcome } from "./api.ts";
import { toClientError } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import type { Directory } from "./directory.ts";
import type { HedgeBudget } from "./hedged-call.ts";
import type { ServerClock } from "./server-clock.ts";
import type { Serving } from "./routes.ts";
import { RESOLVE_BACKOFF, RESOLVE_TURN_MS } from "./limits.ts";

export interface TransactionContext {
  /** Reads that begin later see this commit. */
  readonly noteCommit: (token: CommitToken) => void;
  readonly connections: Connections;
  readonly directory: Directory;
  readonly clock: ServerClock;
  readonly random: Random;
  /** A start is queued at the standbys after this long; Infinity = never (TX18). */
  readonly standbyDelayMs: number;
  readonly queuedStarts: HedgeBudget;
  readonly tracer?: ClientTracer | undefined;
}

/** Asks until a coordinator knows, or the deadline: again after a pause, and at once when the group is served under a newer epoch. */
export async function resolveOutcome(
  context: TransactionContext,
  transactionId: string,
  key: RowKeyInit,
  route: () => Serving,
  deadlineAtMs: number,
): Promise<Outcome> {
  const { connections, directory, clock } = context;
  const request: ResolveOutcomeRequestInit = { transactionId: fromHex(transactionId), key };
  let serving = route();
  const retry = backoff(clock, RESOLVE_BACKOFF);
  for (;;) {
    const { epoch } = route();
    const hasMoved = (): boolean => route().epoch > epoch;
    // One coordinator may be down for long: ask in short turns.
    const turnEndsAtMs = Math.min(clock.monotonicMs() + RESOLVE_TURN_MS, Math.max(clock.monotonicMs() + 1, deadlineAtMs));
    const session = connections.session(serving.address!, TransactionService);
    const answer = session.callUntil("resolveOutcome", request, turnEndsAtMs, serving);
    let named: Serving | undefined;
    if (!(await movesBefore(directory, answer, hasMoved))) {
      try {
        return outcomeFromMessage(await answer);
      } catch (thrown) {
        const error = toClientError(thrown);
        if (!error.retryable || clock.monotonicMs() >= deadlineAtMs) throw error;
        named = directory.refused(serving, error);
        await pause(context, Math.max(error.retryAfterMs ?? 0, retry.nextMs()), hasMoved);
      }
    }
    // A watch may tell of the move before a coordinator that is asked for the topology answers.
    if (!hasMoved()) await movesBefore(directory, directory.refreshTopology(), hasMoved);
    if (hasMoved()) {
      retry.reset();
      serving = route();
    } else {
      serving = named ?? route();
    }
  }
}

/** Ends early when the group moves: the one to ask is known then. */
async function pause({ clock, directory }: TransactionContext, ms: number, hasMoved: () => boolean): Promise<void> {
  const ended = new AbortController();
  await movesBefore(directory, sleep(clock, ms, ended.signal), hasMoved);
  ended.abort();
}

/** False when `end` has settled; true when the group has moved before. */
async function movesBefore(directory: Directory, end: Promise<unknown>, hasMoved: () => boolean): Promise<boolean> {
  let isOver = false;
  const over = (): void => void (isOver = true);
  const ended = end.then(over, over);
  while (!isOver && !hasMoved()) await Promise.race([ended, directory.routesChanged]);
  return !isOver;
}

function outcomeFromMessage(message: ResolveOutcomeResponse): Outcome {
  if (message.outcome === "committed") return { kind: "committed", token: message.committed };
  return message.outcome === "aborted" ? { kind: "aborted" } : { kind: "expired" };
}
