import { collectDefaultMetrics, Registry } from "prom-client";
import { assert, type MetricDefinition, type Metrics } from "@concord/runtime";
import { Distribution, headText, labelText, Last, Sum, type Series } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

export interface MetricsRegistry extends Metrics {
  /** Everything in the text format of Prometheus. */
  text(): Promise<string>;
  readonly contentType: string;
}

export interface MetricsOptions {
  /** Every metric the program may report; the lists its libs export, together. */
  readonly definitions: readonly MetricDefinition[];
  /** Adds those of the process: CPU, memory, event-loop delay (nodejs_eventloop_lag_*), garbage collection. */
  readonly process?: boolean;
  /** Adds concord_build_info, whose labels name the program's build. */
  readonly build?: Readonly<Record<"version" | "commit" | "node", string>>;
}

/** Latencies from 0.1 ms to 10 s. */
const LATENCY_BUCKETS_SECONDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Reported where `MetricsOptions` has a build. */
export const BUILD_INFO: MetricDefinition = {
  name: "concord_build_info",
  kind: "gauge",
  help: "Always 1; its labels are the version, the commit of the build and the version of Node.",
  labels: ["version", "commit", "node"],
};

interface Metric {
  readonly definition: MetricDefinition;
  readonly unlabelled: Series | undefined;
  /** By identity: callers on hot paths reuse their label objects. */
  readonly byLabels: WeakMap<Labels, Series>;
  /** Every series, by the text of its labels. */
  readonly byText: Map<string, Series>;
}

/** Metrics by name. Reporting a name that is not defined, or as another kind than defined, is a failed assertion. */
export function createMetrics(options: MetricsOptions): MetricsRegistry {
  const process = new Registry();
  if (options.process === true) collectDefaultMetrics({ register: process });
  const metrics = new Map<string, Metric>();
  const { build } = options;
  for (const definition of [...(build === undefined ? [] : [BUILD_INFO]), ...options.definitions]) {
    assert(!metrics.has(definition.name), `metric ${definition.name} is defined twice`);
    metrics.set(definition.name, makeMetric(definition));
  }
  const report = (kind: MetricDefinition["kind"], name: string, value: number, labels: Labels | undefined): void => {
    const metric = metrics.get(name);
    if (metric?.definition.kind !== kind) assert(false, `${name} is not a ${kind} of this program`);
    (labels === undefined ? unlabelledOf(metric) : seriesOf(metric, labels)).report(value);
  };
  if (build !== undefined) report("gauge", BUILD_INFO.name, 1, build);
  return {
    count: (name, value = 1, labels) => report("counter", name, value, labels),
    gauge: (name, value, labels) => report("gauge", name, value, labels),
    observe: (name, value, labels) => report("histogram", name, value, labels),
    text: async () => `${await process.metrics()}\n${[...metrics.values()].map(textOf).join("\n")}`,
    contentType: process.contentType,
  };
}

function unlabelledOf({ unlabelled, definition }: Metric): Series {
  if (unlabelled === undefined) assert(false, `metric ${definition.name} needs its labels`);
  return unlabelled;
}

function seriesOf(metric: Metric, labels: Labels): Series {
  const known = metric.byLabels.get(labels);
  if (known !== undefined) return known;
  const { name, labels: needed } = metric.definition;
  const isComplete = Object.keys(labels).length === needed.length && needed.every((label) => labels[label] !== undefined);
  assert(isComplete, `metric ${name} has the labels ${needed.join()}`);
  const text = needed.map((label) => labelText(label, labels[label]!)).join();
  const series = metric.byText.get(text) ?? makeSeries(metric.definition, text);
  metric.byText.set(text, series);
  metric.byLabels.set(labels, series);
  return series;
}

function makeMetric(definition: MetricDefinition): Metric {
  const unlabelled = definition.labels.length === 0 ? makeSeries(definition, "") : undefined;
  return { definition, unlabelled, byLabels: new WeakMap(), byText: new Map(unlabelled === undefined ? [] : [["", unlabelled]]) };
}

function makeSeries({ kind, buckets }: MetricDefinition, labels: string): Series {
  switch (kind) {
    case "counter":
      return new Sum(labels);
    case "gauge":
      return new Last(labels);
    case "histogram":
      return new Distribution(labels, buckets ?? LATENCY_BUCKETS_SECONDS);
  }
}

function textOf({ definition: { name, kind, help }, byText }: Metric): string {
  return headText(name, kind, help) + [...byText.values()].map((series) => series.lines(name)).join("");
}
