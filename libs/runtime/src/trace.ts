/**
 * Traces as an argument: which work belonged to one request, and how long each part of it took. Implemented by `telemetry`. Work that is not
 * traced has no span: `undefined` is handed on, so nothing is made for it.
 */
export interface Span {
  /** W3C text of this span: what it is handed on as, to another process. */
  readonly traceparent: string;
  /** Work that is part of this. */
  child(name: string, kind?: SpanKind): Span;
  /** Work that several traces share is a part of one of them; the others name it. */
  link(other: Span): void;
  /** Low in cardinality, and never of a user's data: a count, a size, a group, a role. */
  set(key: string, value: string | number): void;
  /** `code`: what it failed with. Called once. */
  end(code?: string): void;
}

export type SpanKind = "internal" | "server" | "client";

/** Work that is the span, to its end. */
export async function spanOver<Result>(span: Span, work: Promise<Result>): Promise<Result> {
  try {
    const result = await work;
    span.end();
    return result;
  } catch (thrown) {
    span.end(codeOf(thrown));
    throw thrown;
  }
}

/** Errors of ours, of their clients and of the system have one; no text of an error leaves with a span. */
function codeOf(thrown: unknown): string {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return typeof code === "string" ? code : "INTERNAL";
}

export interface Tracer {
  /** A trace of its own, when it is one of those that are sampled. */
  begin(name: string, kind: SpanKind): Span | undefined;
  /** As its caller decided, who sent this traceparent; one that cannot be read counts as none. */
  follow(name: string, kind: SpanKind, traceparent: string): Span | undefined;
}

/** Metadata and HTTP header of the W3C's Trace Context; the field of a session's calls has the same text. */
export const TRACEPARENT_KEY = "traceparent";

/** Of a caller that traces, about what it does not trace: not sampled, so its servers begin no trace of their own. */
export const UNTRACED = `00-${"f".repeat(32)}-${"f".repeat(16)}-00`;

export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/;
const SAMPLED_FLAG = 0x01;

/** Undefined: it is none. Of a version after 00 what is known of it is read, as the W3C asks. */
export function parseTraceparent(text: string): TraceParent | undefined {
  const [, version, traceId, spanId, flags, rest] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  if (version === "ff" || (version === "00" && rest !== "") || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED_FLAG) !== 0 };
}
