// Metrics of all programs, by area: sections of the reference, rows of the dashboard.
import { CONCORD_METRICS } from "@concord/concord";
import { DEDUP_WORKER_METRICS } from "@concord/dedup-worker";
import { OBJECT_GATEWAY_METRICS } from "@concord/object-gateway";
import { assert, type MetricDefinition } from "@concord/runtime";
import { STORAGE_PROXY_METRICS } from "@concord/storage-proxy";
import { BUILD_INFO } from "@concord/telemetry";
import { TXN_COORDINATOR_METRICS } from "@concord/txn-coordinator";

export interface Area {
  readonly title: string;
  readonly metrics: readonly MetricDefinition[];
}

/** First words of names. */
const WORDS_OF_AREAS: Readonly<Record<string, readonly string[]>> = {
  "Programs and their parts": ["build", "part", "event", "heartbeats", "trace"],
  "gRPC calls": ["rpc"],
  Transactions: ["txn", "coordinator", "ids"],
  "Group log": ["group", "replica"],
  "Ring and rows": ["ring", "quorum", "storage"],
  "Batches and hints": ["batch", "hints"],
  "Comparison and repair": ["repair"],
  Cassandra: ["cassandra"],
  "S3 and HTTP": ["s3", "http"],
  Objects: ["objects"],
  Messages: ["dedup"],
  "Store and disk": ["engine", "store", "journal", "disk"],
};

export const ALL_METRICS: readonly MetricDefinition[] = [BUILD_INFO, ...CONCORD_METRICS];

const wordOf = ({ name }: MetricDefinition): string => name.replace(/^concord_/, "").replace(/_.*/, "");

/** Every metric in one area. */
export function areasOf(metrics: readonly MetricDefinition[]): readonly Area[] {
  const known = new Set(Object.values(WORDS_OF_AREAS).flat());
  for (const metric of metrics) assert(known.has(wordOf(metric)), `${metric.name} has no area in tools/metrics/areas.ts`);
  return Object.entries(WORDS_OF_AREAS).map(([title, words]) => ({
    title,
    metrics: metrics.filter((metric) => words.includes(wordOf(metric))),
  }));
}

const PROGRAMS: Readonly<Record<string, readonly MetricDefinition[]>> = {
  "storage-proxy": STORAGE_PROXY_METRICS,
  "txn-coordinator": TXN_COORDINATOR_METRICS,
  "object-gateway": OBJECT_GATEWAY_METRICS,
  "dedup-worker": DEDUP_WORKER_METRICS,
};

/** Programs that report the metric beside concord, which reports all. */
export function programsOf({ name }: MetricDefinition): readonly string[] {
  if (name === BUILD_INFO.name) return Object.keys(PROGRAMS);
  return Object.entries(PROGRAMS).flatMap(([program, metrics]) => (metrics.some((metric) => metric.name === name) ? [program] : []));
}
