import {
  assert,
  parseTraceparent,
  toHex,
  type Clock,
  type Metrics,
  type Random,
  type Span,
  type SpanKind,
  type Tracer,
} from "@concord/runtime";
import { SPAN_ATTRIBUTES_MAX, SPAN_LINKS_MAX, TRACES_PER_SECOND_MAX } from "./limits.ts";
import { spanText, type SpanRecord } from "./span-text.ts";

export interface TracerOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  /** Of the traces that begin here, 0 to 1. */
  readonly sampleRatio: number;
  /** Takes each span when it has ended, as its text in OTLP/JSON. */
  readonly onEnded: (text: string) => void;
}

const SPAN_ID_BYTES = 8;
const TRACE_ID_BYTES = 16;
const RATE_WINDOW_MS = 1000;

/** Samples at the head of a trace: whether it is sampled is decided where it begins, and kept by all who take part in it. */
export function createTracer(options: TracerOptions): Tracer {
  const { random, sampleRatio } = options;
  assert(sampleRatio >= 0 && sampleRatio <= 1, "a ratio is between 0 and 1");
  const rate = new Rate(options);
  const begin = (name: string, kind: SpanKind): Span | undefined => {
    if (sampleRatio < 1 && random.float() >= sampleRatio) return undefined;
    if (!rate.take()) return undefined;
    return TracedSpan.root(options, name, kind, { traceId: toHex(random.bytes(TRACE_ID_BYTES)), parentId: "" });
  };
  const follow = (name: string, kind: SpanKind, traceparent: string): Span | undefined => {
    const parent = parseTraceparent(traceparent);
    if (parent === undefined) return begin(name, kind);
    if (!parent.isSampled || !rate.take()) return undefined;
    return TracedSpan.root(options, name, kind, { traceId: parent.traceId, parentId: parent.spanId });
  };
  return { begin, follow };
}

/** Callers decide what is sampled, so their number is bounded here. */
class Rate {
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  #endsAtMs = -Infinity;
  #taken = 0;

  constructor({ clock, metrics }: TracerOptions) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  take(): boolean {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#endsAtMs) {
      this.#endsAtMs = nowMs + RATE_WINDOW_MS;
      this.#taken = 0;
    }
    this.#taken += 1;
    if (this.#taken <= TRACES_PER_SECOND_MAX) return true;
    this.#metrics.count("trace_spans_dropped_total", 1, TOO_MANY);
    return false;
  }
}

const TOO_MANY: Readonly<Record<string, string>> = Object.freeze({ reason: "rate" });

/** Wall and monotonic time at one moment: times of a trace's spans in this process differ as monotonic time does, whatever the wall clock does. */
interface Anchor {
  readonly wallUs: number;
  readonly monotonicMs: number;
}

class TracedSpan implements Span {
  readonly #options: TracerOptions;
  readonly #anchor: Anchor;
  readonly #record: SpanRecord;
  #traceparent: string | undefined;
  #isEnded = false;

  private constructor(options: TracerOptions, anchor: Anchor, record: SpanRecord) {
    this.#options = options;
    this.#anchor = anchor;
    this.#record = record;
  }

  static root(options: TracerOptions, name: string, kind: SpanKind, ids: Pick<SpanRecord, "traceId" | "parentId">): TracedSpan {
    const { clock } = options;
    const anchor = { wallUs: Number(clock.nowUs()), monotonicMs: clock.monotonicMs() };
    return new TracedSpan(options, anchor, recordOf(options, name, kind, ids, anchor.wallUs));
  }

  get traceparent(): string {
    this.#traceparent ??= `00-${this.#record.traceId}-${this.#record.spanId}-01`;
    return this.#traceparent;
  }

  child(name: string, kind: SpanKind = "internal"): Span {
    const { traceId, spanId } = this.#record;
    return new TracedSpan(this.#options, this.#anchor, recordOf(this.#options, name, kind, { traceId, parentId: spanId }, this.#nowUs()));
  }

  link(other: Span): void {
    const { links } = this.#record;
    const parsed = parseTraceparent(other.traceparent);
    if (parsed !== undefined && links.length < SPAN_LINKS_MAX) links.push(parsed);
  }

  set(key: string, value: string | number): void {
    const { attributes } = this.#record;
    assert(attributes.length < SPAN_ATTRIBUTES_MAX, "a span has few attributes");
    attributes.push({ key, value });
  }

  end(code?: string): void {
    assert(!this.#isEnded, `the span ${this.#record.name} ends once`);
    this.#isEnded = true;
    this.#options.onEnded(spanText(this.#record, this.#nowUs(), code));
  }

  #nowUs(): number {
    return this.#anchor.wallUs + Math.round((this.#options.clock.monotonicMs() - this.#anchor.monotonicMs) * 1000);
  }
}

function recordOf(
  { random }: TracerOptions,
  name: string,
  kind: SpanKind,
  { traceId, parentId }: Pick<SpanRecord, "traceId" | "parentId">,
  startUs: number,
): SpanRecord {
  return { traceId, spanId: toHex(random.bytes(SPAN_ID_BYTES)), parentId, name, kind, startUs, attributes: [], links: [] };
}
