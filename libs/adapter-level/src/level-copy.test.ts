// A store that cannot be written, read through a copy of its logs.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openLevel, openLevelCopy } from "./test/levels.ts";

const root = await mkdtemp(join(tmpdir(), "concord-level-copy-"));
const temporary = join(root, "tmp");
await mkdir(temporary);
const { TMPDIR } = process.env;
process.env["TMPDIR"] = temporary;
after(async () => {
  if (TMPDIR === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = TMPDIR;
  await rm(root, { recursive: true });
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const ALL = { from: bytes("a"), to: bytes("z"), limit: 100 };

async function contents(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder)).sort();
  return Promise.all(
    names.map(async (name) =>
      createHash("sha256")
        .update(name)
        .update(await readFile(join(folder, name)))
        .digest("hex"),
    ),
  );
}

test("a copy of a store: what tables and logs hold; what is written to it is not in the folder, and nothing of it is left", async () => {
  const folder = join(root, "store");
  const store = await openLevel(folder);
  await store.batch([{ kind: "put", key: bytes("k1"), value: bytes("table") }]);
  await store.flush();
  await store.batch([{ kind: "put", key: bytes("k2"), value: bytes("log") }]);
  const evidence = await store.evidence();
  await store.close();
  const found = await contents(folder);
  const copy = await openLevelCopy(folder);
  assert.ok(copy.holds(evidence));
  assert.deepEqual(
    (await copy.range(ALL)).map(({ value }) => Buffer.from(value).toString()),
    ["table", "log"],
  );
  await copy.batch([{ kind: "put", key: bytes("k3"), value: bytes("forgotten") }]);
  await copy.flush();
  assert.equal((await copy.range(ALL)).length, 3);
  await copy.close();
  assert.deepEqual(await contents(folder), found);
  assert.deepEqual(await readdir(temporary), []);
});

test("a copy of a store: a table that is damaged is CORRUPT_DATA; a folder without a store, or none: STORE_FAILED; nothing is left", async () => {
  const folder = join(root, "damaged");
  const store = await openLevel(folder);
  await store.batch([{ kind: "put", key: bytes("k1"), value: bytes("table".repeat(1000)) }]);
  await store.flush();
  await store.close();
  const [table] = (await readdir(folder)).filter((name) => name.endsWith(".ldb"));
  const content = await readFile(join(folder, table!));
  content[100]! ^= 1;
  await writeFile(join(folder, table!), content);
  await assert.rejects(openLevelCopy(folder), { code: "CORRUPT_DATA" });
  await assert.rejects(openLevelCopy(temporary), { code: "STORE_FAILED", message: /there is no store/u });
  await assert.rejects(openLevelCopy(join(root, "absent")), { code: "STORE_FAILED", message: /ENOENT/u });
  assert.deepEqual(await readdir(temporary), []);
});
