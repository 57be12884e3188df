// Digests beside the calling thread: the values, memory that is used again, bodies that are given up, a thread that fails.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { crcStream } from "@concord/checksums";
import { ConcordError, DIGEST_BUFFER_BYTES, type Clock, type DigestName, type Log, type ThreadDigests } from "@concord/runtime";
import { nodeClock, nodeDigestThread } from "./index.ts";

const NAMES: readonly DigestName[] = ["MD5", "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"];
const said: string[] = [];
const log: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: (text) => void said.push(text) };

async function hash(digests: ThreadDigests, body: Uint8Array): Promise<ReadonlyMap<DigestName, Uint8Array>> {
  for (let at = 0; at < body.length; at += DIGEST_BUFFER_BYTES) {
    const part = body.subarray(at, at + DIGEST_BUFFER_BYTES);
    (await digests.buffer()).set(part);
    digests.add(part.length);
  }
  return await digests.finish();
}

function digestOf(name: DigestName, bytes: Uint8Array): string {
  const digest = name === "CRC32" || name === "CRC32C" || name === "CRC64NVME" ? crcStream(name) : createHash(name);
  digest.update(bytes);
  return Buffer.from(digest.digest()).toString("hex");
}

test("digest thread: bodies of any length, many at once: the digests of their bytes", async () => {
  const thread = nodeDigestThread({ clock: nodeClock, log });
  const lengths = [0, 1, DIGEST_BUFFER_BYTES - 1, DIGEST_BUFFER_BYTES, DIGEST_BUFFER_BYTES + 1, 5 * DIGEST_BUFFER_BYTES + 17];
  await Promise.all(
    [...lengths, ...lengths].map(async (length) => {
      const body = randomBytes(length);
      const digests = thread.begin(NAMES)!;
      const values = await hash(digests, body);
      digests.close();
      for (const name of NAMES) assert.equal(Buffer.from(values.get(name)!).toString("hex"), digestOf(name, body), `${name} of ${length}`);
    }),
  );
});

test("digest thread: a body has two buffers; what one holds stays until the next but one is asked for", async () => {
  const digests = nodeDigestThread({ clock: nodeClock, log }).begin(["MD5"])!;
  const first = await digests.buffer();
  first.fill(1);
  digests.add(first.length);
  const second = await digests.buffer();
  second.fill(2);
  assert.equal(first[0], 1);
  digests.add(second.length);
  const third = await digests.buffer();
  assert.equal(third.buffer, first.buffer);
  third.fill(3);
  assert.equal(second[0], 2);
  digests.add(10);
  const whole = Buffer.concat([Buffer.alloc(first.length, 1), Buffer.alloc(first.length, 2), Buffer.alloc(10, 3)]);
  assert.equal(Buffer.from((await digests.finish()).get("MD5")!).toString("hex"), digestOf("MD5", whole));
  digests.close();
});

test("digest thread: memory of ended bodies is used again, that of a body given up is not: its reader may still read it", async () => {
  const thread = nodeDigestThread({ clock: nodeClock, log });
  const ended = thread.begin(["MD5"])!;
  const memory = (await ended.buffer()).buffer;
  ended.add(1);
  await ended.finish();
  ended.close();
  const givenUp = thread.begin(["MD5"])!;
  assert.equal((await givenUp.buffer()).buffer, memory);
  givenUp.close();
  givenUp.close();
  const next = thread.begin(["MD5"])!;
  const fresh = (await next.buffer()).buffer;
  next.close();
  assert.notEqual(fresh, memory);
});

test("digest thread: it fails: bodies that wait for it fail, saying that nothing was applied; none takes bodies for a minute, then another one does", async () => {
  const url = new URL(`data:text/javascript,${encodeURIComponent(FAILING)}`);
  let nowMs = 0;
  const clock: Clock = { ...nodeClock, monotonicMs: () => nowMs };
  const thread = nodeDigestThread({ clock, log, start: () => new Worker(url) });
  const waiting = thread.begin(["MD5"])!;
  const filled = await waiting.buffer();
  waiting.add(filled.length);
  const failed = (thrown: unknown): boolean =>
    thrown instanceof ConcordError && thrown.code === "STORE_FAILED" && thrown.applied === "no" && /hashes bodies/.test(thrown.message);
  await assert.rejects(waiting.finish(), failed);
  await assert.rejects(waiting.finish(), failed);
  waiting.close();
  assert.match(said.at(-1)!, /thread that hashes bodies ended/);
  nowMs = 59_999;
  assert.equal(thread.begin(["MD5"]), undefined);
  nowMs = 60_000;
  const next = thread.begin(["SHA1"])!;
  const values = await next.finish();
  assert.equal(values.size, 0);
  next.close();
});

/** Answers an end with no digests, and dies of added bytes. */
const FAILING = `
import { parentPort } from "node:worker_threads";
parentPort.on("message", ({ kind, body }) => {
  if (kind === "add") throw new Error("no memory");
  if (kind === "finish") parentPort.postMessage({ kind: "digests", body, digests: new Map() });
});`;
