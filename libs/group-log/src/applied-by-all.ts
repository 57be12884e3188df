import { assert, SEQ_NONE, type Seq } from "@concord/runtime";
import { GROUPS_MAX } from "./limits.ts";
import type { LogReplica } from "./replica.ts";

/** How far every replica of the ring has applied each group, as their last answers said: what none of them will fetch any more. */
export class AppliedByAll {
  readonly #size: number;
  readonly #groups = new Map<string, Map<string, Seq>>();
  /** Incarnations of each replica's store that were heard of. */
  readonly #incarnations = new Map<string, number>();

  constructor(size: number) {
    assert(size === 1 || size === 3, "a ring has 1 or 3 nodes (TXR4)");
    this.#size = size;
  }

  /** 0 when some replica was not heard of. */
  seqOf(group: string): Seq {
    const heard = this.#groups.get(group);
    if (heard === undefined || heard.size < this.#size) return SEQ_NONE;
    let least: Seq | undefined;
    for (const seq of heard.values()) if (least === undefined || seq < least) least = seq;
    return least ?? SEQ_NONE;
  }

  /** Another incarnation of its store was heard of, which may have applied less: what it answered before, or answers to earlier calls, says nothing (I10). */
  restarted(replica: string): void {
    this.#incarnations.set(replica, this.#incarnationOf(replica) + 1);
    for (const heard of this.#groups.values()) heard.delete(replica);
  }

  /** The same replica; its answers are noted. */
  watch(replica: LogReplica): LogReplica {
    const { name } = replica;
    return {
      name,
      get reachable() {
        return replica.reachable;
      },
      logRaise: (owner, timeoutMs) => replica.logRaise(owner, timeoutMs),
      logAppend: async (request, timeoutMs, span) => {
        const incarnation = this.#incarnationOf(name);
        const reply = await replica.logAppend(request, timeoutMs, span);
        if (incarnation === this.#incarnationOf(name))
          this.#note(request.group, name, reply.result === "accepted" ? reply.appliedSeq : reply.state.appliedSeq);
        return reply;
      },
      logState: (group, timeoutMs) => replica.logState(group, timeoutMs),
      logRead: (request, timeoutMs) => replica.logRead(request, timeoutMs),
      logAdvance: async (request, timeoutMs) => {
        const incarnation = this.#incarnationOf(name);
        const state = await replica.logAdvance(request, timeoutMs);
        if (incarnation === this.#incarnationOf(name)) this.#note(request.group, name, state.appliedSeq);
        return state;
      },
      logCatchUp: (group, seq, timeoutMs) => replica.logCatchUp(group, seq, timeoutMs),
    };
  }

  #incarnationOf(replica: string): number {
    return this.#incarnations.get(replica) ?? 0;
  }

  #note(group: string, replica: string, appliedSeq: Seq): void {
    let heard = this.#groups.get(group);
    if (heard === undefined) {
      if (this.#groups.size >= GROUPS_MAX) return;
      heard = new Map();
      this.#groups.set(group, heard);
    }
    const before = heard.get(replica);
    if (before === undefined || appliedSeq > before) heard.set(replica, appliedSeq);
    assert(heard.size <= this.#size, "only replicas of the ring answer");
  }
}
