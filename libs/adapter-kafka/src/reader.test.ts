// Reads over a broker that answers as the test says: what is compared with what was read before.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { KafkaFailure, LOG_TRUNCATED, type Fetched, type FetchOptions, type KafkaWire } from "./kafka-wire.ts";
import { LeaderEpochs } from "./leader-epochs.ts";
import { EPOCHS_KEPT, FETCHES_KEPT } from "./limits.ts";
import { Reader } from "./reader.ts";
import { encodeBatch } from "./record-batch.ts";

const LIMITS = { messages: 100, bytes: 1 << 20 };

function batch(offset: bigint, count: number, epoch: number): Buffer {
  const messages = Array.from({ length: count }, () => ({ key: null, value: Buffer.from("m"), headers: [], timestampMs: 1 }));
  const bytes = encodeBatch(messages, undefined, 2);
  bytes.writeBigInt64BE(offset, 0);
  bytes.writeInt32BE(epoch, 12);
  return bytes;
}

interface Asked {
  readonly topic: string;
  readonly from: bigint;
  readonly lastEpoch: number | undefined;
}

function readerOf(answer: (asked: Asked) => Buffer): { reader: Reader; asked: Asked[] } {
  const asked: Asked[] = [];
  const fetch = async (topic: string, _partition: number, from: bigint, _bytes: number, options?: FetchOptions): Promise<Fetched> => {
    asked.push({ topic, from, lastEpoch: options?.lastEpoch });
    return { batches: answer(asked.at(-1)!), aborted: [], stableEnd: 100n };
  };
  return { reader: new Reader({ fetch } as KafkaWire, "in"), asked };
}

test("[DDD5] reader: where the input was read it goes on with the leader epoch of what it read; elsewhere and in other topics with none", async () => {
  const { reader, asked } = readerOf(({ from }) => (from < 4n ? batch(from, 2, 7) : Buffer.alloc(0)));
  await reader.read("in", 0, 0n, LIMITS);
  await reader.read("in", 0, 2n, LIMITS);
  await reader.read("in", 0, 4n, LIMITS);
  await reader.read("in", 0, 4n, LIMITS);
  await reader.read("in", 0, 3n, LIMITS);
  await reader.read("in", 1, 4n, LIMITS);
  await reader.read("out", 0, 0n, LIMITS);
  await reader.read("out", 0, 2n, LIMITS);
  const compared = asked.map(({ topic, from, lastEpoch }) => `${topic} ${from} ${lastEpoch}`);
  const input = ["in 0 undefined", "in 2 7", "in 4 7", "in 4 7", "in 3 7", "in 4 undefined"];
  assert.deepEqual(compared, [...input, "out 0 undefined", "out 2 undefined"]);
});

test("[DDD5] reader: a session opens while a fetch is kept for the next page: the epochs of that page are known all the same", async () => {
  const { reader } = readerOf(({ from }) => batch(from, 4, 7));
  await reader.read("in", 0, 0n, { messages: 2, bytes: 1 << 20 });
  for (const begun of [undefined, 6]) {
    reader.epochs.begin(0, 2n, begun);
    await reader.read("in", 0, 2n, LIMITS);
    assert.equal(reader.epochs.before(0, 4n), 7);
  }
});

test("leader epochs: before, at and behind an election; behind what was read; more elections than are kept", () => {
  const epochs = new LeaderEpochs();
  epochs.begin(0, 5n, 1);
  epochs.add(
    0,
    5n,
    [
      { offset: 5n, epoch: 1 },
      { offset: 8n, epoch: 3 },
    ],
    10n,
  );
  const before = [4n, 5n, 8n, 9n, 10n, 11n].map((offset) => epochs.before(0, offset));
  assert.deepEqual(before, [undefined, 1, 1, 3, 3, undefined]);
  const elections = Array.from({ length: EPOCHS_KEPT + 1 }, (_, at) => ({ offset: BigInt(at), epoch: at }));
  epochs.add(1, 0n, elections.slice(0, EPOCHS_KEPT), BigInt(EPOCHS_KEPT));
  assert.equal(epochs.before(1, 1n), 0);
  epochs.add(1, BigInt(EPOCHS_KEPT), elections.slice(EPOCHS_KEPT), BigInt(EPOCHS_KEPT + 1));
  assert.deepEqual([epochs.before(1, 1n), epochs.before(1, 2n)], [undefined, 1]);
  epochs.add(2, 0n, [{ offset: 0n, epoch: -1 }], 1n);
  assert.equal(epochs.before(2, 1n), undefined, "a batch of a format without epochs");
});

test("[DDD5] reader: a new leader lacks what was read from the input: stopped, with what producers are to do", async () => {
  const { reader } = readerOf(({ lastEpoch }) => {
    if (lastEpoch !== undefined) throw new KafkaFailure("what was read before offset 2 is not there from 1 on", LOG_TRUNCATED);
    return batch(0n, 2, 7);
  });
  await reader.read("in", 0, 0n, LIMITS);
  await assert.rejects(reader.read("in", 0, 2n, LIMITS), (error: unknown) => {
    assert.ok(error instanceof ConcordError && error.code === "PARTITION_STOPPED", String(error));
    assert.match(error.message, /^in\/0 lost messages that were read from it .*not there from 1 on.*send it again with the same ids/);
    return true;
  });
});

test("reader: partitions whose pages were left: their fetches are kept up to a limit of bytes, the newest stays", async () => {
  const megabytes = 32;
  const value = Buffer.alloc(1024 * 1024);
  const large = encodeBatch(
    Array.from({ length: megabytes }, () => ({ key: null, value, headers: [], timestampMs: 1 })),
    undefined,
    2,
  );
  const { reader, asked } = readerOf(() => large);
  const onePage = { messages: 1, bytes: 1 };
  const partitions = FETCHES_KEPT.bytesMax / (megabytes * 1024 * 1024);
  assert.ok(partitions < FETCHES_KEPT.entriesMax, "bytes are reached before entries");
  for (let partition = 0; partition < partitions; partition += 1) await reader.read("in", partition, 0n, onePage);
  await reader.read("in", partitions - 1, 1n, onePage);
  assert.equal(asked.length, partitions, "the newest is kept for its next page");
  await reader.read("in", 0, 1n, onePage);
  assert.equal(asked.length, partitions + 1, "the oldest is fetched again");
});
