// A backing store that waits for space: what callers, checkpoints and `close` see of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type Disk, type DiskFile } from "@concord/runtime";
import { bytes, contentsOf, Machine, NONE, put, textOf, turns, writes } from "./test/machine.ts";

/** Writes to some files find no space. */
function fullFor(disk: Disk, isFull: (path: string) => boolean): Disk {
  const guarded = (path: string, file: DiskFile): DiskFile => {
    const refuse = (): void => {
      if (isFull(path)) throw new ConcordError("STORAGE_FULL", "no space", { applied: "no" });
    };
    return {
      get size() {
        return file.size;
      },
      read: (offset, length, into) => file.read(offset, length, into),
      sync: () => file.sync(),
      truncate: (size) => file.truncate(size),
      close: () => file.close(),
      write: async (offset, parts) => {
        // Over bytes that are there it needs none.
        if (offset + parts.reduce((sum, { length }) => sum + length, 0) > file.size) refuse();
        await file.write(offset, parts);
      },
      writeSynced: async (offset, parts) => {
        refuse();
        await file.writeSynced(offset, parts);
      },
    };
  };
  return {
    ...disk,
    create: async (path) => {
      const file = await disk.create(path);
      return file === "exists" ? file : guarded(path, file);
    },
    open: async (path) => {
      const file = await disk.open(path);
      return file && guarded(path, file);
    },
  };
}

test("full disk: a flush waits for space: the store serves; closed meanwhile it closes without a failure, and the next opening has everything", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  const waiting = Promise.withResolvers<void>();
  Object.assign(machine.backing, {
    flush: () => waiting.promise,
    refuseWaiting: () => waiting.reject(new ConcordError("STORAGE_FULL", "no space", { applied: "unknown" })),
  });
  for (const action of machine.timers.splice(0)) action();
  await turns();
  await store.write(writes(put("b", "1")), NONE);
  assert.deepEqual([textOf(await store.get(bytes("a"))), textOf(await store.get(bytes("b")))], ["1", "1"]);
  await store.close();
  assert.equal(machine.failures, 0);
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1", b: "1" });
});

test("full disk: the journal, or the file of a checkpoint, finds no space: the checkpoint waits, the store serves; with space it is made", async () => {
  for (const full of ["checkpoint.new", "journal"]) {
    const machine = new Machine();
    let isFull = false;
    machine.diskOf = (disk) => fullFor(disk, (path) => isFull && path.includes(full));
    const store = await machine.open();
    await store.write(writes(put("a", "1")), NONE);
    isFull = true;
    for (let times = 0; times < 5; times += 1) {
      for (const action of machine.timers.splice(0)) action();
      await turns();
    }
    assert.deepEqual([machine.failures, machine.points.includes("store:checkpointed")], [0, false], full);
    assert.equal(textOf(await store.get(bytes("a"))), "1");
    isFull = false;
    for (let times = 0; times < 5; times += 1) {
      for (const action of machine.timers.splice(0)) action();
      await turns();
    }
    assert.deepEqual([machine.failures, machine.points.includes("store:checkpointed")], [0, true], full);
    await store.write(writes(put("b", "1")), NONE);
    await store.close();
    machine.crash("nothing");
    assert.deepEqual(await contentsOf(await machine.open()), { a: "1", b: "1" });
  }
});

const isJournal = (path: string): boolean => path.includes("journal");

test("full disk: a write finds no space in the journal: it waits, reads go on; with space it is made, and what came behind it too", async () => {
  const machine = new Machine();
  let isFull = false;
  machine.diskOf = (disk) => fullFor(disk, (path) => isFull && isJournal(path));
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  isFull = true;
  const waiting = [store.write(writes(put("a", "2")), NONE), store.write(writes(put("a", "3")), NONE)];
  await turns();
  assert.deepEqual([machine.failures, textOf(await store.get(bytes("a")))], [0, "1"]);
  isFull = false;
  for (const action of machine.timers.splice(0)) action();
  await Promise.all(waiting);
  assert.equal(textOf(await store.get(bytes("a"))), "3");
  await store.close();
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "3" });
});

test("full disk: closed while a write waits for space: the write is refused, the store did not fail, and the next opening has what was acknowledged", async () => {
  const machine = new Machine();
  let isFull = false;
  machine.diskOf = (disk) => fullFor(disk, (path) => isFull && isJournal(path));
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  isFull = true;
  const refused = assert.rejects(store.write(writes(put("a", "2")), NONE), { code: "STORE_FAILED" });
  await turns();
  const closed = store.close();
  await turns();
  for (const action of machine.timers.splice(0)) action();
  await Promise.all([refused, closed]);
  assert.equal(machine.failures, 0);
  machine.crash("nothing");
  isFull = false;
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1" });
});

test("full disk: a store that is going to be closed: a write that waits for space is refused at once, and the store did not fail", async () => {
  const machine = new Machine();
  let isFull = false;
  machine.diskOf = (disk) => fullFor(disk, (path) => isFull && isJournal(path));
  const store = await machine.open();
  isFull = true;
  const refused = assert.rejects(store.write(writes(put("a", "1")), NONE), { code: "STORE_FAILED" });
  await turns();
  store.refuseWaiting?.();
  for (const action of machine.timers.splice(0)) action();
  await refused;
  assert.equal(machine.failures, 0);
  await store.close();
});

test("full disk: a store is opened without space for a new file: it serves, and makes its checkpoint when there is some", async () => {
  const machine = new Machine();
  const before = await machine.open();
  await before.write(writes(put("a", "1")), NONE);
  machine.crash("nothing");
  let isFull = true;
  machine.diskOf = (disk) => fullFor(disk, () => isFull);
  const store = await machine.open();
  assert.deepEqual(await contentsOf(store), { a: "1" });
  isFull = false;
  await store.write(writes(put("b", "1")), NONE);
  await store.close();
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1", b: "1" });
});

test("full disk: what waits for space fails otherwise while it is closed: the store failed", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  const waiting = Promise.withResolvers<void>();
  Object.assign(machine.backing, {
    flush: () => waiting.promise,
    refuseWaiting: () => waiting.reject(new ConcordError("STORE_FAILED", "EIO")),
  });
  for (const action of machine.timers.splice(0)) action();
  await turns();
  await store.close().catch(() => undefined);
  assert.equal(machine.failures, 1);
});
