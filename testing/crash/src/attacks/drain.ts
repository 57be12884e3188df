// SIGTERM on a machine whose processors are taken by others, while connections and streams are in use.
import { spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { connect, type ClientHttp2Session } from "node:http2";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack } from "./attack.ts";

const S3_CONNECTIONS = 16;
const STREAMS = 200;
const STREAMS_OF_A_CONNECTION = 10;
const HOGS_OF_A_PROCESSOR = 4;
const PAUSE_MS = 10;
/** Work before the signal, and the limit on what ends after it. */
const WORK_MS = 2_000;
const END_MS = 60_000;
const UNAVAILABLE = "14";
const HEALTH_WATCH = "/grpc.health.v1.Health/Watch";
/** An empty message. */
const EMPTY = Buffer.alloc(5);

type Ends = Map<string, number>;

function count(ends: Ends, end: string): void {
  ends.set(end, (ends.get(end) ?? 0) + 1);
}

/** Takes processors until it is closed. */
function hogs(): { close(): void } {
  const processes = Array.from({ length: HOGS_OF_A_PROCESSOR * availableParallelism() }, () =>
    spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }),
  );
  return { close: () => processes.forEach((hog) => hog.kill("SIGKILL")) };
}

/** Requests on one connection, and on another one when that was ended, until the server takes no more. Returns how that ended. */
async function requests(address: string, signal: AbortSignal): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const once = (): Promise<void> =>
    new Promise((resolve, reject) => {
      request(`http://${address}/no-bucket/key`, { agent, signal }, (answer) => answer.on("end", resolve).on("error", reject).resume())
        .on("error", reject)
        .end();
    });
  try {
    for (;;) {
      await once();
      await sleep(PAUSE_MS);
    }
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  } finally {
    agent.destroy();
  }
}

/** A stream that stays open until the server ends it. Returns its status, or the code with which HTTP/2 ended it without one. */
function watched(session: ClientHttp2Session): Promise<string> {
  const headers = { ":method": "POST", ":path": HEALTH_WATCH, "content-type": "application/grpc", te: "trailers" };
  const stream = session.request(headers);
  return new Promise((resolve) => {
    let status: string | undefined;
    const read = (fields: Readonly<Record<string, unknown>>): void => {
      const { "grpc-status": found } = fields;
      if (typeof found === "string") status ??= found;
    };
    stream
      .on("response", read)
      .on("trailers", read)
      .on("error", () => undefined)
      .on("close", () => resolve(status === undefined ? `no status, HTTP/2 code ${stream.rstCode}` : status))
      .resume()
      .end(EMPTY);
  });
}

export const busyDrain: Attack = {
  name: "busy-drain",
  symptom: "SIGTERM on a busy machine reset 16 of 16 S3 connections, and 50 of 200 streams had no status (INTERNAL)",
  isShort: true,
  async run(target) {
    const ends: Record<"S3 connections" | "streams", Ends> = { "S3 connections": new Map(), streams: new Map() };
    const abort = new AbortController();
    const sessions = Array.from({ length: STREAMS / STREAMS_OF_A_CONNECTION }, () => connect(`http://${target.address}`));
    const taken = hogs();
    try {
      for (const session of sessions) session.on("error", () => undefined);
      const ended = [
        ...Array.from({ length: S3_CONNECTIONS }, async () =>
          count(ends["S3 connections"], await requests(target.httpAddress, abort.signal)),
        ),
        ...Array.from({ length: STREAMS }, async (_, at) => count(ends.streams, await watched(sessions[at % sessions.length]!))),
      ];
      await sleep(WORK_MS);
      await target.stop();
      const limit = setTimeout(() => abort.abort(), END_MS);
      for (const session of sessions) session.close();
      await Promise.all(ended);
      clearTimeout(limit);
    } finally {
      taken.close();
      abort.abort();
      for (const session of sessions) session.destroy();
    }
    const expected = { "S3 connections": "ECONNREFUSED", streams: UNAVAILABLE };
    for (const [what, found] of Object.entries(ends)) {
      const text = [...found].map(([end, times]) => `${times} ${end}`).join(", ");
      target.note(`${what} ended: ${text}`);
      if ([...found.keys()].some((end) => end !== expected[what as keyof typeof expected])) target.fail(`${what} were cut: ${text}`);
    }
    await target.start();
    await target.serves("after the restart");
  },
};
