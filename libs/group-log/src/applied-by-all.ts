import { SEQ_NONE, type Seq } from "@concord/runtime";
import { GROUPS_MAX } from "./limits.ts";
import type { LogReplica } from "./replica.ts";

/** How far every replica of the ring has applied each group, as their last answers said: what none of them will fetch any more. */
export class AppliedByAll {
  readonly #size: number;
  readonly #groups = new Map<string, Map<string, Seq>>();

  constructor(size: number) {
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

  /** The same replica; its answers are noted. */
  watch(replica: LogReplica): LogReplica {
    const { name } = replica;
    return {
      name,
      get reachable() {
        return replica.reachable;
      },
      logRaise: (owner, timeoutMs) => replica.logRaise(owner, timeoutMs),
      logAppend: async (request, timeoutMs) => {
        const reply = await replica.logAppend(request, timeoutMs);
        this.#note(request.group, name, reply.result === "accepted" ? reply.appliedSeq : reply.state.appliedSeq);
        return reply;
      },
      logState: (group, timeoutMs) => replica.logState(group, timeoutMs),
      logRead: (request, timeoutMs) => replica.logRead(request, timeoutMs),
      logAdvance: async (request, timeoutMs) => {
        const state = await replica.logAdvance(request, timeoutMs);
        this.#note(request.group, name, state.appliedSeq);
        return state;
      },
      logCatchUp: (group, seq, timeoutMs) => replica.logCatchUp(group, seq, timeoutMs),
    };
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
  }
}
