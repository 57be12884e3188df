import type { RowKey } from "@concord/ports";
import { newTimeId, toConcordError, type Environment } from "@concord/runtime";
import type { CommitToken, OperationCall, TableWrite, TransactionGroup, TransactionOperations } from "@concord/transactions";

/** One transaction of the system group, at its master: locks a row, reads, and writes once. The caller ends it, whatever happens. */
export class SystemTransaction {
  readonly #group: TransactionGroup;
  readonly #deadlineAtMs: number;
  readonly #id: OperationCall["id"];
  #isSent = false;

  constructor(group: TransactionGroup, { clock, random }: Environment, deadlineAtMs: number) {
    this.#group = group;
    this.#deadlineAtMs = deadlineAtMs;
    this.#id = newTimeId(clock, random);
  }

  /** Locks the row, then reads. */
  async read<Found>(key: RowKey, read: (operations: TransactionOperations) => Promise<Found> | Found): Promise<Found> {
    const options = { key, mode: "exclusive", read: "read", firstStartMs: undefined, lifetimeMs: undefined } as const;
    await this.#group.serving().start(this.#call(1), options);
    return this.#group.serving().operate(this.#call(2), read);
  }

  async commit(writes: readonly TableWrite[]): Promise<CommitToken> {
    this.#isSent = true;
    try {
      return await this.#group.serving("unknown").commit(this.#call(3), () => writes, { maxDelayMs: 0 });
    } catch (thrown) {
      // Any other failure has ended it, or its commit is on its way and must be left alone.
      if (toConcordError(thrown).kind === "rejected") this.#isSent = false;
      throw thrown;
    }
  }

  /** Releases the row unless a commit was sent. */
  end(): void {
    if (!this.#isSent && this.#group.state.kind === "serving" && this.#group.knows(this.#id)) this.#group.serving().rollback(this.#id);
  }

  #call(number: number): OperationCall {
    return { id: this.#id, number, sessionId: undefined, deadlineAtMs: this.#deadlineAtMs };
  }
}
