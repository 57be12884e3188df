export { ADMIN_CONNECTIONS_MAX, ADMIN_REQUEST_TIMEOUT_MS, startAdmin, type Admin, type AdminOptions } from "./admin.ts";
export { createLog, type LogLevel, type LogOptions } from "./log.ts";
export { BUILD_INFO, createMetrics, type Labels, type MetricsOptions, type MetricsRegistry } from "./metrics.ts";
export { TRACE_METRICS } from "./tracing/metrics.ts";
export { createTracer, type TracerOptions } from "./tracing/tracer.ts";
export { startTracing, type Tracing, type TracingConfig, type TracingOptions } from "./tracing/tracing.ts";
