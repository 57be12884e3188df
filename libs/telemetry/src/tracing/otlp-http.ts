import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Clock } from "@concord/runtime";
import type { ExportOutcome } from "./exporter.ts";
import { EXPORT_ANSWER_BYTES_MAX, EXPORT_TIMEOUT_MS } from "./limits.ts";

export interface OtlpHttpOptions {
  /** "http://collector:4318/v1/traces" */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Pick<Clock, "setTimer">;
  readonly timeoutMs?: number;
}

/** As the protocol's specification says: these may be sent again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const RETRY_AFTER_MS_MAX = 60_000;

/** Sends exports to a collector by OTLP over HTTP, JSON; one connection that is kept. */
export function otlpHttp({ endpoint, headers, clock, timeoutMs = EXPORT_TIMEOUT_MS }: OtlpHttpOptions): {
  readonly send: (body: string, signal: AbortSignal) => Promise<ExportOutcome>;
  readonly close: () => void;
} {
  const url = new URL(endpoint);
  const isTls = url.protocol === "https:";
  const agent = new (isTls ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 });
  const begin = isTls ? httpsRequest : httpRequest;
  const send = (body: string, signal: AbortSignal): Promise<ExportOutcome> =>
    new Promise((resolve) => {
      const away = (error: Error): void => resolve({ kind: "retry", reason: error.message, afterMs: 0 });
      const bytes = Buffer.from(body);
      const length = { "content-type": "application/json", "content-length": bytes.length };
      const request = begin(url, { method: "POST", agent, signal, headers: { ...headers, ...length } }, (response) => {
        answerOf(response).then((text) => resolve(outcomeOf(response, text)), away);
      });
      // Of the whole exchange: a collector that takes the body and says nothing is away too.
      const deadline = clock.setTimer(timeoutMs, () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)));
      request.once("close", () => deadline.cancel());
      request.once("error", away);
      request.end(bytes);
    });
  return { send, close: () => agent.destroy() };
}

async function answerOf(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response) {
    text += String(chunk);
    if (text.length > EXPORT_ANSWER_BYTES_MAX) break;
  }
  return text;
}

function outcomeOf(response: IncomingMessage, text: string): ExportOutcome {
  const status = response.statusCode ?? 0;
  if (status >= 200 && status < 300) return { kind: "taken", rejected: rejectedIn(text) };
  const reason = `the collector answered ${status}`;
  if (!RETRYABLE.has(status)) return { kind: "refused", reason };
  const seconds = Number(response.headers["retry-after"] ?? 0);
  return { kind: "retry", reason, afterMs: seconds > 0 ? Math.min(seconds * 1000, RETRY_AFTER_MS_MAX) : 0 };
}

/** A collector may take a part and say how many spans it did not. */
function rejectedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { readonly partialSuccess?: { readonly rejectedSpans?: string | number } };
    const rejected = Number(partialSuccess?.rejectedSpans ?? 0);
    return rejected > 0 ? rejected : 0;
  } catch {
    return 0;
  }
}
