import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface CollectedSpan {
  readonly service: string;
  readonly instance: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly attributes: Readonly<Record<string, string>>;
  readonly code: string | undefined;
}

export interface Collector extends AsyncDisposable {
  readonly endpoint: string;
  readonly spans: readonly CollectedSpan[];
  /** Every body as it came. */
  readonly bodies: readonly string[];
  readonly authorizations: ReadonlySet<string | undefined>;
}

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: string };
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly Sent[] }[];
  }[];
}

interface Sent {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly Attribute[];
  readonly status?: { readonly message: string };
}

/** Takes what OpenTelemetry's collectors take at this path, and keeps it. */
export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const bodies: string[] = [];
  const authorizations = new Set<string | undefined>();
  const server = createServer((request, response) => {
    void (async () => {
      let body = "";
      for await (const chunk of request) body += String(chunk);
      const isExport = request.method === "POST" && request.url === "/v1/traces" && request.headers["content-type"] === "application/json";
      if (isExport) spans.push(...spansOf(JSON.parse(body) as Export));
      bodies.push(body);
      authorizations.add(request.headers.authorization);
      response.writeHead(isExport ? 200 : 400, { "content-type": "application/json" }).end("{}");
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { endpoint: `http://127.0.0.1:${port}/v1/traces`, spans, bodies, authorizations, [Symbol.asyncDispose]: close };
}

function spansOf({ resourceSpans }: Export): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const process = textsOf(resource.attributes);
    return scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        service: process["service.name"]!,
        instance: process["service.instance.id"]!,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        name: span.name,
        kind: span.kind,
        startUs: Number(BigInt(span.startTimeUnixNano) / 1000n),
        endUs: Number(BigInt(span.endTimeUnixNano) / 1000n),
        attributes: textsOf(span.attributes ?? []),
        code: span.status?.message,
      })),
    );
  });
}

function textsOf(attributes: readonly Attribute[]): Record<string, string> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? ""]));
}
