// The object store of simulated snapshots: outlives every worker, slow, refuses now and then, damages some.
import type { SnapshotStore } from "@concord/dedup";
import { ConcordError, sleep, type Environment } from "@concord/runtime";

const DELAY_MS = 40;
const REFUSED_PERCENT = 6;
const DAMAGED_PERCENT = 2;

export class SnapshotShelf {
  readonly #held = new Map<string, Uint8Array>();

  /** As one worker reaches it; a call ends with the worker, what it had written stays. */
  at(env: Environment, prefix: string): SnapshotStore {
    const held = this.#held;
    const called = async (): Promise<void> => {
      await sleep(env.clock, env.random.below(DELAY_MS));
      if (env.random.below(100) < REFUSED_PERCENT) throw new ConcordError("OVERLOADED", "the snapshots' store refuses");
    };
    return {
      async get(name) {
        await called();
        const bytes = held.get(prefix + name);
        if (bytes === undefined || env.random.below(100) >= DAMAGED_PERCENT) return bytes;
        const damaged = Uint8Array.from(bytes);
        damaged[env.random.below(bytes.length)]! ^= 1;
        return damaged;
      },
      async put(name, bytes) {
        // Before or after its effect: a refusal may have been one of the answer only.
        const isLate = env.random.below(2) === 0;
        if (isLate) held.set(prefix + name, Uint8Array.from(bytes));
        await called();
        held.set(prefix + name, Uint8Array.from(bytes));
      },
      async list() {
        await called();
        return [...held.keys()].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
      },
      async remove(name) {
        await called();
        held.delete(prefix + name);
      },
    };
  }
}
