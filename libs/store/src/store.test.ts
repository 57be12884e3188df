// The store over a backing store and files in memory, whose crashes keep and lose what the test says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { keyHash } from "@concord/codec";
import { keyValueContract } from "@concord/port-contracts";
import type { Store } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { KNOWN_KEY_BYTES, KNOWN_KEYS, STORE_LIMITS } from "./limits.ts";
import {
  bytes,
  contentsOf,
  derived,
  EVERYTHING,
  FOLDER,
  Machine,
  NONE,
  put,
  remove,
  segmentsOf,
  StopError,
  textOf,
  turns,
  writes,
} from "./test/machine.ts";

keyValueContract(test, async () => {
  const machine = new Machine();
  const limits = { checkpointBytes: 64, dirtyBytesMax: 4096 };
  const store = await machine.open(limits);
  return {
    store,
    reopen: async () => {
      await store.close();
      return machine.open(limits);
    },
    crash: () => {
      machine.crash("nothing");
      return machine.open(limits);
    },
  };
});

test("[TX27] write: answered before any checkpoint: there after a power cut that keeps nothing unsynced (I1)", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1"), put("b", "1")), NONE);
  await store.write(writes(remove("b")), NONE);
  assert.deepEqual(machine.backingKeys, []);
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1" });
});

test("checkpoint: by bytes: values are below it, coalesced; the journal is trimmed; a power cut takes nothing", async () => {
  const machine = new Machine();
  const store = await machine.open({ checkpointBytes: 2_000, journal: { segmentBytes: 500 } });
  for (let n = 0; n < 40; n += 1) await store.write(writes(put("a", `${n}`.repeat(50)), put(`k${n}`, "v")), NONE);
  await turns();
  assert.ok(machine.points.filter((point) => point === "store:trimmed").length > 1);
  const segments = (await segmentsOf(machine)).length;
  assert.ok(segments <= 8, `${segments} segments`);
  machine.crash("nothing");
  const found = await contentsOf(await machine.open());
  assert.equal(Object.keys(found).length, 41);
  assert.equal(found["a"], "39".repeat(50));
});

test("checkpoint: by age: the timer makes it", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  assert.equal(machine.timers.length, 1);
  machine.timers[0]!();
  await turns();
  assert.deepEqual(machine.backingKeys, ["a"]);
  assert.deepEqual(await contentsOf(store), { a: "1" });
});

test("derived writes: visible at once; lost by a crash before a checkpoint; there after one that began behind them (I6)", async () => {
  const machine = new Machine();
  const store = await machine.open();
  const durable: number[] = [];
  let written = 0;
  store.onCheckpoint(() => {
    const begun = written;
    return () => durable.push(begun);
  });
  written = 1;
  await store.write(writes(put("log", "1")), derived(put("row", "1")));
  assert.deepEqual(await contentsOf(store), { log: "1", row: "1" });
  machine.crash("everything");
  const second = await machine.open({ checkpointBytes: 64 * 1024 * 1024 });
  assert.deepEqual(await contentsOf(second), { log: "1" });
  second.onCheckpoint(() => {
    const begun = written;
    return () => durable.push(begun);
  });
  written = 2;
  await second.write(writes(), derived(put("row", "2")));
  machine.timers[0]!();
  await turns();
  assert.deepEqual(durable, [2]);
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { log: "1", row: "2" });
});

test("checkpoint: a value that came and went since the last one: nothing of it reaches the backing store", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("entry", "1"), put("row", "1")), NONE);
  await store.write(writes(remove("entry")), NONE);
  machine.timers[0]!();
  await turns();
  assert.deepEqual(machine.written, ["row"]);
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { row: "1" });
});

/** Two keys, as texts, that tables find by the same hash. */
function keysOfOneHash(): readonly [string, string] {
  const seen = new Map<number, string>();
  for (let n = 0; ; n += 1) {
    const hash = keyHash(bytes(`k${n}`));
    const other = seen.get(hash);
    if (other !== undefined) return [other, `k${n}`];
    seen.set(hash, `k${n}`);
  }
}

test("checkpoint: two keys have one hash: neither is taken for the other, whose image is known, also after a start (I5)", async () => {
  const [one, other] = keysOfOneHash();
  const machine = new Machine();
  const store = await machine.open();
  for (const [key, value] of [
    [one, "1"],
    [one, "2"],
    [other, "3"],
    [other, "4"],
    [one, "5"],
  ] as const) {
    await store.write(writes(put(key, value)), NONE);
    machine.timers[0]!();
    await turns();
  }
  assert.deepEqual(await contentsOf(store), { [one]: "5", [other]: "4" });
  machine.crash("nothing");
  const opened = await machine.open();
  await machine.scan();
  assert.deepEqual(await contentsOf(opened), { [one]: "5", [other]: "4" });
  assert.equal(machine.failures, 0);
});

test("short-lived keys: left in the journal by one checkpoint, written by the next; those that went meanwhile never are", async () => {
  const machine = new Machine();
  machine.shortLived = "e";
  const store = await machine.open();
  const checkpoint = async (): Promise<void> => {
    machine.timers[0]!();
    await turns();
  };
  await store.write(writes(put("e1", "1"), put("e2", "1"), put("row", "1")), derived(put("e3", "derived")));
  await checkpoint();
  assert.deepEqual(machine.written.splice(0).sort(), ["e3", "row"]);
  assert.deepEqual(await contentsOf(store), { e1: "1", e2: "1", e3: "derived", row: "1" });
  await store.write(writes(remove("e1"), put("e4", "1"), put("row", "2")), NONE);
  await checkpoint();
  assert.deepEqual(machine.written.splice(0).sort(), ["e2", "row"]);
  for (const crash of ["nothing", "everything", "nothing"] as const) {
    machine.crash(crash);
    assert.deepEqual(await contentsOf(await machine.open()), { e2: "1", e3: "derived", e4: "1", row: "2" });
  }
  machine.timers[0]!();
  await turns();
  machine.crash("nothing");
  assert.deepEqual(await contentsOf(await machine.open()), { e2: "1", e3: "derived", e4: "1", row: "2" });
});

test("short-lived keys: a journal that holds half of what may be dirty, or the end: all is written", async () => {
  const machine = new Machine();
  machine.shortLived = "e";
  const limits = { checkpointBytes: 700, dirtyBytesMax: 1_000, journal: { segmentBytes: 200 } };
  const store = await machine.open(limits);
  for (let n = 0; n < 40; n += 1) await store.write(writes(put(`e${n}`, "v".repeat(100))), NONE);
  await turns();
  assert.ok(machine.written.length > 25, `${machine.written.length} keys were written`);
  assert.ok((await machine.disk.list(`${FOLDER}/journal`)).length < 12);
  await store.close();
  assert.equal(machine.backingKeys.length, 40);
});

test("full: more is dirty than may be: writes wait for the checkpoint, in order, and lose nothing", async () => {
  const machine = new Machine();
  const store = await machine.open({ checkpointBytes: 500, dirtyBytesMax: 1_000 });
  const answered: number[] = [];
  const inCourse = Array.from({ length: 60 }, async (_, n) => {
    await store.write(writes(put("last", `${n}`), put(`k${n}`, "v".repeat(100))), NONE);
    answered.push(n);
  });
  await Promise.all(inCourse);
  assert.deepEqual(
    answered,
    Array.from({ length: 60 }, (_, n) => n),
  );
  machine.crash("nothing");
  const found = await contentsOf(await machine.open());
  assert.equal(found["last"], "59");
  assert.equal(Object.keys(found).length, 61);
});

test("write: over what a record holds: LIMIT_EXCEEDED, applied: no, and the store goes on", async () => {
  const store = await new Machine().open({ journal: { recordBytes: 200 } });
  await assert.rejects(store.write(writes(put("a", "v".repeat(300))), NONE), { code: "LIMIT_EXCEEDED", applied: "no" });
  await store.write(writes(put("a", "v")), NONE);
  assert.deepEqual(await contentsOf(store), { a: "v" });
});

test("failed flush: the store stops: STORE_FAILED, applied: no for what comes; after a start everything answered is there", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1")), NONE);
  machine.backing.failNextFlush = true;
  assert.deepEqual(textOf(store.peek(bytes("a")) as Uint8Array), "1");
  machine.timers[0]!();
  await turns();
  assert.equal(store.peek(bytes("a")), "ask", "[TXD14] a master beside a failed replica asks the others");
  assert.equal(machine.failures, 1);
  await assert.rejects(store.get(bytes("a")), { code: "STORE_FAILED", applied: "no" });
  await assert.rejects(store.write(writes(put("a", "2")), NONE), { code: "STORE_FAILED", applied: "no" });
  machine.crash("everything");
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1" });
});

test("close: what is dirty goes below a checkpoint; a second close is harmless; writes are refused", async () => {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1")), derived(put("d", "1")));
  await Promise.all([store.close(), store.close()]);
  assert.deepEqual(machine.backingKeys, ["a", "d"]);
  await assert.rejects(store.write(writes(put("a", "2")), NONE), { code: "DRAINING" });
  assert.deepEqual(await contentsOf(await machine.open()), { a: "1", d: "1" });
});

test("incarnation: each opening has a name of its own; a torn tail is reported, a clean one is not", async () => {
  const machine = new Machine();
  const first = await machine.open();
  assert.equal(first.cutTail, false);
  await first.write(writes(put("a", "1")), NONE);
  const { disk } = machine;
  const name = (await disk.list(`${FOLDER}/journal`)).at(-1)!.name;
  const file = (await disk.open(`${FOLDER}/journal/${name}`))!;
  await file.write(file.size, [Uint8Array.of(1, 2, 3)]);
  await file.close();
  const second = await machine.open({ checkpointBytes: 64 * 1024 * 1024 });
  assert.equal(second.cutTail, true);
  assert.notEqual(first.incarnation, second.incarnation);
  assert.deepEqual(await contentsOf(second), { a: "1" });
});

test("a torn tail with keepsCuts: remembered over crashes, also one before the cut, until the owner has caught up", async () => {
  const machine = new Machine();
  machine.keepsCuts = true;
  await (await machine.open()).write(writes(put("a", "1")), NONE);
  machine.crash("nothing");
  const { name } = (await machine.disk.list(`${FOLDER}/journal`)).at(-1)!;
  const file = (await machine.disk.open(`${FOLDER}/journal/${name}`))!;
  await file.write(file.size, [Uint8Array.of(1, 2, 3)]);
  await file.sync();
  // The process dies in the cut itself: what it had to remember is durable before.
  const dies = { sync: () => Promise.reject(new StopError("dies")) };
  machine.diskOf = (disk) => ({ ...disk, open: async (name) => disk.open(name).then((one) => one && Object.assign(one, dies)) });
  await assert.rejects(machine.open(), StopError);
  machine.crash("everything");
  machine.diskOf = (disk) => disk;
  for (const opening of ["first", "second"]) {
    assert.equal((await machine.open()).cutTail, true, opening);
    machine.crash("nothing");
  }
  const store = await machine.open();
  await store.caughtUp();
  await store.caughtUp();
  machine.crash("nothing");
  const last = await machine.open();
  assert.equal(last.cutTail, false);
  assert.deepEqual(await contentsOf(last), { a: "1" });
});

/** A store with values below a checkpoint and above it. */
async function filled(): Promise<Machine> {
  const machine = new Machine();
  const store = await machine.open();
  await store.write(writes(put("a", "1"), put("b", "1"), put("c", "1")), NONE);
  machine.timers[0]!();
  await turns();
  await store.write(writes(put("b", "2")), NONE);
  machine.crash("everything");
  return machine;
}

/** The backing store's files are not as they were written. */
const NOTICED = { isNoticed: true };

const DAMAGE: readonly { readonly what: string; readonly harm: (machine: Machine) => Promise<void>; readonly says: RegExp }[] = [
  {
    what: "a value is gone",
    harm: async ({ model }) => model.damage([remove("a")], NOTICED),
    says: /byte 97: 1 values were checkpointed, 0 are there/,
  },
  { what: "a value is another", harm: async ({ model }) => model.damage([put("c", "9")], NOTICED), says: /contents differ/ },
  {
    what: "a value too many",
    harm: async ({ model }) => model.damage([put("z", "9")], NOTICED),
    says: /byte 122: 0 values were checkpointed, 1/,
  },
  {
    what: "the backing store is empty",
    harm: async ({ model }) => model.damage([remove("a"), remove("b"), remove("c")], NOTICED),
    says: /were checkpointed, 0 are there/,
  },
  {
    what: "the checkpoint is gone",
    harm: async ({ disk }) => void (await disk.remove(`${FOLDER}/checkpoint`)),
    says: /its checkpoint is missing/,
  },
  {
    what: "the checkpoint is spoilt",
    harm: async ({ disk }) => {
      const file = (await disk.open(`${FOLDER}/checkpoint`))!;
      await file.write(9, [Uint8Array.of(0xff)]);
      await file.close();
    },
    says: /store\/checkpoint: .*checksum/,
  },
  {
    what: "the journal is gone",
    harm: async ({ disk }) => {
      for (const { name } of await disk.list(`${FOLDER}/journal`)) await disk.remove(`${FOLDER}/journal/${name}`);
    },
    says: /its journal is missing/,
  },
];

for (const { what, harm, says } of DAMAGE) {
  test(`opening: ${what}: CORRUPT_DATA that says so, nothing is served (I5)`, async () => {
    const machine = await filled();
    await harm(machine);
    await assert.rejects(
      machine.open(),
      (error) => error instanceof ConcordError && error.code === "CORRUPT_DATA" && says.test(error.message),
    );
  });
}

test("opening: files are as they were written: nothing is read; a value was lost before: the scan refuses, then every opening (I5)", async () => {
  const machine = await filled();
  machine.model.damage([remove("a")], { isNoticed: false });
  machine.bytesRead = 0;
  machine.nowMs += STORE_LIMITS.scanEveryMs;
  const store = await machine.open();
  assert.equal(machine.bytesRead, 0);
  assert.deepEqual(await contentsOf(store), { b: "2", c: "1" });
  await machine.scan();
  await assert.rejects(store.write(writes(put("d", "1")), NONE), {
    code: "STORE_FAILED",
    message: /byte 97: 1 values were checkpointed, 0 are/,
  });
  await assert.rejects(store.get(bytes("c")), { code: "STORE_FAILED" });
  machine.crash("everything");
  for (let opening = 0; opening < 2; opening += 1) await assert.rejects(machine.open(), { code: "CORRUPT_DATA" });
});

test("opening: killed before the first checkpoint, again and again: nothing is read (I5)", async () => {
  const machine = await filled();
  for (let opening = 0; opening < 3; opening += 1) {
    machine.bytesRead = 0;
    assert.deepEqual(await contentsOf(await machine.open()), { a: "1", b: "2", c: "1" });
    assert.equal(machine.keysAsked, 0);
    machine.crash("nothing");
  }
});

test("scan: values before and behind what it has read are written meanwhile: it ends, the filter knows every key (I9)", async () => {
  const machine = new Machine();
  const keys = Array.from({ length: 40 }, (_, n) => `k${n}`);
  const first = await machine.open();
  await first.batch(
    keys.map((key) => put(key, "1")),
    { sync: true },
  );
  await first.close();
  await machine.disk.remove(`${FOLDER}/keys`);
  const limits = { scanEntries: 3 };
  const store = await machine.open(limits);
  let isAsked = 0;
  for (let page = 0; page < 60; page += 1) {
    machine.scanTimers[0]?.();
    await turns();
    const key = keys[(page * 7) % keys.length]!;
    await store.write(writes(page % 3 === 0 ? remove(key) : put(key, `${page}`), put(`n${page}`, "1")), NONE);
    if (page % 2 === 0) machine.timers[0]?.();
    await turns();
    if (store.peek(bytes("none")) === "ask") isAsked += 1;
  }
  assert.ok(isAsked > 10 && isAsked < 40, `the filter was trusted after ${isAsked} pages`);
  const found = await contentsOf(store);
  await store.close();
  assert.deepEqual(await contentsOf(await machine.open()), found);
  machine.model.damage([], NOTICED);
  assert.deepEqual(await contentsOf(await machine.open()), found);
});

test("close: a file of the journal fails to close: the backing store is closed all the same, also when opening is refused", async () => {
  const machine = await filled();
  // The first file is the one that recovery read the header from, the second the segment's own.
  let opened = 0;
  machine.diskOf = (disk) => ({
    ...disk,
    open: async (path) => {
      const file = await disk.open(path);
      if (file !== undefined && path.endsWith(".journal") && (opened += 1) % 2 === 0) file.close = () => Promise.reject(new StopError());
      return file;
    },
  });
  let closed = 0;
  const openCounted = async (): Promise<Store> => {
    const opening = machine.open();
    const { backing } = machine;
    const close = backing.close.bind(backing);
    backing.close = () => {
      closed += 1;
      return close();
    };
    return opening;
  };
  const store = await openCounted();
  await assert.rejects(store.close(), StopError);
  assert.equal(closed, 1);
  machine.model.damage([put("z", "9")], NOTICED);
  await assert.rejects(openCounted(), { code: "CORRUPT_DATA" });
  assert.equal(closed, 2);
});

test("checkpoint: killed again and again before it ends, in a journal that is full: its intents still go in, and one run ends it", async () => {
  const machine = new Machine();
  const limits = { dirtyBytesMax: 1_500, journal: { segmentBytes: 400, journalBytes: 3_000 } };
  const first = await machine.open(limits);
  const keys = Array.from({ length: 10 }, (_, n) => `key-${n}`);
  for (const key of keys) await first.write(writes(put(key, "1")), NONE);
  for (let life = 0; life < 30; life += 1) {
    machine.crash("everything");
    await machine.open(limits);
    machine.stopAt = "store:rows-written";
    machine.timers[0]?.();
    await turns();
    assert.ok(machine.points.filter((point) => point === machine.stopAt).length > life, `life ${life} wrote its rows`);
  }
  machine.crash("everything");
  const store = await machine.open(limits);
  await Promise.all(keys.map((key) => store.write(writes(put(key, "2")), NONE)));
  await store.close();
  assert.ok((await machine.disk.list(`${FOLDER}/journal`)).length <= 3);
  assert.deepEqual(await contentsOf(await machine.open(limits)), Object.fromEntries(keys.map((key) => [key, "2"])));
});

test("checkpoint: its keys are longer together than a record of the journal: intents are cut", async () => {
  const machine = new Machine();
  const limits = { journal: { recordBytes: 300 } };
  const store = await machine.open(limits);
  const keys = Array.from({ length: 20 }, (_, n) => `${n}`.padStart(100, "k"));
  for (const key of keys) await store.write(writes(put(key, "1")), NONE);
  machine.timers[0]!();
  await turns();
  assert.ok(machine.points.includes("store:trimmed"));
  assert.deepEqual(machine.backingKeys, keys.toSorted());
  machine.crash("nothing");
  assert.equal(Object.keys(await contentsOf(await machine.open(limits))).length, 20);
});

test("opening: a key that an unfinished checkpoint was writing has neither its old nor its new value: CORRUPT_DATA (I4)", async () => {
  const machine = await filled();
  const store = await machine.open();
  await store.write(writes(put("a", "2")), NONE);
  machine.stopAt = "store:rows-written";
  machine.timers[0]!();
  await turns();
  machine.crash("everything");
  machine.model.apply([put("a", "3")]);
  await assert.rejects(machine.open(), { code: "CORRUPT_DATA", message: /none of the values that were written/ });
});

test("large values: opening, replay of intents and checkpoints: few of them are in memory together", async () => {
  const machine = new Machine();
  const value = "v".repeat(128 * 1024);
  const operations = Array.from({ length: 80 }, (_, n) => put(`key ${n}`, value));
  const first = await machine.open();
  await first.batch(operations, { sync: true });
  await first.close();
  const second = await machine.open({ checkpointBytes: 64 * 1024 * 1024 });
  await second.batch(operations, { sync: true });
  machine.stopAt = "store:intended";
  await second.close();
  assert.equal(
    machine.points.findLast((point) => point.startsWith("store:")),
    "store:intended",
  );
  machine.crash("everything");
  const third = await machine.open();
  assert.ok(machine.bytesRead <= 32 * value.length, `${machine.bytesRead} bytes in one answer`);
  const page = await third.range({ ...EVERYTHING, bytesMax: 3 * value.length });
  assert.equal(page.length, 3);
});

test("absent keys: neither reads nor checkpoints ask the backing store for them; what is there is found, also after a start (I9)", async () => {
  const machine = new Machine();
  const store = await machine.open();
  const keys = Array.from({ length: 200 }, (_, n) => bytes(`key ${n}`));
  assert.deepEqual(
    await store.getMany(keys),
    keys.map(() => undefined),
  );
  await store.batch(
    keys.map((_, n) => put(`key ${n}`, `${n}`)),
    { sync: true },
  );
  await store.close();
  assert.equal(machine.keysAsked, 0);
  const second = await machine.open();
  assert.deepEqual([second.peek(bytes("key 7")), second.peek(bytes("none"))], ["ask", undefined]);
  assert.deepEqual(
    (await second.getMany(keys)).map(textOf),
    keys.map((_, n) => `${n}`),
  );
  assert.equal(machine.keysAsked, 200);
  await second.batch([remove("key 7"), put("key 300", "300")], { sync: true });
  await second.close();
  assert.ok(machine.keysAsked <= 202, "a key that may be there is asked for");
  const third = await machine.open();
  assert.deepEqual((await third.getMany([bytes("key 7"), bytes("key 8"), bytes("key 300")])).map(textOf), [undefined, "8", "300"]);
});

test("known images: small keys are not asked for when they are written again; of keys of 60 KB as many as 8 MiB", async () => {
  const askedFor = async (names: readonly string[]): Promise<number> => {
    const machine = new Machine();
    const store = await machine.open();
    for (const value of ["1", "2", "3"]) {
      machine.keysAsked = 0;
      for (const name of names) await store.write(writes(put(name, value)), NONE);
      machine.timers[0]!();
      await turns();
    }
    await store.close();
    return machine.keysAsked;
  };
  const names = Array.from({ length: 200 }, (_, n) => `k${n}`);
  assert.equal(await askedFor(names), 0);
  const known = KNOWN_KEYS.bytesMax / (60_000 + KNOWN_KEY_BYTES);
  const asked = await askedFor(names.map((name) => name.padEnd(60_000, "x")));
  assert.ok(asked >= names.length - known && asked <= names.length - known * 0.8, `${asked} of ${names.length} asked for`);
});
