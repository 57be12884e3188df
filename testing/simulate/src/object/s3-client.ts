// A small S3 client for simulated gateways: signs its requests itself, tells what it was answered and nothing more.
import { createHash, createHmac } from "node:crypto";
import type { Environment } from "@concord/runtime";
import { simulatedHttpClient, type SimulatedHttpClient, type SimulatedResponse } from "@concord/simulation";

export const ACCESS_KEY = { accessKeyId: "SIMULATED", secretAccessKey: "a-simulated-secret", tenant: "simulated" };
const REGION = "us-east-1";
const CHUNK_BYTES = 8_192;

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();
const timestampOf = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d{3}/g, "");

export interface S3Request {
  readonly method: "GET" | "PUT" | "POST" | "DELETE" | "HEAD";
  readonly bucket: string;
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The client breaks off in the middle of the body. */
  readonly breaks?: boolean;
  /** The client is slow: so long before each chunk of the body. */
  readonly pauseMs?: number;
}

/** `code` is that of an error document; "" when it is none. */
export interface S3Answer extends SimulatedResponse {
  readonly code: string;
}

export class S3Client {
  readonly #env: Environment;
  readonly #address: string;
  readonly #timeoutMs: number;
  readonly #http: SimulatedHttpClient;
  /** The key of a day's signatures. */
  #signing: { readonly date: string; readonly key: Uint8Array } | undefined;

  constructor(env: Environment, address: string, timeoutMs: number) {
    this.#env = env;
    this.#address = address;
    this.#timeoutMs = timeoutMs;
    this.#http = simulatedHttpClient(env, address);
  }

  /** Rejects when no whole answer came. */
  async send(request: S3Request): Promise<S3Answer> {
    const { method, body = new Uint8Array(), pauseMs = 0 } = request;
    const { target, headers } = this.#signed(request, body);
    const chunks = chunksOf(body);
    const breakAt = request.breaks === true ? Math.floor(chunks.length / 2) : undefined;
    const plan = { method, target, headers, body: chunks, timeoutMs: this.#timeoutMs, pauseMs };
    const response = await this.#http.send(breakAt === undefined ? plan : { ...plan, breakAt });
    const code = response.status < 400 ? "" : (/<Code>(\w+)<\/Code>/.exec(Buffer.from(response.body).toString())?.[1] ?? "");
    return { ...response, code };
  }

  #signed(
    { method, bucket, key, query = {}, headers: more = {} }: S3Request,
    body: Uint8Array,
  ): { target: string; headers: [string, string][] } {
    const timestamp = timestampOf(this.#env.clock.nowMs());
    const payload = sha256(body);
    const path = `/${bucket}${key === undefined ? "" : `/${key.split("/").map(encode).join("/")}`}`;
    const queryText = Object.keys(query)
      .sort()
      .map((name) => `${encode(name)}=${encode(query[name]!)}`)
      .join("&");
    const headers: Record<string, string> = {
      host: this.#address,
      "x-amz-content-sha256": payload,
      "x-amz-date": timestamp,
      ...more,
    };
    const names = Object.keys(headers).sort();
    const lines = [method, path, queryText, ...names.map((name) => `${name}:${headers[name]!}`), "", names.join(";"), payload];
    const scope = `${timestamp.slice(0, 8)}/${REGION}/s3/aws4_request`;
    const text = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${sha256(lines.join("\n"))}`;
    const signature = hmac(this.#signingKey(timestamp.slice(0, 8)), text).toString("hex");
    const credential = `${ACCESS_KEY.accessKeyId}/${scope}`;
    const authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
    return {
      target: queryText === "" ? path : `${path}?${queryText}`,
      headers: [...Object.entries(headers), ["authorization", authorization], ["content-length", String(body.length)]],
    };
  }

  #signingKey(date: string): Uint8Array {
    if (this.#signing?.date !== date) {
      const key = [date, REGION, "s3", "aws4_request"].reduce<Uint8Array | string>(hmac, `AWS4${ACCESS_KEY.secretAccessKey}`) as Uint8Array;
      this.#signing = { date, key };
    }
    return this.#signing.key;
  }
}

function chunksOf(body: Uint8Array): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < body.length; at += CHUNK_BYTES) chunks.push(body.subarray(at, at + CHUNK_BYTES));
  return chunks;
}

/** Texts between a tag's ends, in order. */
export function tagged(xml: Uint8Array, tag: string): string[] {
  return [
    ...Buffer.from(xml)
      .toString()
      .matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, "g")),
  ].map((match) => unescape(match[1]!));
}

const unescape = (text: string): string => text.replaceAll("&quot;", '"').replaceAll("&#34;", '"').replaceAll("&amp;", "&");
