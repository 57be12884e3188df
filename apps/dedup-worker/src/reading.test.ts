// The way out: pages, waiting pages, bounds, and streams under credits.
import assert from "node:assert/strict";
import { test } from "node:test";
import { partitionOfId } from "@concord/dedup";
import { OutputService, type ConsumeRequestInit, type ConsumeResponse, type LogMessage } from "@concord/protos-dedup";
import { bearer, openStream, type TypedStream } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { READ_ANSWER_BYTES_MAX, READ_MESSAGE_BYTES_MAX, READ_MESSAGES_DEFAULT } from "./limits.ts";
import { fails, settle, WorkerFixture, type Client } from "./test/worker-fixture.ts";

const CONSUME = OutputService.methods.Consume;
const MIB = 1024 * 1024;

async function withFixture(body: (fixture: WorkerFixture, client: Client) => Promise<void>): Promise<void> {
  const fixture = await new WorkerFixture().start();
  try {
    await body(fixture, fixture.connect());
  } finally {
    await fixture.service.stop();
  }
}

/** So many messages in partition 0. */
/** Each message is published alone, so a marker follows it. */
async function fill(fixture: WorkerFixture, client: Client, count: number, from = 0): Promise<void> {
  for (let at = from; at < from + count; at += 1) await client.ingest([{ id: fixture.idIn(0, `m${at}`), value: Buffer.from(String(at)) }]);
}

class Consumer {
  readonly stream: TypedStream<ConsumeRequestInit, ConsumeResponse>;
  readonly values: string[] = [];
  readonly messages: LogMessage[] = [];
  readonly nexts: bigint[] = [];
  readonly ended: Promise<ConcordError | undefined>;

  constructor(client: Client, token?: string) {
    this.stream = openStream(client.channel, CONSUME, { metadata: bearer(token) });
    this.stream.onMessage((page) => {
      this.messages.push(...page.messages);
      this.values.push(...page.messages.map(({ value }) => Buffer.from(value).toString()));
      this.nexts.push(page.nextOffset);
    });
    this.stream.onDrain(() => undefined);
    this.ended = new Promise((resolve) => this.stream.onEnd((error) => resolve(error as ConcordError | undefined)));
  }
}

test("nulls: keys, values and headers that are null or empty: Read and Consume give them as Ingest took them", () =>
  withFixture(async (fixture, client) => {
    const none = new Uint8Array(0);
    const headers = [
      { name: "null", value: none, nullValue: true },
      { name: "empty", value: none, nullValue: false },
    ];
    const forms = [
      { key: none, emptyKey: false, value: none, nullValue: true },
      { key: none, emptyKey: true, value: none, nullValue: false },
      { key: Uint8Array.of(1), emptyKey: false, value: none, nullValue: true },
    ].map((form, at) => ({ ...form, headers, id: fixture.idIn(0, `m${at}`) }));
    for (const form of forms) await client.ingest([form]);
    const { messages } = await client.read(0, 0n);
    const consumer = new Consumer(client);
    consumer.stream.send({ event: "start", start: { topic: "TOPIC_OUTPUT", partition: 0, fromOffset: 0n, credits: 10 } });
    await settle();
    const contents = (came: readonly Pick<LogMessage, "id" | "key" | "emptyKey" | "value" | "nullValue" | "headers">[]) =>
      came.map(({ id, key, emptyKey, value, nullValue, headers: all }) => {
        const own = all.filter(({ name }) => !name.startsWith("concord-"));
        return [id, [...key], emptyKey, [...value], nullValue, own.map((header) => [header.name, [...header.value], header.nullValue])];
      });
    for (const came of [messages, consumer.messages]) assert.deepEqual(contents(came), contents(forms));
  }));

test("read: any offset, as often as wanted: the messages from there on and where to read on", () =>
  withFixture(async (fixture, client) => {
    await fill(fixture, client, 5);
    const page = await client.read(0, 2n, { maxMessages: 2 });
    assert.deepEqual(
      page.messages.map(({ offset }) => offset),
      [2n, 4n],
    );
    assert.equal(page.nextOffset, 5n);
    assert.equal((await client.read(0, page.nextOffset)).messages.length, 2);
    assert.deepEqual(await client.read(0, 9n), { messages: [], nextOffset: 10n });
    assert.deepEqual(await client.read(0, 10n), { messages: [], nextOffset: 10n });
    assert.deepEqual(await client.read(0, 2n, { maxMessages: 2 }), page);
  }));

test("read: messages too large for one answer: a page ends before it is too large, none is left out", () =>
  withFixture(async (fixture, client) => {
    const size = 1.2 * MIB;
    for (let at = 0; at < 5; at += 1) await client.ingest([{ id: fixture.idIn(0, `big${at}`), value: Buffer.alloc(size, at) }]);
    await client.ingest([{ id: fixture.idIn(0, "largest"), value: Buffer.alloc(3 * MIB - 300) }]);
    const seen: bigint[] = [];
    for (let next = 0n; next < 12n;) {
      const page = await client.read(0, next);
      assert.ok(page.messages.reduce((sum, { value }) => sum + value.length, 0) <= READ_ANSWER_BYTES_MAX);
      seen.push(...page.messages.map(({ offset }) => offset));
      next = page.nextOffset;
    }
    assert.deepEqual(seen, [0n, 2n, 4n, 6n, 8n, 10n]);
  }));

test("read: a message that fits into no answer: LIMIT_EXCEEDED with its offset, those before and behind it are read", () =>
  withFixture(async ({ folder }, client) => {
    const session = await folder.log.open(0, "test");
    const output = [1, READ_MESSAGE_BYTES_MAX, 1].map((size) => ({ key: null, value: Buffer.alloc(size), headers: [], timestampMs: 1 }));
    await session.publish({ output, deadLetters: [], rerouted: [], acknowledgedInput: session.acknowledgedInput });
    const page = await client.read(0, 0n);
    assert.deepEqual([page.messages.length, page.nextOffset], [1, 1n]);
    const error = await fails("LIMIT_EXCEEDED", client.read(0, 1n));
    assert.deepEqual(error.metadata["offset"], "1");
    assert.equal((await client.read(0, 2n)).messages.length, 1);
  }));

test("read: many small messages with long ids: no answer is too large to be sent", () =>
  withFixture(async (_, client) => {
    const ids = Array.from({ length: 12_000 }, (_, at) => `${"x".repeat(240)}${at}`);
    for (let at = 0; at < ids.length; at += 1_000) await client.ingest(ids.slice(at, at + 1_000).map((id) => ({ id })));
    let count = 0;
    for (const partition of [0, 1]) {
      for (let next = 0n; ;) {
        const page = await client.read(partition, next, { maxMessages: 10_000 });
        if (page.messages.length === 0) break;
        count += page.messages.length;
        next = page.nextOffset;
      }
    }
    assert.equal(count, ids.length);
    assert.ok((await client.read(0, 0n)).messages.length <= READ_MESSAGES_DEFAULT);
  }));

test("read: a page of small messages with long ids and then the largest: two answers, both can be sent (I5)", () =>
  withFixture(async (fixture, client) => {
    const ids: string[] = [];
    for (let at = 0; ids.length < 3_000; at += 1) {
      const id = `${"x".repeat(240)}${at}`;
      if (partitionOfId(Buffer.from(id), 2) === 0) ids.push(id);
    }
    for (let at = 0; at < ids.length; at += 1_000) await client.ingest(ids.slice(at, at + 1_000).map((id) => ({ id })));
    await client.ingest([{ id: fixture.idIn(0, "largest"), value: Buffer.alloc(3 * MIB - 300) }]);
    const first = await client.read(0, 0n, { maxMessages: 10_000 });
    assert.equal(first.messages.length, 3_000);
    assert.equal((await client.read(0, first.nextOffset)).messages[0]!.value.length, 3 * MIB - 300);
  }));

test("read: nothing there yet and waiting: answers with the first message that comes", () =>
  withFixture(async (fixture, client) => {
    const waiting = client.read(0, 0n, { waitMs: 5_000 });
    await settle();
    await fill(fixture, client, 1);
    assert.equal((await waiting).messages.length, 1);
  }));

test("read: nothing comes: an empty page after the wait, or before the caller's deadline", () =>
  withFixture(async (fixture, client) => {
    for (const [waitMs, timeoutMs] of [
      [1_000, 10_000],
      [60_000, 2_000],
    ] as const) {
      const waiting = client.call("unary", "Read", { partition: 0, waitMs }, timeoutMs);
      await fixture.clock.advance(2_000);
      assert.deepEqual({ ...(await waiting) }, { messages: [], nextOffset: 0n });
    }
  }));

test("read: 4 000 reads of one client wait: the rest is refused, and its own calls that do not wait are answered", () =>
  withFixture(async (fixture, client) => {
    const waiting = Array.from({ length: 4_000 }, () =>
      client.call("unary", "Read", { partition: 0, waitMs: 50_000 }, 60_000).then(
        () => "answered",
        (error: unknown) => (error as ConcordError).code,
      ),
    );
    await settle();
    const own = await client.read(0, 0n).then(
      ({ messages }) => messages.length,
      (error: unknown) => (error as ConcordError).code,
    );
    await fill(fixture, client, 1);
    const ends = await Promise.all(waiting);
    assert.equal(own, 0);
    const answered = ends.filter((end) => end === "answered").length;
    assert.ok(answered > 1_000, `${answered} waited`);
    assert.equal(ends.filter((end) => end === "OVERLOADED").length, 4_000 - answered);
  }));

test("bounds: output and dead letters: beginnings, ends and the number of partitions", () =>
  withFixture(async (fixture, client) => {
    await fill(fixture, client, 3);
    fixture.folder.log.trim("output", 0, 2n);
    assert.deepEqual(
      { ...(await client.call("session", "GetBounds", { partition: 0 })) },
      { startOffset: 2n, endOffset: 6n, partitions: 2 },
    );
    const dead = await client.call("unary", "GetBounds", { topic: "TOPIC_DEAD_LETTERS", partition: 1 });
    assert.deepEqual({ ...dead }, { startOffset: 0n, endOffset: 0n, partitions: 2 });
  }));

test("[DDD5] read: below what is kept and above the end: OFFSET_OUT_OF_RANGE, never a jump", () =>
  withFixture(async (fixture, client) => {
    await fill(fixture, client, 3);
    fixture.folder.log.trim("output", 0, 2n);
    for (const offset of [-1n, 0n, 1n, 7n]) {
      await fails("OFFSET_OUT_OF_RANGE", client.read(0, offset));
      const consumer = new Consumer(client);
      consumer.stream.send({ event: "start", start: { partition: 0, fromOffset: offset, credits: 1 } });
      assert.equal((await consumer.ended)?.code, "OFFSET_OUT_OF_RANGE");
    }
  }));

test("consume: credits: never more messages than granted, in order, as they come", () =>
  withFixture(async (fixture, client) => {
    await fill(fixture, client, 4);
    const consumer = new Consumer(client);
    consumer.stream.send({ event: "start", start: { partition: 0, fromOffset: 2n, credits: 2 } });
    await settle();
    assert.deepEqual(consumer.values, ["1", "2"]);
    consumer.stream.send({ event: "credits", credits: 5 });
    await settle();
    assert.deepEqual(consumer.values, ["1", "2", "3"]);
    await fill(fixture, client, 3, 4);
    await settle();
    assert.deepEqual(consumer.values, ["1", "2", "3", "4", "5", "6"]);
    await fill(fixture, client, 3, 7);
    await settle();
    assert.deepEqual(consumer.values.length, 7, "all credits are used up");
    assert.equal(consumer.nexts.at(-1), 16n);
    consumer.stream.end();
    assert.equal(await consumer.ended, undefined);
  }));

test("consume: broken and begun again at the last next offset: no message twice, none left out", () =>
  withFixture(async (fixture, client) => {
    await fill(fixture, client, 6);
    const first = new Consumer(client);
    first.stream.send({ event: "start", start: { partition: 0, fromOffset: 0n, credits: 3 } });
    await settle();
    first.stream.end(new ConcordError("CANCELLED", "broken"));
    const second = new Consumer(client);
    second.stream.send({ event: "start", start: { partition: 0, fromOffset: first.nexts.at(-1)!, credits: 10 } });
    await settle();
    assert.deepEqual([...first.values, ...second.values], ["0", "1", "2", "3", "4", "5"]);
  }));

test("consume: the server drains: the consumer hears DRAINING and what it got is whole", async () => {
  const fixture = await new WorkerFixture().start();
  const client = fixture.connect();
  await fill(fixture, client, 2);
  const consumer = new Consumer(client);
  consumer.stream.send({ event: "start", start: { partition: 0, credits: 10 } });
  await settle();
  const stopping = fixture.service.stop();
  await fixture.clock.advance(1_000);
  await stopping;
  assert.equal((await consumer.ended)?.code, "DRAINING");
  assert.deepEqual(consumer.values, ["0", "1"]);
});
