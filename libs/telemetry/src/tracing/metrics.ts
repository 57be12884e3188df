import type { MetricDefinition } from "@concord/runtime";

/** Of every program. */
export const TRACE_METRICS: readonly MetricDefinition[] = [
  { name: "trace_spans_exported_total", kind: "counter", help: "Spans that the collector took.", labels: [] },
  {
    name: "trace_spans_dropped_total",
    kind: "counter",
    help: "Spans, or with reason rate traces, that did not reach the collector: the buffer was full, it was away, it refused them, or too many began in a second.",
    labels: ["reason"],
  },
];
