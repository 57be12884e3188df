import type { LogPosition } from "@concord/ports";
import { every, SEQ_NONE, Task, toConcordError, type Clock, type Log, type Seq, type Tasks } from "@concord/runtime";
import { FOLLOW_INTERVAL_MS, FOLLOW_TIMEOUT_MS } from "./limits.ts";
import type { LogReplica } from "./replica.ts";

/** A peer's logs, as the follower reads them. */
export interface FollowedPeer {
  readonly name: string;
  readonly isReachable: () => boolean;
  /** How far the peer has applied each group that it holds. */
  readonly applied: () => Promise<readonly LogPosition[]>;
}

export interface LogFollowerOptions {
  /** This node's replica. */
  readonly own: Pick<LogReplica, "logCatchUp">;
  /** How far it has applied a group; 0: it holds nothing of the group. */
  readonly appliedSeq: (group: string) => Seq;
  readonly peers: readonly FollowedPeer[];
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  readonly log: Log;
}

/**
 * Brings this replica up to what its peers have applied of groups that are idle (I12): an append, or the mark behind it, brings a replica that was away
 * what it lacks, and an idle group has neither. A group that still lacks what a peer had applied one look before counts: what was on its way is
 * there by then.
 */
export class LogFollower {
  readonly #options: LogFollowerOptions;
  readonly #task: Task;
  /** Newest entry of each group that a peer had applied at the look before. */
  #wanted: ReadonlyMap<string, Seq> = new Map();

  constructor(options: LogFollowerOptions) {
    this.#options = options;
    const { log } = options;
    this.#task = new Task({
      ...options,
      name: "storage: logs of idle groups",
      ...every(FOLLOW_INTERVAL_MS, (signal) => this.look(signal)),
      failed: ({ message }) => log.warn("the logs of idle groups are not compared with those of the peers", { reason: message }),
    });
  }

  start(): void {
    if (this.#options.peers.length > 0) this.#task.start();
  }

  /** Resolves when the look in progress has ended. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Catches up what the look before found, and notes what the next one is to find here. */
  async look(signal: AbortSignal): Promise<void> {
    const { own, appliedSeq, log } = this.#options;
    for (const [group, seq] of this.#wanted) {
      if (signal.aborted) return;
      if (appliedSeq(group) >= seq) continue;
      try {
        await own.logCatchUp(group, seq, FOLLOW_TIMEOUT_MS);
        log.info("the log of an idle group is caught up", { group, seq: String(seq) });
      } catch (thrown) {
        log.debug("the log of an idle group is not caught up yet", { group, reason: toConcordError(thrown).message });
      }
    }
    this.#wanted = await this.#newestOfPeers();
  }

  /** A peer that does not answer is asked at the next look. */
  async #newestOfPeers(): Promise<ReadonlyMap<string, Seq>> {
    const { peers, log } = this.#options;
    const newest = new Map<string, Seq>();
    const asked = peers.filter(({ isReachable }) => isReachable());
    const answers = await Promise.all(
      asked.map((peer) =>
        peer.applied().catch((thrown: unknown) => {
          log.debug("a peer does not report its logs", { peer: peer.name, reason: toConcordError(thrown).message });
          return [];
        }),
      ),
    );
    for (const { group, seq } of answers.flat()) if (seq > (newest.get(group) ?? SEQ_NONE)) newest.set(group, seq);
    return newest;
  }
}
