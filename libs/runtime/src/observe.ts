/** What a room reports to its operators. Implemented by `telemetry`, by nothing in unit tests, by the trace in simulation. */
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
