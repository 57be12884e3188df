// The segmented window: look-ups, ageing, what a crash leaves, row by row of the README's table.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type KeyValue, type KeyValueOperation } from "@concord/ports";
import { MemoryWindowStores } from "./test/memory-window-stores.ts";
import { ConcordError, silentLog } from "@concord/runtime";
import type { WindowOptions, WindowStores } from "./api.ts";
import { SegmentedWindow } from "./segmented-window.ts";
import { IdTable } from "./id-table.ts";
import { WINDOW_STORE } from "./load-window.ts";
import { checksum, countingRandom, FastClock, until } from "./test/fixture.ts";
import { idWords, output } from "./test/output-ids.ts";
import {
  BLOCK_RANGE,
  encodeBlock,
  encodeJournalEntry,
  encodeManifest,
  encodeSegmentHeader,
  JOURNAL_RANGE,
  MANIFEST_KEY,
} from "./window-format.ts";
import type { WindowEnvironment } from "./window.ts";

const OPTIONS: WindowOptions = { idsPerSegment: 16, segmentsMax: 3, windowMs: 0 };

class KilledAt extends Error {}

function environment(killAt?: string): WindowEnvironment {
  const failpoint = (name: string): void => {
    if (name === killAt) throw new KilledAt(name);
  };
  return { clock: new FastClock(), random: countingRandom(), checksum, log: silentLog, failpoint };
}

async function opened(stores: WindowStores, options: Partial<WindowOptions> = {}, killAt?: string): Promise<SegmentedWindow> {
  const window = await SegmentedWindow.open({ ...OPTIONS, ...options }, stores, environment(killAt));
  if (window.appliedOutput === undefined) await window.begin(0n);
  return window;
}

async function fill(window: SegmentedWindow, from: number, to: number, step = 5): Promise<void> {
  for (let at = from; at < to; at += step) await window.apply(output(at, Math.min(step, to - at)));
}

const segmentsWritten = (window: SegmentedWindow, segments: number): Promise<void> =>
  until(() => window.statistics(0).segments === segments, `${segments} segments`);

async function known(window: SegmentedWindow, from: number, count: number): Promise<string> {
  return (await window.lookUp(idWords(from, count))).join("");
}

/** Counts what reaches the stores. */
class Counting implements WindowStores {
  readonly inner = new MemoryWindowStores();
  readonly batches: { readonly store: string; readonly operations: number; readonly sync: boolean; readonly bytes: number }[] = [];
  readonly reads: { readonly store: string; readonly keys: number }[] = [];
  readonly removed: string[] = [];

  async open(store: string): Promise<KeyValue> {
    const inner = await this.inner.open(store);
    return {
      get: (key) => inner.get(key),
      getMany: (keys) => {
        this.reads.push({ store, keys: keys.length });
        return inner.getMany(keys);
      },
      range: (range) => {
        this.reads.push({ store, keys: range.limit });
        return inner.range(range);
      },
      batch: (operations: readonly KeyValueOperation[], { sync }) => {
        const bytes = operations.reduce((sum, each) => sum + each.key.length + (each.kind === "put" ? each.value.length : 0), 0);
        this.batches.push({ store, operations: operations.length, sync, bytes });
        return inner.batch(operations, { sync });
      },
      close: () => inner.close(),
    };
  }

  async remove(name: string): Promise<void> {
    this.removed.push(name);
    await this.inner.remove(name);
  }

  list(): Promise<readonly string[]> {
    return this.inner.list();
  }
}

test("[DD4] look up: ids of the active segment, of the one being written and of those on disk: all at once", async () => {
  const window = await opened(new MemoryWindowStores());
  await fill(window, 0, 40);
  assert.equal(await known(window, 0, 45), "1".repeat(40) + "0".repeat(5));
  await segmentsWritten(window, 2);
  assert.equal(await known(window, 0, 45), "1".repeat(40) + "0".repeat(5));
  await window.close();
});

test("[DD6] apply: one batch of the journal, not synced; an id's own bytes and few more", async () => {
  const stores = new Counting();
  const window = await opened(stores);
  const before = stores.batches.length;
  await window.apply(output(0, 10));
  const written = stores.batches.slice(before);
  assert.deepEqual(
    written.map(({ store, operations, sync }) => [store, operations, sync]),
    [[WINDOW_STORE, 1, false]],
  );
  assert.ok(written[0]!.bytes <= 10 * 16 + 40, `${written[0]!.bytes} bytes`);
  await window.close();
});

test("[DD13] [DD19] look up: absent ids: hardly any value read; a filter hit: one value, its ids decide", async () => {
  const stores = new Counting();
  const window = await opened(stores, { idsPerSegment: 4096, segmentsMax: 2 });
  await fill(window, 0, 4096, 1024);
  await segmentsWritten(window, 1);
  stores.reads.length = 0;
  assert.equal((await known(window, 10_000, 2000)).includes("1"), false, "a filter hit alone is no duplicate");
  const wrong = stores.reads.reduce((sum, each) => sum + each.keys, 0);
  assert.ok(wrong <= 16, `${wrong} values read for 2000 absent ids`);
  stores.reads.length = 0;
  assert.equal(await known(window, 77, 1), "1");
  assert.deepEqual(
    stores.reads.map((each) => each.keys),
    [1],
  );
  stores.reads.length = 0;
  await known(window, 0, 1000);
  assert.deepEqual(
    stores.reads.map((each) => each.keys),
    [16],
    "each value of the segment once, in one call",
  );
  await window.close();
});

test("[DD7] [DD8] size bound: the oldest segment goes whole: a removed store, no read, no id touched", async () => {
  const stores = new Counting();
  const window = await opened(stores);
  await fill(window, 0, 16 * 4);
  await until(() => stores.removed.length === 1, "a segment removed");
  assert.equal(await known(window, 0, 64), "0".repeat(16) + "1".repeat(48), "oldest first");
  assert.deepEqual(
    stores.reads.filter((each) => each.store === stores.removed[0]),
    [],
  );
  const { segments, droppedBySize, windowMs, ids } = window.statistics(2000);
  assert.deepEqual([segments, droppedBySize, ids], [3, 1, 48]);
  assert.equal(windowMs, 2000 - (1000 + 15), "the window in time is what the oldest id says");
  await window.close();
});

test("[DD7] time bound: segments whose newest id is too old go; both bounds are reported", async () => {
  const window = await opened(new MemoryWindowStores(), { windowMs: 500, segmentsMax: 10 });
  await fill(window, 0, 48, 16);
  await segmentsWritten(window, 3);
  await window.age(1000 + 516);
  assert.deepEqual([window.statistics(0).segments, window.statistics(0).droppedByTime], [2, 1]);
  await window.age(1000 + 516);
  assert.equal(window.statistics(0).segments, 2, "the newest is exactly as old as allowed");
  await window.age(10_000);
  assert.deepEqual([window.statistics(0).segments, window.statistics(0).droppedByTime, window.statistics(0).droppedBySize], [0, 3, 0]);
  await window.close();
});

test("[DDD2] reopen: ids and the offset to go on from come back together, after the death of the process and a power cut", async () => {
  for (const cut of ["process", "power"] as const) {
    const stores = new MemoryWindowStores();
    const window = await opened(stores);
    await fill(window, 0, 24, 4);
    await segmentsWritten(window, 1);
    const again = await opened(stores.restart(cut));
    const applied = Number(again.appliedOutput);
    assert.equal(await known(again, 0, 30), "1".repeat(applied) + "0".repeat(30 - applied));
    assert.ok(cut === "process" ? applied === 24 : applied >= 16, `${applied} after ${cut}`);
    assert.deepEqual(again.idKey, window.idKey);
    await again.close();
  }
});

async function runContents(stores: MemoryWindowStores): Promise<unknown[]> {
  const names = (await stores.list()).filter((name) => name.startsWith("run-")).toSorted();
  return names.map((name) => stores.disk(name));
}

test("rebuild: pages of any size: the same segments, byte for byte", async () => {
  const contents: unknown[][] = [];
  for (const step of [1, 7, 64]) {
    const stores = new MemoryWindowStores();
    const window = await opened(stores);
    for (let at = 0; at < 50; at += step) {
      const one = output(at, Math.min(step, 50 - at));
      await window.apply({ ...one, publishedMs: one.offsets.map((offset) => 1000 + Number(offset)) });
    }
    await segmentsWritten(window, 3);
    await window.close();
    contents.push(await runContents(stores.restart("process")));
  }
  assert.deepEqual(contents[1], contents[0]);
  assert.deepEqual(contents[2], contents[0]);
});

/** Kills the process at a point of writing segment 0..16 or of dropping it, cuts the power, opens again, applies what is missing. */
async function crashed(killAt: string, segments: number): Promise<{ stores: MemoryWindowStores; applied: number }> {
  const stores = new MemoryWindowStores();
  const window = await opened(stores, {}, killAt);
  await fill(window, 0, segments * 16 + 3, 1).catch(() => undefined);
  for (let turns = 0; turns < 40; turns += 1) await new Promise((resolve) => void setImmediate(resolve));
  return { stores: stores.restart("power"), applied: segments * 16 + 3 };
}

for (const killAt of ["dedup:journaled", "dedup:sealing", "dedup:run-written", "dedup:sealed", "dedup:run-dropped"]) {
  test(`[DD10] crash at ${killAt}: harmless: the same ids, no store left over`, async () => {
    const { stores, applied } = await crashed(killAt, 5);
    const window = await opened(stores);
    await fill(window, Number(window.appliedOutput), applied, 1);
    const expected = "0".repeat(32) + "1".repeat(applied - 32);
    await until(async () => (await known(window, 0, applied)) === expected, "the newest three segments and the active one");
    await until(async () => (await stores.list()).length === 4, "the window's store and three segments");
    assert.deepEqual(window.statistics(0).quarantined, []);
    await window.close();
  });
}

test("crash after a segment is written, power cut: the segment is whole: synced before it is listed (I4)", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores);
  await fill(window, 0, 16);
  await segmentsWritten(window, 1);
  const again = await SegmentedWindow.open(OPTIONS, stores.restart("power"), environment());
  assert.deepEqual([again.missing, again.appliedOutput], [[], 16n]);
});

test("orphan stores: written but not listed, dropped but not removed: removed at open (I5)", async () => {
  const stores = new MemoryWindowStores();
  await (await stores.open("run-000000000009")).batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }], { sync: true });
  const window = await opened(stores);
  assert.deepEqual(await stores.list(), [WINDOW_STORE]);
  await window.close();
});

async function writtenAndClosed(): Promise<MemoryWindowStores> {
  const stores = new MemoryWindowStores();
  const window = await opened(stores);
  await fill(window, 0, 38);
  await segmentsWritten(window, 2);
  await window.close();
  return stores.restart("process");
}

function flip(stores: MemoryWindowStores, name: string, isIt: (key: Uint8Array) => boolean): void {
  stores.damage(name, ({ entries }) => ({
    entries: entries.map((entry) => (isIt(entry.key) ? { key: entry.key, value: entry.value.with(entry.value.length - 1, 0x55) } : entry)),
  }));
}

const DAMAGES: readonly (readonly [string, (stores: MemoryWindowStores) => void])[] = [
  ["a block fails its check", (stores) => flip(stores, "run-000000000001", (key) => key[0] === BLOCK_RANGE.from[0])],
  ["the header fails its check", (stores) => flip(stores, "run-000000000001", (key) => key[0] === 1)],
  ["a block is gone", (stores) => stores.damage("run-000000000001", ({ entries }) => ({ entries: entries.slice(0, 1) }))],
  ["the store is gone", (stores) => stores.damage("run-000000000001", () => ({ entries: [] }))],
  ["it is another segment", (stores) => stores.damage("run-000000000001", () => stores.disk("run-000000000002")!)],
];

for (const [what, damage] of DAMAGES) {
  test(`[DDD11] open: ${what}: the segment is missing until restored, its store quarantined`, async () => {
    const stores = await writtenAndClosed();
    damage(stores);
    const window = await opened(stores);
    assert.deepEqual(
      window.missing.map(({ from, to }) => [from, to]),
      [[0n, 16n]],
    );
    await assert.rejects(window.lookUp(idWords(0, 1)), /missing segments/);
    const ids = new IdTable(1);
    for (let at = 0; at < 16; at += 1) ids.add(idWords(at, 1), 0);
    await window.restore(window.missing[0]!, ids, 1000, 1015);
    assert.equal(await known(window, 0, 40), "1".repeat(38) + "00");
    assert.deepEqual(window.statistics(0).quarantined, ["run-000000000001"]);
    await window.close();
    const again = await opened(stores.restart("power"));
    assert.deepEqual([again.missing, again.statistics(0).quarantined], [[], ["run-000000000001"]]);
    assert.equal(await known(again, 0, 16), "1".repeat(16));
  });
}

test("open: a segment's store does not open once: nothing is given up, the next attempt has it", async () => {
  const stores = await writtenAndClosed();
  let failures = 1;
  const failing: WindowStores = {
    open: async (name) => {
      if (name === "run-000000000001" && failures-- > 0) throw new ConcordError("STORE_FAILED", "ordered by the test");
      return stores.open(name);
    },
    remove: (name) => stores.remove(name),
    list: () => stores.list(),
  };
  await assert.rejects(opened(failing), { code: "STORE_FAILED", message: /move its folder away/ });
  const window = await opened(failing);
  assert.deepEqual([window.missing, window.statistics(0).quarantined], [[], []]);
  await window.close();
});

test("[DDD11] open: a journal record fails its check: what follows is applied again, the records quarantined", async () => {
  const stores = await writtenAndClosed();
  const isSecond = (key: Uint8Array): boolean => key[0] === JOURNAL_RANGE.from[0] && key[8] === 35;
  flip(stores, WINDOW_STORE, isSecond);
  const window = await opened(stores);
  assert.equal(window.appliedOutput, 35n);
  await fill(window, 35, 60);
  assert.equal(await known(window, 16, 46), "1".repeat(44) + "00");
  await window.close();
  assert.equal(
    stores
      .restart("process")
      .disk(WINDOW_STORE)!
      .entries.filter(({ key }) => key[0] === 0x7e).length,
    1,
  );
});

test("[DDD11] open: a power cut took a journal record and left a later one: applied again from there, nothing is damaged", async () => {
  const stores = await writtenAndClosed();
  const isJournal = (key: Uint8Array): boolean => key[0] === JOURNAL_RANGE.from[0];
  let first: bigint | undefined;
  stores.damage(WINDOW_STORE, ({ entries }) => {
    const journal = entries.filter(({ key }) => isJournal(key));
    assert.ok(journal.length > 1, "one is left");
    first = Buffer.from(journal[0]!.key).readBigUInt64BE(1);
    return { entries: entries.filter((entry) => entry !== journal[0]) };
  });
  const errors: string[] = [];
  const log = { ...silentLog, error: (message: string) => void errors.push(message) };
  const window = await SegmentedWindow.open(OPTIONS, stores, { ...environment(), log });
  assert.equal(window.appliedOutput, first);
  await fill(window, Number(first), 60);
  assert.equal(await known(window, 16, 46), "1".repeat(44) + "00");
  await window.close();
  const { entries } = stores.restart("process").disk(WINDOW_STORE)!;
  assert.deepEqual([errors, entries.filter(({ key }) => key[0] === 0x7e).length], [[], 0]);
});

test("[DDD11] open: the manifest fails its check: quarantined with all segments, the window begins again", async () => {
  const stores = await writtenAndClosed();
  flip(stores, WINDOW_STORE, (key) => key[0] === MANIFEST_KEY[0]);
  const window = await SegmentedWindow.open(OPTIONS, stores, environment());
  assert.equal(window.appliedOutput, undefined, "rebuilt from the output, not taken for empty");
  await window.begin(0n);
  await fill(window, 0, 38);
  await segmentsWritten(window, 2);
  assert.equal(await known(window, 0, 40), "1".repeat(38) + "00");
  assert.deepEqual(window.statistics(0).quarantined, ["run-000000000001", "run-000000000002"]);
  await window.close();
});

test("open: other options: segments go on at the new boundaries", async () => {
  const window = await opened(await writtenAndClosed(), { idsPerSegment: 20 });
  await fill(window, 38, 61);
  await segmentsWritten(window, 3);
  assert.equal(await known(window, 0, 62), `${"1".repeat(61)}0`);
  await window.close();
});

test("apply: offsets without ids: segments hold fewer, empty ones are not written", async () => {
  const window = await opened(new MemoryWindowStores());
  await window.apply({ next: 100n, ids: idWords(0, 1), offsets: [3n], publishedMs: [7] });
  await segmentsWritten(window, 1);
  assert.deepEqual([window.appliedOutput, await known(window, 0, 1)], [100n, "1"]);
  await window.close();
});

test("a failed write: told to the next caller, not swallowed in the background", async () => {
  const window = await opened(new MemoryWindowStores(), {}, "dedup:run-written");
  await fill(window, 0, 16);
  await until(
    () =>
      window
        .apply(output(Number(window.appliedOutput), 1))
        .then(() => false)
        .catch(() => true),
    "apply rejects",
  );
  await assert.rejects(window.lookUp(idWords(0, 1)), /run-written/);
});

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

test("format: golden bytes of version 1", () => {
  const segment = { store: "run-000000000001", from: 16n, to: 32n, ids: 2, oldestMs: 5, newestMs: 6 };
  const manifest = {
    idKey: new Uint8Array(16).fill(7),
    segmentsTo: 32n,
    nextStore: 2n,
    segments: [segment],
    quarantined: ["run-000000000000"],
  };
  assert.deepEqual(
    [
      hex(encodeManifest(manifest, checksum)),
      hex(encodeSegmentHeader(segment, checksum)),
      hex(encodeJournalEntry({ from: 1n, next: 3n, oldestMs: 5, newestMs: 6, ids: idWords(1, 1) }, checksum)),
      hex(encodeBlock(idWords(1, 1), checksum)),
    ],
    GOLDEN,
  );
});

const GOLDEN = [
  "01ca2326580707070707070707070707070707070700000000000000200000000000000002011072756e2d30303030303030303030303100000000000000100000000000000020000000020000000000000005000000000000000601" +
    "1072756e2d303030303030303030303030",
  "010c7e6ab5000000000000001000000000000000200000000200000000000000050000000000000006",
  "01ef0d9d610000000000000003000000000000000500000000000000069e3779b1000000010000000300000004",
  "01484f376d9e3779b1000000010000000300000004",
];

test("[DDD10] forget: nothing is published: segments that are too old go, then the ids that are in none; the output is needed from behind them", async () => {
  const stores = new MemoryWindowStores();
  const window = await opened(stores, { windowMs: 1_000 });
  await fill(window, 0, 40);
  await segmentsWritten(window, 2);
  assert.equal(window.neededFrom, 0n);
  await window.forget(1_950);
  assert.deepEqual([window.neededFrom, window.statistics(0).segments], [0n, 2], "the newest id of the first segment is of 1010 to 1015");
  await window.forget(2_020);
  assert.deepEqual([window.neededFrom, window.statistics(0).segments], [16n, 1]);
  await window.forget(2_034);
  assert.deepEqual(
    [window.neededFrom, await known(window, 32, 8)],
    [32n, "1".repeat(8)],
    "the active ids are as old as the newest of them",
  );
  await window.forget(2_036);
  assert.deepEqual([window.neededFrom, window.appliedOutput, await known(window, 0, 40)], [40n, 40n, "0".repeat(40)]);
  await window.apply(output(40, 5));
  await window.close();
  const again = await opened(stores.restart("power"), { windowMs: 1_000 });
  assert.ok(again.neededFrom === 40n && again.appliedOutput! >= 40n, "as the manifest says");
  await fill(again, Number(again.appliedOutput), 60);
  assert.deepEqual([again.neededFrom, await known(again, 40, 20)], [40n, "1".repeat(20)]);
  await again.close();
});

test("[DDD10] forget: a window without a time bound forgets nothing", async () => {
  const window = await opened(new MemoryWindowStores());
  await fill(window, 0, 20);
  await segmentsWritten(window, 1);
  await window.forget(Number.MAX_SAFE_INTEGER);
  assert.deepEqual([window.neededFrom, await known(window, 0, 20)], [0n, "1".repeat(20)]);
  await window.close();
});
