export {
  ENTRY_BYTES_MAX,
  GROUP_BYTES_MAX,
  GROUPS_MAX,
  LOG_READ_BYTES_MAX,
  LOG_READ_ENTRIES_MAX,
  OWNER_BYTES_MAX,
  TAIL_BYTES_MAX,
  TAIL_ENTRIES_MAX,
} from "./limits.ts";
export { localLogReplica } from "./local-replica.ts";
export { openReplicaLog } from "./open-replica.ts";
export type { ReplicaLog } from "./replica-steps.ts";
export type { LogAppendReply, LogAppendRequest, LogRaiseReply, LogReadRequest, LogReplica, ReplicaLogState } from "./replica.ts";
export { readHeaderKey } from "./log-format.ts";
export { restoreGroup } from "./restore.ts";
export { RingGroupLog, type RingGroupLogOptions } from "./ring-group-log.ts";
export { takeOver, type TakeOverOptions, type TakeOverOutcome } from "./take-over.ts";
