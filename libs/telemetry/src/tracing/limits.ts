/** Traces that begin or go on in this process: more in a second are not sampled, whatever their callers say. */
export const TRACES_PER_SECOND_MAX = 10_000;
/** A flush has as many traces as transactions; a span names so many of them. */
export const SPAN_LINKS_MAX = 16;
export const SPAN_ATTRIBUTES_MAX = 16;
/** Spans that wait for the collector, the export on its way included: more are dropped and counted. */
export const TRACE_BUFFER_BYTES_MAX = 8 * 1024 * 1024;
/** An export leaves when it has so many bytes, or after the pause. */
export const EXPORT_BYTES_TARGET = 256 * 1024;
export const EXPORT_EVERY_MS = 1000;
/** A collector that has not answered by then is away. */
export const EXPORT_TIMEOUT_MS = 10_000;
/** What a collector may say of an export; more is cut off. */
export const EXPORT_ANSWER_BYTES_MAX = 64 * 1024;
/** An export that failed for now is tried so often, then its spans are dropped. */
export const EXPORT_TRIES_MAX = 5;
export const EXPORT_BACKOFF = { initialMs: 500, maxMs: 30_000 } as const;
/** At the end of the process the last spans may take so long. */
export const EXPORT_CLOSE_MS = 1000;
