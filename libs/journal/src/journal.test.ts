// Appending, reading, trimming: a journal on a sound disk, and one whose disk fails while it runs.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DiskFile } from "@concord/runtime";
import { MemoryDisk } from "@concord/port-contracts";
import { collect, everything, openOn, processOn, segmentPaths, SMALL, text } from "./test/memory-journal.ts";
import { JOURNAL_LIMITS, type Journal } from "./index.ts";

/** Counts writes and syncs of files; `hold` makes syncs wait. */
class WatchedDisk extends MemoryDisk {
  writes = 0;
  syncs = 0;
  gate: Promise<void> = Promise.resolve();

  constructor() {
    super();
    const makeUnwatched = this.create;
    const create = async (path: string): Promise<DiskFile | "exists"> => {
      const file = await makeUnwatched(path);
      return file === "exists" ? file : this.#watched(file);
    };
    Object.assign(this, { create });
  }

  #watched(file: DiskFile): DiskFile {
    const write = (offset: number, parts: readonly Uint8Array[]): Promise<void> => {
      this.writes += 1;
      return file.write(offset, parts);
    };
    const sync = async (): Promise<void> => {
      this.syncs += 1;
      await this.gate;
      await file.sync();
    };
    return {
      get size() {
        return file.size;
      },
      write,
      sync,
      writeSynced: (offset, parts) => write(offset, parts).then(sync),
      read: (offset, length) => file.read(offset, length),
      truncate: (size) => file.truncate(size),
      close: () => file.close(),
    };
  }
}

test("append: several records: consecutive sequences, read from each of them", async () => {
  const journal = await openOn(new MemoryDisk());
  assert.deepEqual(await Promise.all(["a", "b", "c"].map((name) => journal.append(text(name)))), [0n, 1n, 2n]);
  assert.deepEqual(await collect(journal.read(0n)), ["0:a", "1:b", "2:c"]);
  assert.deepEqual(await collect(journal.read(2n)), ["2:c"]);
  assert.deepEqual(await collect(journal.read(3n)), []);
  assert.deepEqual([journal.firstSequence, journal.durableSequence, journal.nextSequence], [0n, 3n, 3n]);
});

test("append: records of several units and of none: sequence counts units, reading inside a record gives it", async () => {
  const journal = await openOn(new MemoryDisk());
  assert.equal(await journal.append(text("five"), 5), 0n);
  assert.equal(await journal.append(text("none"), 0), 5n);
  assert.equal(await journal.append(text("two"), 2), 5n);
  assert.deepEqual(await collect(journal.read(3n)), ["0x5:five", "5x0:none", "5x2:two"]);
  assert.deepEqual(await collect(journal.read(5n)), ["5x0:none", "5x2:two"]);
  assert.deepEqual(await collect(journal.read(6n)), ["5x2:two"]);
});

test("read: outside of what is kept: OFFSET_OUT_OF_RANGE", async () => {
  const journal = await openOn(new MemoryDisk(), { limits: SMALL });
  for (let n = 0; n < 20; n += 1) await journal.append(text(`record ${n}`));
  assert.throws(() => journal.read(21n), { code: "OFFSET_OUT_OF_RANGE" });
  const first = await journal.trim(15n);
  assert.throws(() => journal.read(first - 1n), { code: "OFFSET_OUT_OF_RANGE" });
  assert.equal((await collect(journal.read(first))).length, Number(20n - first));
});

test("append: many while a sync runs: one write and one sync for all of them (I2)", async () => {
  const disk = new WatchedDisk();
  const journal = await openOn(disk);
  const [writes, syncs] = [disk.writes, disk.syncs];
  let open = (): void => undefined;
  disk.gate = new Promise((resolve) => (open = resolve));
  const first = journal.append(text("first"));
  while (disk.syncs === syncs) await Promise.resolve();
  const rest = Array.from({ length: 100 }, (_, n) => journal.append(text(`${n}`)));
  open();
  await Promise.all([first, ...rest]);
  assert.deepEqual([disk.writes - writes, disk.syncs - syncs], [2, 2]);
});

test("append: not durable before it resolves: nothing of it is read meanwhile (I1)", async () => {
  const disk = new WatchedDisk();
  const journal = await openOn(disk);
  let open = (): void => undefined;
  disk.gate = new Promise((resolve) => (open = resolve));
  const appended = journal.append(text("late"));
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
  assert.deepEqual(await everything(journal), []);
  assert.deepEqual([journal.durableSequence, journal.nextSequence], [0n, 1n]);
  open();
  await appended;
  assert.deepEqual(await everything(journal), ["0:late"]);
});

test("append: the caller's payload is long: written as it is, read whole", async () => {
  const journal = await openOn(new MemoryDisk(), { limits: { recordBytes: 300_000 } });
  const long = Uint8Array.from({ length: 300_000 }, (_, at) => (at * 7) & 255);
  await Promise.all([journal.append(text("a")), journal.append(long), journal.append(text("b")), journal.append(new Uint8Array())]);
  const payloads: Uint8Array[] = [];
  for await (const { payload } of journal.read(0n)) payloads.push(payload.slice());
  assert.deepEqual(payloads, [text("a"), long, text("b"), new Uint8Array()]);
});

test("segments: more than one holds: read over all of them, forwards and backwards, from anywhere", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk, { limits: SMALL });
  const all: string[] = [];
  for (let n = 0; n < 40; n += 1) all.push(`${await journal.append(text(`r${n}`))}:r${n}`);
  assert.ok(segmentPaths(disk).length > 5);
  for (const reopened of [journal, await openOn(disk, { limits: SMALL }), await openOn(disk, { limits: SMALL, verify: "last" })]) {
    assert.deepEqual(await everything(reopened), all);
    assert.deepEqual(await collect(reopened.readBackward()), all.toReversed());
    for (let n = 0; n <= 40; n += 1) assert.deepEqual(await collect(reopened.read(BigInt(n))), all.slice(n));
  }
});

test("read: index entries of a large segment: the same records as without, also going on page by page", async () => {
  const disk = new MemoryDisk();
  const payload = (n: number): Uint8Array => Uint8Array.from({ length: 5_000 }, () => n & 255);
  const journal = await openOn(disk);
  await Promise.all(Array.from({ length: 200 }, (_, n) => journal.append(payload(n), n % 3)));
  for (const opened of [journal, await openOn(disk, { verify: "last" })]) {
    const units = opened.durableSequence;
    for (let from = 0n; from < units; from += 7n) {
      for await (const { sequence, count } of opened.read(from)) {
        if (count === 0) continue;
        assert.ok(sequence <= from && from < sequence + BigInt(count));
        break;
      }
    }
    let [next, seen] = [0n, 0];
    while (next < units) {
      for await (const record of opened.read(next)) {
        if (record.count > 0) seen += 1;
        next = record.sequence + BigInt(record.count);
        break;
      }
    }
    assert.equal(seen, Array.from({ length: 200 }, (_, n) => n % 3).filter((count) => count > 0).length);
    assert.equal((await collect(opened.readBackward())).length, 200);
  }
});

test("[OGD7] checkpoint: appends in the same turn: those before it are before its snapshot, those after it behind", async () => {
  const journal = await openOn(new MemoryDisk());
  const running: string[] = [];
  const start = (name: string): Promise<bigint> => {
    running.push(name);
    return journal.append(text(name));
  };
  const work = [start("a"), start("b"), journal.checkpoint(() => text(running.join())), start("c")];
  await Promise.all(work);
  assert.deepEqual(await everything(journal), ["0:a", "1:b", "2!a,b", "3:c"]);
  assert.deepEqual(await collect(journal.readBackward()), ["3:c", "2!a,b", "1:b", "0:a"]);
});

test("trim: to a checkpoint: whole segments before it go, never the checkpoint", async () => {
  for (let before = 1; before < 12; before += 1) {
    const disk = new MemoryDisk();
    const journal = await openOn(disk, { limits: SMALL });
    for (let n = 0; n < before; n += 1) await journal.append(text(`before ${n}`));
    const at = await journal.checkpoint(() => text("all"));
    for (let n = 0; n < 6; n += 1) await journal.append(text(`after ${n}`));
    const size = journal.sizeBytes;
    const first = await journal.trim(at);
    assert.ok(first <= at);
    const left = await everything(await openOn(disk, { limits: SMALL }));
    assert.ok(left.includes(`${at}!all`) && left.length >= 7);
    assert.deepEqual(await everything(journal), left);
    assert.equal(journal.sizeBytes < size, first > 0n);
    assert.equal(
      journal.segments.reduce((sum, { bytes }) => sum + bytes, 0),
      journal.sizeBytes,
    );
  }
});

test("trim: a power cut after it: what is left is without gaps (I7)", async () => {
  for (let keep = 0; keep < 60; keep += 1) {
    const disk = new MemoryDisk();
    const own = processOn(disk);
    const journal = await openOn(disk, { disk: own.disk, limits: SMALL });
    for (let n = 0; n < 30; n += 1) await journal.append(text(`r${n}`));
    let names = 0;
    journal.trim(25n).catch(() => undefined);
    for (let turn = 0; turn < keep; turn += 1) await Promise.resolve();
    own.die();
    disk.crash(({ kind }) => (kind === "name" && (names += 1) % 2 === 0 ? 1 : 0));
    const reopened = await openOn(disk, { limits: SMALL, strict: true });
    assert.equal((await everything(reopened)).at(-1), "29:r29");
  }
});

test("trim: the folder's sync fails: what is left is read from its first sequence on; the next trim makes that removal durable first (I7)", async () => {
  for (let keep = 0; keep < 60; keep += 1) {
    const disk = new MemoryDisk();
    const own = processOn(disk);
    const journal = await openOn(disk, { disk: own.disk, limits: SMALL });
    for (let n = 0; n < 30; n += 1) await journal.append(text(`r${n}`));
    disk.files.failNextSync();
    await assert.rejects(journal.trim(25n));
    const left = await everything(journal);
    assert.equal(left[0], `${journal.firstSequence}:r${journal.firstSequence}`);
    assert.ok(journal.firstSequence > 0n);
    let names = 0;
    journal.trim(25n).catch(() => undefined);
    for (let turn = 0; turn < keep; turn += 1) await Promise.resolve();
    own.die();
    // Of all changes of names that no sync covers the second, fourth ... last is kept: the later removal, not the earlier one.
    disk.crash(({ kind }) => (kind === "name" && (names += 1) % 2 === 0 ? 1 : 0));
    assert.equal((await everything(await openOn(disk, { limits: SMALL, strict: true }))).at(-1), "29:r29");
  }
});

test("limits: record, queue and journal: at the limit taken, above refused; a checkpoint is taken when the journal is full", async () => {
  const payload = (length: number): Uint8Array => new Uint8Array(length);
  const limits = { recordBytes: 100, queueBytes: 250, journalBytes: 600, segmentBytes: 200 };
  const journal = await openOn(new MemoryDisk(), { limits });
  await assert.rejects(journal.append(payload(101)), { code: "LIMIT_EXCEEDED", applied: "no" });
  const queued = [journal.append(payload(100)), journal.append(payload(100)), journal.append(payload(50))];
  await assert.rejects(journal.append(payload(1)), { code: "OVERLOADED", applied: "no" });
  await Promise.all(queued);
  while (journal.sizeBytes + 100 <= 600) await journal.append(payload(600 - journal.sizeBytes > 100 ? 20 : 1));
  await assert.rejects(journal.append(payload(601 - journal.sizeBytes)), { code: "STORAGE_FULL", applied: "no" });
  const at = await journal.checkpoint(() => payload(100));
  await journal.trim(at);
  await journal.append(payload(10));
});

test("limits: nonsense: failed assertion", async () => {
  await assert.rejects(openOn(new MemoryDisk(), { limits: { segmentBytes: 0 } }), { code: "INTERNAL" });
  await assert.rejects(openOn(new MemoryDisk(), { limits: { segmentBytes: 2 ** 30 } }), { code: "INTERNAL" });
  assert.equal(JOURNAL_LIMITS.journalBytes, 64 * 1024 * 1024);
});

test("close: waits for appends; later ones are refused; opening again finds all", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk);
  const appended = [journal.append(text("a")), journal.append(text("b"))];
  await journal.close();
  assert.deepEqual(await Promise.all(appended), [0n, 1n]);
  await assert.rejects(journal.append(text("c")), { code: "DRAINING" });
  assert.deepEqual(await everything(await openOn(disk)), ["0:a", "1:b"]);
});

test("full disk: refused, nothing of it is ever there; with room again appends go on (I5)", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk);
  await journal.append(text("a"));
  disk.files.capacityBytes = disk.files.usedBytes + 60;
  const group = ["one that is torn", "another one", "third"].map((name) => journal.append(text(name)));
  for (const refused of group) await assert.rejects(refused, { code: "STORAGE_FULL", applied: "no" });
  assert.deepEqual(await everything(journal), ["0:a"]);
  disk.files.clearFaults();
  assert.equal(await journal.append(text("b")), 1n);
  disk.crash(({ length }) => length);
  assert.deepEqual(await everything(await openOn(disk, { strict: true })), ["0:a", "1:b"]);
});

test("full disk: no room for a new segment: refused; later ones go on without a gap", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk, { limits: SMALL });
  while (segmentPaths(disk).length < 2) await journal.append(text("filling"));
  disk.files.capacityBytes = disk.files.usedBytes + 30;
  const next = journal.nextSequence;
  await assert.rejects(journal.append(new Uint8Array(150)), { code: "STORAGE_FULL", applied: "no" });
  disk.files.clearFaults();
  assert.equal(await journal.append(text("on")), next);
  assert.equal((await everything(await openOn(disk, { limits: SMALL, strict: true }))).length, Number(next) + 1);
});

/** A journal on a full disk whose appends wait: `again` lets them try once more. */
async function waitingOn(
  disk: MemoryDisk,
): Promise<{ readonly journal: Journal; readonly tried: () => Promise<void>; readonly again: () => void }> {
  let pause = Promise.withResolvers<void>();
  let begun = Promise.withResolvers<void>();
  const spacePause = (): Promise<void> => {
    begun.resolve();
    return pause.promise;
  };
  const journal = await openOn(disk, { limits: SMALL, spacePause });
  await journal.append(text("a"));
  disk.files.capacityBytes = disk.files.usedBytes + 10;
  const tried = async (): Promise<void> => {
    await begun.promise;
    begun = Promise.withResolvers();
  };
  const again = (): void => {
    pause.resolve();
    pause = Promise.withResolvers();
  };
  return { journal, tried, again };
}

test("full disk: appends that wait for space: reads go on; with space they are there in their order, and after a power cut", async () => {
  const disk = new MemoryDisk();
  const { journal, tried, again } = await waitingOn(disk);
  const large = journal.append(new Uint8Array(150).fill(98));
  await tried();
  const small = journal.append(text("c"));
  again();
  await tried();
  assert.deepEqual([await everything(journal), journal.nextSequence], [["0:a"], 3n]);
  disk.files.clearFaults();
  again();
  assert.deepEqual([await large, await small], [1n, 2n]);
  disk.crash(() => 0);
  assert.deepEqual(await everything(await openOn(disk, { limits: SMALL, strict: true })), ["0:a", `1:${"b".repeat(150)}`, "2:c"]);
});

test("full disk: closed while appends wait for space: refused, also those behind them that there is space for", async () => {
  const disk = new MemoryDisk();
  const { journal, tried, again } = await waitingOn(disk);
  const appended = [journal.append(new Uint8Array(150))];
  await tried();
  appended.push(journal.append(text("")));
  const refused = Promise.all(appended.map((append) => assert.rejects(append, { code: "STORAGE_FULL", applied: "no" })));
  const closed = journal.close();
  again();
  await Promise.all([refused, closed]);
  disk.files.clearFaults();
  assert.deepEqual(await everything(await openOn(disk, { limits: SMALL, strict: true })), ["0:a"]);
});

test("[OGD8] failed sync: all in the group get unknown, all behind and later no; reads go on; the file is never synced again", async () => {
  const disk = new WatchedDisk();
  const journal = await openOn(disk);
  await journal.append(text("a"));
  disk.files.failNextSync();
  const group = [journal.append(text("b")), journal.append(text("c"))];
  for (const failed of group) await assert.rejects(failed, { code: "STORE_FAILED", applied: "unknown" });
  const { syncs } = disk;
  assert.ok(journal.isStopped);
  await assert.rejects(journal.append(text("d")), { code: "STORE_FAILED", applied: "no" });
  await assert.rejects(
    journal.checkpoint(() => text("e")),
    { code: "STORE_FAILED", applied: "no" },
  );
  await journal.close();
  assert.equal(disk.syncs, syncs);
  assert.deepEqual(await everything(journal), ["0:a"]);
});

test("[OGD8] failed sync: with a snapshot: the next segment begins with it, waiting appends go behind it, all is there after a restart", async () => {
  for (const keeps of [true, false]) {
    const disk = new MemoryDisk();
    const journal = await openOn(disk, { onSyncFailed: () => text("unresolved: b") });
    await journal.append(text("a"));
    disk.files.failNextSync();
    const failed = journal.append(text("b"));
    const told = assert.rejects(failed, { code: "STORE_FAILED", applied: "unknown" });
    let behind: Promise<bigint> | undefined;
    failed.catch(() => (behind = journal.append(text("c"))));
    await told;
    assert.equal(await behind, 2n);
    assert.equal(await journal.append(text("d")), 3n);
    const expected = ["0:a", "1!unresolved: b", "2:c", "3:d"];
    assert.deepEqual(await everything(journal), expected);
    disk.crash(({ length }) => (keeps ? length : 0));
    assert.deepEqual(await everything(await openOn(disk, { strict: true })), expected);
  }
});

test("[OGD8] failed sync: no new segment can be made: the journal stops and says so once", async () => {
  const disk = new MemoryDisk();
  let stops = 0;
  const journal = await openOn(disk, { onSyncFailed: () => text("unresolved"), onStopped: () => (stops += 1) });
  disk.files.failNextSync();
  disk.files.failNextSync();
  await assert.rejects(journal.append(text("a")), { code: "STORE_FAILED", applied: "unknown" });
  await assert.rejects(journal.append(text("b")), { code: "STORE_FAILED", applied: "no" });
  assert.ok(journal.isStopped);
  assert.equal(stops, 1);
});

test("failpoints: each is passed", async () => {
  const passed = new Set<string>();
  const disk = new MemoryDisk();
  const journal = await openOn(disk, { limits: SMALL, failpoint: (name) => passed.add(name), onSyncFailed: () => text("all") });
  for (let n = 0; n < 20; n += 1) await journal.append(text(`r${n}`));
  await journal.trim(15n);
  disk.files.failNextSync();
  await journal.append(text("x")).catch(() => undefined);
  await journal.append(text("y"));
  assert.deepEqual([...passed].sort(), [
    "journal:group-synced",
    "journal:group-writing",
    "journal:segment-dropped",
    "journal:segment-made",
    "journal:segment-written",
    "journal:snapshot-written",
  ]);
});
