import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Level } from "level";
import { damagedTables } from "./index.ts";
import { TABLE } from "./check-tables.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-damaged-tables-"));
after(() => rm(folder, { recursive: true }));

async function opened(): Promise<Level> {
  const database = new Level(folder, { compression: false });
  await database.open();
  return database;
}

test("damaged tables: LevelDB has the folder open and has written half of a table, as a compaction does: no damage; a flipped byte of a table that is part of the store is", async () => {
  const first = await opened();
  await first.batch(Array.from({ length: 100 }, (_, at) => ({ type: "put", key: `key ${at}`, value: "sound" })));
  await first.close();
  const database = await opened();
  try {
    const [name] = (await readdir(folder)).filter((one) => TABLE.test(one));
    const path = join(folder, name!);
    const bytes = await readFile(path);
    await writeFile(join(folder, "000099.ldb"), bytes.subarray(0, bytes.length >> 1));
    assert.deepEqual(await damagedTables(folder), []);
    bytes[bytes.indexOf("sound")]! ^= 1;
    await writeFile(path, bytes);
    const found = await damagedTables(folder);
    assert.equal(found.length, 1);
    assert.match(found[0]!, /has a spoilt block/);
  } finally {
    await database.close();
  }
});
