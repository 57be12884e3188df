import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Level } from "level";
import { dropSpoiltBlocks, remakeLevel } from "./index.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-spoilt-"));
after(() => rm(folder, { recursive: true }));

/** Each opening writes what the log has into a table. */
async function within<Answer>(act: (database: Level) => Promise<Answer>): Promise<Answer> {
  const database = new Level(folder, { compression: false });
  await database.open();
  try {
    return await act(database);
  } finally {
    await database.close();
  }
}

test("spoilt blocks: the only one of a table: the table is dropped, the process lives, and the other tables are made anew", async () => {
  await within((database) => database.put("a", "kept"));
  await within((database) => database.put("b", "spoilt"));
  await within(() => Promise.resolve());
  const tables = (await readdir(folder)).filter((name) => name.endsWith(".ldb"));
  assert.equal(tables.length, 2);
  for (const name of tables) {
    const bytes = await readFile(join(folder, name));
    const at = bytes.indexOf("spoilt");
    if (at === -1) continue;
    bytes[at]! ^= 1;
    await writeFile(join(folder, name), bytes);
  }
  const dropped = await dropSpoiltBlocks(folder);
  assert.equal(dropped.length, 1);
  assert.match(dropped[0]!, /^keys up to "[^"]+", \d+ bytes of the table \d+\.ldb$/);
  await remakeLevel(folder);
  assert.deepEqual(await within((database) => database.iterator().all()), [["a", "kept"]]);
});
