import { performance } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { allocatorTrim } from "./allocator.ts";

/** Time between two looks at the memory. */
export const MEMORY_LOOK_MS = 20_000;
/** Growth since the last return from which on another one is worth its pause: more than what young objects take at work. */
export const MEMORY_GROWN_BYTES = 96 * 1024 * 1024;
/** A process whose event loop needs more of a core is left alone: V8 collects by itself then, and a pause would delay calls. */
export const QUIET_SHARE = 0.1;
/** An event loop that stands for more of the time, at work or without a core, is left alone too: a pause is longest on a machine that is busy with others. */
export const STANDING_SHARE_MAX = 0.5;
/** Looks that find the same growth: each one adds `QUIET_SHARE`, since steady background work of a slow machine may never be quiet. */
export const GROWN_LOOKS_MAX = 3;
/** Maximum of a heap's bytes in use for a collection, because its pause grows with them: 1 to 4 ms a MiB. A larger heap is left to V8. */
export const HEAP_KEPT_BYTES_MAX = 256 * 1024 * 1024;
/** Quiet looks between a return and the next one without a growth: memory of the burst may have been in use, as that of calls that wait. */
export const AGAIN_AFTER_LOOKS = 3;

export interface ProcessMemory {
  /** Bytes of physical memory that the process has. Throws when the kernel's file of them cannot be opened: EMFILE, ENFILE. */
  readonly residentBytes: () => number;
  /** Bytes of the objects in V8's heap, garbage included. */
  readonly heapBytes: () => number;
  /** Share of the time since the call before, 0 to 1, in which the event loop worked: `busyShareOf`. */
  readonly busyShare: () => number;
  readonly collect: () => void;
  /** Returns free pages of the C library's allocator to the system. */
  readonly trim: () => void;
}

/**
 * Gives memory of a burst back to the system. V8 collects its old generation when the heap reaches a limit, which a burst raises, and the allocator keeps
 * what buffers were freed below something in use: a process that is quiet afterwards keeps all of it for good. `look` returns it after each growth,
 * and again, while the process has much more than at its least: after `AGAIN_AFTER_LOOKS` quiet looks, then after twice as many, until it works again.
 */
export class BurstMemory {
  readonly #memory: ProcessMemory;
  #keptBytes = 0;
  #leastBytes = Infinity;
  #heapKeptBytes = 0;
  #grownLooks = 0;
  #quietLooks = 0;
  #againAfterLooks = AGAIN_AFTER_LOOKS;

  constructor(memory: ProcessMemory) {
    this.#memory = memory;
  }

  /** Called each `MEMORY_LOOK_MS`. A look without resident bytes is left out. */
  look(): void {
    const bytes = this.#residentBytes();
    if (bytes === undefined) return;
    this.#keptBytes = Math.min(this.#keptBytes, bytes);
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
    // V8 may have collected by itself.
    this.#heapKeptBytes = Math.min(this.#heapKeptBytes, this.#memory.heapBytes());
    const isGrown = bytes - this.#keptBytes >= MEMORY_GROWN_BYTES;
    this.#grownLooks = isGrown ? Math.min(this.#grownLooks + 1, GROWN_LOOKS_MAX) : 0;
    const isQuiet = this.#memory.busyShare() <= QUIET_SHARE * Math.max(1, this.#grownLooks);
    this.#quietLooks = isQuiet ? this.#quietLooks + 1 : 0;
    if (isGrown || !isQuiet) this.#againAfterLooks = AGAIN_AFTER_LOOKS;
    if (!isQuiet) return;
    if (isGrown) this.#giveBack();
    else if (bytes - this.#leastBytes >= MEMORY_GROWN_BYTES / 2 && this.#quietLooks >= this.#againAfterLooks) {
      this.#againAfterLooks *= 2;
      this.#giveBack();
    }
  }

  #giveBack(): void {
    if (this.#heapKeptBytes <= HEAP_KEPT_BYTES_MAX) {
      this.#memory.collect();
      this.#heapKeptBytes = this.#memory.heapBytes();
    }
    this.#memory.trim();
    this.#keptBytes = this.#residentBytes() ?? this.#keptBytes;
    this.#quietLooks = 0;
  }

  /** Undefined: they cannot be read now. */
  #residentBytes(): number | undefined {
    try {
      return this.#memory.residentBytes();
    } catch {
      return undefined;
    }
  }
}

/** This process. */
export function nodeMemory(): ProcessMemory {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options: object) => void;
  let last = { atMs: performance.now(), cpuUs: threadCpuUs(), loop: performance.eventLoopUtilization() };
  return {
    residentBytes: () => process.memoryUsage.rss(),
    heapBytes: () => getHeapStatistics().used_heap_size,
    busyShare: () => {
      const now = { atMs: performance.now(), cpuUs: threadCpuUs(), loop: performance.eventLoopUtilization() };
      const cpuShare = (now.cpuUs - last.cpuUs) / 1000 / Math.max(1, now.atMs - last.atMs);
      const { utilization } = performance.eventLoopUtilization(now.loop, last.loop);
      last = now;
      return busyShareOf(cpuShare, utilization);
    },
    // The other flavors leave the pages, or the buffers, with the process.
    collect: () => gc({ type: "major", flavor: "last-resort" }),
    trim: allocatorTrim(),
  };
}

/** CPU time of the loop's thread counts, because waiting for a core is no work, up to `STANDING_SHARE_MAX` of time outside of its wait for events. */
export function busyShareOf(cpuShare: number, loopShare: number): number {
  return loopShare > STANDING_SHARE_MAX ? loopShare : cpuShare;
}

function threadCpuUs(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** From now on, until the process ends. */
export function giveBackBurstMemory(): void {
  const burst = new BurstMemory(nodeMemory());
  setInterval(() => burst.look(), MEMORY_LOOK_MS).unref();
}
