// The level store keeps the port's promises. A crash is a copy of the files at that moment: what kill -9 would leave.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { mkdtemp, open as openFile, readdir, readFile, readlink, rm, truncate, writeFile, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { backingStoreContract, type BackingStoreSubject } from "@concord/port-contracts";
import type { BackingStore } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { copyAtOneMoment } from "./test/copy-at-one-moment.ts";
import { openLevel } from "./test/levels.ts";

const root = await mkdtemp(join(tmpdir(), "concord-level-"));
const opened: BackingStore[] = [];
let folders = 0;

after(async () => {
  for (const store of opened) await store.close();
  await rm(root, { recursive: true });
});

async function open(folder: string): Promise<BackingStore> {
  const store = await openLevel(folder);
  opened.push(store);
  return store;
}

async function subject(): Promise<BackingStoreSubject> {
  const folder = join(root, `store-${(folders += 1)}`);
  const store = await open(folder);
  return {
    store,
    async reopen() {
      await store.close();
      return open(folder);
    },
    async crash() {
      await copyAtOneMoment(folder, `${folder}-crashed`);
      return open(`${folder}-crashed`);
    },
  };
}

backingStoreContract(test, subject);

test("openLevel: the store is open already: STORE_FAILED with the reason", async () => {
  const folder = join(root, "taken");
  await open(folder);
  await assert.rejects(
    openLevel(folder),
    (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && /lock/i.test(error.message),
  );
});

test("openLevel: CURRENT names a manifest that is not there, or none: CORRUPT_DATA, no file is changed", async () => {
  const folder = join(root, "lost");
  await (await openLevel(folder)).close();
  const contents = async (): Promise<readonly string[]> => {
    const names = (await readdir(folder)).filter((name) => !name.startsWith("LOG")).sort();
    return Promise.all(names.map(async (name) => `${name} ${await readFile(join(folder, name), "hex")}`));
  };
  for (const text of ["MANIFEST-999999\n", "not a name\n", ""]) {
    await writeFile(join(folder, "CURRENT"), text);
    const before = await contents();
    await assert.rejects(openLevel(folder), {
      code: "CORRUPT_DATA",
      applied: "no",
      message: /no manifest by the name in its file CURRENT/u,
    });
    assert.deepEqual(await contents(), before);
  }
});

test("openLevel: a folder below folders that do not exist: made; a file in the way: STORE_FAILED", async () => {
  const store = await open(join(root, "a", "b", "c"));
  await store.batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }]);
  await writeFile(join(root, "file"), "in the way");
  await assert.rejects(openLevel(join(root, "file")), { code: "STORE_FAILED" });
});

/** The calls of every FileHandle go through its prototype. */
async function handlePrototype(): Promise<FileHandle> {
  const handle = await openFile(root, "r");
  await handle.close();
  return Object.getPrototypeOf(handle) as FileHandle;
}

/** Of this process; none on a system that does not list them. */
async function handlesIn(folder: string): Promise<readonly string[]> {
  const handles = await readdir("/proc/self/fd").catch(() => []);
  const targets = handles.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ""));
  return (await Promise.all(targets)).filter((target) => target.startsWith(folder));
}

test("openLevel: a folder's sync fails: STORE_FAILED, no handle stays open, and the next try opens", async (t) => {
  const folder = join(root, "failing-sync", "b");
  const failing = t.mock.method(await handlePrototype(), "sync", () => Promise.reject(new Error("EIO")));
  await assert.rejects(openLevel(folder), { code: "STORE_FAILED" });
  failing.mock.restore();
  assert.deepEqual(await handlesIn(dirname(folder)), []);
  await open(folder);
});

test("openLevel: a table cannot be read: STORE_FAILED, no handle stays open, and the next try opens", async (t) => {
  const folder = join(root, "failing-read");
  const store = await openLevel(folder);
  await fill(store);
  await store.flush();
  await store.close();
  const failing = t.mock.method(await handlePrototype(), "read", () => Promise.reject(new Error("EIO")));
  await assert.rejects(openLevel(folder), { code: "STORE_FAILED" });
  failing.mock.restore();
  assert.deepEqual(await handlesIn(folder), []);
  await open(folder);
});

test("openLevel: crash right after creation: opens again, empty", async () => {
  const { crash } = await subject();
  const store = await crash();
  assert.deepEqual(await store.range({ from: new Uint8Array(), to: Uint8Array.of(255), limit: 1 }), []);
});

test("batch: the store was closed under it: STORE_FAILED, and every later write refused", async () => {
  const { store } = await subject();
  await store.close();
  const write = (): Promise<void> => store.batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }]);
  await assert.rejects(write(), (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && error.applied === "unknown");
  await assert.rejects(write(), (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && error.applied === "no");
});

/** Random keys and values of 1 KiB, on the log only: the next opening makes a table of them. */
async function fill(store: BackingStore): Promise<void> {
  for (let batch = 0; batch < 8; batch += 1) {
    await store.batch(Array.from({ length: 512 }, () => ({ kind: "put" as const, key: randomBytes(16), value: randomBytes(1024) })));
  }
}

async function tablesIn(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => /\.(ldb|sst)$/.test(name)).map((name) => join(folder, name));
}

test("openLevel: LevelDB writes and deletes tables in the background as soon as it is open: opens", async () => {
  for (let round = 0; round < 3; round += 1) {
    const folder = join(root, `compacted-${round}`);
    // The fifth opening finds the four tables on level 0 that begin a compaction.
    for (let opening = 0; opening < 7; opening += 1) {
      const store = await openLevel(folder);
      await fill(store);
      await store.close();
    }
  }
});

test("openLevel: a kill left tables behind that are not whole, and their numbers are used again: opens, every row there", async () => {
  const { store, crash } = await subject();
  const folder = join(root, `store-${folders}`);
  await fill(store);
  await store.flush();
  await fill(store);
  const before = await store.range({ from: new Uint8Array(), to: Uint8Array.of(255, 255), limit: 10_000 });
  const taken = new Set((await readdir(folder)).map((name) => Number.parseInt(name, 10)));
  for (let number = 1; number < 30; number += 1) {
    const name = `${String(number).padStart(6, "0")}.ldb`;
    if (!taken.has(number)) await writeFile(join(folder, name), randomBytes(number * 10));
  }
  const after = await (await crash()).range({ from: new Uint8Array(), to: Uint8Array.of(255, 255), limit: 10_000 });
  assert.equal(after.length, before.length);
});

test("openLevel: a table of the store lost its footer: CORRUPT_DATA, at every opening", async () => {
  const folder = join(root, "cut");
  const store = await openLevel(folder);
  await fill(store);
  await store.flush();
  await store.close();
  const [table] = await tablesIn(folder);
  await truncate(table!, 10_000);
  for (let opening = 0; opening < 2; opening += 1) {
    await assert.rejects(openLevel(folder), (error) => error instanceof ConcordError && error.code === "CORRUPT_DATA");
  }
});

test("evidence: opened twice since, a byte of the manifest is another, its end is missing, or a damaged table is gone: it does not hold", async () => {
  const folder = join(root, "evidence");
  const live = await openLevel(folder);
  for (let round = 0; round < 3; round += 1) {
    await fill(live);
    await live.flush();
  }
  const evidence = await live.evidence();
  await live.close();
  const manifest = (await readdir(folder)).find((name) => name.startsWith("MANIFEST"))!;
  const content = await readFile(join(folder, manifest));
  const [name] = await tablesIn(folder);
  const table = await readFile(name!);
  const harms = [
    { harm: async () => undefined, holds: [true, false] },
    {
      harm: (copy: string) => writeFile(join(copy, manifest), content.with(content.length - 20, content.at(-20)! ^ 1)),
      holds: [false, false],
    },
    { harm: (copy: string) => truncate(join(copy, manifest), content.length - 30), holds: [false, false] },
    // Gone when LevelDB is open, as a damaged table of the store that a compaction read meanwhile.
    { harm: (copy: string) => writeFile(join(copy, "000900.ldb"), table.with(5_000, table[5_000]! ^ 4)), holds: [false, false] },
    { harm: (copy: string) => writeFile(join(copy, "000900.ldb"), table.subarray(0, 5_000)), holds: [true, false] },
  ];
  for (const [nth, { harm, holds }] of harms.entries()) {
    const copy = join(root, `evidence-${nth}`);
    await copyAtOneMoment(folder, copy);
    await harm(copy);
    const found: (boolean | string)[] = [];
    for (let opening = 0; opening < 2; opening += 1) {
      // LevelDB itself refuses some damage.
      const store = await openLevel(copy).catch(() => undefined);
      found.push(store?.holds(evidence) ?? false);
      await store?.close();
    }
    assert.deepEqual(found, holds);
  }
});

test("openLevel: one bit of a table flips: CORRUPT_DATA with the table and the place", async () => {
  const folder = join(root, "flipped");
  const store = await openLevel(folder);
  await fill(store);
  await store.flush();
  await store.close();
  const [table] = await tablesIn(folder);
  const content = await readFile(table!);
  for (const at of [0, 5_000, content.length >> 1, content.length - 60]) {
    await writeFile(table!, content.with(at, content[at]! ^ 4));
    await assert.rejects(openLevel(folder), { code: "CORRUPT_DATA", message: /\.ldb .*(spoilt block|behind its end|does not end)/ });
  }
  await writeFile(table!, content);
  await (await openLevel(folder)).close();
});

test("openLevel: a damaged table is refused at opening after opening: no byte of the store changes, and with the bit back every row is there", async () => {
  const folder = join(root, "tried-again");
  // On level 0 the fourth table begins a compaction; each of these openings leaves one more.
  for (let opening = 0; opening < 2; opening += 1) {
    const store = await openLevel(folder);
    await fill(store);
    await store.close();
  }
  const store = await openLevel(folder);
  const rows = await store.range({ from: new Uint8Array(), to: Uint8Array.of(255, 255), limit: 10_000 });
  await store.close();
  const sizes = await Promise.all((await tablesIn(folder)).map(async (path) => ({ path, content: await readFile(path) })));
  const { path, content } = sizes.toSorted((left, right) => right.content.length - left.content.length)[0]!;
  await writeFile(path, content.with(5_000, content[5_000]! ^ 4));
  const before = await checksumsIn(folder);
  for (let opening = 0; opening < 8; opening += 1)
    await assert.rejects(openLevel(folder), { code: "CORRUPT_DATA", message: /spoilt block/ });
  assert.deepEqual(await checksumsIn(folder), before);
  await writeFile(path, content);
  const mended = await openLevel(folder);
  assert.deepEqual(await mended.range({ from: new Uint8Array(), to: Uint8Array.of(255, 255), limit: 10_000 }), rows);
  await mended.close();
});

test("openLevel: a damaged table of a store that is open already: STORE_FAILED with the lock, and the store works on", async () => {
  const folder = join(root, "damaged-in-work");
  const store = await open(folder);
  await fill(store);
  await store.flush();
  const [path] = await tablesIn(folder);
  const content = await readFile(path!);
  await writeFile(path!, content.with(5_000, content[5_000]! ^ 4));
  await assert.rejects(
    openLevel(folder),
    (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && /lock/i.test(error.message),
  );
  await writeFile(path!, content);
  await store.batch([{ kind: "put", key: Uint8Array.of(1), value: Uint8Array.of(1) }]);
});

/** Checksums of all files but LevelDB's own log of what it did. */
async function checksumsIn(folder: string): Promise<Record<string, number>> {
  const names = (await readdir(folder)).filter((name) => !name.startsWith("LOG")).sort();
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, crc32(await readFile(join(folder, name)))] as const)));
}

test("openLevel: the store is open already and one of its tables is not whole: STORE_FAILED with the lock", async () => {
  const folder = join(root, "taken-in-work");
  await open(folder);
  await writeFile(join(folder, "000900.ldb"), "being written");
  await assert.rejects(
    openLevel(folder),
    (error) => error instanceof ConcordError && error.code === "STORE_FAILED" && /lock/i.test(error.message),
  );
});

test("flush: the store holds tables: writes what is in memory, compacts none of them", async () => {
  const { store } = await subject();
  const folder = join(root, `store-${folders}`);
  for (let round = 0; round < 3; round += 1) {
    await fill(store);
    await store.flush();
  }
  const log = await readFile(join(folder, "LOG"), "latin1");
  assert.equal(log.match(/Level-0 table .* OK/g)?.length, 3);
  assert.doesNotMatch(log, /^\S+ \w+ (Compacting|Moved) /m);
});
