// Input in memory: the owner that follows the appends reads no disk; what memory does not have, or may not have right, comes from there.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { openJournal } from "@concord/journal";
import { diskOver, MemoryDisk } from "@concord/port-contracts";
import type { MessageLog } from "@concord/ports";
import { ConcordError, type Disk } from "@concord/runtime";
import { RECENT_BYTES_MAX, RECENT_TOPIC_BYTES_MAX } from "./limits.ts";
import { RecentBudget, RecentRecords } from "./recent-records.ts";
import { TopicLog } from "./topic-log.ts";
import { message, openOn, random, valuesOf } from "./test/memory-log.ts";

const PAGE = { messages: 1_000, bytes: 1 << 30 };
const MIB = 1024 * 1024;

const record = (sequence: bigint, bytes: number, count = 1) => ({ sequence, count, payload: new Uint8Array(bytes) });
const sequences = (recent: RecentRecords, from: bigint): bigint[] => recent.from(from).map(({ sequence }) => sequence);

/** Counts the reads of the disk, whose other calls are as they are. */
function countedReads(disk: MemoryDisk): { readonly disk: Disk; readonly reads: () => number } {
  let reads = 0;
  const counted = diskOver(disk.files, async (call, act) => {
    await Promise.resolve();
    if (call.kind === "read") reads += 1;
    return act();
  });
  return { disk: counted, reads: () => reads };
}

async function follow(log: MessageLog, from: bigint): Promise<string[]> {
  const { messages } = await log.read("input", 0, from, PAGE);
  return messages.map(({ value }) => new TextDecoder().decode(value));
}

test("recent input: read by who follows the appends: no read of the disk; from before: as on disk", async () => {
  const { disk, reads } = countedReads(new MemoryDisk());
  const log = await openOn(disk);
  const before = reads();
  let next = 0n;
  for (const round of ["a", "b", "c"]) {
    await log.append(0, [message(`${round}1`), message(`${round}2`)]);
    await log.append(0, [message(`${round}3`)]);
    const page = await log.read("input", 0, next, PAGE);
    assert.deepEqual(
      page.messages.map(({ value, offset }) => [new TextDecoder().decode(value), offset]),
      [1n, 2n, 3n].map((n) => [`${round}${n}`, next + n - 1n]),
    );
    next = page.next;
  }
  assert.equal(reads(), before);
  assert.deepEqual(await follow(log, 0n), ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]);
  assert.ok(reads() > before, "what was passed is on disk only");
});

test("recent input: a page within a record, and one that ends amid the input: continued at its place, not at the end", async () => {
  const log = await openOn(new MemoryDisk());
  await log.append(0, ["a", "b", "c"].map(message));
  await log.append(0, ["d", "e"].map(message));
  const first = await log.read("input", 0, 1n, { messages: 1, bytes: 1_000 });
  assert.equal(first.next, 2n);
  assert.deepEqual(await follow(log, first.next), ["c", "d", "e"]);
});

test("recent input: a sync failed and its record is there: the input is what the disk has, in its order", async () => {
  for (const isThere of [true, false]) {
    const disk = new MemoryDisk();
    let fails = false;
    const failing = diskOver(disk.files, async (call, act) => {
      await Promise.resolve();
      if (!fails || call.kind !== (isThere ? "sync" : "write")) return act();
      fails = false;
      throw new ConcordError("STORE_FAILED", "EIO");
    });
    const log = await openOn(failing);
    await log.append(0, [message("before")]);
    fails = true;
    await assert.rejects(log.append(0, [message("unknown")]), { applied: "unknown" });
    await log.append(0, [message("behind")]);
    const values = await follow(log, 0n);
    assert.deepEqual(values, isThere ? ["before", "unknown", "behind"] : ["before", "behind"]);
    assert.deepEqual(values, await valuesOf(log, "input"));
    await log.close();
    assert.deepEqual(values, await valuesOf(await openOn(disk), "input"));
  }
});

test("recent records: below, at and above what one topic keeps: the oldest go", () => {
  const budget = new RecentBudget();
  const recent = new RecentRecords(budget);
  const count = RECENT_TOPIC_BYTES_MAX / MIB;
  for (let n = 0; n < count; n += 1) recent.add(record(BigInt(n), MIB));
  assert.equal(budget.bytes, RECENT_TOPIC_BYTES_MAX);
  assert.equal(sequences(recent, 0n).length, count);
  recent.add(record(BigInt(count), MIB));
  assert.equal(budget.bytes, RECENT_TOPIC_BYTES_MAX);
  assert.deepEqual(sequences(recent, 0n), []);
  assert.equal(sequences(recent, 1n).length, count);
  recent.add(record(BigInt(count + 1), RECENT_TOPIC_BYTES_MAX + 1));
  assert.equal(budget.bytes, 0);
});

test("recent records: all topics together have no more memory than the log: what finds none is on disk, and no gap is hidden", () => {
  const budget = new RecentBudget();
  const topics = Array.from({ length: RECENT_BYTES_MAX / RECENT_TOPIC_BYTES_MAX }, () => new RecentRecords(budget));
  for (const topic of topics) topic.add(record(0n, RECENT_TOPIC_BYTES_MAX));
  assert.equal(budget.bytes, RECENT_BYTES_MAX);
  const late = new RecentRecords(budget);
  late.add(record(0n, 1));
  assert.deepEqual(sequences(late, 0n), []);
  topics[0]!.clear();
  late.add(record(1n, 1));
  late.add(record(2n, 1, 0));
  late.add(record(2n, 1));
  assert.deepEqual(sequences(late, 0n), []);
  assert.deepEqual(sequences(late, 1n), [1n, 2n]);
  // Something else wrote between: what is behind does not follow.
  late.add(record(9n, 1));
  assert.deepEqual(sequences(late, 1n), []);
  assert.deepEqual(sequences(late, 9n), [9n]);
  for (const topic of [...topics, late]) topic.clear();
  assert.equal(budget.bytes, 0);
});

test("recent records: what a reader has passed gives its memory back; a short payload counts as the slab that it keeps", () => {
  const budget = new RecentBudget();
  const recent = new RecentRecords(budget);
  const slab = new Uint8Array(8_192);
  for (let n = 0; n < 100; n += 1) recent.add({ sequence: BigInt(n * 2), count: 2, payload: slab.subarray(n, n + 1) });
  assert.equal(budget.bytes, 100 * slab.length);
  assert.equal(sequences(recent, 151n).length, 25);
  assert.equal(budget.bytes, 25 * slab.length);
  recent.passed(153n);
  assert.equal(budget.bytes, 24 * slab.length);
  assert.deepEqual(sequences(recent, 200n), []);
  assert.equal(budget.bytes, 0);
});

test("recent records: closed while an append is on its way: it is durable, and takes no memory from the others", async () => {
  const budget = new RecentBudget();
  const disk = new MemoryDisk();
  const checksum = (bytes: Uint8Array, previous?: number): number => crc32(bytes, previous);
  const options = { disk, folder: "input", random, checksum, takesOver: false };
  const { journal } = await openJournal(options);
  const topic = new TopicLog(options, journal, () => [], new RecentRecords(budget));
  await topic.append(new Uint8Array(100), 1);
  assert.equal(budget.bytes, 100);
  const last = topic.append(new Uint8Array(100), 1);
  // Its place in the journal is taken.
  await Promise.resolve();
  await topic.close();
  assert.equal(await last, 1n);
  assert.equal(budget.bytes, 0);
});
