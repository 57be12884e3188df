export {
  ENTRY_BYTES_MAX,
  GROUP_BYTES_MAX,
  GROUPS_MAX,
  KEPT_BYTES_MAX,
  LOG_READ_BYTES_MAX,
  LOG_READ_ENTRIES_MAX,
  OWNER_BYTES_MAX,
  TAIL_BYTES_MAX,
  TAIL_ENTRIES_MAX,
} from "./limits.ts";
export { localLogReplica, type LocalReplicaOptions } from "./local-replica.ts";
export { LogFollower, type FollowedPeer, type LogFollowerOptions } from "./log-follower.ts";
export { openReplicaLog, type OpenReplicaOptions } from "./open-replica.ts";
export type { ReplicaLog, RowsOf } from "./replica-steps.ts";
export type { CheckRows } from "./check-requests.ts";
export type {
  LogAdvanceRequest,
  LogAppendReply,
  LogAppendRequest,
  LogRaiseReply,
  LogReadRequest,
  LogReplica,
  ReplicaLogState,
} from "./replica.ts";
export { decodeHeader, encodeHeader, headerKey, ENTRY_NAMESPACE as LOG_ENTRY_NAMESPACE, readHeaderKey } from "./log-format.ts";
export { rejoinGroup, type RejoinOptions } from "./rejoin.ts";
export { closeLogGaps, type CloseGapsOptions } from "./close-gaps.ts";
export { restoreGroup } from "./restore.ts";
export { readStoredGroup } from "./stored-group.ts";
export { RingGroupLog, type RingGroupLogOptions } from "./ring-group-log.ts";
export { takeOver, type TakeOverOptions, type TakeOverOutcome } from "./take-over.ts";
