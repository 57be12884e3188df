// Digests of a body while its bytes pass: on the calling thread, or beside it.
import { createHash } from "node:crypto";
import { DIGEST_BUFFER_BYTES, type DigestName, type ThreadDigests } from "@concord/runtime";
import { checksumStream } from "./digests.ts";

export type DigestValues = ReadonlyMap<DigestName, Uint8Array>;

/** Of one body. */
export interface BodyDigests {
  /** The same bytes, not always in the same chunks; returns what its source does. A chunk is the reader's until it asks for the next one. */
  pass<End>(source: AsyncGenerator<Uint8Array, End, void>): AsyncGenerator<Uint8Array, End, void>;
  /** After the last chunk. */
  finish(): Promise<DigestValues>;
  /** However it ended. */
  close(): void;
}

export function ownDigests(names: readonly DigestName[]): BodyDigests {
  const streams = names.map((name) => ({ name, stream: name === "MD5" ? createHash("md5") : checksumStream(name) }));
  return {
    async *pass(source) {
      for (;;) {
        const next = await source.next();
        if (next.done === true) return next.value;
        for (const { stream } of streams) stream.update(next.value);
        yield next.value;
      }
    },
    finish: async () => new Map(streams.map(({ name, stream }) => [name, stream.digest()])),
    close: () => undefined,
  };
}

/** The bytes are copied once, into the memory of the thread, and read from there. */
export function threadDigests(digests: ThreadDigests): BodyDigests {
  return {
    async *pass(source) {
      let buffer = await digests.buffer();
      let filled = 0;
      for (;;) {
        const next = await source.next();
        const chunk = next.done === true ? NOTHING : next.value;
        for (let at = 0; at < chunk.length;) {
          const count = Math.min(chunk.length - at, DIGEST_BUFFER_BYTES - filled);
          buffer.set(chunk.subarray(at, at + count), filled);
          [at, filled] = [at + count, filled + count];
          if (filled < DIGEST_BUFFER_BYTES) continue;
          digests.add(filled);
          yield buffer;
          buffer = await digests.buffer();
          filled = 0;
        }
        if (next.done !== true) continue;
        digests.add(filled);
        if (filled > 0) yield buffer.subarray(0, filled);
        return next.value;
      }
    },
    finish: async () => await digests.finish(),
    close: () => digests.close(),
  };
}

const NOTHING = new Uint8Array();
