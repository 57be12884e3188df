import type { RowKeyInit } from "@concord/protos-common";
import { TransactionService, type ResolveOutcomeRequestInit, type ResolveOutcomeResponse } from "@concord/protos-txn";
import { backoff, fromHex, type Clock, type Random } from "@concord/runtime";
import type { CommitToken, Outcome } from "./api.ts";
import { toClientError } from "./client-error.ts";
import type { Connections } from "./connections.ts";
import type { Directory } from "./directory.ts";
import { RESOLVE_BACKOFF, RESOLVE_TURN_MS } from "./limits.ts";

export interface TransactionContext {
  /** Reads that begin later see this commit. */
  readonly noteCommit: (token: CommitToken) => void;
  readonly connections: Connections;
  readonly directory: Directory;
  readonly clock: Clock;
  readonly random: Random;
}

/** Asks until a coordinator knows, or the deadline. */
export async function resolveOutcome(
  context: TransactionContext,
  transactionId: string,
  key: RowKeyInit,
  route: () => string,
  deadlineAtMs: number,
): Promise<Outcome> {
  const { connections, directory, clock } = context;
  const request: ResolveOutcomeRequestInit = { transactionId: fromHex(transactionId), key };
  let address = route();
  const retry = backoff(clock, RESOLVE_BACKOFF);
  for (;;) {
    try {
      // One coordinator may be down for long: ask in short turns.
      const timeoutMs = Math.min(RESOLVE_TURN_MS, Math.max(1, deadlineAtMs - clock.monotonicMs()));
      const response = await connections.call(address, TransactionService, "resolveOutcome", request, { timeoutMs });
      return outcomeFromMessage(response);
    } catch (thrown) {
      const error = toClientError(thrown);
      if (!error.retryable || clock.monotonicMs() >= deadlineAtMs) throw error;
      await retry.pause({ atLeastMs: error.retryAfterMs ?? 0 });
      await directory.refreshTopology().catch(() => undefined);
      address = error.metadata["address"] ?? route();
    }
  }
}

function outcomeFromMessage(message: ResolveOutcomeResponse): Outcome {
  if (message.outcome === "committed") return { kind: "committed", token: message.committed };
  return message.outcome === "aborted" ? { kind: "aborted" } : { kind: "expired" };
}
