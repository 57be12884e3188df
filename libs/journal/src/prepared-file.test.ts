// Segments whose files were zeros before they held a record (I10): what syncs change, where such a segment ends, and what a crash leaves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk } from "@concord/port-contracts";
import {
  decodeSegmentHeader,
  encodeEndMark,
  encodeSegmentHeader,
  END_MARK_BYTES,
  FRAME_HEADER_BYTES,
  SEGMENT_HEADER_BYTES,
} from "./format.ts";
import {
  checksum,
  everything as everythingWhole,
  findingsOn,
  flip,
  openOn,
  optionsOn,
  rot,
  segmentPaths,
  text,
} from "./test/memory-journal.ts";
import { openJournal, type Journal, type JournalFindings, type JournalOptions } from "./index.ts";

const CLEAN: JournalFindings = { tornBytes: 0, tornCopies: [], lostSegments: [], quarantined: [] };
const BYTES = 12_288;
const limits = { segmentBytes: BYTES, preparedBytes: BYTES };
const PREPARED = "journal/prepared";

/** As much as makes a journal prepare its next file. */
const GROWN = "g".repeat(BYTES / 8);

const everything = async (journal: Journal): Promise<string[]> =>
  (await everythingWhole(journal)).map((record) => record.replace(GROWN, "grown"));

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
};

const bytesOf = (disk: MemoryDisk, path: string): Uint8Array => disk.files.contents().get(path)!;
const newest = (disk: MemoryDisk): string => segmentPaths(disk).at(-1)!;

/** A journal whose newest segment is a prepared one: "0:ggg..." is in the one before it, these groups are in it. */
async function preparedWith(
  disk: MemoryDisk,
  groups: readonly (readonly string[])[],
  more: Partial<JournalOptions> = {},
): Promise<Journal> {
  const journal = await openOn(disk, { limits, ...more });
  await journal.append(text(GROWN));
  await settled();
  for (const group of groups) await Promise.all(group.map((record) => journal.append(text(record))));
  return journal;
}

async function reopened(disk: MemoryDisk, more: Partial<JournalOptions> = {}): Promise<{ records: string[]; findings: JournalFindings }> {
  const { journal, findings } = await openJournal(optionsOn(disk, { limits, strict: true, ...more }));
  const records = await everything(journal);
  await journal.close();
  return { records, findings };
}

/** The end of the newest segment's last group. */
function endOf(disk: MemoryDisk): number {
  const bytes = bytesOf(disk, newest(disk));
  return bytes.findLastIndex((byte) => byte !== 0) + 1 - END_MARK_BYTES;
}

async function copyOf(disk: MemoryDisk): Promise<MemoryDisk> {
  const copy = new MemoryDisk();
  await copy.makeFolder("journal");
  for (const [path, bytes] of disk.files.contents()) {
    const file = await copy.create(path);
    assert.ok(file !== "exists");
    await file.write(0, [bytes]);
    await file.sync();
  }
  await copy.syncFolder("journal");
  return copy;
}

test("format: a prepared segment: header, a group, its end mark, zeros; byte for byte", () => {
  const id = Uint8Array.from({ length: 8 }, (_, at) => at + 1);
  const header = { id, ordinal: 2, firstSequence: 5n, previous: { ordinal: 1, end: 105 }, lastSequenceBefore: 4n, isPrepared: true };
  const golden =
    "434e43444a524e4c3fc71d9d01070000010203040506070800000000000000020000000000000005000000000000000100000069000000000000000000000004";
  const bytes = encodeSegmentHeader(header, checksum);
  assert.equal(Buffer.from(bytes).toString("hex"), golden);
  assert.deepEqual(decodeSegmentHeader(bytes, checksum), header);
  assert.equal(Buffer.from(encodeEndMark(id, 64, checksum)).toString("hex"), "dafa67e501ff0000000000400102030405060708");
  assert.ok(END_MARK_BYTES <= FRAME_HEADER_BYTES, "a frame overwrites the mark before it");
});

test("append: the next segment's file is prepared meanwhile: then groups change no file's size, and reopening goes on in it", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"], ["b", "c"]]);
  assert.deepEqual([segmentPaths(disk).length, bytesOf(disk, newest(disk)).length], [2, BYTES]);
  await journal.close();
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2:b", "3:c"], findings: CLEAN });
  const again = await openOn(disk, { limits, strict: true });
  await again.append(text("d"));
  assert.deepEqual([segmentPaths(disk).length, bytesOf(disk, newest(disk)).length], [2, BYTES]);
  disk.crash();
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2:b", "3:c", "4:d"], findings: CLEAN });
});

test("append: the prepared zeros are half used: the next file is prepared; at their end it is the next segment", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"]]);
  assert.ok(!disk.files.contents().has(PREPARED));
  await journal.append(new Uint8Array(BYTES / 2));
  await settled();
  assert.equal(bytesOf(disk, PREPARED).length, BYTES);
  await journal.append(new Uint8Array(BYTES / 2));
  assert.deepEqual([segmentPaths(disk).length, bytesOf(disk, newest(disk)).length], [3, BYTES]);
});

test("close: what was prepared or is being prepared is removed", async () => {
  for (const turns of [0, 3, 6, 200]) {
    const disk = new MemoryDisk();
    const journal = await openOn(disk, { limits });
    await journal.append(text(GROWN));
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    await journal.close();
    assert.ok(!disk.files.contents().has(PREPARED), `after ${turns} turns`);
  }
});

test("no group in a prepared segment: its end is found, the first group goes into it", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, []);
  await journal.append(text("a"));
  await journal.close();
  await rot(disk, newest(disk), (bytes) => {
    const id = bytes.slice(16, 24);
    return Uint8Array.from({ length: bytes.length }, (_, at) => (at < 64 ? bytes[at]! : (encodeEndMark(id, 64, checksum)[at - 64] ?? 0)));
  });
  assert.deepEqual(await reopened(disk), { records: ["0:grown"], findings: CLEAN });
  const again = await openOn(disk, { limits, strict: true });
  assert.equal(await again.append(text("b")), 1n);
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:b"], findings: CLEAN });
});

test("a power cut at any time while a file is prepared and named: acknowledged records are there, nothing is damaged, nothing is left over", async () => {
  for (const kept of [0, 0.4, 1]) {
    for (let turns = 0; turns < 60; turns += 1) {
      const disk = new MemoryDisk();
      const journal = await openOn(disk, { limits });
      const sent = [journal.append(text(GROWN)), journal.append(text("b"))];
      await Promise.all(sent);
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      const last = journal.append(text("c")).then(
        () => true,
        () => false,
      );
      for (let turn = 0; turn < turns % 30; turn += 1) await Promise.resolve();
      let isAnswered = false;
      void last.then((answer) => (isAnswered = answer));
      await Promise.resolve();
      const answered = isAnswered;
      disk.crash(({ length }) => Math.round(length * kept));
      const { records, findings } = await reopened(disk);
      assert.deepEqual(records.slice(0, answered ? 3 : 2), ["0:grown", "1:b", "2:c"].slice(0, answered ? 3 : 2));
      assert.deepEqual(findings.quarantined, []);
      assert.ok(!disk.files.contents().has(PREPARED));
    }
  }
});

test("a file that was not named yet: removed at opening, also by a program that prepares none", async () => {
  for (const preparedBytes of [0, BYTES]) {
    const disk = new MemoryDisk();
    const journal = await preparedWith(disk, [["a"]]);
    await journal.close();
    const file = await disk.create(PREPARED);
    assert.ok(file !== "exists");
    await file.write(0, [bytesOf(disk, newest(disk)).slice(0, 90)]);
    const found = await reopened(disk, { limits: { ...limits, preparedBytes } });
    assert.deepEqual(found, { records: ["0:grown", "1:a"], findings: CLEAN });
    assert.ok(!disk.files.contents().has(PREPARED));
  }
});

test("full disk, failed sync, a file in the way while a file is prepared: appends go on in one that grows", async () => {
  for (const harm of ["full", "sync", "exists"]) {
    const disk = new MemoryDisk();
    const journal = await openOn(disk, { limits });
    if (harm === "exists") await disk.create(PREPARED);
    if (harm === "full") disk.files.capacityBytes = disk.files.usedBytes + 5_000;
    await journal.append(text(GROWN));
    if (harm === "sync") disk.files.failNextSync();
    await settled();
    await journal.append(text("b"));
    await settled();
    assert.deepEqual([segmentPaths(disk).length, disk.files.contents().has(PREPARED)], [1, harm === "exists"], harm);
    assert.deepEqual((await reopened(disk)).records, ["0:grown", "1:b"]);
  }
});

test("full disk at the zeros' end: refused, nothing of it is ever there, its end is as it was; with space again appends go on (I5)", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"]], { limits: { segmentBytes: BYTES, preparedBytes: 200 } });
  disk.files.capacityBytes = disk.files.usedBytes + 60;
  const group = ["one that fits", "x".repeat(400), "third"].map((name) => journal.append(text(name)));
  for (const refused of group) await assert.rejects(refused, { code: "STORAGE_FULL", applied: "no" });
  assert.deepEqual(await everything(journal), ["0:grown", "1:a"]);
  assert.deepEqual(await reopened(await copyOf(disk)), { records: ["0:grown", "1:a"], findings: CLEAN });
  disk.files.clearFaults();
  assert.equal(await journal.append(text("b")), 2n);
  disk.crash(({ length }) => length);
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2:b"], findings: CLEAN });
});

test("row 8: the last group is lost without a trace but the mark that it overwrote: torn, said, and said once", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"], ["b"]]);
  await journal.close();
  // As a disk does that loses the block in which the group and all behind it lie.
  const from = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 1;
  for (const lose of [(bytes: Uint8Array) => bytes.fill(0, from), (bytes: Uint8Array) => bytes.slice(0, from)]) {
    const hurt = await copyOf(disk);
    await rot(hurt, newest(hurt), lose);
    assert.deepEqual(await reopened(hurt), { records: ["0:grown", "1:a"], findings: { ...CLEAN, tornBytes: END_MARK_BYTES } });
    assert.deepEqual(await reopened(hurt), { records: ["0:grown", "1:a"], findings: CLEAN });
  }
});

test("row 8: a power cut tears the group behind an end mark: cut off, appends go on", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"]]);
  const at = endOf(disk);
  await journal.close();
  // Its first page is lost, a later one is not.
  await rot(disk, newest(disk), (bytes) => {
    bytes.fill(7, 8_192, 8_200);
    return bytes;
  });
  const { records, findings } = await reopened(disk);
  assert.deepEqual([records, findings], [["0:grown", "1:a"], { ...CLEAN, tornBytes: 8_200 - at }]);
  const again = await openOn(disk, { limits, strict: true });
  await again.append(text("b"));
  disk.crash();
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2:b"], findings: CLEAN });
});

test("row 10: an end mark with a later group behind it: that was synced, so one between them is lost: damage", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"]]);
  const [at, mark] = [endOf(disk), bytesOf(disk, newest(disk))];
  for (const record of ["b", "c"]) await journal.append(text(record));
  await journal.close();
  const end = at + FRAME_HEADER_BYTES + 1;
  await rot(disk, newest(disk), (bytes) => Uint8Array.from([...bytes.slice(0, at), ...mark.slice(at, end), ...bytes.slice(end)]));
  await assert.rejects(reopened(disk), { code: "CORRUPT_DATA" });
  assert.deepEqual((await reopened(disk, { strict: false })).records, ["0:grown", "1:a", "3:c"]);
});

test("[OGD8] every bit of a prepared segment, every truncation: never misparsed; silent in no acknowledged record", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["first", "second"], ["third"], ["fourth", "fifth"]]);
  await journal.close();
  const expected = ["0:grown", "1:first", "2:second", "3:third", "4:fourth", "5:fifth"];
  const end = endOf(disk) + END_MARK_BYTES;
  for (let at = 0; at < end + 10; at += 1) {
    for (const change of [
      flip(at, at & 7),
      (bytes: Uint8Array) => bytes.slice(0, at),
      (bytes: Uint8Array) => bytes.fill(0, at, at + 512),
    ]) {
      const hurt = await copyOf(disk);
      await rot(hurt, newest(hurt), change);
      const found = await reopened(hurt).catch(({ code }: { code: string }) => code);
      if (typeof found === "string") {
        assert.equal(found, "CORRUPT_DATA");
        continue;
      }
      assert.deepEqual(found.records, expected.slice(0, found.records.length), `at ${at}`);
      const isSaid = found.findings.tornBytes > 0 || found.findings.lostSegments.length > 0;
      assert.ok(isSaid || found.records.length === expected.length, `a loss at ${at} is not said`);
    }
  }
});

test("failed sync in a prepared segment: the next one says where it ended (row 6)", async () => {
  const disk = new MemoryDisk();
  const journal = await preparedWith(disk, [["a"]], { onSyncFailed: () => text("all") });
  disk.files.failNextSync();
  await assert.rejects(journal.append(text("lost")), { code: "STORE_FAILED", applied: "unknown" });
  await journal.append(text("b"));
  await journal.close();
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2!all", "3:b"], findings: CLEAN });
  disk.crash(({ length }) => length);
  assert.deepEqual(await reopened(disk), { records: ["0:grown", "1:a", "2!all", "3:b"], findings: CLEAN });
});

test("row 4: a prepared segment that was named, failed and came back: removed; row 5: with its successor absent: its mark is its end", async () => {
  const disk = new MemoryDisk();
  const failpoint = (name: string): void => {
    if (name === "journal:segment-written" && disk.files.contents().has(PREPARED)) disk.files.failNextSync();
  };
  const journal = await openOn(disk, { limits, failpoint });
  await journal.append(text(GROWN));
  await settled();
  // The sync of its name fails, and nothing says that its removal reached the disk.
  await assert.rejects(journal.append(text("a")), { code: "STORE_FAILED", applied: "no" });
  let names = 0;
  const copy = await copyOf(disk);
  disk.crash(({ kind }) => (kind === "name" && (names += 1) === 2 ? 0 : 1));
  assert.deepEqual((await reopened(disk)).records, ["0:grown"]);
  assert.deepEqual((await reopened(copy)).records, ["0:grown"]);
  const held = await preparedWith(copy, [["c"], ["d"]]);
  await held.append(new Uint8Array(BYTES / 2));
  await settled();
  await held.append(new Uint8Array(BYTES / 2));
  await held.append(text("e"));
  await held.close();
  await copy.remove(segmentPaths(copy).at(-2)!);
  await assert.rejects(reopened(copy), { code: "CORRUPT_DATA" });
  const { findings } = await reopened(copy, { strict: false });
  assert.ok(findings.quarantined.every(({ reason }) => !reason.includes("no record")));
});

test("older programs' folders open, and the newest segment grows on until a prepared file is there", async () => {
  const disk = new MemoryDisk();
  const before = await openOn(disk);
  await before.append(text("a"));
  await before.close();
  assert.deepEqual(await findingsOn(disk, { limits, strict: true }), CLEAN);
  const journal = await openOn(disk, { limits, strict: true });
  await journal.append(text(GROWN));
  await settled();
  await journal.append(text("c"));
  assert.deepEqual([segmentPaths(disk).length, bytesOf(disk, newest(disk)).length], [2, BYTES]);
  assert.deepEqual((await reopened(disk)).records, ["0:a", "1:grown", "2:c"]);
});
