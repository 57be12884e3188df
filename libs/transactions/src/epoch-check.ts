import type { GroupOwner } from "@concord/ports";
import { assert, ConcordError, Rounds, toConcordError } from "@concord/runtime";
import type { GroupContext } from "./group-context.ts";
import { epochFenced } from "./group-commit.ts";

/**
 * Asks a quorum whether the epoch still holds (TXD1): before a read-only commit, and before an answer that only our memory knows. Requests
 * made while one is on its way share the next.
 */
export class EpochCheck {
  readonly #context: GroupContext;
  readonly #owner: GroupOwner;
  readonly #onFenced: (error: ConcordError) => void;
  readonly #checks = new Rounds((sharing) => this.#ask(sharing.length));
  /** Callers for which no check has begun yet. */
  #waiting = 0;

  constructor(context: GroupContext, owner: GroupOwner, onFenced: (error: ConcordError) => void) {
    this.#context = context;
    this.#owner = owner;
    this.#onFenced = onFenced;
  }

  /** Resolves when a check that began after this call found the epoch current. EPOCH_FENCED, REPLICAS_UNAVAILABLE. */
  current(): Promise<void> {
    this.#waiting += 1;
    return this.#checks.join();
  }

  async #ask(sharing: number): Promise<void> {
    assert(sharing === this.#waiting, "what waits for the next check shares it");
    this.#waiting = 0;
    const { groupLog, settings } = this.#context;
    const verified = await groupLog.verify(this.#owner, settings.storageTimeoutMs).catch((thrown: unknown) => {
      throw new ConcordError("REPLICAS_UNAVAILABLE", `the epoch could not be verified: ${toConcordError(thrown).message}`, {
        cause: thrown,
      });
    });
    if (verified === "current") return;
    if (verified === "unknown")
      throw new ConcordError("REPLICAS_UNAVAILABLE", "too few replicas could verify the epoch; repeat the transaction");
    const error = epochFenced();
    this.#onFenced(error);
    throw error;
  }
}
