/** Logs and metrics as the libs write them. Implemented by `telemetry`; silent in unit tests; the trace in simulation. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

export type LogFields = Readonly<Record<string, string | number | boolean | bigint | undefined>>;

/** Metrics by name; labels are low-cardinality. Names end in their unit: `_total`, `_seconds`, `_bytes`. */
export interface Metrics {
  count(name: string, value?: number, labels?: Readonly<Record<string, string>>): void;
  gauge(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
  observe(name: string, value: number, labels?: Readonly<Record<string, string>>): void;
}

const nothing = (): void => undefined;

export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };
export const silentMetrics: Metrics = { count: nothing, gauge: nothing, observe: nothing };

/** A metric of one lib. Each lib exports its list; the process registers them all, and an unknown name is a failed assertion. */
export interface MetricDefinition {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** Histograms only: upper bounds in the metric's unit; without it, latency buckets in seconds. */
  readonly buckets?: readonly number[];
}
