import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY_VALUE_CASES, type KeyValueSubject } from "@concord/port-contracts";
import type { KeyValue } from "@concord/ports";
import { World, type NodeContext } from "./index.ts";

const key = (n: number): Uint8Array => Uint8Array.of(n >> 8, n & 0xff);
const ALL = { from: Uint8Array.of(0), to: Uint8Array.of(255), limit: 10_000 };

/** A world with one node whose newest process is in `latest`. */
async function worldWithStore(seed: number): Promise<{ world: World; open: () => Promise<KeyValue> }> {
  const world = new World(seed);
  let latest: NodeContext | undefined;
  world.node("n", async (context) => {
    latest = context;
  });
  await world.advance(1);
  return { world, open: () => world.complete(latest!.openKeyValue("main"), 1_000) };
}

async function restart(world: World, mode: "kill" | "power"): Promise<void> {
  world.crash("n", mode);
  world.start("n");
  await world.advance(1);
}

const put = (store: KeyValue, n: number, sync: boolean): Promise<void> =>
  store.batch([{ kind: "put", key: key(n), value: key(n) }], { sync });

async function numbers(world: World, store: KeyValue): Promise<number[]> {
  const entries = await world.complete(store.range(ALL), 100);
  return entries.map(({ key: bytes }) => (bytes[0]! << 8) | bytes[1]!);
}

test("store: put, delete, ranges both ways: bytewise order, limits kept, answers are copies", async () => {
  const { world, open } = await worldWithStore(1);
  const store = await open();
  for (const n of [5, 300, 2, 256]) await world.complete(put(store, n, false), 100);
  await world.complete(store.batch([{ kind: "delete", key: key(5) }], { sync: true }), 100);
  assert.deepEqual(await numbers(world, store), [2, 256, 300]);
  const last = await world.complete(store.range({ ...ALL, limit: 2, reverse: true }), 100);
  assert.deepEqual(
    last.map(({ value }) => value),
    [key(300), key(256)],
  );
  last[0]!.value[0] = 99;
  assert.deepEqual(await world.complete(store.getMany([key(300), key(5)]), 100), [key(300), undefined]);
});

test("[I4] power cut: after 50 seeds: survivors are a prefix, never less than what was synced", async () => {
  const lengths = new Set<number>();
  for (let seed = 0; seed < 50; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    for (let n = 0; n < 10; n += 1) await world.complete(put(store, n, n === 3), 100);
    void put(store, 10, true);
    await restart(world, "power");
    const found = await numbers(world, await open());
    assert.deepEqual(
      found,
      Array.from({ length: found.length }, (_, n) => n),
    );
    assert.ok(found.length >= 4);
    lengths.add(found.length);
  }
  assert.ok(lengths.has(4) && lengths.has(11) && lengths.size > 4, `lengths ${[...lengths].join()}`);
});

test("kill: finished writes without sync: survive; a later power cut may still take them", async () => {
  let lost = 0;
  for (let seed = 0; seed < 20; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    for (let n = 0; n < 5; n += 1) await world.complete(put(store, n, false), 100);
    await restart(world, "kill");
    assert.equal((await numbers(world, await open())).length, 5);
    await restart(world, "power");
    if ((await numbers(world, await open())).length < 5) lost += 1;
  }
  assert.ok(lost > 0);
});

test("failed sync: STORE_FAILED, all later writes refused; after restart the batch is there or not", async () => {
  const outcomes = new Set<number>();
  for (let seed = 0; seed < 20; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    await world.complete(put(store, 0, true), 100);
    world.disk("n").failNextSync = true;
    await assert.rejects(world.complete(put(store, 1, true), 100), { code: "STORE_FAILED", applied: "unknown" });
    await assert.rejects(world.complete(put(store, 2, true), 100), { code: "STORE_FAILED", applied: "no" });
    assert.deepEqual(await numbers(world, store), [0]);
    await restart(world, "power");
    const reopened = await open();
    const found = await numbers(world, reopened);
    assert.ok(found.length === 1 || (found.length === 2 && found[1] === 1));
    outcomes.add(found.length);
    await world.complete(put(reopened, 3, true), 100);
  }
  assert.deepEqual(
    [...outcomes].sort((left, right) => left - right),
    [1, 2],
  );
});

test("crash before the store's creation was synced: the store is empty", async () => {
  const { world, open } = await worldWithStore(3);
  void open().catch(() => undefined);
  await restart(world, "power");
  assert.deepEqual(await numbers(world, await open()), []);
});

test("a second process: the store is locked until the first one is gone", async () => {
  const world = new World(4);
  const outcomes: string[] = [];
  world.node("n", async (context) => {
    await context.openKeyValue("main").then(
      () => outcomes.push("open"),
      (error: { code: string }) => outcomes.push(error.code),
    );
  });
  await world.advance(10);
  world.replace("n");
  await world.advance(10);
  assert.deepEqual(outcomes, ["open", "STORE_FAILED"]);
});

/** A subject whose every step happens in virtual time; the test drives it. */
function subjectOf(world: World): Promise<KeyValueSubject> {
  let booted: (context: NodeContext) => void = () => undefined;
  const nextHost = (): Promise<NodeContext> => new Promise((resolve) => (booted = resolve));
  const first = nextHost();
  world.node("n", async (context) => booted(context));
  const open = async (context: NodeContext): Promise<KeyValueSubject> => {
    const store = await context.openKeyValue("main");
    return {
      store,
      reopen: async () => {
        await store.close();
        return context.openKeyValue("main");
      },
      crash: async () => {
        const next = nextHost();
        world.crash("n", "power");
        world.start("n");
        return (await next).openKeyValue("main");
      },
    };
  };
  return first.then(open);
}

for (const contractCase of KEY_VALUE_CASES) {
  test(`KeyValue contract: ${contractCase.name}`, async () => {
    const world = new World(1);
    await world.complete(
      contractCase.run(() => subjectOf(world)),
      60_000,
    );
  });
}
