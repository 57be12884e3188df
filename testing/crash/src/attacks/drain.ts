// SIGTERM on a machine whose processors are taken by others, while connections and streams are in use and objects are half sent.
import { type ChildProcess, spawn } from "node:child_process";
import { connect, type ClientHttp2Session } from "node:http2";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Readable } from "node:stream";
import { GetObjectCommand, PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { s3Client } from "@concord/constellation";
import type { Attack, Target } from "./attack.ts";
import { BUCKET } from "./bystanders.ts";
import { framed, request } from "./grpc-strangers.ts";

const S3_CONNECTIONS = 16;
const STREAMS = 180;
const STREAMS_OF_A_CONNECTION = 9;
const HOGS_OF_A_PROCESSOR = 4;
const KEEP_ALIVE_PROGRAM = join(import.meta.dirname, "keep-alive-program.ts");
/** Work before the signal, and the limit on what ends after it. */
const WORK_MS = 2_000;
const END_MS = 60_000;
const UNAVAILABLE = "14";
/** First request of a stream; the client ends its side only where that is all that it may send. */
const STREAM_KINDS = {
  "Watch of health": { path: "/grpc.health.v1.Health/Watch", first: Buffer.alloc(0), isLast: true },
  /** `ConsumeRequest {start: {topic: TOPIC_OUTPUT, credits: 100000}}`: others put messages there all the time. */
  Consume: {
    path: "/concord.dedup.v1.OutputService/Consume",
    first: Buffer.from([0x0a, 0x06, 0x08, 0x01, 0x20, 0xa0, 0x8d, 0x06]),
    isLast: false,
  },
  WatchTopology: { path: "/concord.txn.v1.TopologyService/WatchTopology", first: Buffer.alloc(0), isLast: false },
} as const;
type StreamKind = keyof typeof STREAM_KINDS;
/** Half of each object is sent before the signal, the rest when no connection is open but those of the objects: small ones, and those that are files of their own. */
const OBJECT_BYTES = [64 * 1024, 2 * 1024 * 1024];
const OBJECTS = 16;
const EXPECTED: Readonly<Record<string, { readonly times: number; readonly end: string }>> = {
  "S3 connections": { times: S3_CONNECTIONS, end: "ECONNREFUSED" },
  "Watch of health": { times: STREAMS / 3, end: UNAVAILABLE },
  Consume: { times: STREAMS / 3, end: UNAVAILABLE },
  WatchTopology: { times: STREAMS / 3, end: UNAVAILABLE },
  "half-sent objects": { times: OBJECTS, end: "stored" },
};

/** How many ended how. */
type Ends = Map<string, number>;

function count(ends: Map<string, Ends>, what: string, end: string): void {
  const found = ends.get(what) ?? new Map<string, number>();
  ends.set(what, found.set(end, (found.get(end) ?? 0) + 1));
}

/** Takes processors until it is closed. */
function hogs(): { close(): void } {
  const processes = Array.from({ length: HOGS_OF_A_PROCESSOR * availableParallelism() }, () =>
    spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }),
  );
  return { close: () => processes.forEach((hog) => hog.kill("SIGKILL")) };
}

/** A process with requests on kept connections. */
class KeepAliveClient {
  readonly #child: ChildProcess;
  #count: (end: string) => void = () => undefined;
  /** Each connection has had an answer. */
  readonly begun: Promise<void>;
  /** All connections have ended, or the process has. */
  readonly ended: Promise<void>;

  constructor(address: string, onEnd: (end: string) => void) {
    const child = spawn(process.execPath, [KEEP_ALIVE_PROGRAM, address, String(S3_CONNECTIONS)], { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface(child.stdout);
    let begun = 0;
    this.begun = new Promise((resolve) => {
      this.#count = (line) => {
        if (line !== "begun") onEnd(line);
        else if ((begun += 1) === S3_CONNECTIONS) resolve();
      };
    });
    this.ended = new Promise((resolve) => void lines.on("line", (line) => this.#count(line)).on("close", resolve));
    this.#child = child;
  }

  close(): void {
    this.#child.kill("SIGKILL");
  }
}

/** A stream that stays open until the server ends it. Returns its status, or the code with which HTTP/2 ended it without one. */
function streamed(session: ClientHttp2Session, kind: StreamKind, token: string): Promise<string> {
  const { path, first, isLast } = STREAM_KINDS[kind];
  const stream = request(session, path, { authorization: `Bearer ${token}` });
  return new Promise((resolve) => {
    let status: string | undefined;
    const read = (fields: Readonly<Record<string, unknown>>): void => {
      const { "grpc-status": found } = fields;
      if (typeof found === "string") status ??= found;
    };
    stream
      .on("response", read)
      .on("trailers", read)
      .on("close", () => resolve(status === undefined ? `no status, HTTP/2 code ${stream.rstCode}` : status));
    if (isLast) stream.end(framed(first));
    else stream.write(framed(first));
  });
}

/** An object whose second half is sent once \`rest\` resolves. */
class HalfSentObject {
  readonly key: string;
  readonly bytes: Buffer;
  /** "stored", or the error. */
  readonly ended: Promise<string>;
  #begun: () => void = () => undefined;
  /** The first half was taken by the connection. */
  readonly halfSent = new Promise<void>((resolve) => (this.#begun = resolve));

  constructor(s3: S3Client, number: number, rest: Promise<void>) {
    this.key = `half-sent-${number}`;
    this.bytes = Buffer.alloc(OBJECT_BYTES[number % OBJECT_BYTES.length] ?? 0, number + 1);
    const command = { Bucket: BUCKET, Key: this.key, ContentLength: this.bytes.length, Body: Readable.from(this.#halves(rest)) };
    this.ended = s3.send(new PutObjectCommand(command)).then(
      () => "stored",
      (error: Error) => `${error.name}: ${error.message}`,
    );
  }

  async *#halves(rest: Promise<void>): AsyncGenerator<Buffer> {
    yield this.bytes.subarray(0, this.bytes.length / 2);
    this.#begun();
    await rest;
    yield this.bytes.subarray(this.bytes.length / 2);
  }
}

/** Each has the bytes that were acknowledged. */
async function judgeObjects(target: Target, s3: S3Client, objects: readonly HalfSentObject[]): Promise<void> {
  for (const { key, bytes } of objects) {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
    const found = Buffer.from((await Body?.transformToByteArray()) ?? []);
    if (!found.equals(bytes)) target.fail(`${key} has other bytes after the restart`);
  }
}

async function attack(target: Target): Promise<void> {
  const ends = new Map<string, Ends>();
  const counted = async (what: string, end: Promise<string>): Promise<void> => count(ends, what, await end);
  const sessions = Array.from({ length: STREAMS / STREAMS_OF_A_CONNECTION }, () => connect(`http://${target.address}`));
  const kinds = Object.keys(STREAM_KINDS) as StreamKind[];
  const [accessKey] = target.constellation.tokens.accessKeys;
  if (accessKey === undefined) throw new Error("there is no tenant");
  const s3 = s3Client(`http://${target.httpAddress}`, accessKey);
  const { promise: rest, resolve: sendRest } = Promise.withResolvers<void>();
  const keepAlive = new KeepAliveClient(target.httpAddress, (end) => count(ends, "S3 connections", end));
  const taken = hogs();
  let objects: readonly HalfSentObject[] = [];
  try {
    const streams = sessions.flatMap((session) => {
      session.on("error", () => undefined);
      return Array.from({ length: STREAMS_OF_A_CONNECTION }, (_, at) => {
        const kind = kinds[at % kinds.length] ?? "Consume";
        return counted(kind, streamed(session, kind, target.clientToken));
      });
    });
    await keepAlive.begun;
    await sleep(WORK_MS);
    objects = Array.from({ length: OBJECTS }, (_, number) => new HalfSentObject(s3, number, rest));
    const stored = objects.map(({ ended }) => counted("half-sent objects", ended));
    await Promise.all(objects.map(({ halfSent }) => halfSent));
    const stopped = target.stop();
    const limit = setTimeout(() => keepAlive.close(), END_MS);
    await keepAlive.ended;
    sendRest();
    await stopped;
    for (const session of sessions) session.close();
    await Promise.all([...streams, ...stored]);
    clearTimeout(limit);
  } finally {
    taken.close();
    keepAlive.close();
    sendRest();
    for (const session of sessions) session.destroy();
  }
  for (const [what, expected] of Object.entries(EXPECTED)) {
    const found = [...(ends.get(what) ?? [])];
    const text = found.map(([end, times]) => `${times} ${end}`).join(", ");
    target.note(`${what} ended: ${text}`);
    const [first] = found;
    if (first?.[0] !== expected.end || first[1] !== expected.times) target.fail(`${what} were cut: ${text}`);
  }
  await target.start();
  await target.serves("after the restart");
  await judgeObjects(target, s3, objects);
  s3.destroy();
}

export const busyDrain: Attack = {
  name: "busy-drain",
  symptom: "SIGTERM on a busy machine reset 16 of 16 S3 connections, and 50 of 200 streams had no status (INTERNAL)",
  isShort: true,
  run: attack,
};
