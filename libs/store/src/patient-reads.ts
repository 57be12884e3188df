import type { BackingStore } from "@concord/ports";
import { ConcordError, isShortage, sleep, type Clock } from "@concord/runtime";

export type BackingReads = Pick<BackingStore, "getMany" | "evidence">;

const RETRY_MS = 50;
/** Pause between two tries of a write that found no space. */
export const SPACE_RETRY_MS = 250;

/** Reads of checkpoints, whose failure fails the store: one that is OVERLOADED is repeated until `isLeaving`, and then rejects. */
export function patientReads(backing: BackingReads, clock: Clock, isLeaving: () => boolean): BackingReads {
  const patiently = async <Answer>(read: () => Promise<Answer>): Promise<Answer> => {
    for (;;) {
      try {
        return await read();
      } catch (thrown) {
        const isBusy = thrown instanceof ConcordError && thrown.code === "OVERLOADED";
        if (!isBusy || isLeaving()) throw thrown;
        await sleep(clock, RETRY_MS);
      }
    }
  };
  return {
    getMany: (keys) => patiently(() => backing.getMany(keys)),
    evidence: () => patiently(() => backing.evidence()),
  };
}

/** Repeats a write that leaves nothing behind when it finds no space or no descriptor, until `isLeaving`; then it rejects with that. */
export async function untilSpace<Answer>(act: () => Promise<Answer>, clock: Clock, isLeaving: () => boolean): Promise<Answer> {
  for (;;) {
    try {
      return await act();
    } catch (thrown) {
      if (!isShortage(thrown) || isLeaving()) throw thrown;
      await sleep(clock, SPACE_RETRY_MS);
    }
  }
}
