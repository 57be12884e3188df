import type { RowKeyInit } from "@concord/protos-common";
import { TransactionService, type ResolveOutcomeRequestInit, type ResolveOutcomeResponse } from "@concord/protos-txn";
import { backoff, fromHex, type Clock, type Random } from "@concord/runtime";
import type { CommitToken, Outcome } from "./api.ts";
import { toClientError } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import type { Directory } from "./directory.ts";
import type { HedgeBudget } from "./hedged-call.ts";
import type { Serving } from "./routes.ts";
import { RESOLVE_BACKOFF, RESOLVE_TURN_MS } from "./limits.ts";

export interface TransactionContext {
  /** Reads that begin later see this commit. */
  readonly noteCommit: (token: CommitToken) => void;
  readonly connections: Connections;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly random: Random;
  /** A start is queued at the standbys after this long; Infinity = never (TX18). */
  readonly standbyDelayMs: number;
  readonly queuedStarts: HedgeBudget;
}

/** Asks until a coordinator knows, or the deadline. */
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
    try {
      // One coordinator may be down for long: ask in short turns.
      const turnEndsAtMs = Math.min(clock.monotonicMs() + RESOLVE_TURN_MS, Math.max(clock.monotonicMs() + 1, deadlineAtMs));
      const session = connections.session(serving.address!, TransactionService);
      const response = await session.callUntil("resolveOutcome", request, turnEndsAtMs, serving);
      return outcomeFromMessage(response);
    } catch (thrown) {
      const error = toClientError(thrown);
      if (!error.retryable || clock.monotonicMs() >= deadlineAtMs) throw error;
      const named = directory.refused(serving, error);
      await retry.pause({ atLeastMs: error.retryAfterMs ?? 0 });
      await directory.refreshTopology().catch(() => undefined);
      serving = named ?? route();
    }
  }
}

function outcomeFromMessage(message: ResolveOutcomeResponse): Outcome {
  if (message.outcome === "committed") return { kind: "committed", token: message.committed };
  return message.outcome === "aborted" ? { kind: "aborted" } : { kind: "expired" };
}
