import type { StepRunner, StoreStep } from "@concord/ports";
import { spanOver, type Clock, type Log, type Seq, type Span } from "@concord/runtime";
import { CatchUp } from "./catch-up.ts";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogReplica } from "./replica.ts";

export interface LocalReplicaOptions {
  readonly name: string;
  readonly log: ReplicaLog;
  readonly runner: StepRunner;
  readonly peers: readonly LogReplica[];
  readonly clock: Clock;
  readonly report: Log;
  readonly onTooFarBehind: (group: string) => void;
}

/** This node's own replica as a link: its steps through the node's step runner. */
export function localLogReplica(options: LocalReplicaOptions): LogReplica {
  const { name, log, runner, clock } = options;
  const catchUp = new CatchUp(options);
  /** A step that comes too late is as a message that got lost: the caller takes its outcome for unknown. */
  const submit = async <Reply>(timeoutMs: number, make: () => StoreStep<Reply>): Promise<Reply> => {
    return runner.submit({ ...make(), deadlineAtMs: clock.monotonicMs() + timeoutMs });
  };
  return {
    name,
    reachable: true,
    logRaise: (request, timeoutMs) => submit(timeoutMs, () => log.raise(request)),
    logAppend: async (request, timeoutMs, span) => {
      const step = submit(timeoutMs, () => log.append(request));
      const reply = await (span === undefined ? step : spanOver(journalWrite(name, span), step));
      // The owner helps where it can; what it knows to be decided and cannot bring the peers may have.
      const { seq } = request.decided;
      if (reply.result === "gap" && reply.state.lastSeq < seq) catchUp.follow(request.group, seq);
      return reply;
    },
    // No step: it would wait behind writes that wait for space, and with it every read-only commit (I11).
    logState: async (group) => log.stateOnDisk(group),
    logRead: (request, timeoutMs) => submit(timeoutMs, () => log.read(request)),
    logAdvance: async (request, timeoutMs) => {
      const state = await submit(timeoutMs, () => log.advance(request));
      if (state.appliedSeq < request.decided.seq) catchUp.follow(request.group, request.decided.seq);
      return state;
    },
    logCatchUp: (group: string, seq: Seq, timeoutMs) => catchUp.reach(group, seq, timeoutMs),
  };
}

/** Its answer comes when what it wrote is on disk (I1). */
function journalWrite(replica: string, parent: Span): Span {
  const span = parent.child("journal write");
  span.set("replica", replica);
  return span;
}
