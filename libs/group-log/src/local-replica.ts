import type { StepRunner, StoreStep } from "@concord/ports";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogReplica } from "./replica.ts";

/** This node's own replica as a link: its steps through the node's step runner. */
export function localLogReplica(name: string, log: ReplicaLog, runner: StepRunner): LogReplica {
  const submit = async <Reply>(make: () => StoreStep<Reply>): Promise<Reply> => runner.submit(make());
  return {
    name,
    logRaise: (request) => submit(() => log.raise(request)),
    logAppend: (request) => submit(() => log.append(request)),
    logState: (group) => submit(() => log.state(group)),
    logRead: (request) => submit(() => log.read(request)),
    logTrim: (request) => submit(() => log.trim(request)),
  };
}
