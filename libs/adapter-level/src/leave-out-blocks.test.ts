// Blocks of keys and values that are not what was written: left out of their tables, once their keys are known to be suspect.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { BackingStore, SuspectRange } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { dataBlocksOf, FOOTER_BYTES, isSound, readIndex, TABLE, TRAILER_BYTES } from "./check-tables.ts";
import { damagedTables, suspectRangesIn } from "./index.ts";
import { withoutBlocks } from "./leave-out-blocks.ts";
import { ManifestEvidence } from "./manifest-evidence.ts";
import { openLevel, openLevelCopy } from "./test/levels.ts";

const ALL = { from: new Uint8Array(), to: Uint8Array.of(0xff), limit: 10_000 };
const ROWS = 400;
const keyOf = (n: number): string => `r${String(n).padStart(5, "0")}`;

let root: string;
let sound: string;
let evidence: Uint8Array;
/** Values that were written last; deleted keys are not in it. */
const written = new Map<string, string>();

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-blocks-"));
  sound = join(root, "sound");
  const store = await openLevel(sound);
  for (let round = 0; round < 3; round += 1) {
    const operations = Array.from({ length: ROWS }, (_, n) => n).filter((n) => round === 0 || n % (round + 1) === 0);
    for (const n of operations) {
      const isDeleted = round === 2 && n % 4 === 0;
      const [key, value] = [keyOf(n), `${round} ${n} ${"v".repeat(60)}`];
      await store.batch([
        isDeleted ? { kind: "delete", key: Buffer.from(key) } : { kind: "put", key: Buffer.from(key), value: Buffer.from(value) },
      ]);
      if (isDeleted) written.delete(key);
      else written.set(key, value);
    }
    await store.flush();
  }
  evidence = await store.evidence();
  await store.close();
});

after(() => rm(root, { recursive: true }));

async function tablesIn(folder: string): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => TABLE.test(name)).sort();
}

async function copied(): Promise<string> {
  const folder = await mkdtemp(join(root, "copy-"));
  await cp(sound, folder, { recursive: true });
  return folder;
}

async function flip(path: string, at: (table: Buffer) => number): Promise<void> {
  const table = await readFile(path);
  table[at(table)]! ^= 4;
  await writeFile(path, table);
}

async function filesOf(folder: string): Promise<ReadonlyMap<string, Buffer>> {
  const files = new Map<string, Buffer>();
  for (const name of await readdir(folder)) if (!/^(LOCK|LOG)/.test(name)) files.set(name, await readFile(join(folder, name)));
  return files;
}

const isWithin = (key: string, ranges: readonly SuspectRange[]): boolean =>
  ranges.some(({ from, to }) => Buffer.compare(Buffer.from(key), from) >= 0 && Buffer.compare(Buffer.from(key), to) < 0);

/** Every key outside of `ranges` is as it was written, deleted ones too. */
async function isExactOutside(store: BackingStore, ranges: readonly SuspectRange[]): Promise<number> {
  const found = new Map((await store.range(ALL)).map(({ key, value }) => [Buffer.from(key).toString(), Buffer.from(value).toString()]));
  let outside = 0;
  for (let n = 0; n < ROWS; n += 1) {
    const key = keyOf(n);
    const [one] = await store.getMany([Buffer.from(key)]);
    assert.equal(one && Buffer.from(one).toString(), found.get(key), `${key} by itself and in a listing`);
    if (isWithin(key, ranges)) continue;
    outside += 1;
    assert.equal(found.get(key), written.get(key), key);
  }
  return outside;
}

/** Opens and returns what was admitted. */
async function openAdmitting(folder: string): Promise<{ readonly store: BackingStore; readonly ranges: readonly SuspectRange[] }> {
  const ranges: SuspectRange[] = [];
  const store = await openLevel(folder, {
    onFiltersLeftOut: () => undefined,
    admitSuspects: async (backing, found) => {
      assert.equal(backing.holds(evidence), true);
      await isExactOutside(backing, found);
      ranges.push(...found);
    },
  });
  return { store, ranges };
}

test("blocks: each of each table in turn: its keys are suspect, all others are exact, now and at the next opening; the table of before is kept", async () => {
  let blocks = 0;
  for (const name of await tablesIn(sound)) {
    for (const [at, block] of dataBlocksOf(await readFile(join(sound, name)))!.entries()) {
      blocks += 1;
      const folder = await copied();
      await flip(join(folder, name), () => block.offset + 5);
      const damaged = await readFile(join(folder, name));
      assert.deepEqual((await suspectRangesIn(folder))!.length, 1);
      const { store, ranges } = await openAdmitting(folder);
      assert.equal(store.holds(evidence), true);
      const outside = await isExactOutside(store, ranges);
      assert.ok(outside > ROWS / 4 && outside < ROWS, `block ${at} of ${name}: ${outside} keys outside`);
      await store.close();
      const kept = (await readdir(folder)).filter((one) => one.startsWith(`${name}.damaged-`));
      assert.equal(kept.length, 1);
      assert.deepEqual(await readFile(join(folder, kept[0]!)), damaged);
      assert.deepEqual(await damagedTables(folder), []);
      const again = await openLevel(folder);
      await isExactOutside(again, ranges);
      await again.close();
      await rm(folder, { recursive: true });
    }
  }
  assert.ok(blocks > 10);
});

test("blocks: the only one of a table without a key of the store: nothing is suspect", () => {
  const internal = (key: string): Buffer => Buffer.concat([Buffer.from(key), Buffer.alloc(8)]);
  const listed = { number: 5, bytes: 200, smallest: internal("\0"), largest: internal("\0") };
  const { content, ranges } = withoutBlocks(Buffer.alloc(10), listed)!;
  assert.ok(isSound(content) && content.length === listed.bytes);
  assert.deepEqual(
    ranges.filter(({ from, to }) => Buffer.compare(from, to) < 0),
    [],
  );
  assert.equal(withoutBlocks(Buffer.alloc(10), { ...listed, bytes: 65 }), undefined);
});

const LOST: readonly [string, (table: Buffer) => number][] = [
  ["a bit of the index", (table) => readIndex(table)!.offset + 2],
  ["a bit of the footer's magic", (table) => table.length - 1],
];

for (const [what, at] of LOST) {
  test(`blocks: ${what} is flipped: all keys of the table are suspect, others are exact`, async () => {
    const [name] = await tablesIn(sound);
    const folder = await copied();
    await flip(join(folder, name!), at);
    const { store, ranges } = await openAdmitting(folder);
    assert.equal(ranges.length, 1);
    await isExactOutside(store, ranges);
    await store.close();
  });
}

test("blocks: a table that was cut off: all its keys are suspect", async () => {
  const [name] = await tablesIn(sound);
  const folder = await copied();
  await writeFile(join(folder, name!), (await readFile(join(folder, name!))).subarray(0, 1_000));
  const { store, ranges } = await openAdmitting(folder);
  assert.equal(ranges.length, 1);
  await isExactOutside(store, ranges);
  await store.close();
});

test("blocks: every bit position of a table in turn: what is left is sound and as long, and each key of a block that was lost is suspect", async () => {
  const tables = (await ManifestEvidence.of(sound)).tables()!;
  const [name] = await tablesIn(sound);
  const table = await readFile(join(sound, name!));
  const listed = tables.get(Number.parseInt(name!, 10))!;
  const index = readIndex(table)!;
  const keysOf = index.blocks.map((block) => keysIn(table.subarray(block.offset, block.offset + block.size)));
  const endOfData = index.blocks.reduce((end, { offset, size }) => Math.max(end, offset + size + TRAILER_BYTES), 0);
  for (let at = 0; at < table.length; at += 1) {
    const damaged = Buffer.from(table);
    damaged[at]! ^= 1 << (at % 8);
    const { content, ranges } = withoutBlocks(damaged, listed)!;
    assert.ok(isSound(content) && content.length === table.length, `at ${at}`);
    const hit = index.blocks.findIndex(({ offset, size }) => at >= offset && at < offset + size + TRAILER_BYTES);
    if (hit >= 0) {
      for (const [block, keys] of keysOf.entries()) {
        for (const key of keys)
          if (block === hit || !keysOf[hit]!.includes(key)) assert.equal(isWithin(key, ranges), block === hit, `${key} at ${at}`);
      }
    } else if (at >= index.offset && at < table.length - FOOTER_BYTES) {
      assert.deepEqual(ranges.length, 1);
      assert.ok(
        keysOf.flat().every((key) => isWithin(key, ranges)),
        `the index at ${at}`,
      );
    } else if (ranges.length === 0) {
      assert.deepEqual(content.subarray(0, endOfData), table.subarray(0, endOfData), `at ${at}`);
    } else
      assert.ok(
        keysOf.flat().every((key) => isWithin(key, ranges)),
        `at ${at}`,
      );
  }
});

test("blocks: not admitted: CORRUPT_DATA with the table and why, every file is as it was; the same without a caller that admits", async () => {
  const [name] = await tablesIn(sound);
  const folder = await copied();
  await flip(join(folder, name!), (table) => dataBlocksOf(table)![1]!.offset);
  const files = await filesOf(folder);
  const admitSuspects = (): Promise<void> => Promise.reject(new ConcordError("CORRUPT_DATA", "votes are among them", { applied: "no" }));
  await assert.rejects(openLevel(folder, { onFiltersLeftOut: () => undefined, admitSuspects }), {
    code: "CORRUPT_DATA",
    applied: "no",
    message: new RegExp(`${name} has a spoilt block.* since votes are among them`),
  });
  await assert.rejects(openLevel(folder, { onFiltersLeftOut: () => undefined }), { code: "CORRUPT_DATA", applied: "no" });
  await assert.rejects(openLevel(folder), { code: "CORRUPT_DATA", applied: "no" });
  assert.deepEqual(await filesOf(folder), files);
});

test("blocks: the filters of one table and a block of another are damaged: one is left out, the other suspect", async () => {
  const names = await tablesIn(sound);
  const folder = await copied();
  const endOfData = (table: Buffer): number =>
    dataBlocksOf(table)!.reduce((end, { offset, size }) => Math.max(end, offset + size + TRAILER_BYTES), 0);
  await flip(join(folder, names[0]!), (table) => endOfData(table) + 3);
  await flip(join(folder, names[1]!), (table) => dataBlocksOf(table)![1]!.offset);
  const { store, ranges } = await openAdmitting(folder);
  assert.equal(ranges.length, 1);
  await isExactOutside(store, ranges);
  await store.close();
  assert.deepEqual(await damagedTables(folder), []);
});

test("blocks: a crash after each file that the opening writes: the next opening admits what is still damaged, and ends the same", async () => {
  const names = await tablesIn(sound);
  const folder = await copied();
  for (const name of names) await flip(join(folder, name), (table) => dataBlocksOf(table)![1]!.offset);
  const damaged = await filesOf(folder);
  const admitted: SuspectRange[] = [];
  let admissions = 0;
  const admitSuspects = async (_: BackingStore, found: readonly SuspectRange[]): Promise<void> => {
    admissions += 1;
    admitted.push(...found);
  };
  await (await openLevel(folder, { onFiltersLeftOut: () => undefined, admitSuspects })).close();
  const mended = await filesOf(folder);
  const steps = names.flatMap((name) => [...mended.keys()].filter((one) => one.startsWith(`${name}.damaged-`)).concat(name));
  assert.equal(steps.length, 2 * names.length);
  for (let done = 0; done <= steps.length; done += 1) {
    const cut = await mkdtemp(join(root, "cut-"));
    for (const [name, content] of damaged) await writeFile(join(cut, name), content);
    for (const name of steps.slice(0, done)) await writeFile(join(cut, name), mended.get(name)!);
    const next = steps[done];
    if (next !== undefined) await writeFile(join(cut, `${next}.new`), mended.get(next)!.subarray(0, 100));
    admissions = 0;
    const store = await openLevel(cut, { onFiltersLeftOut: () => undefined, admitSuspects });
    assert.equal(admissions, done === steps.length ? 0 : 1);
    assert.equal(store.holds(evidence), true);
    await isExactOutside(store, admitted);
    await store.close();
    const after = await filesOf(cut);
    for (const step of steps) assert.deepEqual(after.get(step) ?? mended.get(step), mended.get(step), step);
    assert.deepEqual(await damagedTables(cut), []);
  }
});

test("blocks: a crash before anything was admitted, while LevelDB reads the copy: no file of the store has changed, nor is there a copy at the end", async () => {
  const [name] = await tablesIn(sound);
  const folder = await copied();
  await flip(join(folder, name!), (table) => dataBlocksOf(table)![1]!.offset);
  const files = await filesOf(folder);
  const admitSuspects = (): Promise<void> => Promise.reject(new Error("killed"));
  await assert.rejects(openLevel(folder, { onFiltersLeftOut: () => undefined, admitSuspects }), { code: "STORE_FAILED" });
  assert.deepEqual(await filesOf(folder), files);
});

test("blocks: damaged in a folder that takes no writes: read through a copy, the folder stays as it is", async () => {
  const [name] = await tablesIn(sound);
  const folder = await copied();
  await flip(join(folder, name!), (table) => dataBlocksOf(table)![1]!.offset);
  const files = await filesOf(folder);
  const ranges: SuspectRange[] = [];
  const admitSuspects = async (_: BackingStore, found: readonly SuspectRange[]): Promise<void> => void ranges.push(...found);
  const store = await openLevelCopy(folder, { onFiltersLeftOut: () => undefined, admitSuspects });
  await isExactOutside(store, ranges);
  await store.close();
  assert.deepEqual(await filesOf(folder), files);
});

/** User keys of a block's entries, without the one that no user of the store has. */
function keysIn(block: Buffer): readonly string[] {
  const end = block.length - 4 * (block.readUInt32LE(block.length - 4) + 1);
  const keys: string[] = [];
  let [at, last] = [0, Buffer.alloc(0)];
  const varint = (): number => {
    for (let [value, scale] = [0, 1]; ; scale *= 128) {
      const byte = block[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < end) {
    const [shared, own, valueBytes] = [varint(), varint(), varint()];
    last = Buffer.concat([last.subarray(0, shared), block.subarray(at, at + own)]);
    at += own + valueBytes;
    keys.push(last.subarray(0, -8).toString());
  }
  return keys.filter((key) => key !== "\0");
}
