import { performance } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Time between two looks at the heap. */
export const HEAP_LOOK_MS = 20_000;
/** Growth since the last collection from which on another one is worth its pause: more than what young objects take at work. */
export const HEAP_GROWN_BYTES = 96 * 1024 * 1024;
/** A process whose event loop works for more of the time is left alone: V8 collects by itself then, and a pause would delay calls. */
export const QUIET_SHARE = 0.1;
/** A heap with more in use after a collection is left to V8, because the pause grows with it: 1 to 4 ms a MiB. */
export const HEAP_KEPT_BYTES_MAX = 256 * 1024 * 1024;
/** Quiet rounds between a collection that freed little and another one: the burst may have been in use, as calls that wait are. */
export const SECOND_AFTER_LOOKS = 3;

export interface ProcessMemory {
  /** Bytes that the heap and its buffers take from the system. */
  readonly heapBytes: () => number;
  /** Part of the time since the call before, 0 to 1, in which the event loop worked. */
  readonly busyShare: () => number;
  readonly collect: () => void;
}

/**
 * Gives memory of a burst back to the system. V8 collects its old generation when the heap reaches a limit, which a burst raises: a process that is
 * quiet afterwards keeps all of it, garbage, for good. `look` collects after each growth, while the process is quiet.
 */
export class BurstMemory {
  readonly #memory: ProcessMemory;
  #keptBytes = 0;
  /** Quiet looks until the second collection after a growth; 0: none is due. */
  #secondIn = 0;

  constructor(memory: ProcessMemory) {
    this.#memory = memory;
  }

  /** Called each `HEAP_LOOK_MS`. */
  look(): void {
    const bytes = this.#memory.heapBytes();
    // V8 may have collected by itself.
    this.#keptBytes = Math.min(this.#keptBytes, bytes);
    if (this.#memory.busyShare() > QUIET_SHARE || this.#keptBytes > HEAP_KEPT_BYTES_MAX) return;
    const isSecond = this.#secondIn === 1;
    this.#secondIn = Math.max(0, this.#secondIn - 1);
    const isGrown = bytes - this.#keptBytes >= HEAP_GROWN_BYTES;
    if (!isGrown && !isSecond) return;
    const before = this.#keptBytes;
    this.#memory.collect();
    this.#keptBytes = this.#memory.heapBytes();
    if (isGrown) this.#secondIn = this.#keptBytes - before >= HEAP_GROWN_BYTES / 2 ? SECOND_AFTER_LOOKS : 0;
  }
}

/** This process. */
export function nodeMemory(): ProcessMemory {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options: object) => void;
  let last = performance.eventLoopUtilization();
  return {
    heapBytes: () => {
      const { total_heap_size: heap, external_memory: buffers } = getHeapStatistics();
      return heap + buffers;
    },
    busyShare: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, last);
      last = now;
      return utilization;
    },
    // The other flavors leave the pages, or the buffers, with the process.
    collect: () => gc({ type: "major", flavor: "last-resort" }),
  };
}

/** From now on, until the process ends. */
export function giveBackBurstMemory(): void {
  const burst = new BurstMemory(nodeMemory());
  setInterval(() => burst.look(), HEAP_LOOK_MS).unref();
}
