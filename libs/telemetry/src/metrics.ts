import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { assert, type MetricDefinition, type Metrics } from "@concord/runtime";

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

/** Takes one value; `labels` have been resolved before. */
type Write = (value: number) => void;

interface Metric {
  readonly definition: MetricDefinition;
  readonly resolve: (labels: Labels) => Write;
  readonly unlabelled: Write | undefined;
  /** By identity: callers on hot paths reuse their label objects. */
  readonly byLabels: WeakMap<Labels, Write>;
  /** For labels made anew for each report: resolving costs ten times as much. No more than there are series. */
  readonly byValues: Map<string, Write>;
}

/** Metrics by name. Reporting a name that is not defined, or as another kind than defined, is a failed assertion. */
export function createMetrics(options: MetricsOptions): MetricsRegistry {
  const registry = new Registry();
  if (options.process === true) collectDefaultMetrics({ register: registry });
  if (options.build !== undefined) reportBuild(registry, { ...options.build });
  const metrics = new Map<string, Metric>();
  for (const definition of options.definitions) {
    assert(!metrics.has(definition.name), `metric ${definition.name} is defined twice`);
    metrics.set(definition.name, makeMetric(definition, registry));
  }
  const report = (kind: MetricDefinition["kind"], name: string, value: number, labels: Labels | undefined): void => {
    const metric = metrics.get(name);
    assert(metric !== undefined && metric.definition.kind === kind, `${name} is not a ${kind} of this program`);
    writerOf(metric, labels)(value);
  };
  return {
    count: (name, value = 1, labels) => report("counter", name, value, labels),
    gauge: (name, value, labels) => report("gauge", name, value, labels),
    observe: (name, value, labels) => report("histogram", name, value, labels),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}

function reportBuild(registry: Registry, labels: Record<string, string>): void {
  const help = "Always 1; its labels are the version, the commit of the build and the version of Node.";
  new Gauge({ name: "concord_build_info", help, labelNames: Object.keys(labels), registers: [registry] }).set(labels, 1);
}

function writerOf(metric: Metric, labels: Labels | undefined): Write {
  if (labels === undefined) {
    assert(metric.unlabelled !== undefined, `metric ${metric.definition.name} needs its labels`);
    return metric.unlabelled;
  }
  let write = metric.byLabels.get(labels);
  if (write === undefined) {
    const { name, labels: needed } = metric.definition;
    const values = Object.values(labels).length === needed.length ? needed.map((label) => labels[label]) : [undefined];
    assert(!values.includes(undefined), `metric ${name} has the labels ${needed.join()}`);
    const key = values.join("\n");
    write = metric.byValues.get(key) ?? metric.resolve(labels);
    metric.byValues.set(key, write);
    metric.byLabels.set(labels, write);
  }
  return write;
}

function makeMetric(definition: MetricDefinition, registry: Registry): Metric {
  const { name, help, labels, kind } = definition;
  const configuration = { name, help, labelNames: [...labels], registers: [registry] };
  let resolve: (given: Labels) => Write;
  switch (kind) {
    case "counter": {
      const counter = new Counter(configuration);
      resolve = (given) => counterWrite(counter.labels(given));
      break;
    }
    case "gauge": {
      const gauge = new Gauge(configuration);
      resolve = (given) => gaugeWrite(gauge.labels(given));
      break;
    }
    case "histogram": {
      const histogram = new Histogram({ ...configuration, buckets: [...(definition.buckets ?? LATENCY_BUCKETS_SECONDS)] });
      resolve = (given) => histogramWrite(histogram.labels(given));
      break;
    }
  }
  return { definition, resolve, unlabelled: labels.length === 0 ? resolve({}) : undefined, byLabels: new WeakMap(), byValues: new Map() };
}

const counterWrite =
  (child: Counter.Internal): Write =>
  (value) =>
    child.inc(value);
const gaugeWrite =
  (child: Gauge.Internal<string>): Write =>
  (value) =>
    child.set(value);
const histogramWrite =
  (child: Histogram.Internal<string>): Write =>
  (value) =>
    child.observe(value);
