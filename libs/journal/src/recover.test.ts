// The decision table of the README, one test per row, and damage at every byte.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryDisk } from "@concord/port-contracts";
import { FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES } from "./format.ts";
import { everything, findingsOn, flip, openOn, optionsOn, processOn, rot, segmentPaths, SMALL, text } from "./test/memory-journal.ts";
import { openJournal, type Journal, type JournalFindings, type JournalOptions } from "./index.ts";

const FRAME = FRAME_HEADER_BYTES;
const CLEAN: JournalFindings = { tornBytes: 0, tornCopies: [], lostSegments: [], quarantined: [] };

/** A journal with these records, each group synced by itself. */
async function diskWith(groups: readonly (readonly string[])[], more: Partial<JournalOptions> = {}): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  const journal = await openOn(disk, more);
  for (const group of groups) await Promise.all(group.map((record) => journal.append(text(record))));
  await journal.close();
  return disk;
}

async function reopened(disk: MemoryDisk, more: Partial<JournalOptions> = {}): Promise<{ records: string[]; findings: JournalFindings }> {
  const { journal, findings } = await openJournal(optionsOn(disk, more));
  const records = await everything(journal);
  await journal.close();
  return { records, findings };
}

/** What is in the journal's folder that is no segment. */
function quarantined(disk: MemoryDisk): string[] {
  return [...disk.files.contents().keys()].filter((path) => path.endsWith(".bad"));
}

const append = (bytes: Uint8Array, tail: Uint8Array): Uint8Array => Uint8Array.from([...bytes, ...tail]);
const only = (disk: MemoryDisk): string => segmentPaths(disk)[0]!;

test("row 1: no segments: the first one is made, durably", async () => {
  const disk = new MemoryDisk();
  assert.deepEqual(await findingsOn(disk), CLEAN);
  disk.crash();
  assert.deepEqual(await reopened(disk), { records: [], findings: CLEAN });
  assert.equal(segmentPaths(disk).length, 1);
});

test("row 2: a file of at most a header and no sound one: removed, it never held a record; reported, since the disk may have lost what it held", async () => {
  for (const bytes of [0, 10, SEGMENT_HEADER_BYTES]) {
    const disk = await diskWith([["a"]]);
    const file = await disk.create("journal/0000000000000002.journal");
    assert.ok(file !== "exists");
    await file.write(0, [new Uint8Array(bytes)]);
    const { records, findings } = await reopened(disk, { strict: true });
    assert.deepEqual([records, findings], [["0:a"], { ...CLEAN, tornBytes: bytes, lostSegments: ["0000000000000002.journal"] }]);
    assert.deepEqual([segmentPaths(disk).length, quarantined(disk)], [1, []]);
  }
});

test("row 3: a damaged header before records: the segment is quarantined and reported", async () => {
  const disk = await diskWith([["a"]]);
  await rot(disk, only(disk), flip(20));
  assert.deepEqual((await reopened(disk)).records, []);
  assert.deepEqual(quarantined(disk), ["journal/0000000000000001.journal.bad"]);
});

test("strict: one bit of any segment flips: every opening refuses and changes nothing, or each opens with the same records", async () => {
  const disk = await diskWith(
    Array.from({ length: 9 }, (_, n) => [`r${n}`]),
    { limits: SMALL },
  );
  const sound = disk.files.contents();
  const records = Array.from({ length: 9 }, (_, n) => `${n}:r${n}`);
  const last = segmentPaths(disk).at(-1)!;
  assert.ok(segmentPaths(disk).length > 2);
  for (const path of segmentPaths(disk)) {
    for (let at = 0; at < sound.get(path)!.length; at += 1) {
      const hurt = new MemoryDisk();
      await hurt.makeFolder("journal");
      for (const [name, bytes] of sound) {
        const file = await hurt.create(name);
        assert.ok(file !== "exists");
        await file.write(0, [name === path ? flip(at, at & 7)(bytes.slice()) : bytes]);
      }
      const before = hurt.files.contents();
      for (const opening of ["first", "second"]) {
        const found = await reopened(hurt, { strict: true }).catch((error: unknown) => error);
        if (found instanceof Error) {
          assert.equal("code" in found && found.code, "CORRUPT_DATA");
          assert.deepEqual(hurt.files.contents(), before, `the ${opening} opening changes what it refuses: ${path} at ${at}`);
        } else {
          const { records: kept } = found as { records: string[] };
          assert.ok(path === last && at >= SEGMENT_HEADER_BYTES, `the ${opening} opening misses a flip of ${path} at ${at}`);
          assert.deepEqual(kept, records.slice(0, kept.length));
        }
      }
    }
  }
});

test("row 3: a segment under another's name: quarantined; a second one too, under a third name", async () => {
  const disk = await diskWith([["a"]]);
  for (const ordinal of [7, 7]) {
    const [, bytes] = [...disk.files.contents()].find(([path]) => path.endsWith("1.journal"))!;
    const file = await disk.create(`journal/000000000000000${ordinal}.journal`);
    assert.ok(file !== "exists");
    await file.write(0, [bytes]);
    assert.deepEqual((await reopened(disk)).findings.quarantined.length, 1);
  }
  assert.deepEqual(quarantined(disk), ["journal/0000000000000007.journal.bad", "journal/0000000000000007.journal.bad-2"].slice(0, 1));
  assert.ok(disk.files.contents().has("journal/0000000000000007.journal.bad-2"));
  assert.deepEqual((await reopened(disk)).records, ["0:a"]);
});

test("row 4: a segment without records that its successor does not follow: removed", async () => {
  const disk = await diskWith([["a"]], { limits: SMALL });
  const journal = await openOn(disk, { limits: SMALL });
  await journal.append(text("b"));
  disk.files.failNextSync();
  // The new segment's header cannot be synced; its removal is not synced either, so that a power cut brings it back.
  await assert.rejects(journal.append(new Uint8Array(150)), { code: "STORE_FAILED", applied: "no" });
  const empty = disk.files.contents().get(only(disk))!.slice(0, SEGMENT_HEADER_BYTES);
  await journal.append(text("c"));
  await journal.close();
  const leftover = await disk.create("journal/0000000000000002.journal");
  assert.ok(leftover !== "exists");
  await leftover.write(0, [empty]);
  const { records, findings } = await reopened(disk, { limits: SMALL, strict: true });
  assert.deepEqual([records, findings.quarantined], [["0:a", "1:b", "2:c"], []]);
});

test("row 5: a segment in the middle is absent: reported; what is there is read, with the jump", async () => {
  const disk = await diskWith(
    Array.from({ length: 12 }, (_, n) => [`r${n}`]),
    { limits: SMALL },
  );
  await disk.remove(segmentPaths(disk)[1]!);
  await assert.rejects(openOn(disk, { strict: true }), { code: "CORRUPT_DATA" });
  const { records, findings } = await reopened(disk);
  assert.ok(findings.quarantined.some(({ name }) => name === "0000000000000002.journal"));
  assert.deepEqual([records[0], records.at(-1)], ["0:r0", "11:r11"]);
  assert.ok(records.length < 12);
});

test("row 6: bytes behind the end that the successor names: a group whose sync failed, no damage", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk, { onSyncFailed: () => text("all") });
  await journal.append(text("a"));
  disk.files.failNextSync();
  await journal.append(text("lost")).catch(() => undefined);
  await journal.append(text("b"));
  await rot(disk, only(disk), (bytes) => append(bytes, Uint8Array.of(1, 2, 3)));
  const { records, findings } = await reopened(disk, { strict: true });
  assert.deepEqual([records, findings], [["0:a", "1!all", "2:b"], CLEAN]);
});

test("row 7: a segment is shorter than its successor says: reported", async () => {
  const disk = await diskWith(
    Array.from({ length: 6 }, (_, n) => [`r${n}`]),
    { limits: SMALL },
  );
  await rot(disk, only(disk), (bytes) => bytes.slice(0, -3));
  for (const verify of ["all", "last"] as const) {
    await assert.rejects(openOn(disk, { strict: true, verify }), { code: "CORRUPT_DATA" });
    assert.ok((await findingsOn(disk, { verify })).quarantined.length > 0);
  }
});

test("[OGD8] row 8: the last segment ends in a torn record: cut off", async () => {
  const whole = await diskWith([["a"], ["b"]]);
  const size = whole.files.contents().get(only(whole))!.length;
  for (let cut = 1; cut <= FRAME + 1; cut += 1) {
    const disk = await diskWith([["a"], ["b"]]);
    await rot(disk, only(disk), (bytes) => bytes.slice(0, size - cut));
    const { records, findings } = await reopened(disk, { strict: true });
    assert.deepEqual([records, findings], [["0:a"], { ...CLEAN, tornBytes: FRAME + 1 - cut }]);
    const journal = await openOn(disk, { strict: true });
    assert.equal(await journal.append(text("c")), 1n);
  }
});

test("row 8: zeros or noise behind the last record: cut off", async () => {
  for (const tail of [new Uint8Array(1), new Uint8Array(5_000), Uint8Array.from({ length: 300 }, (_, at) => (at * 91) & 255)]) {
    const disk = await diskWith([["a"]]);
    await rot(disk, only(disk), (bytes) => append(bytes, tail));
    const { records, findings } = await reopened(disk, { strict: true });
    assert.deepEqual([records, findings], [["0:a"], { ...CLEAN, tornBytes: tail.length }]);
  }
});

test("[OGD8] row 9: a torn group in which a later record is whole: cut off from the torn one on, a copy is kept, no damage", async () => {
  const disk = await diskWith([["a"], ["b", "c", "d"]]);
  const torn = SEGMENT_HEADER_BYTES + FRAME + 1;
  await rot(disk, only(disk), flip(torn + FRAME));
  const { records, findings } = await reopened(disk, { strict: true });
  const copy = `0000000000000001.journal.${torn}-${torn + 3 * (FRAME + 1)}.bad`;
  assert.deepEqual([records, findings], [["0:a"], { ...CLEAN, tornBytes: 3 * (FRAME + 1), tornCopies: [copy] }]);
  assert.equal(disk.files.contents().get(`journal/${copy}`)?.length, 3 * (FRAME + 1));
  assert.deepEqual((await reopened(disk)).findings, CLEAN);
});

test("[OGD8] row 10: bad bytes before a record of a later group: damage, quarantined and reported; the records around it are read", async () => {
  const disk = await diskWith([["a"], ["b"], ["c"], ["d"]]);
  const at = SEGMENT_HEADER_BYTES + FRAME + 1;
  await rot(disk, only(disk), flip(at + 4));
  await assert.rejects(openOn(disk, { strict: true }), { code: "CORRUPT_DATA" });
  for (let again = 0; again < 2; again += 1) {
    const { records, findings } = await reopened(disk);
    assert.deepEqual(records.slice(0, 3), ["0:a", "2:c", "3:d"]);
    assert.equal(findings.quarantined[0]?.name, `0000000000000001.journal.${at}-${at + FRAME + 1}.bad`);
    assert.equal(findings.tornBytes, 0);
  }
  const journal = await openOn(disk);
  assert.equal(await journal.append(text("e")), 4n);
  assert.equal(segmentPaths(disk).length, 2);
  assert.deepEqual(await everything(journal), ["0:a", "2:c", "3:d", "4:e"]);
  assert.deepEqual((await reopened(disk)).records, ["0:a", "2:c", "3:d", "4:e"]);
});

test("[OGD8] row 11: bad bytes in a segment that is not the last one: damage, wherever it is", async () => {
  const made = (): Promise<MemoryDisk> =>
    diskWith(
      Array.from({ length: 9 }, (_, n) => [`r${n}`]),
      { limits: SMALL },
    );
  const size = await made().then((disk) => disk.files.contents().get(only(disk))!.length);
  for (const at of [SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + FRAME, size - 1]) {
    const disk = await made();
    await rot(disk, only(disk), flip(at));
    await assert.rejects(openOn(disk, { strict: true }), { code: "CORRUPT_DATA" });
    const { records, findings } = await reopened(disk);
    assert.equal(records.length, 8);
    assert.ok(findings.quarantined.length > 0);
    assert.equal(quarantined(disk).length, 1);
  }
});

test("row 12: only the last segment is verified: opening is silent about others, their reader is not", async () => {
  const disk = await diskWith(
    Array.from({ length: 9 }, (_, n) => [`r${n}`]),
    { limits: SMALL },
  );
  await rot(disk, only(disk), flip(SEGMENT_HEADER_BYTES + FRAME));
  const { journal, findings } = await openJournal(optionsOn(disk, { verify: "last", strict: true }));
  assert.deepEqual(findings, CLEAN);
  await assert.rejects(everything(journal), { code: "CORRUPT_DATA" });
  assert.equal(journal.nextSequence, 9n);
});

test("row 13: what was read at opening is durable, also what a failed sync had left to reads alone (I6)", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk);
  await journal.append(text("a"));
  disk.files.failNextSync();
  await Promise.all(["b", "c"].map((record) => journal.append(text(record)).catch(() => undefined)));
  await journal.close();
  // The process starts again, the machine did not go down: reads see what the disk does not have.
  assert.deepEqual((await reopened(disk)).records, ["0:a", "1:b", "2:c"]);
  disk.crash();
  assert.deepEqual((await reopened(disk)).records, ["0:a", "1:b", "2:c"]);
});

test("row 13: a torn tail that was cut off does not come back", async () => {
  const disk = await diskWith([["a"], ["b"]]);
  await rot(disk, only(disk), (bytes) => append(bytes, bytes.slice(SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + FRAME)));
  await findingsOn(disk);
  disk.crash();
  assert.deepEqual(await reopened(disk), { records: ["0:a", "1:b"], findings: CLEAN });
});

test("[DDD4] row 14, takesOver: what the earlier owner writes later is in no reader's way, torn or whole, before and after a restart (I9)", async () => {
  for (const torn of [false, true]) {
    const disk = await diskWith([["a"]]);
    const paused = await openOn(disk);
    await paused.append(text("b"));
    if (torn) await rot(disk, only(disk), (bytes) => append(bytes, Uint8Array.of(1, 2, 3)));
    const owner = await openOn(disk, { takesOver: true });
    await paused.append(text("late"));
    assert.deepEqual(await everything(owner), ["0:a", "1:b"]);
    await owner.append(text("c"));
    await paused.append(text("later"));
    assert.deepEqual(await everything(owner), ["0:a", "1:b", "2:c"]);
    const next = await openOn(disk, { takesOver: true });
    await owner.append(text("late too"));
    assert.deepEqual(await everything(next), ["0:a", "1:b", "2:c"]);
    for (const journal of [paused, owner, next]) await journal.close();
    disk.crash();
    assert.deepEqual((await reopened(disk, { strict: true })).records, ["0:a", "1:b", "2:c"]);
  }
});

test("[OGD8] damage: every bit of a small journal flipped, one at a time: never misparsed, never silent but in the last group", async () => {
  const groups = [["first", "second"], ["third"], ["fourth", "fifth"]];
  const expected = groups.flat().map((record, n) => `${n}:${record}`);
  const disk = await diskWith(groups);
  const [path, sound] = [only(disk), disk.files.contents().get(only(disk))!];
  const lastGroupAt = sound.length - 2 * FRAME - "fourthfifth".length;
  for (let at = 0; at < sound.length; at += 1) {
    for (const bit of [0, at & 7]) {
      const hurt = new MemoryDisk();
      await hurt.makeFolder("journal");
      const file = await hurt.create(path);
      assert.ok(file !== "exists");
      await file.write(0, [flip(at, bit)(sound.slice())]);
      const { records, findings } = await reopened(hurt);
      assert.ok(records.length < 5, `flip at ${at} was not found`);
      for (const record of records) assert.ok(expected.includes(record), `flip at ${at} gives ${record}`);
      assert.deepEqual(records, [...records].sort());
      if (at < lastGroupAt) assert.ok(findings.quarantined.length > 0, `flip at ${at} is silent`);
      else assert.deepEqual([findings.quarantined.length, records.slice(0, 3)], [0, expected.slice(0, 3)]);
      assert.ok(findings.tornBytes > 0 || findings.quarantined.length > 0);
    }
  }
});

test("[OGD8] truncation: at every byte of a small journal: a prefix of its records, never an error", async () => {
  const groups = [["first", "second"], ["third"], ["fourth", "fifth"]];
  const expected = groups.flat().map((record, n) => `${n}:${record}`);
  const disk = await diskWith(groups);
  const [path, sound] = [only(disk), disk.files.contents().get(only(disk))!];
  for (let size = 0; size <= sound.length; size += 1) {
    const hurt = new MemoryDisk();
    await hurt.makeFolder("journal");
    const file = await hurt.create(path);
    assert.ok(file !== "exists");
    await file.write(0, [sound.slice(0, size)]);
    const { records, findings } = await reopened(hurt, { strict: true });
    assert.deepEqual(records, expected.slice(0, records.length));
    assert.equal(findings.quarantined.length, 0);
    const journal = await openOn(hurt);
    assert.equal(await journal.append(text("next")), BigInt(records.length));
  }
});

test("payloads that look like frames of this or another journal: payloads", async () => {
  const other = await diskWith([["a"], ["b"]]);
  const bytes = other.files.contents().get(only(other))!;
  const disk = new MemoryDisk();
  const journal = await openOn(disk);
  await journal.append(bytes);
  await journal.append(disk.files.contents().get(only(disk))!.slice());
  await journal.append(text("torn"));
  await journal.close();
  await rot(disk, only(disk), (content) => content.slice(0, -1));
  const { records, findings } = await reopened(disk, { strict: true });
  assert.equal(records.length, 2);
  assert.equal(findings.tornBytes, FRAME + 3);
});

interface Step {
  readonly kind: "append" | "crash" | "kill" | "fail-sync" | "fill" | "trim" | "checkpoint";
  readonly size: number;
  readonly count: number;
  readonly draws: readonly number[];
}

const steps = fc.array(
  fc.record<Step>({
    kind: fc.constantFrom("append", "append", "append", "append", "crash", "kill", "fail-sync", "fill", "trim", "checkpoint"),
    size: fc.nat({ max: 120 }),
    count: fc.integer({ min: 1, max: 6 }),
    draws: fc.array(fc.nat({ max: 100 }), { minLength: 1, maxLength: 12 }),
  }),
  { maxLength: 30, size: "max" },
);

/** What a run knows: which records were acknowledged, and which may be there. */
interface Sent {
  readonly name: string;
  state: "waiting" | "acknowledged" | "refused";
}

test("random appends and crashes: acknowledged records are there in order, and nothing else but unacknowledged ones behind them", async () => {
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), fc.constantFrom(0, 150, 600), async (script, goesOn, preparedBytes) => {
      const disk = new MemoryDisk();
      const limits = { segmentBytes: Math.max(200, preparedBytes), preparedBytes, groupBytes: 150 };
      const snapshots = goesOn ? { onSyncFailed: () => text("snapshot") } : {};
      let own = processOn(disk);
      const open = (): Promise<Journal> => openOn(disk, { disk: own.disk, limits, strict: true, ...snapshots });
      let journal = await open();
      const sent: Sent[] = [];
      let number = 0;
      for (const step of script) {
        const { draws } = step;
        let drawn = 0;
        const draw = (): number => draws[(drawn += 1) % draws.length]! / 100;
        for (let n = 0; n < step.count && (step.kind === "append" || step.kind === "crash" || step.kind === "fill"); n += 1) {
          const entry: Sent = { name: `${(number += 1)}${"x".repeat(step.size)}`, state: "waiting" };
          sent.push(entry);
          if (step.kind === "fill") disk.files.capacityBytes = disk.files.usedBytes + step.size;
          journal.append(text(entry.name)).then(
            () => (entry.state = "acknowledged"),
            ({ applied }: { applied: string }) => (entry.state = applied === "no" ? "refused" : "waiting"),
          );
        }
        if (step.kind === "checkpoint") await journal.checkpoint(() => text("snapshot")).catch(() => undefined);
        if (step.kind === "fail-sync") disk.files.failNextSync();
        if (step.kind === "trim") await journal.trim(journal.durableSequence / 2n).catch(() => undefined);
        for (let turn = 0; turn < draw() * 60; turn += 1) await Promise.resolve();
        if (step.kind === "fill" || step.kind === "append") for (let turn = 0; turn < 300; turn += 1) await Promise.resolve();
        disk.files.capacityBytes = Number.POSITIVE_INFINITY;
        if (step.kind === "crash") own.die();
        if (step.kind === "crash") disk.crash(({ length }) => Math.round(Math.max(0, Math.min(1, draw() * 1.5 - 0.25)) * length));
        if (step.kind === "kill" || step.kind === "crash" || journal.isStopped) {
          own.die();
          disk.files.clearFaults();
          own = processOn(disk);
          journal = await open();
        }
        await check(journal, sent);
      }
    }),
    { numRuns: 60 },
  );
});

async function check(journal: Journal, sent: Sent[]): Promise<void> {
  // What is refused later, or acknowledged while we read, is not known yet: take both sides of it.
  const before = new Map(sent.map((entry) => [entry.name, entry.state]));
  const found = (await everything(journal)).filter((record) => !record.includes("snapshot"));
  const names = found.map((record) => record.slice(record.indexOf(":") + 1));
  const first = Number(names[0]?.match(/^\d+/)?.[0] ?? 0);
  const order = names.map((name) => Number(name.match(/^\d+/)![0]));
  assert.deepEqual(
    order,
    [...order].sort((left, right) => left - right),
  );
  for (const { name, state } of sent) {
    const isThere = names.includes(name);
    const isTrimmed = journal.firstSequence > 0n && (names.length === 0 || Number(name.match(/^\d+/)![0]) < first);
    if (before.get(name) === "acknowledged") assert.ok(isThere || isTrimmed, `acknowledged ${name} is absent`);
    if (before.get(name) === "refused" && state === "refused") assert.ok(!isThere, `refused ${name} is there`);
  }
}
