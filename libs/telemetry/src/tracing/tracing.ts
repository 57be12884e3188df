import type { Clock, Log, Metrics, Random, Tracer } from "@concord/runtime";
import { SpanExporter } from "./exporter.ts";
import { otlpHttp } from "./otlp-http.ts";
import { createTracer } from "./tracer.ts";

/** As the configuration of a server has it. */
export interface TracingConfig {
  readonly nodeName: string;
  readonly traceEndpoint?: string | undefined;
  readonly traceSampleRatio: number;
  readonly traceHeaders: Readonly<Record<string, string>>;
}

export interface TracingOptions {
  readonly program: string;
  readonly version: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

export interface Tracing {
  /** Undefined: off. */
  readonly tracer: Tracer | undefined;
  /** Sends the last spans; takes at most EXPORT_CLOSE_MS. */
  close(): Promise<void>;
}

/** Off without an endpoint. */
export function startTracing(config: TracingConfig, options: TracingOptions): Tracing {
  const { nodeName, traceEndpoint, traceSampleRatio: sampleRatio, traceHeaders: headers } = config;
  if (traceEndpoint === undefined) return { tracer: undefined, close: () => Promise.resolve() };
  const { clock, random, log, metrics, program, version } = options;
  const resource = { "service.name": program, "service.instance.id": nodeName, "service.version": version };
  const { send, close } = otlpHttp({ endpoint: traceEndpoint, headers, clock });
  const exporter = new SpanExporter({ clock, log, metrics, resource, send });
  const tracer = createTracer({ clock, random, metrics, sampleRatio, onEnded: (text) => exporter.add(text) });
  return { tracer, close: () => exporter.close().then(close) };
}
