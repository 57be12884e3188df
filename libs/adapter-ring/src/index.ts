export { COPY_PAGE_ENTRIES_MAX, RING_PROTOCOL, RING_PROTOCOL_KEY } from "./limits.ts";
export { ADAPTER_RING_METRICS } from "./metrics.ts";
export { PeerSession, type PeerSessionOptions } from "./peer-session.ts";
export { leavesToWire, RemoteComparedRows } from "./remote-compared-rows.ts";
export { RemoteBatchLog } from "./remote-batch-log.ts";
export { checkProtocol } from "./protocol.ts";
export { entryFromWire, logStateFromWire, logStateToWire } from "./log-messages.ts";
export { RemoteLogReplica } from "./remote-log.ts";
export { RemoteRowReplica } from "./remote-rows.ts";
