import assert from "node:assert/strict";
import { test } from "node:test";
import { BACKING_STORE_CASES, type BackingStoreSubject } from "@concord/port-contracts";
import type { BackingStore } from "@concord/ports";
import { World, type NodeContext } from "./index.ts";

const key = (n: number): Uint8Array => Uint8Array.of(n >> 8, n & 0xff);
const ALL = { from: Uint8Array.of(0), to: Uint8Array.of(255), limit: 10_000 };

/** A world with one node whose newest process is in `latest`. */
async function worldWithStore(seed: number): Promise<{ world: World; open: () => Promise<BackingStore> }> {
  const world = new World(seed);
  let latest: NodeContext | undefined;
  world.node("n", async (context) => {
    latest = context;
  });
  await world.advance(1);
  return { world, open: () => world.complete(latest!.openBacking("main"), 1_000) };
}

async function restart(world: World, mode: "kill" | "power"): Promise<void> {
  world.crash("n", mode);
  world.start("n");
  await world.advance(1);
}

const put = (store: BackingStore, n: number): Promise<void> => store.batch([{ kind: "put", key: key(n), value: key(n) }]);

async function numbers(world: World, store: BackingStore): Promise<number[]> {
  const entries = await world.complete(store.range(ALL), 100);
  return entries.map(({ key: bytes }) => (bytes[0]! << 8) | bytes[1]!);
}

test("store: put, delete, ranges both ways: bytewise order, limits kept, answers are copies", async () => {
  const { world, open } = await worldWithStore(1);
  const store = await open();
  for (const n of [5, 300, 2, 256]) await world.complete(put(store, n), 100);
  await world.complete(store.batch([{ kind: "delete", key: key(5) }]), 100);
  assert.deepEqual(await numbers(world, store), [2, 256, 300]);
  const last = await world.complete(store.range({ ...ALL, limit: 2, reverse: true }), 100);
  assert.deepEqual(
    last.map(({ value }) => value),
    [key(300), key(256)],
  );
  last[0]!.value[0] = 99;
  assert.deepEqual(await world.complete(store.getMany([key(300), key(5)]), 100), [key(300), undefined]);
});

test("[I4] power cut: after 60 seeds: what was flushed, and a prefix of each log file by itself", async () => {
  let [gaps, complete] = [0, 0];
  for (let seed = 0; seed < 60; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    for (let n = 0; n < 4; n += 1) await world.complete(put(store, n), 100);
    await world.complete(store.flush(), 1_000);
    // Many at once: log files fill before their tables are written.
    const last = Array.from({ length: 400 }, (_, n) => put(store, n + 4));
    await world.complete(Promise.all(last), 1_000);
    await restart(world, "power");
    const found = await numbers(world, await open());
    assert.deepEqual(found.slice(0, 4), [0, 1, 2, 3]);
    if (found.at(-1)! >= found.length) gaps += 1;
    if (found.length === 404) complete += 1;
  }
  assert.ok(gaps > 0 && complete > 0, `${gaps} with gaps, ${complete} complete`);
});

test("kill: finished writes: survive, and once opened also a power cut; those under way: a prefix", async () => {
  const lengths = new Set<number>();
  for (let seed = 0; seed < 20; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    for (let n = 0; n < 5; n += 1) await world.complete(put(store, n), 100);
    for (let n = 5; n < 8; n += 1) void put(store, n);
    await restart(world, "kill");
    const found = await numbers(world, await open());
    assert.deepEqual(
      found,
      Array.from({ length: found.length }, (_, n) => n),
    );
    assert.ok(found.length >= 5);
    await restart(world, "power");
    assert.deepEqual(await numbers(world, await open()), found);
    lengths.add(found.length);
  }
  assert.ok(lengths.size > 1);
});

test("failed flush: STORE_FAILED, all later writes refused; after restart the values are there or not", async () => {
  const outcomes = new Set<number>();
  for (let seed = 0; seed < 20; seed += 1) {
    const { world, open } = await worldWithStore(seed);
    const store = await open();
    await world.complete(put(store, 0), 100);
    await world.complete(store.flush(), 1_000);
    await world.complete(put(store, 1), 100);
    world.disk("n").failNextSync = true;
    await assert.rejects(world.complete(store.flush(), 1_000), { code: "STORE_FAILED", applied: "unknown" });
    await assert.rejects(world.complete(put(store, 2), 100), { code: "STORE_FAILED", applied: "no" });
    assert.deepEqual(await numbers(world, store), [0, 1]);
    await restart(world, "power");
    const reopened = await open();
    const found = await numbers(world, reopened);
    assert.ok(found.length === 1 || (found.length === 2 && found[1] === 1));
    outcomes.add(found.length);
    await world.complete(put(reopened, 3), 100);
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
    await context.openBacking("main").then(
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
function subjectOf(world: World): Promise<BackingStoreSubject> {
  let booted: (context: NodeContext) => void = () => undefined;
  const nextHost = (): Promise<NodeContext> => new Promise((resolve) => (booted = resolve));
  const first = nextHost();
  world.node("n", async (context) => booted(context));
  const open = async (context: NodeContext): Promise<BackingStoreSubject> => {
    const store = await context.openBacking("main");
    return {
      store,
      reopen: async () => {
        await store.close();
        return context.openBacking("main");
      },
      crash: async () => {
        const next = nextHost();
        world.crash("n", "power");
        world.start("n");
        return (await next).openBacking("main");
      },
    };
  };
  return first.then(open);
}

for (const contractCase of BACKING_STORE_CASES) {
  test(`BackingStore contract: ${contractCase.name}`, async () => {
    const world = new World(1);
    await world.complete(
      contractCase.run(() => subjectOf(world)),
      60_000,
    );
  });
}
