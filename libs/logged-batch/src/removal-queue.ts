import { assert, toConcordError, type TimeId } from "@concord/runtime";
import type { BatchNode } from "./batch-node.ts";
import { LOG_CALL_ENTRIES_MAX, REMOVALS_WAITING_MAX } from "./limits.ts";

/**
 * Tells one holder in the background which batches are completed (LB7): one call in flight, the next one collects. What does not
 * arrive or does not fit is left to replay, which finds the rows already there (LB10).
 */
export class RemovalQueue {
  readonly #node: BatchNode;
  readonly #timeoutMs: number;
  readonly #onFailed: (error: Error) => void;
  #waiting: TimeId[] = [];
  #sending = false;

  constructor(node: BatchNode, timeoutMs: number, onFailed: (error: Error) => void) {
    this.#node = node;
    this.#timeoutMs = timeoutMs;
    this.#onFailed = onFailed;
  }

  add(id: TimeId): void {
    if (this.#waiting.length >= REMOVALS_WAITING_MAX) return;
    this.#waiting.push(id);
    if (!this.#sending) this.#send();
  }

  #send(): void {
    assert(!this.#sending && this.#waiting.length > 0, "one call in flight");
    this.#sending = true;
    const ids = this.#waiting.splice(0, LOG_CALL_ENTRIES_MAX);
    const next = (): void => {
      this.#sending = false;
      if (this.#waiting.length > 0) this.#send();
    };
    this.#node.batchLog.remove(ids, this.#timeoutMs).then(next, (thrown: unknown) => {
      this.#onFailed(toConcordError(thrown));
      next();
    });
  }
}
