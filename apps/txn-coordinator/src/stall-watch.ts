import type { Clock, Log, Metrics, Timer } from "@concord/runtime";
import { STALL_LOG_EVERY_MS, STALL_LOOK_EVERY_MS, STALL_MS } from "./limits.ts";

export interface StallWatchOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Measures the pauses of this process's loop that are longer than one beat, and says so (TX33): in those no call is answered. */
export class StallWatch {
  readonly #options: StallWatchOptions;
  #timer: Timer | undefined;
  #lookedAtMs = 0;
  #saidAtMs = Number.NEGATIVE_INFINITY;
  /** Since it was last said. */
  #stalls = 0;
  #longestMs = 0;

  constructor(options: StallWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#lookedAtMs = this.#options.clock.monotonicMs();
    this.#timer = this.#options.clock.setTimer(STALL_LOOK_EVERY_MS, () => this.#look());
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const { clock, metrics } = this.#options;
    const nowMs = clock.monotonicMs();
    const stalledMs = nowMs - this.#lookedAtMs - STALL_LOOK_EVERY_MS;
    this.#lookedAtMs = nowMs;
    this.#timer = clock.setTimer(STALL_LOOK_EVERY_MS, () => this.#look());
    if (stalledMs > STALL_MS) {
      metrics.observe("event_loop_stall_seconds", stalledMs / 1_000);
      this.#stalls += 1;
      this.#longestMs = Math.max(this.#longestMs, stalledMs);
    }
    if (this.#stalls > 0 && nowMs - this.#saidAtMs >= STALL_LOG_EVERY_MS) this.#say(nowMs);
  }

  #say(nowMs: number): void {
    const fields = { stalls: this.#stalls, longestMs: Math.round(this.#longestMs) };
    this.#options.log.warn(
      "the process stood still for longer than a heartbeat's interval: too little CPU, or too much in one turn",
      fields,
    );
    this.#saidAtMs = nowMs;
    this.#stalls = 0;
    this.#longestMs = 0;
  }
}
