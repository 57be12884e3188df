/** Spans as OpenTelemetry's protocol has them in JSON (OTLP 1.x): ids in hex, 64-bit numbers as texts. Written when a span ends: its text is all that is kept. */
import { unreachable, type SpanKind, type TraceParent } from "@concord/runtime";

export interface SpanRecord {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty: it has no parent. */
  readonly parentId: string;
  readonly name: string;
  readonly kind: SpanKind;
  /** Microseconds since the Unix epoch. */
  readonly startUs: number;
  readonly attributes: { readonly key: string; readonly value: string | number }[];
  readonly links: TraceParent[];
}

/** Names and codes of ours are shorter. */
const TEXT_MAX = 256;
const STATUS_ERROR = 2;

export function spanText(span: SpanRecord, endUs: number, code: string | undefined): string {
  const { traceId, spanId, parentId, name, kind, startUs, attributes, links } = span;
  const parent = parentId === "" ? "" : `,"parentSpanId":"${parentId}"`;
  const times = `"startTimeUnixNano":"${startUs}000","endTimeUnixNano":"${Math.max(startUs, endUs)}000"`;
  const more = `${attributes.length === 0 ? "" : attributesText(attributes)}${links.length === 0 ? "" : linksText(links)}`;
  const status = code === undefined ? "" : `,"status":{"code":${STATUS_ERROR},"message":${textOf(code)}}`;
  return `{"traceId":"${traceId}","spanId":"${spanId}"${parent},"flags":1,"name":${textOf(name)},"kind":${numberOf(kind)},${times}${more}${status}}`;
}

/** The body of an export: spans of one process. */
export function exportText(resource: Readonly<Record<string, string>>, spans: readonly string[]): string {
  const attributes = Object.entries(resource).map(([key, value]) => ({ key, value }));
  return `{"resourceSpans":[{"resource":{${attributesText(attributes).slice(1)}},"scopeSpans":[{"scope":{"name":"concord"},"spans":[${spans.join(",")}]}]}]}`;
}

function attributesText(attributes: SpanRecord["attributes"]): string {
  return `,"attributes":[${attributes.map(({ key, value }) => `{"key":${textOf(key)},"value":${valueText(value)}}`).join(",")}]`;
}

function valueText(value: string | number): string {
  if (typeof value === "string") return `{"stringValue":${textOf(value)}}`;
  return Number.isSafeInteger(value) ? `{"intValue":"${value}"}` : `{"doubleValue":${Number.isFinite(value) ? value : 0}}`;
}

function linksText(links: readonly TraceParent[]): string {
  return `,"links":[${links.map(({ traceId, spanId }) => `{"traceId":"${traceId}","spanId":"${spanId}"}`).join(",")}]`;
}

function textOf(text: string): string {
  return JSON.stringify(text.slice(0, TEXT_MAX));
}

function numberOf(kind: SpanKind): number {
  switch (kind) {
    case "internal":
      return 1;
    case "server":
      return 2;
    case "client":
      return 3;
    default:
      return unreachable(kind);
  }
}
