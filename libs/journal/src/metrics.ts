import type { MetricDefinition } from "@concord/runtime";

const GROUP_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export const JOURNAL_METRICS: readonly MetricDefinition[] = [
  { name: "concord_journal_syncs_total", kind: "counter", help: "Groups of records made durable.", labels: [] },
  { name: "concord_journal_sync_failures_total", kind: "counter", help: "Writes or syncs that failed.", labels: [] },
  { name: "concord_journal_written_bytes_total", kind: "counter", help: "Bytes of records made durable.", labels: [] },
  { name: "concord_journal_group_records", kind: "histogram", help: "Records per sync.", labels: [], buckets: GROUP_BUCKETS },
  { name: "concord_journal_cut_tails_total", kind: "counter", help: "Torn writes cut off when a journal was opened.", labels: [] },
  { name: "concord_journal_damage_total", kind: "counter", help: "Damage found when a journal was opened.", labels: [] },
];
