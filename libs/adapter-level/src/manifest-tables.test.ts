// The tables that a manifest lists, against those that LevelDB leaves in the folder when it closes.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { tablesOf, type ListedTables } from "./manifest-tables.ts";
import { openLevel } from "./test/levels.ts";

const root = await mkdtemp(join(tmpdir(), "concord-manifest-"));
after(() => rm(root, { recursive: true }));

/** An edit has the first and the last key of its table: it goes over the end of a block of 32 KiB. */
const KEY_BYTES = 20_000;
const INTERNAL_BYTES = 8;

async function manifestIn(folder: string): Promise<Buffer> {
  return readFile(join(folder, (await readFile(join(folder, "CURRENT"), "latin1")).trim()));
}

async function tablesIn(folder: string): Promise<number[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".ldb"));
  return names.map((name) => Number.parseInt(name, 10)).sort((left, right) => left - right);
}

const sorted = (tables: ListedTables | undefined): number[] | undefined => tables && [...tables.keys()].sort((left, right) => left - right);

async function write(folder: string, opening: number): Promise<void> {
  const store = await openLevel(folder);
  for (let table = 0; table < 3; table += 1) {
    const key = (n: number): Uint8Array => Buffer.alloc(KEY_BYTES, 16 * opening + 4 * table + n);
    await store.batch([0, 1].map((n) => ({ kind: "put", key: key(n), value: Uint8Array.of(n) })));
    await store.flush();
  }
  await store.close();
}

test("a manifest: after each of eight openings, compactions among them: the tables that are there, though edits are longer than blocks", async () => {
  const folder = join(root, "openings");
  const counts: number[] = [];
  for (let opening = 0; opening < 8; opening += 1) {
    await write(folder, opening);
    let there = await tablesIn(folder);
    let listed = sorted(tablesOf(await manifestIn(folder)));
    // A compaction that the close interrupted leaves tables behind; the next opening removes them.
    for (let tries = 0; tries < 5 && listed?.length !== there.length; tries += 1) {
      await (await openLevel(folder)).close();
      there = await tablesIn(folder);
      listed = sorted(tablesOf(await manifestIn(folder)));
    }
    assert.deepEqual(listed, there, `opening ${opening}`);
    for (const { number, bytes, smallest, largest } of tablesOf(await manifestIn(folder))!.values()) {
      const table = await readFile(join(folder, `${String(number).padStart(6, "0")}.ldb`));
      assert.deepEqual([bytes, largest.length], [table.length, KEY_BYTES + INTERNAL_BYTES]);
      // Each flush deletes a key below all others.
      assert.ok([1, KEY_BYTES].includes(smallest.length - INTERNAL_BYTES));
    }
    counts.push(there.length);
  }
  assert.ok(
    counts.some((count, at) => count < (counts[at - 1] ?? 0) + 3),
    `tables were compacted: ${counts.join()}`,
  );
});

test("a manifest: cut anywhere it is what it was before its last whole edits; a byte that is another: it cannot be read", async () => {
  const folder = join(root, "harmed");
  await write(folder, 0);
  const manifest = await manifestIn(folder);
  const all = sorted(tablesOf(manifest))!;
  for (let cut = 0; cut <= manifest.length; cut += 997) {
    const tables = sorted(tablesOf(manifest.subarray(0, cut)));
    assert.ok(tables !== undefined && tables.every((table) => all.includes(table)), `cut at ${cut}: ${tables?.join()}`);
  }
  assert.deepEqual(tablesOf(new Uint8Array()), new Map());
  for (let at = 6; at < manifest.length; at += 1_009)
    assert.equal(tablesOf(manifest.with(at, manifest[at]! ^ 4)), undefined, `a flipped bit at ${at}`);
});
