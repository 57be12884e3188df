// From node's request to ours: raw target, raw headers, a body that is read only on demand.
import type { IncomingMessage, ServerResponse } from "node:http";
import { assert, ConcordError, type HttpRequest } from "@concord/runtime";
import { inputOf, type Input } from "./input.ts";
import type { Pace } from "./pace.ts";

export interface IncomingOptions {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly signal: AbortSignal;
  readonly pace: Pace;
  /** The client waits for 100 Continue before it sends its body. */
  readonly expectsContinue: boolean;
}

export interface Incoming {
  readonly request: HttpRequest;
  /** True once the handler asked for the body. */
  isTaken(): boolean;
}

export function toHttpRequest(options: IncomingOptions): Incoming {
  const { incoming, outgoing, signal, pace, expectsContinue } = options;
  const { remoteAddress = "unknown", remotePort = 0 } = incoming.socket;
  let isTaken = false;
  const body: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]() {
      assert(!isTaken, "a request's body is read at most once");
      isTaken = true;
      return blobs(incoming, pace, () => {
        if (expectsContinue && !outgoing.headersSent && !outgoing.destroyed) outgoing.writeContinue();
      });
    },
  };
  const request: HttpRequest = {
    method: incoming.method ?? "",
    target: incoming.url ?? "",
    headers: headerPairs(incoming.rawHeaders),
    body,
    peer: `${remoteAddress}:${remotePort}`,
    signal,
  };
  return { request, isTaken: () => isTaken };
}

function headerPairs(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) pairs.push([raw[i]!.toLowerCase(), raw[i + 1]!]);
  return pairs;
}

/** The status for headers that we do not have although node's parser lets them through; undefined: fine. */
export function refusedHeaders(raw: readonly string[], headersMax: number): 400 | 431 | 501 | undefined {
  if (raw.length / 2 > headersMax) return 431;
  let [hosts, lengths, codings] = [0, 0, 0];
  let coding = "";
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (name === "host") hosts += 1;
    else if (name === "content-length") lengths += 1;
    else if (name === "transfer-encoding") {
      codings += 1;
      coding = raw[i + 1]!;
    }
  }
  if (hosts > 1 || lengths > 1 || codings > 1) return 400;
  if (codings === 0) return undefined;
  if (lengths > 0) return 400;
  return coding.toLowerCase() === "chunked" ? undefined : 501;
}

async function* blobs(incoming: IncomingMessage, pace: Pace, start: () => void): AsyncGenerator<Uint8Array, void, void> {
  start();
  const input: Input = inputOf(incoming);
  try {
    for (;;) {
      const blob = input.take();
      if (blob === "end") return;
      if (blob === "broken") throw brokenOff(incoming.errored);
      if (blob === "empty") await pace.wait(input.changed());
      else {
        pace.moved(blob.length);
        yield blob;
      }
    }
  } finally {
    input.release();
  }
}

function brokenOff(cause: Error | null): ConcordError {
  return new ConcordError("CANCELLED", "the client broke off while it was sending", cause === null ? {} : { cause });
}
