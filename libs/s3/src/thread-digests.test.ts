// Long bodies whose digests a thread computes: the same bytes, checks and refusals, and nothing left behind however they end.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { crcStream } from "@concord/checksums";
import { ConcordError, DIGEST_BUFFER_BYTES, type DigestName, type DigestThread } from "@concord/runtime";
import { checkedBody, checksumStream, readBody, type Digests } from "./index.ts";
import { sha256Hex, signed, verify, type Header } from "./test/signer.ts";

/** THREAD_BODY_BYTES_MIN: written out, as what it promises. */
const LONG_BYTES = 4 * 1024 * 1024;
const SOCKET_BYTES = 100_000;

/** As a thread has it: two buffers in turn, of which the older one is written anew. */
class FakeThread implements DigestThread {
  readonly begun: (readonly DigestName[])[] = [];
  closed = 0;
  failsAt = Infinity;

  isAway = false;

  begin(names: readonly DigestName[]): ReturnType<DigestThread["begin"]> {
    this.begun.push(names);
    if (this.isAway) return undefined;
    const streams = names.map((name) => ({ name, stream: name === "MD5" ? createHash("md5") : checksumStream(name) }));
    const buffers = [new Uint8Array(DIGEST_BUFFER_BYTES), new Uint8Array(DIGEST_BUFFER_BYTES)] as const;
    let asked = 0;
    let isOpen = true;
    return {
      buffer: async () => {
        assert.ok(isOpen);
        asked += 1;
        if (asked > this.failsAt) throw new ConcordError("STORE_FAILED", "the thread ended", { applied: "no" });
        return buffers[asked % 2 === 0 ? 0 : 1].fill(0xee);
      },
      add: (length) => {
        for (const { stream } of streams) stream.update(buffers[asked % 2 === 0 ? 0 : 1].subarray(0, length));
      },
      finish: async () => new Map(streams.map(({ name, stream }) => [name, stream.digest()])),
      close: () => {
        isOpen = false;
        this.closed += 1;
      },
    };
  }
}

interface Sent {
  readonly thread: FakeThread;
  readonly body: Uint8Array;
  readonly payload?: string;
  readonly headers?: readonly Header[];
  readonly onClosed?: () => void;
}

function bodyOf({ thread, body, payload = "UNSIGNED-PAYLOAD", headers = [], onClosed }: Sent): ReturnType<typeof checkedBody> {
  async function* socket(): AsyncGenerator<Uint8Array> {
    try {
      for (let at = 0; at < body.length; at += SOCKET_BYTES) yield body.subarray(at, at + SOCKET_BYTES);
    } finally {
      onClosed?.();
    }
  }
  const plan = { method: "PUT", payload, headers: [["content-length", String(body.length)] as const, ...headers] };
  return checkedBody({ body: socket() }, verify(signed(plan)), { thread });
}

/** What the reader saw, copied while it was the reader's. */
async function received(sent: Sent): Promise<{ readonly content: Buffer; readonly digests: Digests }> {
  const body = bodyOf(sent);
  const parts: Buffer[] = [];
  for await (const chunk of body.chunks) parts.push(Buffer.from(chunk));
  return { content: Buffer.concat(parts), digests: body.finish() };
}

for (const length of [LONG_BYTES, LONG_BYTES + 1, LONG_BYTES + DIGEST_BUFFER_BYTES - 1]) {
  test(`checkedBody: ${length} bytes beside the calling thread: its bytes, its digests`, async () => {
    const thread = new FakeThread();
    const body = randomBytes(length);
    const crc = crcStream("CRC32C");
    crc.update(body);
    const value = Buffer.from(crc.digest()).toString("base64");
    const { content, digests } = await received({ thread, body, payload: sha256Hex(body), headers: [["x-amz-checksum-crc32c", value]] });
    assert.ok(content.equals(body));
    const md5Hex = createHash("md5").update(body).digest("hex");
    assert.deepEqual(digests, { md5Hex, checksum: { algorithm: "CRC32C", type: "FULL_OBJECT", value } });
    assert.deepEqual(thread.begun, [["MD5", "CRC32C", "SHA256"]]);
    assert.equal(thread.closed, 1);
  });
}

test("checkedBody: a shorter body, and one that is read as a whole, do not leave the calling thread", async () => {
  const thread = new FakeThread();
  await received({ thread, body: randomBytes(LONG_BYTES - 1) });
  const body = randomBytes(LONG_BYTES);
  async function* socket(): AsyncGenerator<Uint8Array> {
    yield body.subarray(0, 10);
    yield body.subarray(10);
  }
  const verified = verify(signed({ payload: "UNSIGNED-PAYLOAD", headers: [["content-length", String(body.length)]] }));
  assert.ok(Buffer.from(await readBody({ body: socket() }, verified, { maxBytes: body.length, thread })).equals(body));
  assert.deepEqual(thread.begun, []);
});

test("checkedBody: the thread takes no body now: the calling thread hashes", async () => {
  const thread = new FakeThread();
  thread.isAway = true;
  const body = randomBytes(LONG_BYTES);
  const { content, digests } = await received({ thread, body });
  assert.ok(content.equals(body));
  assert.equal(digests.md5Hex, createHash("md5").update(body).digest("hex"));
  assert.equal(thread.closed, 0);
});

test("checkedBody: beside the calling thread, other bytes than were signed or announced: refused", async () => {
  const thread = new FakeThread();
  const body = randomBytes(LONG_BYTES);
  await assert.rejects(received({ thread, body, payload: sha256Hex("other") }), { code: "XAmzContentSHA256Mismatch" });
  await assert.rejects(received({ thread, body, headers: [["content-md5", createHash("md5").digest("base64")]] }), { code: "BadDigest" });
  await assert.rejects(received({ thread, body, headers: [["x-amz-checksum-crc32", "AAAAAA=="]] }), { code: "BadDigest" });
  assert.equal(thread.closed, 3);
});

test("checkedBody: beside the calling thread, the reader gives up: source and digests are closed", async () => {
  const thread = new FakeThread();
  let closed = 0;
  const body = bodyOf({ thread, body: randomBytes(LONG_BYTES), onClosed: () => void (closed += 1) });
  for await (const _ of body.chunks) break;
  assert.deepEqual([closed, thread.closed], [1, 1]);
  assert.throws(() => body.finish(), /assertion/);
});

test("checkedBody: the thread fails in the middle: its error, source and digests are closed", async () => {
  const thread = new FakeThread();
  thread.failsAt = 2;
  let closed = 0;
  const sent = { thread, body: randomBytes(LONG_BYTES), onClosed: () => void (closed += 1) };
  await assert.rejects(received(sent), (thrown: unknown) => thrown instanceof ConcordError && thrown.code === "STORE_FAILED");
  assert.deepEqual([closed, thread.closed], [1, 1]);
});
