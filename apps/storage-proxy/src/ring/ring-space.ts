import type { PeerSession } from "@concord/adapter-ring";
import { ConcordError, every, Task, type Clock, type SpaceGuard, type Tasks } from "@concord/runtime";
import { PEER_SPACE_EVERY_MS, PEER_SPACE_TIMEOUT_MS } from "./limits.ts";

export interface RingSpaceOptions {
  readonly own: SpaceGuard;
  readonly peers: readonly Pick<PeerSession, "name" | "isLow">[];
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
}

/**
 * Whether the ring takes new data: not while a node of it has too little space, this one or a peer that answers. A quorum could go on
 * without that node; but what it then lacks it could never fetch, and its deletes could free nothing. Equal nodes fill at the same time.
 */
export class RingSpace {
  readonly #options: RingSpaceOptions;
  /** Peers that had no space when they answered last. */
  #low: readonly string[] = [];
  readonly #task: Task;

  constructor(options: RingSpaceOptions) {
    this.#options = options;
    this.#task = new Task({ ...options, name: "storage: space of the peers", ...every(PEER_SPACE_EVERY_MS, () => this.#ask()) });
  }

  /** STORAGE_FULL, applied no. Space that was freed here is seen at once, at a peer within PEER_SPACE_EVERY_MS. */
  async admit(): Promise<void> {
    await this.#options.own.admit();
    if (this.#low.length === 0) return;
    throw new ConcordError("STORAGE_FULL", `the disk of ${this.#low.join(", ")} is almost full: delete or add room`, {
      applied: "no",
      metadata: { nodes: this.#low.join(",") },
      retryAfterMs: PEER_SPACE_EVERY_MS,
    });
  }

  /** For peers that ask. */
  get isLow(): boolean {
    return this.#options.own.isLow;
  }

  start(): void {
    if (this.#options.peers.length > 0) this.#task.start();
  }

  stop(): void {
    void this.#task.stop();
    this.#options.own.close();
  }

  /** A peer that does not answer refuses nothing. */
  async #ask(): Promise<void> {
    const { peers } = this.#options;
    const answers = await Promise.all(peers.map((peer) => peer.isLow(PEER_SPACE_TIMEOUT_MS).catch(() => false)));
    this.#low = peers.filter((_, at) => answers[at]).map(({ name }) => name);
  }
}
