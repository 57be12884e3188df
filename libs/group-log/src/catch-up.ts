import type { StepRunner } from "@concord/ports";
import { assert, backoff, ConcordError, nextSeq, toConcordError, type Clock, type Log, type Seq } from "@concord/runtime";
import { CATCH_UP_BACKOFF, CATCH_UP_TIMEOUT_MS, LEARN_TIMEOUT_MS, LOG_READ_ENTRIES_MAX } from "./limits.ts";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogReplica, ReplicaLogState } from "./replica.ts";

export interface CatchUpOptions {
  readonly log: ReplicaLog;
  readonly runner: StepRunner;
  /** None on a ring of one, else two (TXR4). */
  readonly peers: readonly LogReplica[];
  readonly clock: Clock;
  readonly report: Log;
  /** Every peer that is ahead has dropped what this replica lacks: its store must be copied anew. Possibly called again. */
  readonly onTooFarBehind: (group: string) => void;
}

/**
 * Brings this replica up to a sequence number of a group (TX30): entries that a peer has applied are decided, and so are those that a
 * peer and this replica hold under the epoch both promise (TXR2). A number is a wish, never a mark: what no replica knows to be decided is waited for.
 */
export class CatchUp {
  readonly #options: CatchUpOptions;
  /** Groups that catch up without a caller. */
  readonly #behind = new Set<string>();
  /** One look at the peers for all that wait for a group: many stale readers cost what one costs. */
  readonly #learning = new Map<string, Promise<ReplicaLogState>>();

  constructor(options: CatchUpOptions) {
    assert(options.peers.length === 0 || options.peers.length === 2, "a ring has 1 or 3 nodes (TXR4)");
    assert(new Set(options.peers.map(({ name }) => name)).size === options.peers.length, "peers are distinct");
    this.#options = options;
  }

  async reach(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    const { log, runner, peers, clock } = this.#options;
    const deadlineAtMs = clock.monotonicMs() + timeoutMs;
    const retry = backoff(clock, CATCH_UP_BACKOFF);
    let state = await runner.submit(peers.length === 0 ? log.settleAlone(group) : log.state(group));
    while (state.appliedSeq < seq) {
      const remainingMs = deadlineAtMs - clock.monotonicMs();
      if (remainingMs <= 0 || peers.length === 0) throw notThereYet(group, seq, state.appliedSeq);
      const before = state.appliedSeq;
      const told = await within(clock, remainingMs, this.#learnOnce(group, state, seq, remainingMs));
      if (told !== undefined && told.appliedSeq > before) state = told;
      else await retry.pause();
    }
  }

  /** In the background, one at a time for a group: a later offer asks again. */
  follow(group: string, seq: Seq): void {
    if (this.#behind.has(group)) return;
    this.#behind.add(group);
    this.reach(group, seq, CATCH_UP_TIMEOUT_MS)
      .catch((thrown: unknown) => {
        this.#options.report.debug("the group log is not caught up yet", { group, reason: toConcordError(thrown).message });
      })
      .finally(() => this.#behind.delete(group));
  }

  #learnOnce(group: string, held: ReplicaLogState, wanted: Seq, timeoutMs: number): Promise<ReplicaLogState> {
    const running = this.#learning.get(group);
    if (running !== undefined) return running;
    const learning = this.#learn(group, held, wanted, Math.min(timeoutMs, LEARN_TIMEOUT_MS)).finally(() => this.#learning.delete(group));
    this.#learning.set(group, learning);
    return learning;
  }

  /** The state after what the first useful peer told; the state as it was when none was useful. */
  async #learn(group: string, held: ReplicaLogState, wanted: Seq, timeoutMs: number): Promise<ReplicaLogState> {
    const { log, runner, peers } = this.#options;
    const lacking = wanted - held.appliedSeq;
    assert(lacking > 0n, "only what is lacking is asked for");
    const limit = lacking < LOG_READ_ENTRIES_MAX ? Number(lacking) : LOG_READ_ENTRIES_MAX;
    const read = { group, fromSeq: nextSeq(held.appliedSeq), limit };
    let latest = held;
    let tooFar = 0;
    const asks = peers.map(async (peer) => {
      const told = await peer.logRead(read, timeoutMs);
      if (told.droppedSeq > held.appliedSeq) tooFar += 1;
      const state = await runner.submit(log.learn(group, told));
      if (state.appliedSeq > latest.appliedSeq) latest = state;
      if (latest.appliedSeq === held.appliedSeq) throw new ConcordError("REPLICAS_UNAVAILABLE", `${peer.name} knows no more of ${group}`);
    });
    await Promise.any(asks).catch(() => undefined);
    assert(latest.appliedSeq >= held.appliedSeq, "I8: learning never takes back what is applied");
    if (tooFar === peers.length && latest === held) this.#options.onTooFarBehind(group);
    return latest;
  }
}

/** Undefined: not in time. */
function within<Result>(clock: Clock, timeoutMs: number, result: Promise<Result>): Promise<Result | undefined> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () => resolve(undefined));
    void result.then(resolve, reject).finally(() => timer.cancel());
  });
}

function notThereYet(group: string, wanted: Seq, appliedSeq: Seq): ConcordError {
  const metadata = { group, wanted: String(wanted), applied: String(appliedSeq) };
  return new ConcordError("REPLICAS_UNAVAILABLE", `group ${group} is applied up to ${appliedSeq} here, not to ${wanted}; try again`, {
    metadata,
  });
}
