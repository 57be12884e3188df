// A client with a token of its own whose requests inflate, are too large, or never end: the server holds its share of them, and others send large requests all the time.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import type { Attack, Target } from "./attack.ts";
import { framed, request, SESSION_MEMORY_MAX } from "./grpc-strangers.ts";

const WRITE = "/concord.storage.v1.RowsService/Write";
const MIB = 1024 * 1024;
const CONNECTIONS = 4;
/** Shares the others' address, but not their token. */
const SENDER = { name: "sender", role: "client", token: "token-of-the-client-that-sends-much" };
const INVALID_ARGUMENT = "3";
const OVERLOADED = "8";
const UNIMPLEMENTED = "12";
/** An honest request that counts among the bytes under way. */
const HONEST_BYTES = MIB;
const HONEST_MS = 30_000;
/** Time for the server's answers, much longer than it takes on a busy machine. */
const REFUSED_MS = 60_000;
const LOOK_MS = 50;

interface Requests {
  readonly what: string;
  /** A multiple of CONNECTIONS. */
  readonly count: number;
  readonly send: (stream: ClientHttp2Stream) => void;
  readonly headers?: object;
  /** Status of what the server refuses. */
  readonly refusal: string;
  /** How many it takes as far as they come, at most: the sender's share. A call that is not complete in time ends then. */
  readonly takenMax?: number;
}

/** Sends all of it, and judges the services meanwhile. */
async function attack(target: Target, kinds: readonly Requests[]): Promise<void> {
  const open = (): ClientHttp2Session =>
    connect(`http://${target.address}`, { maxSessionMemory: SESSION_MEMORY_MAX }).on("error", () => undefined);
  const sessions = Array.from({ length: CONNECTIONS }, open);
  const { coordinators, dedupWorkers } = target.constellation;
  const db = await target.client.connect({ coordinators, dedupWorker: dedupWorkers, token: target.clientToken, timeoutMs: HONEST_MS });
  try {
    const sent = kinds.map((kind) => ({ kind, ended: sendAll(sessions, kind) }));
    await target.serves("while that client sends");
    for (const { kind, ended } of sent) await judge(target, kind, ended);
    await db.messages.ingest([{ id: "large", value: new Uint8Array(HONEST_BYTES) }], { timeoutMs: HONEST_MS });
  } finally {
    db.close();
    for (const session of sessions) session.destroy();
  }
  await target.serves("after that client has gone");
}

/** Statuses of the calls that ended, by their number. */
function sendAll(sessions: readonly ClientHttp2Session[], { count, send, headers }: Requests): ReadonlyMap<string, number> {
  const ended = new Map<string, number>();
  const begin = (session: ClientHttp2Session): void => {
    const stream = request(session, WRITE, { authorization: `Bearer ${SENDER.token}`, ...headers });
    let status = "none";
    const onFields = (fields: { readonly "grpc-status"?: string }): void => void (status = fields["grpc-status"] ?? status);
    stream
      .on("response", onFields)
      .on("trailers", onFields)
      .on("close", () => ended.set(status, (ended.get(status) ?? 0) + 1));
    send(stream);
  };
  for (let begun = 0; begun < count; begun += sessions.length) sessions.forEach(begin);
  return ended;
}

async function judge(target: Target, kind: Requests, ended: ReadonlyMap<string, number>): Promise<void> {
  const { what, count, refusal, takenMax = 0 } = kind;
  const refused = (): number => ended.get(refusal) ?? 0;
  const untilMs = Date.now() + REFUSED_MS;
  while (refused() < count - takenMax && Date.now() < untilMs) await sleep(LOOK_MS);
  const texts = [...ended].map(([status, times]) => `${times} ended with status ${status}`);
  target.note(`${count} ${what}: ${texts.join(", ")}, the others wait`);
  if (refused() < count - takenMax) target.fail(`${what}: ${count - refused()} of ${count} were taken`);
  if (takenMax > 0 && refused() === count) target.fail(`${what}: not one was taken, although that client has a share`);
}

export const inflatedByToken: Attack = {
  name: "inflated-by-token",
  symptom: "200 calls of 16 KiB that inflate to 15.9 MiB each took 4 465 MiB of resident memory, for good; the same is tried with a token",
  isShort: true,
  config: { callers: [SENDER] },
  run(target) {
    const bytes = framed(gzipSync(Buffer.alloc(15.9 * MIB)), true);
    const send = (stream: ClientHttp2Stream): void => void stream.end(bytes);
    const kind = { count: 200, send, refusal: UNIMPLEMENTED };
    return attack(target, [
      { ...kind, what: "calls compressed by their headers", headers: { "grpc-encoding": "gzip" } },
      { ...kind, what: "calls with a compressed message" },
    ]);
  },
};

/** The sender's share, 124 MiB at most (`INPUT_BYTES_MAX`), the honest request, and caches. */
const GROWTH_MIB_MAX = 256;

export const unfinishedByToken: Attack = {
  name: "unfinished-by-token",
  symptom: "60 calls with all but the last byte of 15.9 MiB took 1 128 MiB of resident memory, for good; the same is tried with a token",
  isShort: true,
  config: { callers: [SENDER] },
  growthMiBMax: GROWTH_MIB_MAX,
  run(target) {
    const unfinished = (mebibytes: number): ((stream: ClientHttp2Stream) => void) => {
      const bytes = framed(Buffer.alloc(mebibytes * MIB)).subarray(0, -1);
      return (stream) => void stream.write(bytes);
    };
    return attack(target, [
      { what: "calls above the limit of a message, without their last byte", count: 60, send: unfinished(15.9), refusal: INVALID_ARGUMENT },
      { what: "calls of 3.9 MiB without their last byte", count: 200, send: unfinished(3.9), refusal: OVERLOADED, takenMax: 32 },
    ]);
  },
};
