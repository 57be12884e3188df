import { assert } from "@concord/runtime";
import { GROUPS_MAX } from "./limits.ts";

/**
 * How many replicas follow the owner that appends through this node: all, but for those that refused it because of a promise to another owner.
 * Fewer than all: the next outage may stop the group until it is taken over above that promise.
 */
export class Followers {
  readonly #size: number;
  readonly #tell: (group: string, followers: number) => void;
  readonly #refusing = new Map<string, Set<string>>();

  constructor(size: number, tell: (group: string, followers: number) => void) {
    this.#size = size;
    this.#tell = tell;
  }

  refused(group: string, replica: string): void {
    let refusing = this.#refusing.get(group);
    if (refusing?.has(replica) === true) return;
    if (refusing === undefined) {
      if (this.#refusing.size >= GROUPS_MAX) return;
      refusing = new Set();
      this.#refusing.set(group, refusing);
    }
    refusing.add(replica);
    assert(refusing.size <= this.#size, "only replicas of the ring refuse");
    this.#tell(group, this.#size - refusing.size);
  }

  /** An owner was raised, and none that answered refused it. */
  raised(group: string): void {
    this.#refusing.delete(group);
    this.#tell(group, this.#size);
  }
}
