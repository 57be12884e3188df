import type { BackingStore } from "@concord/ports";
import { ConcordError, DESCRIPTOR_WRITE_WAIT_MS, sleep, type Clock } from "@concord/runtime";

export type BackingReads = Pick<BackingStore, "getMany" | "evidence">;

const RETRY_MS = 50;
/** Pause between two tries of a write that found no space. */
export const SPACE_RETRY_MS = 250;

/**
 * Reads of checkpoints, whose failure fails the store: one that is OVERLOADED is repeated for as long as a write waits for a descriptor, and
 * then rejects.
 */
export function patientReads(backing: BackingReads, clock: Clock): BackingReads {
  const patiently = async <Answer>(read: () => Promise<Answer>): Promise<Answer> => {
    const untilMs = clock.monotonicMs() + DESCRIPTOR_WRITE_WAIT_MS;
    for (;;) {
      try {
        return await read();
      } catch (thrown) {
        const isBusy = thrown instanceof ConcordError && thrown.code === "OVERLOADED";
        if (!isBusy || clock.monotonicMs() >= untilMs) throw thrown;
        await sleep(clock, RETRY_MS);
      }
    }
  };
  return {
    getMany: (keys) => patiently(() => backing.getMany(keys)),
    evidence: () => patiently(() => backing.evidence()),
  };
}

/** Repeats a write that leaves nothing behind when it finds no space, until `isLeaving`; then it rejects with STORAGE_FULL. */
export async function untilSpace<Answer>(act: () => Promise<Answer>, clock: Clock, isLeaving: () => boolean): Promise<Answer> {
  for (;;) {
    try {
      return await act();
    } catch (thrown) {
      const isFull = thrown instanceof ConcordError && thrown.code === "STORAGE_FULL";
      if (!isFull || isLeaving()) throw thrown;
      await sleep(clock, SPACE_RETRY_MS);
    }
  }
}
