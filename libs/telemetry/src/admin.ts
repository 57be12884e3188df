import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Log, WRITES_TAKEN, type Writes } from "@concord/runtime";
import type { MetricsRegistry } from "./metrics.ts";

export const ADMIN_CONNECTIONS_MAX = 64;
export const ADMIN_REQUEST_TIMEOUT_MS = 5_000;

export interface AdminOptions {
  /** "127.0.0.1:0" binds a free port. Loopback or a private network: callers are not authenticated. */
  readonly address: string;
  readonly metrics: MetricsRegistry;
  /** Whether the program wants traffic now. */
  readonly ready: () => boolean;
  /** What the start waits for; /readyz names it. */
  readonly waitsFor?: () => readonly string[];
  /** Why the program does not want traffic, a line each, for /readyz. */
  readonly problems?: () => readonly string[];
  /** Taken when not given; /readyz says why they are not. */
  readonly writes?: () => Writes;
  /** Lines of /readyz that need an operator although the program works. */
  readonly warnings?: () => readonly string[];
  readonly log: Log;
  /** Connections at the same time; more are dropped. `ADMIN_CONNECTIONS_MAX` when not given. */
  readonly connectionsMax?: number;
  /** Further pages by path, as JSON. */
  readonly pages?: Readonly<Record<string, () => Promise<object>>>;
}

export interface Admin {
  /** The bound address. */
  readonly address: string;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const text = (status: number, body: string): Answer => ({ status, type: "text/plain; charset=utf-8", body: `${body}\n` });

/**
 * /metrics for Prometheus; further pages as the program names them; /healthz is 200 whenever the event loop turns and depends on nothing else; /readyz is 200 or 503.
 */
export async function startAdmin(options: AdminOptions): Promise<Admin> {
  const server = createServer((request, response) => {
    answer(request, options).then(
      (result) => send(request, response, result),
      (thrown: unknown) => {
        options.log.error("admin request failed", { path: request.url, reason: String(thrown) });
        send(request, response, text(500, "internal error"));
      },
    );
  });
  server.maxConnections = options.connectionsMax ?? ADMIN_CONNECTIONS_MAX;
  server.requestTimeout = ADMIN_REQUEST_TIMEOUT_MS;
  server.headersTimeout = ADMIN_REQUEST_TIMEOUT_MS;
  const address = await listen(server, options.address);
  return { address, close: () => close(server) };
}

async function answer(request: IncomingMessage, options: AdminOptions): Promise<Answer> {
  if (request.method !== "GET" && request.method !== "HEAD") return text(405, "only GET and HEAD");
  const path = request.url!.split("?")[0]!;
  switch (path) {
    case "/metrics":
      return { status: 200, type: options.metrics.contentType, body: await options.metrics.text() };
    case "/healthz":
      return text(200, "ok");
    case "/readyz":
      return options.ready() ? text(200, readyText(options.writes?.(), options.warnings?.())) : text(503, notReadyText(options));
    default:
      return otherPage(path, options);
  }
}

function readyText(writes = WRITES_TAKEN, warnings: readonly string[] = []): string {
  const ready = writes.kind === "taken" ? "ready" : `ready, reads only: ${writes.reason}`;
  return [ready, ...warnings.map((warning) => `warning: ${warning}`)].join("\n");
}

function notReadyText({ waitsFor, problems }: AdminOptions): string {
  const waits = waitsFor?.() ?? [];
  const first = waits.length === 0 ? "not ready" : `not ready: the start waits for ${waits.join("; ")}`;
  return [first, ...(problems?.() ?? [])].join("\n");
}

async function otherPage(path: string, { pages = {} }: AdminOptions): Promise<Answer> {
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (page === undefined) return text(404, `try ${["/metrics", "/healthz", "/readyz", ...Object.keys(pages)].join(", ")}`);
  return { status: 200, type: "application/json", body: `${JSON.stringify(await page(), undefined, 2)}\n` };
}

function send(request: IncomingMessage, response: ServerResponse, result: Answer): void {
  response.writeHead(result.status, { "content-type": result.type, "content-length": Buffer.byteLength(result.body) });
  response.end(request.method === "HEAD" ? undefined : result.body);
}

function listen(server: Server, address: string): Promise<string> {
  const at = address.lastIndexOf(":");
  const host = address.slice(0, at).replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(Number(address.slice(at + 1)), host, () => {
      server.off("error", reject);
      resolve(`${address.slice(0, at)}:${(server.address() as AddressInfo).port}`);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
