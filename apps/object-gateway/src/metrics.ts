import { HTTP_METRICS } from "@concord/adapter-http";
import { ENGINE_METRICS } from "@concord/engine";
import { STORE_METRICS } from "@concord/store";
import { OBJECTS_METRICS } from "@concord/objects";
import { RPC_METRICS } from "@concord/rpc";
import { TRACE_METRICS } from "@concord/telemetry";
import { SPACE_METRICS, type MetricDefinition } from "@concord/runtime";

/** Every metric an object-gateway reports. Labels are names of operations and codes, never keys or buckets. */
export const OBJECT_GATEWAY_METRICS: readonly MetricDefinition[] = [
  ...RPC_METRICS,
  ...TRACE_METRICS,
  ...HTTP_METRICS,
  ...ENGINE_METRICS,
  ...STORE_METRICS,
  ...OBJECTS_METRICS,
  ...SPACE_METRICS,
  { name: "objects_read_only", kind: "gauge", help: "1: the data folder takes no writes, this gateway serves reads only.", labels: [] },
  {
    name: "s3_requests_total",
    kind: "counter",
    help: "S3 requests answered, by operation and S3 code (OK when there is none).",
    labels: ["operation", "code"],
  },
  {
    name: "s3_request_seconds",
    kind: "histogram",
    help: "Time until the response was ready, its body not yet sent.",
    labels: ["operation"],
  },
  {
    name: "s3_ignored_fields_total",
    kind: "counter",
    help: "Parameters and x-amz-* headers of requests that S3 does not know, by kind: they were ignored.",
    labels: ["kind"],
  },
  { name: "s3_received_bytes_total", kind: "counter", help: "Bytes of decoded bodies of uploads.", labels: [] },
  { name: "s3_sent_bytes_total", kind: "counter", help: "Bytes of objects sent.", labels: [] },
  {
    name: "s3_paced_seconds_total",
    kind: "counter",
    help: "Time for which transfers waited because of rates of bytes, up (uploads) or down.",
    labels: ["direction"],
  },
  {
    name: "s3_paced_refusals_total",
    kind: "counter",
    help: "Transfers refused with SlowDown because they would have waited too long for each step.",
    labels: ["direction"],
  },
  { name: "s3_uploads_in_flight", kind: "gauge", help: "Uploads running now.", labels: [] },
  { name: "s3_downloads_in_flight", kind: "gauge", help: "Downloads running now.", labels: [] },
];
