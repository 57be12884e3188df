import type { MessageLog } from "@concord/ports";
import type { Clock, Log, Metrics } from "@concord/runtime";
import { INPUT_BLOCKED_WARNING_MS } from "../limits.ts";

interface Blocked {
  readonly at: bigint;
  readonly sinceMs: number;
  isReported: boolean;
}

export interface InputWatchOptions {
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Measures how far inputs were written and can be read, and reports transactions that hold one back. */
export class InputWatch {
  readonly #options: InputWatchOptions;
  readonly #blocked = new Map<number, Blocked>();

  constructor(options: InputWatchOptions) {
    this.#options = options;
  }

  async measure(partition: number): Promise<void> {
    const { messages, clock, metrics } = this.#options;
    const ends = await messages.inputEnds?.(partition);
    if (ends === undefined) return;
    const { end, stableEnd } = ends;
    const nowMs = clock.monotonicMs();
    const held = this.#blocked.get(partition);
    const blocked = held?.at === stableEnd ? held : { at: stableEnd, sinceMs: nowMs, isReported: false };
    if (stableEnd < end) this.#blocked.set(partition, blocked);
    else this.#blocked.delete(partition);
    const blockedMs = stableEnd < end ? nowMs - blocked.sinceMs : 0;
    const labels = { partition: String(partition) };
    metrics.gauge("dedup_input_end", Number(end), labels);
    metrics.gauge("dedup_input_stable_end", Number(stableEnd), labels);
    metrics.gauge("dedup_input_blocked_seconds", blockedMs / 1000, labels);
    if (blockedMs >= INPUT_BLOCKED_WARNING_MS && !blocked.isReported) await this.#report(partition, blocked, end);
    if (blockedMs === 0 && held?.isReported === true)
      this.#options.log.info("the input can be read again", { partition, stableEnd: stableEnd.toString() });
  }

  async #report(partition: number, blocked: Blocked, end: bigint): Promise<void> {
    const { messages, log } = this.#options;
    const open = await messages.openTransaction?.(partition, blocked.at);
    blocked.isReported = true;
    log.warn(
      "a transaction of a producer that does not end holds the input back: nothing behind it can be read. Find it by kafka-transactions.sh find-hanging, " +
        "and end it by abort once its producer is gone (docs/operations.md)",
      {
        partition,
        offset: (open?.offset ?? blocked.at).toString(),
        producerId: open === undefined ? "unknown" : open.producerId.toString(),
        waiting: (end - blocked.at).toString(),
      },
    );
  }
}
