// Requests over real sockets: whole ones, and bytes as they are.
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import type { Signed } from "./signing.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Of an error document; "" when there is none. */
  readonly code: string;
}

const codeIn = (body: string): string => /<Code>([A-Za-z0-9]+)<\/Code>/.exec(body)?.[1] ?? "";

/** Sends as it was signed; the length is announced unless `headers` say otherwise. */
export function send(address: string, signed: Signed): Promise<Answer> {
  const [host, port] = address.split(":") as [string, string];
  return new Promise((resolve, reject) => {
    const { method, target: path } = signed;
    const announces = Object.keys(signed.headers).some((name) => /^(content-length|transfer-encoding)$/i.test(name));
    const hasBody = signed.body.length > 0 || method === "PUT" || method === "POST";
    const headers = announces || !hasBody ? signed.headers : { ...signed.headers, "content-length": String(signed.body.length) };
    const sent = httpRequest({ host, port, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        const received = Object.fromEntries(Object.entries(response.headers).map(([name, value]) => [name, String(value)]));
        resolve({ status: response.statusCode!, headers: received, body, code: codeIn(body) });
      });
    });
    sent.on("error", reject);
    sent.end(signed.body);
  });
}

/** Writes bytes and reads until the server closes or `quietMs` pass without a byte; status 0: closed without an answer. */
export function sendRaw(address: string, bytes: string | Uint8Array, quietMs = 1000): Promise<Answer> {
  const [host, port] = address.split(":") as [string, string];
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host, port: Number(port) }, () => socket.write(bytes));
    const done = (): void => {
      socket.destroy();
      const text = Buffer.concat(chunks).toString("latin1");
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
      const [head = "", ...rest] = text.split("\r\n\r\n");
      const headers = Object.fromEntries(
        head
          .split("\r\n")
          .slice(1)
          .map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
      );
      const body = rest.join("\r\n\r\n");
      resolve({ status, headers, body, code: codeIn(body) });
    };
    socket.setTimeout(quietMs, done);
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", done);
    socket.on("close", done);
  });
}

/** A request as text, with its body. */
export function rawOf({ method, target, headers, body }: Signed, extra: readonly string[] = []): Uint8Array {
  const lines = [`${method} ${target} HTTP/1.1`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), ...extra];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body]);
}
