// The most memory that processes ever had, as Linux counts it, and the limit that slow clients must not move.
import { readFileSync } from "node:fs";

/** A service with its stores and caches under the loads here, and what it may keep for clients that do not read; without limits they take more. */
export const RESIDENT_MIB_MAX = 448;
const LOOK_MS = 50;
const KIB_PER_MIB = 1024;

/** undefined: it has ended, or there is no /proc. */
export function peakMiB(pid: number): number | undefined {
  try {
    return peakIn(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return undefined;
  }
}

export function peakIn(status: string): number | undefined {
  const found = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return found === undefined ? undefined : Number(found) / KIB_PER_MIB;
}

/** Looks at one process after the other, over all their lives. */
export class ResidentMemory {
  readonly #timer: NodeJS.Timeout;
  #peakMiB = 0;

  constructor(pids: () => readonly (number | undefined)[], peakOf: (pid: number) => number | undefined = peakMiB) {
    const look = (): void => {
      for (const pid of pids()) if (pid !== undefined) this.#peakMiB = Math.max(this.#peakMiB, peakOf(pid) ?? 0);
    };
    look();
    this.#timer = setInterval(look, LOOK_MS).unref();
  }

  get peakMiB(): number {
    return this.#peakMiB;
  }

  /** Why it is too much; undefined: it is not. */
  problem(service: string, limitMiB = RESIDENT_MIB_MAX): string | undefined {
    if (this.#peakMiB <= limitMiB) return undefined;
    return `${service} had ${Math.ceil(this.#peakMiB)} MiB, more than RESIDENT_MIB_MAX (${limitMiB}): it keeps what clients do not read`;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
