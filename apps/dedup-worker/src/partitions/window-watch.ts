import { assert, type Clock, type Log } from "@concord/runtime";
import type { PartitionStatistics } from "@concord/dedup";
import { WINDOW_SHORT_LOG_EVERY_MS } from "../limits.ts";

export interface WindowWatchOptions {
  /** How far back windows are to reach; 0: no time is promised. */
  readonly windowMaxAgeMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Tells of windows that forgot ids by number before their time: a copy that comes later than `windowMs` goes downstream again. */
export class WindowWatch {
  readonly #options: WindowWatchOptions;
  /** By partition that is short: when the log was last told. */
  readonly #saidMs = new Map<number, number>();

  constructor(options: WindowWatchOptions) {
    assert(options.windowMaxAgeMs >= 0, "a window's time is not negative");
    this.#options = options;
  }

  isShort({ partition, window }: Pick<PartitionStatistics, "partition" | "window">): boolean {
    const { windowMaxAgeMs, clock, log } = this.#options;
    if (window.droppedBySize === 0 || window.windowMs >= windowMaxAgeMs) {
      this.#saidMs.delete(partition);
      return false;
    }
    const nowMs = clock.monotonicMs();
    const saidMs = this.#saidMs.get(partition);
    if (saidMs !== undefined && nowMs - saidMs < WINDOW_SHORT_LOG_EVERY_MS) return true;
    this.#saidMs.set(partition, nowMs);
    // At the rate at which the window filled.
    const idsNeeded = Math.ceil((window.ids / Math.max(1, window.windowMs)) * windowMaxAgeMs);
    log.warn("the window holds less than windowMaxAgeMs: older copies go downstream again; raise windowIdsMax", {
      partition,
      windowMs: window.windowMs,
      windowMaxAgeMs,
      ids: window.ids,
      idsNeeded,
    });
    return true;
  }
}
