// The window's journal has one record for several pages: what is in none yet is read from the output again, as after any crash (I3).
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "@concord/runtime";
import type { WindowOptions } from "./api.ts";
import { JOURNAL_OFFSETS, JOURNAL_RECORDS_PER_SEGMENT } from "./limits.ts";
import { SegmentedWindow } from "./segmented-window.ts";
import { checksum, countingRandom, FastClock, until } from "./test/fixture.ts";
import { idWords, output } from "./test/output-ids.ts";
import { MemoryWindowStores } from "./test/memory-window-stores.ts";
import { decodeJournalEntry, joinEntries, JOURNAL_RANGE, type JournalEntry } from "./window-format.ts";
import { WINDOW_STORE } from "./load-window.ts";

/** Four output offsets for each record. */
const OPTIONS: WindowOptions = { idsPerSegment: 4 * JOURNAL_RECORDS_PER_SEGMENT, segmentsMax: 3, windowMs: 0 };

async function opened(stores: MemoryWindowStores, options: Partial<WindowOptions> = {}): Promise<SegmentedWindow> {
  const environment = { clock: new FastClock(), random: countingRandom(), checksum, log: silentLog, failpoint: () => undefined };
  const window = await SegmentedWindow.open({ ...OPTIONS, ...options }, stores, environment);
  if (window.appliedOutput === undefined) await window.begin(0n);
  return window;
}

/** Of the journal: where each record begins and ends. */
function records(stores: MemoryWindowStores): string[] {
  const { entries } = stores.restart("process").disk(WINDOW_STORE)!;
  return entries
    .filter(({ key }) => key[0] === JOURNAL_RANGE.from[0])
    .map(({ key, value }) => decodeJournalEntry(key, value, checksum))
    .map(({ from, next, ids }) => `${from}-${next}: ${ids.length / 4}`);
}

const known = async (window: SegmentedWindow, count: number): Promise<string> => (await window.lookUp(idWords(0, count))).join("");

test("[DD6] journal: below, at and above the offsets of one record: one record at the limit, the ids known at once", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores);
  for (const at of [0, 1, 2]) await window.apply(output(at, 1));
  assert.deepEqual(records(stores), []);
  assert.equal(await known(window, 4), "1110");
  await window.apply(output(3, 1));
  assert.deepEqual(records(stores), ["0-4: 4"]);
  await window.apply(output(4, 9));
  assert.deepEqual(records(stores), ["0-4: 4", "4-13: 9"]);
  assert.equal(await known(window, 14), "1".repeat(13) + "0");
});

test("journal: large segments: never more than JOURNAL_OFFSETS in no record", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores, { idsPerSegment: 1 << 20 });
  await window.apply(output(0, JOURNAL_OFFSETS - 1));
  assert.deepEqual(records(stores), []);
  await window.apply(output(JOURNAL_OFFSETS - 1, 1));
  assert.deepEqual(records(stores), [`0-${JOURNAL_OFFSETS}: ${JOURNAL_OFFSETS}`]);
  await window.close();
});

test("[DDD11] journal: the process dies: the window goes on behind the last record; closed in good order: behind all that was applied", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores);
  for (let at = 0; at < 7; at += 1) await window.apply(output(at, 1));
  const killed = await opened(stores.restart("process"));
  assert.equal(killed.appliedOutput, 4n);
  assert.equal(await known(killed, 7), "1111000");
  await killed.apply(output(4, 3));
  assert.equal(await known(killed, 7), "1111111");
  await window.close();
  const closed = await opened(stores.restart("process"));
  assert.equal(closed.appliedOutput, 7n);
  assert.equal(await known(closed, 8), "11111110");
});

test("journal: a segment ends: what is in no record is written before what follows it, and goes with the segment's records", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores);
  await window.apply(output(0, 62));
  await window.apply(output(62, 1));
  // Over the end of the first segment.
  await window.apply(output(63, 2));
  await until(() => window.statistics(0).segments === 1, "a segment");
  assert.deepEqual(records(stores), ["64-65: 1"]);
  await window.apply(output(65, 1));
  await window.close();
  const next = await opened(stores.restart("process"));
  assert.equal(next.appliedOutput, 66n);
  assert.equal(await known(next, 67), "1".repeat(66) + "0");
  await next.close();
});

test("journal: the ids are forgotten before they are in a record: none is written for them", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores, { windowMs: 500 });
  await window.apply(output(0, 3, 1_000));
  await window.forget(1_501);
  await window.apply(output(3, 4, 2_000));
  assert.deepEqual(records(stores), ["3-7: 4"]);
  await window.close();
  const next = await opened(stores.restart("process"), { windowMs: 500 });
  assert.deepEqual([next.appliedOutput, await known(next, 7)], [7n, "0001111"]);
});

test("[DD9] flush: nothing is published: the journal has all that was applied, once, whatever its last record lacks", async () => {
  const stores = new MemoryWindowStores();
  const options = { idsPerSegment: 1 << 20 };
  const window = await opened(stores, options);
  for (let at = 0; at < 24; at += 4) await window.apply(output(at, 4));
  const without = await opened(stores.restart("process"), options);
  assert.equal(without.appliedOutput, 0n, "no record is full");
  await without.close();
  await window.flush();
  assert.deepEqual(records(stores), ["0-24: 24"]);
  await window.flush();
  assert.deepEqual(records(stores), ["0-24: 24"], "what is in a record is not written again");
  await window.apply(output(24, 1));
  const again = await opened(stores.restart("process"), options);
  assert.deepEqual([again.appliedOutput, await known(again, 25)], [24n, "1".repeat(24) + "0"]);
  await again.close();
  await window.close();
  const closed = await opened(stores.restart("process"), options);
  assert.deepEqual([closed.appliedOutput, await known(closed, 25)], [25n, "1".repeat(25)]);
  await closed.close();
});

test("joined journal entries: ids and times of all; one without ids adds only its offsets; a gap is a failed assertion", () => {
  const entry = (from: number, count: number, ms: number): JournalEntry => {
    return { from: BigInt(from), next: BigInt(from + Math.max(1, count)), oldestMs: ms, newestMs: ms, ids: idWords(from, count) };
  };
  const joined = joinEntries([entry(0, 2, 7), entry(2, 0, 0), entry(3, 1, 5)]);
  assert.deepEqual(joined, { from: 0n, next: 4n, oldestMs: 5, newestMs: 7, ids: Uint32Array.of(...idWords(0, 2), ...idWords(3, 1)) });
  const empty = joinEntries([entry(0, 0, 0), entry(1, 0, 0)]);
  assert.deepEqual(empty, { from: 0n, next: 2n, oldestMs: 0, newestMs: 0, ids: new Uint32Array() });
  assert.throws(() => joinEntries([entry(0, 2, 7), entry(3, 1, 5)]), /I3/);
});
