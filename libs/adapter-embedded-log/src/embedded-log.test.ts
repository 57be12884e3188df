// What the port's contract does not say: layout, retention, limits, grouping, bytes on disk.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk } from "@concord/port-contracts";
import type { LogSession, MessageLog, NewMessage } from "@concord/ports";
import { decodeMessages, decodePublication, encodeMessages, encodePublication } from "./format.ts";
import { EMBEDDED_LOG_LIMITS, RETENTION } from "./index.ts";
import { message, openOn, publication, settle, TestClock, valuesOf } from "./test/memory-log.ts";

const SMALL = { segmentBytes: 1_000, inputBytes: 10_000 };
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const sizeOf = (disk: MemoryDisk, part: string): number =>
  [...disk.files.contents()].filter(([path]) => path.includes(part)).reduce((sum, [, bytes]) => sum + bytes.length, 0);

test("[OPS22] layout: another number of partitions: refused, nothing changed", async () => {
  const disk = new MemoryDisk();
  await (await openOn(disk, { partitions: 3 })).close();
  for (const partitions of [2, 4]) await assert.rejects(openOn(disk, { partitions }), { code: "MALFORMED_REQUEST" });
  assert.equal((await openOn(disk, { partitions: 3 })).partitions, 3);
  for (const partitions of [0, 1.5, 1025]) await assert.rejects(openOn(new MemoryDisk(), { partitions }), { code: "INTERNAL" });
});

test("append: many callers at once: few syncs", async () => {
  const disk = new MemoryDisk();
  let groups = 0;
  const log = await openOn(disk, { failpoint: (name) => (groups += name === "journal:group-writing" ? 1 : 0) });
  const before = groups;
  await Promise.all(Array.from({ length: 500 }, (_, n) => log.append(0, [message(`m${n}`)])));
  assert.ok(groups - before <= 2, `${groups - before} groups`);
  assert.equal((await valuesOf(log, "input")).length, 500);
});

test("[DD14] append: a call with many messages: one offset each, read again one by one after a power cut", async () => {
  const disk = new MemoryDisk();
  const { from } = await (await openOn(disk)).append(0, ["a", "b", "c"].map(message));
  disk.crash();
  const log = await openOn(disk);
  for (const [at, name] of ["a", "b", "c"].entries()) {
    const { messages } = await log.read("input", 0, from + BigInt(at), { messages: 1, bytes: 1 });
    assert.deepEqual(messages, [{ ...message(name), offset: from + BigInt(at) }]);
  }
});

test("append: none: the end, nothing is written", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  const size = disk.files.usedBytes;
  assert.deepEqual(await log.append(0, []), { from: 0n });
  assert.equal(disk.files.usedBytes, size);
});

test("append: limits: too long is refused for good, too much at once for now", async () => {
  const limits = { appendBytes: 200, waitingBytes: 410 };
  const log = await openOn(new MemoryDisk(), { limits });
  await assert.rejects(log.append(0, [message("x".repeat(200))]), { code: "LIMIT_EXCEEDED", applied: "no" });
  const waiting = [1, 2, 3].map(() => log.append(0, [message("x".repeat(120))]));
  await assert.rejects(log.append(0, [message("x".repeat(120))]), { code: "OVERLOADED", applied: "no" });
  await Promise.all(waiting);
  await log.append(0, [message("x".repeat(120))]);
});

test("publish: over the limit: LIMIT_EXCEEDED, the session goes on", async () => {
  const log = await openOn(new MemoryDisk(), { limits: { publicationBytes: 300 } });
  const session = await log.open(0, "owner");
  await assert.rejects(session.publish(publication({ output: [message("x".repeat(300))] })), { code: "LIMIT_EXCEEDED", applied: "no" });
  assert.equal((await session.publish(publication({ output: [message("x".repeat(200))] }))).kind, "published");
});

test("publish: nothing new and nothing acknowledged: nothing is written; only acknowledged: a record", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  await log.append(0, [message("a"), message("b")]);
  const session = await log.open(0, "owner");
  await session.publish(publication({ output: [message("o")], acknowledgedInput: 1n }));
  const size = sizeOf(disk, "/output/");
  for (let n = 0; n < 3; n += 1) await session.publish(publication({ acknowledgedInput: 1n }));
  assert.equal(sizeOf(disk, "/output/"), size);
  await session.publish(publication({ acknowledgedInput: 2n }));
  assert.ok(sizeOf(disk, "/output/") > size);
  disk.crash();
  const again = await (await openOn(disk)).open(0, "owner");
  assert.deepEqual([again.acknowledgedInput, again.output], [2n, { start: 0n, end: 1n }]);
});

test("publish: acknowledged goes back or beyond the input: failed assertion, nothing written", async () => {
  const log = await openOn(new MemoryDisk());
  await log.append(0, [message("a")]);
  const session = await log.open(0, "owner");
  await assert.rejects(session.publish(publication({ output: [message("o")], acknowledgedInput: 2n })), { code: "INTERNAL" });
  await session.publish(publication({ acknowledgedInput: 1n }));
  await assert.rejects(session.publish(publication({ output: [message("o")], acknowledgedInput: 0n })), { code: "INTERNAL" });
  assert.deepEqual(await valuesOf(log, "output"), []);
});

test("session: closed: further publishes are fenced", async () => {
  const log = await openOn(new MemoryDisk());
  const session = await log.open(0, "owner");
  await session.close();
  assert.equal((await session.publish(publication({ output: [message("o")] }))).kind, "fenced");
});

test("read: pages inside of one large record: each message once, whatever the page", async () => {
  const log = await openOn(new MemoryDisk());
  const session = await log.open(0, "owner");
  const names = Array.from({ length: 1_000 }, (_, n) => `m${n}`);
  await session.publish(publication({ output: names.map(message) }));
  await session.publish(publication({ output: [message("last")] }));
  for (const messages of [1, 7, 1_000, 1_001, 5_000]) {
    const found: string[] = [];
    for (let next = 0n; ;) {
      const page = await log.read("output", 0, next, { messages, bytes: 1_000_000 });
      if (page.messages.length === 0) break;
      found.push(...page.messages.map(({ value }) => new TextDecoder().decode(value)));
      next = page.next;
      if (messages === 1 && next > 50n) break;
    }
    assert.deepEqual(found, [...names, "last"].slice(0, found.length));
    assert.ok(found.length === 1_001 || messages === 1);
  }
  for (const limits of [
    { messages: 0, bytes: 1 },
    { messages: 1, bytes: 0 },
  ]) {
    await assert.rejects(log.read("output", 0, 0n, limits), { code: "MALFORMED_REQUEST" });
  }
});

/** Publishes until the output has this many bytes. */
async function fill(log: MessageLog, times: number, needed = 1): Promise<LogSession> {
  const session = await log.open(0, "owner");
  for (let n = 0; n < times; n += 1) {
    const { from } = await log.append(0, [message("i".repeat(100))]);
    await session.publish(
      publication({ output: [message("o".repeat(100))], deadLetters: [message("d".repeat(100))], acknowledgedInput: from + 1n }),
    );
    // A window of the newest `needed` messages.
    const oldest = from + 1n - BigInt(needed);
    session.keepOutputFrom!(oldest < 0n ? 0n : oldest);
    await settle();
  }
  return session;
}

test("[DDD10] retention: the window needs more than outputBytes, and older than outputMs: none of it goes; what it needs no more goes without a publication", async () => {
  const disk = new MemoryDisk();
  const clock = new TestClock();
  const retention = { inputBytes: 1_000, outputBytes: 3_000, outputMs: 1 };
  const log = await openOn(disk, { limits: SMALL, retention, clock });
  const session = await fill(log, 60, 50);
  clock.ms += 1_000_000;
  await session.publish(publication({ output: [message("o")], acknowledgedInput: 60n }));
  await settle();
  const { start } = await log.bounds("output", 0);
  assert.ok(start > 0n && start <= 10n, `from ${start} on, the window from 10 on`);
  const full = log.outputUse!(0)!;
  assert.equal(full.bytesMax, 3_000);
  assert.ok(full.neededBytes > 3_000 && full.neededBytes <= full.bytes, JSON.stringify(full));
  session.keepOutputFrom!(55n);
  const eased = log.outputUse!(0)!;
  assert.ok(eased.neededBytes < 3_000, JSON.stringify(eased));
  await settle();
  assert.ok((await log.bounds("output", 0)).start > 10n, "it went at once");
  assert.ok((await log.bounds("output", 0)).start <= 55n);
  assert.equal(log.outputUse!(1)?.neededBytes, log.outputUse!(1)?.bytes, "of a partition without an owner all is kept");
});

test("[DDD10] retention: a new owner, and one of before: all is kept until the new one says what it needs", async () => {
  const retention = { inputBytes: 1_000, outputBytes: 3_000 };
  const log = await openOn(new MemoryDisk(), { limits: SMALL, retention });
  const before = await fill(log, 60, 60);
  const session = await log.open(0, "another");
  before.keepOutputFrom!(60n);
  await session.publish(publication({ output: [message("o")], acknowledgedInput: 60n }));
  await settle();
  assert.deepEqual(await log.bounds("output", 0), { start: 0n, end: 61n });
  session.keepOutputFrom!(61n);
  await settle();
  assert.ok((await log.bounds("output", 0)).start > 0n);
});

test("retention: by size: acknowledged input, output and dead letters go by whole segments, what is acknowledged is never forgotten", async () => {
  const disk = new MemoryDisk();
  const retention = { inputBytes: 2_000, outputBytes: 3_000, deadLetterBytes: 2_500 };
  const log = await openOn(disk, { limits: SMALL, retention });
  await fill(log, 60);
  for (const [topic, bytes] of [
    ["input", 2_000],
    ["output", 3_000],
    ["dead-letters", 2_500],
  ] as const) {
    const { start, end } = await log.bounds(topic, 0);
    assert.ok(start > 0n && end === 60n, `${topic} ${start} to ${end}`);
    assert.ok(sizeOf(disk, `partition-0000/${topic}/`) <= bytes + 1_200, topic);
    assert.equal((await valuesOf(log, topic)).length, Number(end - start));
    await assert.rejects(log.read(topic, 0, start - 1n, { messages: 1, bytes: 1 }), { code: "OFFSET_OUT_OF_RANGE" });
  }
  disk.crash();
  assert.equal((await (await openOn(disk, { limits: SMALL, retention })).open(0, "owner")).acknowledgedInput, 60n);
});

test("retention: input that is not acknowledged: kept, then refused with OVERLOADED; acknowledged: taken again", async () => {
  const log = await openOn(new MemoryDisk(), { limits: SMALL, retention: { inputBytes: 1_000 } });
  const session = await log.open(0, "owner");
  let count = 0;
  await assert.rejects(
    async () => {
      for (; count < 1_000; count += 1) await log.append(0, [message("i".repeat(100))]);
    },
    { code: "OVERLOADED", applied: "no" },
  );
  assert.equal((await valuesOf(log, "input")).length, count);
  await session.publish(publication({ acknowledgedInput: BigInt(count) }));
  await settle();
  await log.append(0, [message("again")]).catch(() => settle());
  await log.append(0, [message("again")]);
});

test("retention: the newest segment holds nothing, since the disk was full: what is acknowledged stays (I6)", async () => {
  const disk = new MemoryDisk();
  const retention = { inputBytes: 1_000, outputBytes: 1, deadLetterBytes: 1 };
  const log = await openOn(disk, { limits: SMALL, retention });
  const session = await log.open(0, "owner");
  const { from } = await log.append(0, [message("i")]);
  const first = publication({ output: [message("o")], deadLetters: [message("d")], acknowledgedInput: from + 1n });
  assert.equal((await session.publish(first)).kind, "published");
  session.keepOutputFrom!(1n);
  // A segment of its own is made for it, and then there is no room for the record.
  disk.files.capacityBytes = disk.files.usedBytes + 200;
  const second = publication({ output: [message("o".repeat(950))], acknowledgedInput: from + 1n });
  assert.equal((await session.publish(second)).kind, "unknown");
  disk.files.clearFaults();
  // Input at its limit makes retention look at everything.
  await assert.rejects(
    async () => {
      for (;;) await log.append(0, [message("i".repeat(500))]);
    },
    { code: "OVERLOADED" },
  );
  await settle();
  disk.crash();
  const again = await openOn(disk, { limits: SMALL, retention });
  assert.equal((await again.open(0, "owner")).acknowledgedInput, from + 1n);
  assert.deepEqual(await valuesOf(again, "output"), ["o"]);
});

test("retention: by time: output that was written too long ago goes, by whole segments", async () => {
  const clock = new TestClock();
  const log = await openOn(new MemoryDisk(), { limits: SMALL, retention: { inputBytes: 1_000, outputMs: 3_600_000 }, clock });
  await fill(log, 20);
  assert.equal((await log.bounds("output", 0)).start, 0n);
  clock.ms += 3_000_000;
  await fill(log, 20);
  assert.equal((await log.bounds("output", 0)).start, 0n);
  clock.ms += 1_000_000;
  await fill(log, 1);
  const { start, end } = await log.bounds("output", 0);
  assert.ok(start > 10n && start <= 20n && end === 41n, `${start} to ${end}`);
});

test("limits: defaults leave room for input beside what retention keeps; other ones that do not are a failed assertion", async () => {
  assert.ok(RETENTION.inputBytes < EMBEDDED_LOG_LIMITS.inputBytes);
  await assert.rejects(openOn(new MemoryDisk(), { limits: SMALL, retention: { inputBytes: 9_000 } }), { code: "INTERNAL" });
});

const GOLDEN_MESSAGE: NewMessage = {
  key: Uint8Array.of(1, 2),
  value: Uint8Array.of(3),
  headers: [{ name: "id", value: Uint8Array.of(4, 5) }],
  timestampMs: 1_700_000_000_123,
};
const MESSAGE_HEX = "0201020103010269640204054278bcfe5687b000";

/** Flips a bit of the last byte of a topic's newest segment. */
async function rotTail(disk: MemoryDisk, topic: string): Promise<void> {
  const path = [...disk.files.contents().keys()].filter((name) => name.includes(`partition-0000/${topic}/`)).at(-1)!;
  const file = (await disk.open(path))!;
  await file.write(file.size - 1, [Uint8Array.of((await file.read(file.size - 1, 1))[0]! ^ 1)]);
  await file.sync();
}

test("open: the newest input rots after it was processed: passed over each time, and new input goes behind what is processed", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  for (const value of ["x", "y"]) await log.append(0, [message(value)]);
  await (await log.open(0, "owner")).publish(publication({ acknowledgedInput: 2n }));
  await log.close();
  await rotTail(disk, "input");
  for (const _ of [1, 2]) assert.deepEqual((await (await openOn(disk)).bounds("input", 0)).end, 2n);
  const again = await openOn(disk);
  assert.equal((await again.open(0, "owner")).acknowledgedInput, 2n);
  assert.deepEqual(await again.append(0, [message("z")]), { from: 2n });
  const { messages } = await again.read("input", 0, 2n, { messages: 3, bytes: 1_000 });
  assert.deepEqual(messages, [{ ...message("z"), offset: 2n }]);
});

test("open: the output is gone and what it acknowledges was trimmed from the input: its partition is refused", async () => {
  const disk = new MemoryDisk();
  const retention = { inputBytes: 2_000, outputBytes: 3_000, deadLetterBytes: 2_500 };
  const log = await openOn(disk, { limits: SMALL, retention });
  await fill(log, 60);
  await log.close();
  for (const path of disk.files.contents().keys()) if (path.includes("partition-0000/output/")) await disk.remove(path);
  const again = await openOn(disk, { limits: SMALL, retention });
  await assert.rejects(again.open(0, "owner"), { code: "CORRUPT_DATA", message: /newest output is missing/ });
  await assert.rejects(again.append(0, [message("z")]), { code: "CORRUPT_DATA", applied: "no" });
  await again.open(1, "owner");
});

test("open: the newest input rots before it was processed: it looks like a torn write, which is reported", async () => {
  const disk = new MemoryDisk();
  const log = await openOn(disk);
  for (const value of ["x", "y"]) await log.append(0, [message(value)]);
  await log.close();
  await rotTail(disk, "input");
  const reports: string[] = [];
  const note = (text: string): void => void reports.push(text);
  const again = await openOn(disk, { log: { debug: note, info: note, warn: note, error: note } });
  assert.deepEqual(await valuesOf(again, "input"), ["x"]);
  assert.deepEqual(reports, ["the journal's newest write is torn or rotten and is cut off"]);
});

test("format: version 1: records byte for byte, both ways", () => {
  const plain = encodeMessages([GOLDEN_MESSAGE]);
  assert.equal(hex(plain), `010001${MESSAGE_HEX}`);
  assert.deepEqual(decodeMessages(plain, 9n), { origin: undefined, messages: [{ ...GOLDEN_MESSAGE, offset: 9n }] });
  const origin = { partition: 3, publication: 7n };
  const rerouted = encodeMessages([GOLDEN_MESSAGE], origin);
  assert.equal(hex(rerouted), `0101000000030000000000000007 01${MESSAGE_HEX}`.replace(" ", ""));
  assert.deepEqual(decodeMessages(rerouted, 0n).origin, origin);
  const head = { publication: 7n, acknowledgedInput: 9n, writtenAtMs: 2 };
  const small = encodePublication({ ...head, output: [GOLDEN_MESSAGE], deadLetters: [], rerouted: [] });
  assert.equal(hex(small), `0100000000000000070000000000000009400000000000000001${MESSAGE_HEX}00`);
  const targets = [{ partition: 3, inputEnd: 5n, messages: [GOLDEN_MESSAGE] }];
  const large = encodePublication({ ...head, output: [], deadLetters: [GOLDEN_MESSAGE], rerouted: targets });
  assert.equal(
    hex(large),
    `01000000000000000700000000000000094000000000000000000101${MESSAGE_HEX}0100000003000000000000000501${MESSAGE_HEX}`,
  );
  const decoded = decodePublication(large, 0n);
  const at = (offset: bigint) => [{ ...GOLDEN_MESSAGE, offset }];
  assert.deepEqual(decoded, { ...head, output: [], deadLetters: at(0n), rerouted: [{ ...targets[0]!, messages: at(0n) }] });
});

test("format: version 2, with nulls and a key without bytes: records byte for byte, both ways; version 1's empty key is none", () => {
  const headers = [{ name: "id", value: null }];
  const nulls: NewMessage = { ...GOLDEN_MESSAGE, key: null, value: null, headers };
  const empty: NewMessage = { ...GOLDEN_MESSAGE, key: Uint8Array.of(), value: Uint8Array.of() };
  const input = encodeMessages([nulls, empty]);
  assert.equal(hex(input), "02000200000102696400" + "4278bcfe5687b000" + "01010102696403" + "0405" + "4278bcfe5687b000");
  const at = (...messages: NewMessage[]) => messages.map((message, offset) => ({ ...message, offset: BigInt(offset) }));
  assert.deepEqual(decodeMessages(input, 0n).messages, at(nulls, empty));
  const head = { publication: 7n, acknowledgedInput: 9n, writtenAtMs: 2 };
  for (const [output, deadLetters, rerouted] of [
    [[nulls], [], []],
    [[], [nulls], []],
    [[], [], [{ partition: 3, inputEnd: 5n, messages: at(nulls) }]],
  ] as const) {
    const bytes = encodePublication({ ...head, output, deadLetters, rerouted });
    assert.equal(bytes[0], 2);
    assert.deepEqual(decodePublication(bytes, 0n), { ...head, output: at(...output), deadLetters: at(...deadLetters), rerouted });
  }
  const noKey = encodeMessages([{ ...GOLDEN_MESSAGE, key: null }]);
  assert.deepEqual([noKey[0], decodeMessages(noKey, 0n).messages], [1, at({ ...GOLDEN_MESSAGE, key: null })]);
});

test("format: another version, cut or longer bytes: CORRUPT_DATA", () => {
  const bytes = encodePublication({
    publication: 1n,
    acknowledgedInput: 1n,
    writtenAtMs: 1,
    output: [GOLDEN_MESSAGE],
    deadLetters: [GOLDEN_MESSAGE],
    rerouted: [],
  });
  for (let size = 0; size < bytes.length; size += 1) {
    assert.throws(() => decodePublication(bytes.subarray(0, size), 0n), { code: "CORRUPT_DATA" });
  }
  assert.throws(() => decodePublication(Uint8Array.from([...bytes, 0]), 0n), { code: "CORRUPT_DATA" });
  assert.throws(() => decodeMessages(Uint8Array.of(3, 0, 0), 0n), { code: "CORRUPT_DATA" });
});
