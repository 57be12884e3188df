import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const RPC_METRICS = [
  {
    name: "rpc_server_output_bytes",
    kind: "gauge",
    help: "Bytes of pages and large answers that their clients have not taken yet.",
    labels: [],
  },
  { name: "rpc_server_output_waiting", kind: "gauge", help: "Pages and large answers that wait for memory.", labels: [] },
  {
    name: "rpc_server_output_evicted_total",
    kind: "counter",
    help: "Streams and answers that were broken off because their clients did not read while others waited for the memory.",
    labels: [],
  },
  {
    name: "rpc_server_connections",
    kind: "gauge",
    help: "Open connections to the gRPC port: silent ones have had no call yet.",
    labels: ["state"],
  },
  { name: "rpc_server_request_bytes", kind: "gauge", help: "Bytes of requests under way, from messages of 16 KiB on.", labels: [] },
  {
    name: "rpc_server_refused_total",
    kind: "counter",
    help: "Connections and calls refused or ended for a limit, by reason: connections, silent, encoding, messageBytesMax, inputBufferBytes, REQUEST_COMPLETE_MS_MAX, inFlightMax, waitingMax, sessionsMax, streamsMax.",
    labels: ["reason"],
  },
  {
    name: "rpc_server_duration_seconds",
    kind: "histogram",
    help: "Time to answer a call, by method and outcome.",
    labels: ["method", "code"],
  },
  { name: "rpc_server_in_flight", kind: "gauge", help: "Calls running now, those that wait too.", labels: ["service"] },
  { name: "rpc_server_waiting", kind: "gauge", help: "Calls that wait for locks or for messages.", labels: ["service"] },
  {
    name: "rpc_server_deadline_missing_total",
    kind: "counter",
    help: "Calls that came without a deadline and got the default.",
    labels: [],
  },
  { name: "rpc_server_sessions", kind: "gauge", help: "Open session streams.", labels: ["service"] },
  { name: "rpc_server_streams", kind: "gauge", help: "Open streams that are no sessions.", labels: ["service"] },
  { name: "rpc_server_session_frames_total", kind: "counter", help: "Session frames received and sent.", labels: ["service", "direction"] },
] as const satisfies readonly MetricDefinition[];
