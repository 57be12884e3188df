// Tables whose filters, or the way to them, are not what was written: no key is lost, so nothing is refused.
import assert from "node:assert/strict";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { BackingStore, KeyValueEntry } from "@concord/ports";
import { dataBlocksOf, FOOTER_BYTES, readIndex, TABLE, TRAILER_BYTES } from "./check-tables.ts";
import { damagedTables } from "./index.ts";
import { withoutFilters } from "./leave-out-filters.ts";
import { openLevel, openLevelCopy } from "./test/levels.ts";

const ALL = { from: new Uint8Array(), to: Uint8Array.of(0xff), limit: 10_000 };
const ROWS = 600;
const keyOf = (n: number): Uint8Array => Buffer.from(`r${String(n).padStart(5, "0")}`);
const valueOf = (n: number): Uint8Array => Buffer.alloc(40, n);

let root: string;
let sound: string;
let evidence: Uint8Array;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "concord-filters-"));
  sound = join(root, "sound");
  const store = await openLevel(sound);
  await store.batch(Array.from({ length: ROWS }, (_, n) => ({ kind: "put", key: keyOf(n), value: valueOf(n) })));
  await store.flush();
  evidence = await store.evidence();
  await store.close();
});

after(() => rm(root, { recursive: true }));

async function largestTable(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => TABLE.test(name));
  const sized = await Promise.all(names.map(async (name) => ({ name, bytes: (await readFile(join(folder, name))).length })));
  return join(folder, sized.sort((left, right) => right.bytes - left.bytes)[0]!.name);
}

async function flipped(
  at: (table: Buffer) => number,
): Promise<{ readonly folder: string; readonly path: string; readonly damaged: Buffer }> {
  const folder = await mkdtemp(join(root, "copy-"));
  await cp(sound, folder, { recursive: true });
  const path = await largestTable(folder);
  const damaged = await readFile(path);
  damaged[at(damaged)]! ^= 4;
  await writeFile(path, damaged);
  return { folder, path, damaged };
}

async function contentOf(store: BackingStore): Promise<readonly KeyValueEntry[]> {
  const entries = await store.range(ALL);
  const values = await store.getMany(entries.map(({ key }) => key));
  assert.deepEqual(
    values,
    entries.map(({ value }) => value),
  );
  return entries;
}

/** End of the blocks of keys and values. */
function endOfData(table: Buffer): number {
  const { offset, size } = dataBlocksOf(table)!.at(-1)!;
  return offset + size + TRAILER_BYTES;
}

const PLACES: readonly [string, (table: Buffer) => number][] = [
  ["a filter", (table) => endOfData(table) + 3],
  ["the checksum of the metaindex", (table) => readIndex(table)!.offset - 1],
  ["the metaindex", (table) => readIndex(table)!.offset - TRAILER_BYTES - 10],
  ["the way to the metaindex", (table) => table.length - FOOTER_BYTES],
];

for (const [place, at] of PLACES) {
  test(`filters: a bit of ${place} is flipped: the store opens with every key and its evidence, names the table, and is sound afterwards`, async () => {
    const { folder, path } = await flipped(at);
    assert.equal((await damagedTables(folder)).length, 1);
    const leftOut: string[] = [];
    const store = await openLevel(folder, { onFiltersLeftOut: (table) => leftOut.push(table) });
    assert.deepEqual(leftOut, [path]);
    assert.equal(store.holds(evidence), true);
    const entries = await contentOf(store);
    assert.deepEqual(
      entries.map(({ key }) => Buffer.from(key)),
      Array.from({ length: ROWS }, (_, n) => keyOf(n)),
    );
    assert.deepEqual(
      entries.map(({ value }) => Buffer.from(value)),
      Array.from({ length: ROWS }, (_, n) => valueOf(n)),
    );
    assert.deepEqual(await store.getMany([Buffer.from("r00000x")]), [undefined]);
    await store.close();
    assert.deepEqual(await damagedTables(folder), []);
    await (await openLevel(folder)).close();
  });

  test(`filters: a bit of ${place} is flipped, and the caller wants to know only: CORRUPT_DATA, the file is as it was`, async () => {
    const { folder, path, damaged } = await flipped(at);
    await assert.rejects(openLevel(folder), { code: "CORRUPT_DATA", applied: "no" });
    assert.deepEqual(await readFile(path), damaged);
  });
}

test("filters: every bit position of a table in turn: left out only where every key and value is as it was written", async () => {
  const table = await readFile(await largestTable(sound));
  const end = endOfData(table);
  const index = readIndex(table)!;
  let mended = 0;
  for (let at = 0; at < table.length; at += 1) {
    const damaged = Buffer.from(table);
    damaged[at]! ^= 1 << (at % 8);
    const content = withoutFilters(damaged);
    if (content === undefined) {
      assert.ok(at < end || at >= index.offset, `byte ${at} of the filters is mended`);
      continue;
    }
    mended += 1;
    assert.ok(at >= end, `byte ${at} holds keys and values`);
    assert.deepEqual(content.subarray(0, end), table.subarray(0, end));
    assert.deepEqual(
      content.subarray(index.offset, table.length - FOOTER_BYTES),
      table.subarray(index.offset, table.length - FOOTER_BYTES),
    );
  }
  assert.ok(mended >= index.offset - end);
});

test("filters: those of one table are spoilt and a block of keys of another one: CORRUPT_DATA, both files are as they were", async () => {
  const { folder, path, damaged } = await flipped((table) => endOfData(table) + 3);
  await rm(path);
  await writeFile(path, await readFile(await largestTable(sound)));
  const store = await openLevel(folder);
  await store.batch(Array.from({ length: 10 }, (_, n) => ({ kind: "put", key: keyOf(n), value: Buffer.from("later") })));
  await store.flush();
  await store.close();
  await writeFile(path, damaged);
  const names = (await readdir(folder)).filter((name) => TABLE.test(name));
  const contents = await Promise.all(names.map(async (name) => ({ name: join(folder, name), bytes: await readFile(join(folder, name)) })));
  const other = contents.find(({ bytes }) => bytes.includes("later"))!;
  other.bytes[other.bytes.indexOf("later")]! ^= 1;
  await writeFile(other.name, other.bytes);
  await assert.rejects(openLevel(folder, { onFiltersLeftOut: () => assert.fail("nothing is mended") }), { code: "CORRUPT_DATA" });
  assert.deepEqual(await readFile(path), damaged);
});

test("filters: spoilt in a folder that takes no writes: read through a copy, the folder stays as it is", async () => {
  const { folder, path, damaged } = await flipped((table) => endOfData(table) + 3);
  const store = await openLevelCopy(folder, { onFiltersLeftOut: () => undefined });
  assert.equal((await contentOf(store)).length, ROWS);
  await store.close();
  assert.deepEqual(await readFile(path), damaged);
});
