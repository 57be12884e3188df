import type { MetricDefinition } from "@concord/runtime";

/** What this lib reports. */
export const TRANSACTION_METRICS: readonly MetricDefinition[] = [
  { name: "txn_open_transactions", kind: "gauge", help: "Open and committing transactions", labels: ["group"] },
  { name: "txn_lock_waits", kind: "gauge", help: "Transactions that wait for a lock", labels: ["group"] },
  { name: "txn_unapplied_rows", kind: "gauge", help: "Logged rows answered from memory until they are applied", labels: ["group"] },
  {
    name: "txn_cached_row_bytes",
    kind: "gauge",
    help: "Approximate bytes of committed rows in memory, the unapplied among them",
    labels: ["group"],
  },
  { name: "txn_commit_queue", kind: "gauge", help: "Commits that wait for the next flush", labels: ["group"] },
  {
    name: "txn_held_bytes",
    kind: "gauge",
    help: "Bytes held by open transactions of all groups, beyond the first 4 KiB of each",
    labels: [],
  },
  {
    name: "txn_flush_transactions",
    kind: "histogram",
    help: "Transactions per flush",
    labels: ["group"],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  },
  { name: "txn_aborts_total", kind: "counter", help: "Aborted transactions by reason", labels: ["group", "code"] },
  {
    name: "txn_groups_fenced_total",
    kind: "counter",
    help: "Groups that this coordinator served no longer because another had raised their epoch: none in a planned hand-over",
    labels: ["group"],
  },
  { name: "txn_append_repeats_total", kind: "counter", help: "Log appends with unknown outcome that were sent again", labels: ["group"] },
  {
    name: "txn_work_dropped_total",
    kind: "counter",
    help: "Operations and commits whose deadline passed in a queue, dropped before they cost anything",
    labels: ["group", "kind"],
  },
  { name: "txn_apply_repeats_total", kind: "counter", help: "Applies that failed and were sent again", labels: ["group"] },
];
