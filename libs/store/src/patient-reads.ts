import type { BackingStore } from "@concord/ports";
import { ConcordError, DESCRIPTOR_WRITE_WAIT_MS, sleep, type Clock } from "@concord/runtime";

export type BackingReads = Pick<BackingStore, "getMany" | "evidence">;

const RETRY_MS = 50;

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
