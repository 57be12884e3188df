// From our response to node's: backpressure, and never a clean end of wrong bytes.
import type { ServerResponse } from "node:http";
import type { HttpResponse } from "@concord/runtime";
import type { Pace } from "./pace.ts";

export interface OutgoingOptions {
  readonly outgoing: ServerResponse;
  readonly pace: Pace;
  /** After the whole answer is written and before it is ended: what is left of the request is read here. */
  readonly beforeEnd: (() => Promise<void>) | undefined;
}

/** Throws what the answer's stream throws; the connection is the caller's to break off then. */
export async function sendResponse(response: HttpResponse, { outgoing, pace, beforeEnd }: OutgoingOptions): Promise<void> {
  const { body } = response;
  const isStream = body !== undefined && !(body instanceof Uint8Array);
  const hasBody = outgoing.req.method !== "HEAD" && response.status !== 204 && response.status !== 304;
  outgoing.strictContentLength = hasBody;
  outgoing.writeHead(response.status, flatHeaders(response, hasBody));
  if (hasBody && isStream) await writeStream(body, outgoing, pace);
  else await release(response);
  const whole = hasBody && body instanceof Uint8Array && body.length > 0 ? body : undefined;
  if (beforeEnd === undefined) {
    outgoing.end(whole);
  } else {
    if (whole === undefined) outgoing.flushHeaders();
    else outgoing.write(whole);
    await beforeEnd();
    outgoing.end();
  }
  await finished(outgoing, pace);
}

/** Cancels a stream that will not be read. */
export async function release({ body }: HttpResponse): Promise<void> {
  if (body !== undefined && !(body instanceof Uint8Array)) await body[Symbol.asyncIterator]().return?.();
}

/**
 * node writes header values as latin1, but for a content-disposition behind a content-length, whose bytes it takes for UTF-8: lengths come last. A
 * body in one blob says its length.
 */
function flatHeaders({ headers, body }: HttpResponse, hasBody: boolean): string[] {
  const flat: string[] = [];
  const lengths: string[] = [];
  for (const [name, value] of headers) (isContentLength(name) ? lengths : flat).push(name, value);
  flat.push(...lengths);
  const saysLength = headers.some(([name]) => /^(content-length|transfer-encoding)$/i.test(name));
  if (hasBody && !saysLength && (body === undefined || body instanceof Uint8Array)) flat.push("content-length", String(body?.length ?? 0));
  return flat;
}

const isContentLength = (name: string): boolean => name.length === 14 && name.toLowerCase() === "content-length";

/** The system has a chunk before the next one is asked for: its memory may be used again then. */
async function writeStream(body: AsyncIterable<Uint8Array>, outgoing: ServerResponse, pace: Pace): Promise<void> {
  for await (const chunk of body) {
    if (outgoing.destroyed) return;
    pace.moved(chunk.length);
    if ((await pace.wait(written(outgoing, chunk))) === "gone") return;
  }
}

/** "gone": the connection is. It says so to a write before its answer is closed. */
function written(outgoing: ServerResponse, chunk: Uint8Array): Promise<"written" | "gone"> {
  return new Promise((resolve) => {
    const closed = (): void => resolve("gone");
    outgoing.once("close", closed);
    outgoing.write(chunk, (error) => {
      outgoing.off("close", closed);
      resolve(error === null || error === undefined ? "written" : "gone");
    });
  });
}

/** The answer has left for the network, or the connection is gone. */
function finished(outgoing: ServerResponse, pace: Pace): Promise<void> {
  if (outgoing.writableFinished || outgoing.destroyed) return Promise.resolve();
  return pace.wait(
    new Promise((resolve) => {
      outgoing.once("finish", resolve);
      outgoing.once("close", resolve);
    }),
  );
}
