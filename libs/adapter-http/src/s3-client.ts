import { ConcordError, type Clock } from "@concord/runtime";
import { percentEncode, signRequest, type SigningKey } from "@concord/s3";

export interface S3ClientOptions extends SigningKey {
  /** http://HOST:PORT or https://HOST:PORT */
  readonly endpoint: string;
  readonly bucket: string;
  readonly clock: Clock;
}

export interface S3Answer {
  readonly status: number;
  readonly body: Uint8Array;
}

interface Request {
  readonly method: "GET" | "PUT" | "DELETE";
  /** Undefined: the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
  /** Of the answer. */
  readonly bytesMax: number;
}

const EMPTY = new Uint8Array();

/** One request, one answer, whatever its status. UNAVAILABLE-like failures and answers above `bytesMax` reject. */
export async function send(options: S3ClientOptions, request: Request, signal: AbortSignal): Promise<S3Answer> {
  const { method, key, query = {}, body = EMPTY, bytesMax } = request;
  const url = new URL(options.endpoint);
  const path = `/${options.bucket}${key === undefined ? "" : `/${percentEncode(key, "kept")}`}`;
  const parameters = Object.entries(query).map(([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`);
  const target = parameters.length === 0 ? path : `${path}?${parameters.join("&")}`;
  const headers = signRequest({ method, target, host: url.host, body }, options, options.clock.nowMs());
  const response = await fetch(new URL(target, url), { method, headers, signal, redirect: "error", ...(method === "PUT" ? { body } : {}) });
  return { status: response.status, body: await readBody(response, bytesMax) };
}

export function refused(what: string, { status, body }: S3Answer): ConcordError {
  const code = /<Code>(\w+)<\/Code>/.exec(new TextDecoder().decode(body))?.[1] ?? "no error document";
  return new ConcordError("STORE_FAILED", `${what}: the S3 endpoint answered ${status} (${code})`);
}

async function readBody(response: Response, bytesMax: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > bytesMax) throw new ConcordError("LIMIT_EXCEEDED", `the S3 endpoint answered with more than ${bytesMax} bytes`);
    parts.push(part);
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}
