// Which openings read a whole store, and which know its keys from the file beside it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "@concord/ports";
import type { Clock, Disk } from "@concord/runtime";
import { STORE_LIMITS } from "./limits.ts";
import { Scan } from "./scan-sums.ts";
import { ServingScan } from "./serving-scan.ts";
import { StoredKeys } from "./stored-keys.ts";
import { bytes, contentsOf, FOLDER, Machine, NONE, put, remove, StopError, textOf, turns, writes } from "./test/machine.ts";

const KEYS = `${FOLDER}/keys`;
const names = Array.from({ length: 50 }, (_, n) => `k${n}`);

/** Closed; its backing store has every name. */
async function filled(machine = new Machine()): Promise<Machine> {
  const store = await machine.open();
  await store.write(writes(...names.map((name) => put(name, "1"))), NONE);
  await store.close();
  return machine;
}

async function checkpoint(machine: Machine): Promise<void> {
  machine.timers[0]!();
  await turns();
}

/** Nothing that is there is called absent, and absent keys are. */
async function assertKnown(machine: Machine, store: Store, present: readonly string[]): Promise<void> {
  assert.deepEqual(
    (await store.getMany(present.map(bytes))).map(textOf),
    present.map(() => "1"),
  );
  const asked = machine.keysAsked;
  await store.getMany(Array.from({ length: 100 }, (_, n) => bytes(`absent ${n}`)));
  assert.ok(machine.keysAsked - asked < 10, "absent keys are looked up in the backing store");
}

test("start: a scan ended within the interval: nothing is read behind the opening, absent keys are known at once", async () => {
  const machine = await filled();
  for (let start = 0; start < 3; start += 1) {
    machine.nowMs += STORE_LIMITS.scanEveryMs / 4;
    const store = await machine.open();
    machine.pagesRead = 0;
    await machine.scan();
    assert.equal(machine.pagesRead, 0, "the store was read");
    await assertKnown(machine, store, names);
    if (start % 2 === 0) await store.close();
    else machine.crash("nothing");
  }
});

test("start: the interval is over, or the clock was set back: the store is read beside serving, once", async () => {
  for (const moved of [STORE_LIMITS.scanEveryMs, -500]) {
    const machine = await filled();
    machine.nowMs += moved;
    for (const isRead of [true, false]) {
      const store = await machine.open();
      machine.pagesRead = 0;
      await machine.scan();
      assert.equal(machine.pagesRead > 0, isRead);
      await assertKnown(machine, store, names);
      await store.close();
    }
  }
});

test("serving: the interval is over: the next checkpoint begins a scan; what it finds wrong fails the store (I5)", async () => {
  const machine = await filled();
  const store = await machine.open();
  machine.nowMs += STORE_LIMITS.scanEveryMs - 1;
  await store.write(writes(put("new", "1")), NONE);
  await checkpoint(machine);
  assert.equal(machine.scanTimers.length, 0);
  machine.nowMs += 1;
  await store.write(writes(put("newer", "1")), NONE);
  await checkpoint(machine);
  machine.model.damage([remove("k7")], { isNoticed: false });
  await machine.scan();
  await assert.rejects(store.get(bytes("k1")), { code: "STORE_FAILED" });
  machine.crash("everything");
  await assert.rejects(machine.open(), { code: "CORRUPT_DATA" });
});

const HARM: readonly { readonly what: string; harm(disk: Disk): Promise<unknown> }[] = [
  { what: "is gone", harm: (disk) => disk.remove(KEYS) },
  { what: "lacks its end", harm: (disk) => changeFile(disk, (file) => file.truncate(file.size - 4)) },
  { what: "has one other byte", harm: (disk) => changeFile(disk, (file) => file.write(5, [Uint8Array.of(77)])) },
];

async function changeFile(disk: Disk, change: (file: NonNullable<Awaited<ReturnType<Disk["open"]>>>) => Promise<void>): Promise<void> {
  const file = (await disk.open(KEYS))!;
  await change(file);
  await file.sync();
  await file.close();
}

for (const { what, harm } of HARM) {
  test(`keys file: it ${what}: every key may be there until a scan has made it anew`, async () => {
    const machine = await filled();
    await harm(machine.disk);
    const store = await machine.open();
    assert.equal(store.peek(bytes("none")), "ask");
    assert.equal(Object.keys(await contentsOf(store)).length, names.length);
    await machine.scan();
    await assertKnown(machine, store, names);
    machine.crash("nothing");
    await assertKnown(machine, await machine.open(), names);
  });
}

test("keys file: a crash at any step of a checkpoint with new keys: none is called absent after it (I10)", async () => {
  for (const point of ["store:intended", "store:rows-written", "store:flushed", "store:checkpointed", "store:trimmed"]) {
    for (const keep of ["nothing", "everything"] as const) {
      const machine = await filled();
      const store = await machine.open();
      await store.write(writes(put("new", "1")), [{ ...put("derived", "1"), hash: 1 }]);
      machine.stopAt = point;
      await checkpoint(machine);
      machine.crash(keep);
      const found = await contentsOf(await machine.open());
      machine.crash("nothing");
      const again = await machine.open();
      assert.deepEqual((await again.getMany(Object.keys(found).map(bytes))).map(textOf), Object.values(found), `${point} ${keep}`);
    }
  }
});

test("keys file: it cannot be written: the store goes on, and the next start reads everything", async () => {
  const machine = await filled();
  machine.diskOf = (disk) => ({
    ...disk,
    open: async (path) => {
      const file = await disk.open(path);
      if (file !== undefined && path === KEYS) file.writeSynced = () => Promise.reject(new StopError());
      return file;
    },
  });
  const store = await machine.open();
  await store.write(writes(put("new", "1")), NONE);
  await checkpoint(machine);
  await assertKnown(machine, store, [...names, "new"]);
  assert.equal(machine.failures, 0);
  machine.crash("nothing");
  machine.diskOf = (disk) => disk;
  const second = await machine.open();
  assert.equal(second.peek(bytes("none")), "ask");
  await machine.scan();
  await assertKnown(machine, second, [...names, "new"]);
});

test("keys file: keys come and go for long: it is made anew by a scan before it is many times what is there", async () => {
  const machine = await filled();
  const store = await machine.open();
  for (let round = 0; round < 20; round += 1) {
    const passing = Array.from({ length: 500 }, (_, n) => `passing ${round} ${n}`);
    await store.write(writes(...passing.map((name) => put(name, "1"))), NONE);
    await checkpoint(machine);
    await store.write(writes(...passing.map((name) => remove(name))), NONE);
    await checkpoint(machine);
  }
  await store.close();
  const second = await machine.open();
  assert.equal(second.peek(bytes("none")), "ask");
  await machine.scan();
  await assertKnown(machine, second, names);
  await second.close();
  assert.equal((await machine.disk.open(KEYS))!.size, 4 * names.length);
});

test("scan: it rests nine times as long as a read took: a tenth of the time at most goes into it", async () => {
  const machine = await filled();
  await machine.open();
  let nowMs = 0;
  const rests: number[] = [];
  let wakeUp: () => void = () => undefined;
  const clock: Clock = {
    nowMs: () => 0,
    nowUs: () => 0n,
    monotonicMs: () => nowMs,
    setTimer: (ms, action) => {
      rests.push(ms);
      wakeUp = action;
      return { cancel: () => undefined };
    },
    defer: (action) => action(),
  };
  const { backing } = machine;
  const slow = {
    range: (range: Parameters<typeof backing.range>[0]) => {
      nowMs += 30;
      return backing.range(range);
    },
  };
  const checksum = (data: Uint8Array): number => data.length;
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  const keys = StoredKeys.begin({ disk: machine.disk, folder: FOLDER, checksum, log }, 0);
  const scan = new Scan(slow as typeof backing, checksum, keys);
  let ended = 0;
  const onEnd = async (): Promise<void> => void (ended += 1);
  new ServingScan({ clock, entries: 20, scan, keys, mayRead: () => true, run: (read) => void read, onEnd });
  for (let page = 0; page < 4; page += 1) {
    wakeUp();
    await turns();
  }
  assert.deepEqual(rests, [2_000, 270, 270, 270]);
  assert.equal(ended, 1);
});
