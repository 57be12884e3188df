import { parseTraceparent, type Span, type SpanKind, type Tracer } from "@concord/runtime";

export interface RecordedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly traceId: string;
  readonly spanId: string;
  /** "": none. */
  readonly parentId: string;
  code: string | undefined;
  ended: number;
}

/** Every trace is sampled that its caller did not rule out. */
export function recordingTracer(): Tracer & { readonly spans: RecordedSpan[] } {
  const spans: RecordedSpan[] = [];
  let ids = 0;
  const newId = (digits: number): string => (ids += 1).toString(16).padStart(digits, "0");
  const make = (name: string, kind: SpanKind, traceId: string, parentId: string): Span => {
    const own: RecordedSpan = { name, kind, traceId, spanId: newId(16), parentId, code: undefined, ended: 0 };
    spans.push(own);
    return {
      traceparent: `00-${traceId}-${own.spanId}-01`,
      child: (part, partKind = "internal") => make(part, partKind, traceId, own.spanId),
      link: () => undefined,
      set: () => undefined,
      end: (code) => {
        own.code = code;
        own.ended += 1;
      },
    };
  };
  const begin = (name: string, kind: SpanKind): Span => make(name, kind, newId(32), "");
  return {
    spans,
    begin,
    follow: (name, kind, traceparent) => {
      const parent = parseTraceparent(traceparent);
      if (parent === undefined) return begin(name, kind);
      return parent.isSampled ? make(name, kind, parent.traceId, parent.spanId) : undefined;
    },
  };
}
