export { COPY_PAGE_ENTRIES_MAX } from "./limits.ts";
export { ADAPTER_RING_METRICS } from "./metrics.ts";
export { PeerSession, type CopyPage, type PeerHello, type PeerSessionOptions, type StoreEntry } from "./peer-session.ts";
export { RemoteBatchLog } from "./remote-batch-log.ts";
export { logStateFromWire, logStateToWire, RemoteLogReplica, type WireLogState } from "./remote-log.ts";
export { RemoteRowReplica } from "./remote-rows.ts";
