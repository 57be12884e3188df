import type { MetricDefinition } from "@concord/runtime";

/** Every metric of this lib, for the registry of the process. */
export const OBJECTS_METRICS = [
  { name: "objects_commit_conflicts_total", kind: "counter", help: "Commits that lost a race and were tried again.", labels: [] },
  { name: "objects_in_doubt_total", kind: "counter", help: "Commits whose answer was lost (OGD2).", labels: [] },
  { name: "objects_commits_in_doubt", kind: "gauge", help: "Unresolved commits that the background resolver has.", labels: [] },
  {
    name: "objects_rows_unreadable_total",
    kind: "counter",
    help: "Damaged rows that listings and collection passed over; the log names them. Expected: 0.",
    labels: [],
  },
  { name: "objects_dangling_total", kind: "counter", help: "Rows met that name what is not there. Expected: 0.", labels: [] },
  { name: "objects_streams_ended_total", kind: "counter", help: "Downloads ended because they took too long (OGD10).", labels: [] },
  {
    name: "objects_names_unresolved",
    kind: "gauge",
    help: "Blobs whose fate is open: uploads in flight and unresolved (OGD7).",
    labels: [],
  },
  { name: "objects_epochs_fenced_total", kind: "counter", help: "Epochs of this gateway that others closed (OGD3).", labels: [] },
  {
    name: "objects_recovered_pieces_total",
    kind: "counter",
    help: "Names that recovery decided: referenced, collected, absent, undecided.",
    labels: ["fate"],
  },
  {
    name: "objects_takeover_seconds",
    kind: "histogram",
    help: "From the verdict that another gateway is gone until one of its epochs was recovered here.",
    labels: [],
  },
  { name: "objects_scrub_passes_total", kind: "counter", help: "Scrubs of all rows and blobs that this gateway ended (OGD9).", labels: [] },
  { name: "objects_scrub_bytes_total", kind: "counter", help: "Bytes of blobs that the scrub read and verified.", labels: [] },
  {
    name: "objects_scrub_findings_total",
    kind: "counter",
    help: "What the scrub found: leaked, dangling, damaged, unreadable. Expected: 0. The log names them.",
    labels: ["kind"],
  },
  {
    name: "objects_lifecycle_expired_total",
    kind: "counter",
    help: "What lifecycle rules removed: current, noncurrent, marker, upload.",
    labels: ["what"],
  },
  { name: "objects_lifecycle_expired_bytes", kind: "counter", help: "Bytes of the versions that lifecycle rules removed.", labels: [] },
  {
    name: "objects_lifecycle_passes_total",
    kind: "counter",
    help: "Lifecycle passes over all buckets that this gateway ended.",
    labels: [],
  },
  { name: "objects_lifecycle_pass_seconds", kind: "histogram", help: "How long such a pass took.", labels: [] },
  { name: "objects_lifecycle_kept", kind: "gauge", help: "What was due in the last pass and could not be removed.", labels: [] },
  {
    name: "objects_lifecycle_lag_seconds",
    kind: "gauge",
    help: "How far the clock is ahead of the time of lifecycle rules, which does not follow steps.",
    labels: [],
  },
  { name: "objects_garbage_removed_total", kind: "counter", help: "Blobs that garbage collection removed.", labels: [] },
  { name: "objects_garbage_removed_bytes", kind: "counter", help: "Bytes of the blobs that garbage collection removed.", labels: [] },
  { name: "objects_garbage_kept", kind: "gauge", help: "GC entries that the last run could not deal with.", labels: [] },
] as const satisfies readonly MetricDefinition[];
