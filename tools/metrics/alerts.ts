// Alerts: the one list that the rules of the chart and the runbooks are made of (`node tools/metrics/main.ts`).

export interface Alert {
  readonly name: string;
  /** PromQL. Labels beside those of the metric are `instance` alone, which every set-up of Prometheus has. */
  readonly expr: string;
  /** How long the expression must hold. */
  readonly for: string;
  readonly severity: "critical" | "warning";
  readonly summary: string;
  /** Effect on users of the service, and the risk. */
  readonly effect: string;
  /** Steps in order. */
  readonly steps: readonly string[];
}

const DAMAGE = ["concord_journal_damage_total", "repair_damaged_rows_total", "objects_scrub_findings_total", "objects_dangling_total"];

const ROWS: readonly Alert[] = [
  {
    name: "ConcordDataDamaged",
    expr: DAMAGE.map((metric) => `increase(${metric}[15m]) > 0`).join(" or "),
    for: "0m",
    severity: "critical",
    summary: "Stored data is damaged: the log of the process names it; concord fsck and concord repair mend it",
    effect:
      "Reads of the damaged row or object fail, or another replica answers them. What two replicas of three have is mended without you.",
    steps: [
      "Find the line in the log of the instance: it names the file, row or object.",
      "Look at the disk: damage rarely comes alone.",
      "Where `repair_healed_rows_total` follows `repair_damaged_rows_total`, the other two replicas have mended the rows.",
      "Otherwise stop the node, run `concord fsck` on its data folder, then `concord repair`; what they print says what is left.",
    ],
  },
  {
    name: "ConcordKeysRefused",
    expr: "storage_suspect_ranges > 0",
    for: "5m",
    severity: "critical",
    summary: "A block of a table is damaged: the keys that may have been in it are refused",
    effect:
      "Calls for these keys are CORRUPT_DATA at a node alone, everything else is served. A node of three does not serve before it has copied them from both peers.",
    steps: [
      "Find the ranges in the log of the instance, or run `concord fsck` on its data folder once it is stopped.",
      "Look at the disk: damage rarely comes alone.",
      "A node of three: bring both peers to serve. If one of them is damaged or copies itself, too, run `concord repair --apply --accept-loss` on both: what they have left is united.",
      "A node alone: put a backup in place, or accept the loss with `concord repair --apply --accept-loss`, and write the rows again.",
    ],
  },
  {
    name: "ConcordSyncFailed",
    expr: "increase(concord_journal_sync_failures_total[15m]) > 0",
    for: "0m",
    severity: "critical",
    summary: "A disk failed to sync a journal: look at the disk",
    effect: "The part of the program that owns the journal fails: what is on the disk after a failed sync is unknown.",
    steps: [
      "Look at the kernel's log for errors of the device, and at the free space of its file system.",
      "Replace a disk with errors: start the node with an empty data folder and it copies its rows from both peers (rings of three).",
      "The process tries again by itself; `part_up` is 1 once the part serves.",
    ],
  },
  {
    name: "ConcordPeerUnreachable",
    expr: "ring_peer_reachable == 0",
    for: "5m",
    severity: "warning",
    summary: "A node of the ring has been out of reach for 5 minutes",
    effect: "None for clients while two of three replicas answer. One outage more refuses reads and writes.",
    steps: [
      "The label `peer` names the node: see whether its process runs and `/readyz` answers.",
      "If it runs, try the connection from the instance that alerts: address, firewall, certificate.",
      "Start it again with its data folder; what it lacks comes by hints and comparison.",
    ],
  },
  {
    name: "ConcordBatchesWait",
    expr: "batch_log_oldest_seconds > 600",
    for: "5m",
    severity: "warning",
    summary: "Batches wait for a node that does not take them",
    effect: "Clients were answered and their batches are safe; rows of them may not be on every replica yet.",
    steps: [
      "Call `ListPendingBatches` with the operator's token: it names what the entries wait for.",
      "Bring the named node back, or see [ConcordPeerUnreachable](ConcordPeerUnreachable.md).",
    ],
  },
  {
    name: "ConcordHintsOld",
    expr: "hints_oldest_seconds > 21600",
    for: "5m",
    severity: "warning",
    summary: "A node of the ring has been away for 6 hours",
    effect: "Hints for it grow to their bound; what is written then has two copies until the node is back and compared.",
    steps: ["Bring the node that the label `peer` names back, with its data folder or an empty one."],
  },
  {
    name: "ConcordComparisonDue",
    expr: "repair_comparison_due == 1",
    for: "6h",
    severity: "warning",
    summary: "A node of the ring lacks rows until a whole comparison has ended",
    effect: "Rows written while the node was away have two copies instead of three.",
    steps: [
      "Start the node if it is down.",
      "`/replicas` of the admin port shows how far the comparison is; `repair_completed_timestamp_seconds` its last end.",
      "It falls to 0 by itself once the node has every row.",
    ],
  },
  {
    name: "ConcordWriteClockAhead",
    expr: "storage_write_clock_ahead_seconds > 60",
    for: "15m",
    severity: "warning",
    summary: "A clock stood ahead or stands behind: timestamps of plain writes are ahead of it",
    effect: "Plain writes go on with timestamps that never go back. Writers that bring timestamps of their own may lose to them.",
    steps: [
      "Compare the clock of the host with its time server's.",
      "If the clock was set back to the right time, wait: the difference shrinks as time passes.",
      "`storage_writes_superseded_total` counts writes that found newer cells.",
    ],
  },
  {
    name: "ConcordCallsRefused",
    expr: "sum by (instance, reason) (rate(rpc_server_refused_total[5m])) > 1",
    for: "15m",
    severity: "warning",
    summary: "Calls are refused for lack of places or memory",
    effect: "Clients get OVERLOADED and try again; calls take longer.",
    steps: [
      "The label `reason` names the limit; its help in [docs/metrics.md](../metrics.md) lists all of them.",
      "Look at `rpc_server_in_flight` and `rpc_server_duration_seconds`: slow calls fill the places.",
      "Raise the limit where the machine has memory for it, or spread clients over more servers.",
    ],
  },
];

const CASSANDRA: readonly Alert[] = [
  {
    name: "ConcordCassandraUnsafe",
    expr: "cassandra_wrong_nodes > 0",
    for: "1m",
    severity: "critical",
    summary: "Cassandra nodes have settings that lose data",
    effect: "The nodes coordinate nothing of this process; acknowledged data on them may be lost in a power cut.",
    steps: ["The log names node and setting.", "Set it as docker/compose-engines.yaml has it, and restart the node."],
  },
  {
    name: "ConcordCassandraKeyspaceLoses",
    expr: 'cassandra_keyspace_faults{kind="losing"} > 0',
    for: "1m",
    severity: "critical",
    summary: "The Cassandra keyspace or a table of it loses data: the log has the statement that mends it",
    effect: "The storage-proxy is not ready, because acknowledged data could be lost.",
    steps: ["Run the statement that the log has, by a role that may.", "The keyspace is checked again each minute."],
  },
  {
    name: "ConcordCassandraForbidden",
    expr: 'cassandra_keyspace_faults{kind="forbidden"} > 0',
    for: "1m",
    severity: "critical",
    summary: "Concord's role lacks permissions on its Cassandra keyspace: the log has the GRANT",
    effect: "The storage-proxy is not ready.",
    steps: ["Run the GRANT that the log has.", "Permissions are checked again each minute."],
  },
  {
    name: "ConcordCassandraKeyspaceWeak",
    expr: 'cassandra_keyspace_faults{kind=~"weak|unchecked"} > 0',
    for: "1h",
    severity: "warning",
    summary: "The Cassandra keyspace has too few copies, or cannot be checked",
    effect: "One outage of Cassandra may refuse writes, or lose data.",
    steps: ["The log names what is weak, or why the check failed.", "Raise the replication of the keyspace and run `nodetool repair`."],
  },
];

const MESSAGES: readonly Alert[] = [
  {
    name: "ConcordPartitionStopped",
    expr: "dedup_partition_running == 0",
    for: "2m",
    severity: "critical",
    summary: "A partition of messages has stopped: GetStatistics and the log say why",
    effect: "Messages of the partition wait in the input, or are refused; nothing is lost.",
    steps: [
      "`GetStatistics` and the text of `/readyz` have the reason.",
      "On Kafka see that brokers answer; on a disk see its free space (`disk_free_bytes`).",
      "The partition opens by itself once the reason is gone; `dedup_reopened_total` counts that.",
    ],
  },
  {
    name: "ConcordInputBlocked",
    expr: "dedup_input_blocked_seconds > 300",
    for: "5m",
    severity: "warning",
    summary: "An open transaction of a producer holds the input back",
    effect: "Messages behind the transaction are not read until it ends.",
    steps: ["`kafka-transactions.sh find-hanging` names the producer.", "End it, or abort its transaction with the same tool."],
  },
  {
    name: "ConcordPartitionsUnread",
    expr: "dedup_partitions_unread > 0",
    for: "1m",
    severity: "critical",
    summary: "Partitions were added to the input topic: no worker reads them",
    effect: "Messages in the new partitions never come out.",
    steps: ["Make a new pipeline ([on Kafka](../operations.md#on-kafka)): each keeps the number of partitions that it began with."],
  },
  {
    name: "ConcordOutputFull",
    expr: "dedup_output_full == 1",
    for: "1m",
    severity: "critical",
    summary: "New messages are refused: the window needs more output than outputRetentionBytes",
    effect: "Producers get STORAGE_FULL for this partition and try again; what was accepted comes out.",
    steps: [
      "Raise `outputRetentionBytes` if the disk has the space, or lower `windowIdsMax` or `windowMaxAgeMs`, and start the worker again.",
      "Or wait: ids older than `windowMaxAgeMs` are forgotten by themselves.",
    ],
  },
  {
    name: "ConcordWindowShort",
    expr: "dedup_window_short == 1",
    for: "15m",
    severity: "warning",
    summary: "Ids are forgotten before windowMaxAgeMs: duplicates that late pass",
    effect: "A message that is sent again after the window's age may go downstream twice.",
    steps: ["Compare `dedup_window_seconds` with how late your producers send again.", "Raise `windowIdsMax`."],
  },
  {
    name: "ConcordLagGrows",
    expr: "dedup_partition_lag > 0 and delta(dedup_partition_lag[30m]) > 0",
    for: "30m",
    severity: "warning",
    summary: "Messages come in faster than they are processed",
    effect: "Messages come out later and later.",
    steps: [
      "`dedup_publish_seconds` and `dedup_apply_seconds` say whether the output or the window is slow.",
      "On Kafka add workers; with an embedded log use a faster disk or more partitions from the start.",
    ],
  },
];

const OBJECTS: readonly Alert[] = [
  {
    name: "ConcordObjectsReadOnly",
    expr: "objects_read_only == 1",
    for: "1m",
    severity: "critical",
    summary: "A gateway serves reads only: its disk takes no writes",
    effect: "Uploads and removals get 503; reads go on.",
    steps: [
      "Look at the kernel's log: file systems are remounted read-only after an error.",
      "Mend or replace the disk, then restart the gateway.",
    ],
  },
  {
    name: "ConcordEventsOverdue",
    expr: "objects_events_overdue > 0",
    for: "5m",
    severity: "warning",
    summary: "Events of objects are too old to be sent",
    effect: "They may have come out already, and their worker may have forgotten it; they stay until you decide.",
    steps: ["Find out why the target was away for so long (`objects_events_failed_total`).", "Set `eventsOverdue` to `send` or `drop`."],
  },
];

export const ALERTS: readonly Alert[] = [...ROWS, ...CASSANDRA, ...MESSAGES, ...OBJECTS];
