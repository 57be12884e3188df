import type { Clock } from "@concord/runtime";

/** Watches that a client keeps moving bytes; only the time spent waiting for it counts. */
export interface Pace {
  moved(bytes: number): void;
  /** Waits for the client. Whenever that waiting fills a window in which too little was moved: `tooSlow`. */
  wait<T>(client: Promise<T>): Promise<T>;
}

export interface PaceOptions {
  readonly clock: Clock;
  readonly windowMs: number;
  readonly bytesMin: number;
  readonly tooSlow: () => void;
}

export function createPace({ clock, windowMs, bytesMin, tooSlow }: PaceOptions): Pace {
  let waitedMs = 0;
  let movedBytes = 0;
  const windowEnds = (): void => {
    if (movedBytes < bytesMin) tooSlow();
    waitedMs = 0;
    movedBytes = 0;
  };
  return {
    moved: (bytes) => void (movedBytes += bytes),
    async wait(client) {
      let startMs = clock.monotonicMs();
      const expire = (): void => {
        windowEnds();
        startMs = clock.monotonicMs();
        timer = clock.setTimer(windowMs, expire);
      };
      let timer = clock.setTimer(windowMs - waitedMs, expire);
      try {
        return await client;
      } finally {
        timer.cancel();
        waitedMs += clock.monotonicMs() - startMs;
        if (waitedMs >= windowMs) windowEnds();
      }
    },
  };
}
