import assert from "node:assert/strict";
import { test } from "node:test";
import type { Disk, DiskFile } from "@concord/runtime";
import { contentOf, DISK_CASES, DISK_CRASH_CASES, LOSE_UNSYNCED, type CrashableDiskSubject } from "@concord/port-contracts";
import { World, type NodeContext } from "./index.ts";

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

/** A world with one node; `context` is its newest process. */
async function worldWithDisk(seed: number, options = {}): Promise<{ world: World; context: () => NodeContext }> {
  const world = new World(seed, options);
  let latest: NodeContext | undefined;
  world.node("n", async (context) => {
    latest = context;
  });
  await world.advance(1);
  return { world, context: () => latest! };
}

async function restart(world: World, mode: "kill" | "power", node = "n"): Promise<void> {
  world.crash(node, mode);
  world.start(node);
  await world.advance(1);
}

async function makeFile(disk: Disk, path: string): Promise<DiskFile> {
  const file = await disk.create(path);
  assert.ok(file !== "exists");
  return file;
}

/** A file of 10 bytes of which the first 4 and the name are synced. */
async function halfSynced(disk: Disk): Promise<void> {
  const file = await makeFile(disk, "f");
  await file.write(0, [bytes(0, 1, 2, 3)]);
  await file.sync();
  await disk.syncFolder("");
  for (let n = 4; n < 10; n += 1) await file.write(n, [bytes(n)]);
}

test("[I7] power cut: over 60 seeds: synced bytes stay; of the rest all, nothing or a mix; unsynced names may go", async () => {
  const seen = new Set<string>();
  const names = new Set<string>();
  for (let seed = 0; seed < 60; seed += 1) {
    const { world, context } = await worldWithDisk(seed);
    await world.complete(halfSynced(context().disk), 1_000);
    await world.complete(makeFile(context().disk, "unsynced"), 1_000);
    await restart(world, "power");
    const content = await contentOf(world.filesOn("n"), "f");
    assert.deepEqual(content?.slice(0, 4), bytes(0, 1, 2, 3));
    for (const [at, byte] of content!.entries()) assert.ok(byte === at || byte === 0);
    seen.add(content!.join());
    names.add(String([...world.disk("n").files.contents().keys()]));
  }
  assert.ok(seen.has("0,1,2,3") && seen.has("0,1,2,3,4,5,6,7,8,9") && seen.size > 5, [...seen].join(" "));
  assert.deepEqual([...names].sort(), ["f", "f,unsynced"]);
});

test("[I7] rot: one byte of the newest synced write to a journal, and of nothing before it; not after a kill, nor when a store wrote since", async () => {
  const found: string[] = [];
  for (const since of ["nothing", "a kill", "a store", "a write", "another file", "a header"] as const) {
    const { world, context } = await worldWithDisk(3);
    const { disk } = context();
    await world.complete(disk.makeFolder("s/journal"), 100);
    const file = await world.complete(makeFile(disk, since === "another file" ? "f" : "s/journal/1.journal"), 100);
    if (since !== "a header") await world.complete(file.writeSynced(0, [bytes(0, 1, 2)]), 100);
    await world.complete(file.writeSynced(since === "a header" ? 0 : 3, [since === "a header" ? bytes(0, 1, 2) : bytes(3, 4, 5)]), 100);
    for (const folder of ["", "s/journal"]) await world.complete(disk.syncFolder(folder), 100);
    await world.complete(file.writeSynced(since === "a header" ? 0 : 6, [bytes(6, 7)]), 100);
    if (since === "a write") void file.write(8, [bytes(8)]);
    await world.advance(1);
    if (since === "a store") {
      const store = await world.complete(context().openBacking("main"), 1_000);
      await world.complete(store.batch([{ kind: "put", key: bytes(1), value: bytes(1) }]), 100);
    }
    world.crash("n", since === "a kill" ? "kill" : "power");
    world.rot("n");
    const [content] = world.disk("n").files.contents().values();
    const isRotten = (byte: number, at: number): boolean => byte > 0 && byte !== at && byte !== at + 6;
    found.push(`${since}: ${content!.filter(isRotten).length}`);
    if (since === "nothing") assert.deepEqual(content!.slice(0, 6), bytes(0, 1, 2, 3, 4, 5));
  }
  assert.deepEqual(found, ["nothing: 1", "a kill: 0", "a store: 0", "a write: 0", "another file: 0", "a header: 0"]);
});

test("[I7] kill: what was written stays; a write under way is absent, whole or torn; a later power cut may take it all", async () => {
  const sizes = new Set<number>();
  let lost = 0;
  for (let seed = 0; seed < 60; seed += 1) {
    const { world, context } = await worldWithDisk(seed);
    await world.complete(halfSynced(context().disk), 1_000);
    const file = await world.complete(context().disk.open("f"), 100);
    void file!.write(10, [new Uint8Array(1_000)]);
    await restart(world, "kill");
    const content = await world.complete(contentOf(context().disk, "f"), 100);
    assert.deepEqual(content?.slice(0, 10), bytes(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    sizes.add(content!.length);
    await restart(world, "power");
    if ((await contentOf(world.filesOn("n"), "f"))!.length < 10) lost += 1;
  }
  assert.ok(sizes.has(10) && sizes.has(1_010) && sizes.size > 4, [...sizes].join());
  assert.ok(lost > 0);
});

test("failed sync: STORE_FAILED once; the flag is shared with the node's stores", async () => {
  const { world, context } = await worldWithDisk(1);
  const file = await world.complete(makeFile(context().disk, "f"), 100);
  world.disk("n").failNextSync = true;
  await assert.rejects(world.complete(file.sync(), 100), { code: "STORE_FAILED", applied: "unknown" });
  await world.complete(file.sync(), 100);
  const store = await world.complete(context().openBacking("main"), 100);
  world.disk("n").failNextSync = true;
  await assert.rejects(world.complete(store.flush(), 100), { code: "STORE_FAILED" });
  await world.complete(file.sync(), 100);
});

test("slow disk: calls take as much longer as it is slower; heal ends it and gives room back", async () => {
  const { world, context } = await worldWithDisk(2);
  const file = await world.complete(makeFile(context().disk, "f"), 100);
  const taken = async (): Promise<number> => {
    const beganMs = world.nowMs;
    for (let n = 0; n < 20; n += 1) await world.complete(file.sync(), 10_000);
    return world.nowMs - beganMs;
  };
  const fast = await taken();
  world.disk("n").slowness = 100;
  assert.ok((await taken()) > 30 * fast);
  world.disk("n").files.leaveRoom(3);
  await assert.rejects(world.complete(file.write(0, [bytes(1, 2, 3, 4)]), 100), { code: "STORAGE_FULL" });
  world.heal();
  assert.ok((await taken()) < 3 * fast);
  await world.complete(file.write(0, [bytes(1, 2, 3, 4)]), 100);
});

test("dead process: its files answer nothing and change nothing", async () => {
  const { world, context } = await worldWithDisk(3);
  const { disk } = context();
  const file = await world.complete(makeFile(disk, "f"), 100);
  await restart(world, "kill");
  let answered = false;
  const answer = (): void => {
    answered = true;
  };
  void file.write(0, [bytes(1)]).then(answer, answer);
  void disk.create("g").then(answer, answer);
  await world.advance(100);
  assert.deepEqual([answered, [...world.disk("n").files.contents().keys()]], [false, ["f"]]);
});

async function machine(seed: number): Promise<{ world: World; hosts: Map<string, NodeContext> }> {
  const world = new World(seed);
  const hosts = new Map<string, NodeContext>();
  world.sharedDisk("data", ["a", "b"]);
  for (const name of ["a", "b", "c"]) world.node(name, async (context) => void hosts.set(name, context));
  await world.advance(1);
  return { world, hosts };
}

test("shared disk: what one node writes the other reads; a kill of one leaves the other's open files", async () => {
  const { world, hosts } = await machine(4);
  const file = await world.complete(makeFile(hosts.get("a")!.sharedDisk("data"), "f"), 100);
  const other = await world.complete(hosts.get("b")!.sharedDisk("data").open("f"), 100);
  await world.complete(file.write(0, [bytes(7)]), 100);
  assert.deepEqual(await world.complete(other!.read(0, 9), 100), bytes(7));
  await restart(world, "kill", "a");
  await world.complete(other!.write(1, [bytes(8)]), 100);
  await world.complete(other!.sync(), 100);
  const again = await world.complete(hosts.get("a")!.sharedDisk("data").open("f"), 100);
  assert.deepEqual(await world.complete(again!.read(0, 9), 100), bytes(7, 8));
});

test("shared disk: a power cut of one node takes the machine's others, not those elsewhere; they come back together", async () => {
  const { world, hosts } = await machine(5);
  world.disk("data").files.chooser = LOSE_UNSYNCED;
  const file = await world.complete(makeFile(hosts.get("a")!.sharedDisk("data"), "f"), 100);
  await world.complete(file.sync(), 100);
  world.crash("b", "power");
  assert.deepEqual(
    ["a", "b", "c"].map((name) => world.isUp(name)),
    [false, false, true],
  );
  assert.equal(world.disk("data").files.contents().size, 0);
  world.start("b");
  await world.advance(1);
  assert.deepEqual(
    ["a", "b", "c"].map((name) => world.isUp(name)),
    [true, true, true],
  );
  assert.throws(() => hosts.get("c")!.sharedDisk("data"), { code: "INTERNAL" });
});

test("shared disk: a machine freezes: its write reaches the file when it goes on, over what another wrote meanwhile", async () => {
  const { world, hosts } = await machine(6);
  const file = await world.complete(makeFile(hosts.get("a")!.sharedDisk("data"), "f"), 100);
  const late = file.write(0, [bytes(1, 1)]);
  world.pause("a", "freeze");
  const other = await world.complete(hosts.get("b")!.sharedDisk("data").open("f"), 100);
  await world.complete(other!.write(0, [bytes(2, 2, 2)]), 100);
  assert.deepEqual(await world.complete(other!.read(0, 9), 100), bytes(2, 2, 2));
  world.resume("a");
  await world.complete(late, 100);
  assert.deepEqual(await world.complete(other!.read(0, 9), 100), bytes(1, 1, 2));
});

test("[I1] equal seeds: with files, crashes and failed syncs: equal traces; another seed: another trace", async () => {
  const run = async (seed: number): Promise<string> => {
    const { world, context } = await worldWithDisk(seed);
    await world.complete(halfSynced(context().disk), 1_000);
    await restart(world, "power");
    const file = await world.complete(context().disk.open("f"), 100);
    void file!.write(2, [bytes(9, 9, 9)]);
    await restart(world, "kill");
    world.disk("n").failNextSync = true;
    await world.complete(context().disk.syncFolder(""), 100).catch(() => undefined);
    await restart(world, "power");
    return world.trace.digest();
  };
  assert.equal(await run(6), await run(6));
  assert.notEqual(await run(6), await run(7));
});

/** A subject whose every step happens in virtual time; the test drives it. Power cuts lose what they may. */
async function subjectOf(world: World): Promise<CrashableDiskSubject> {
  let booted: (context: NodeContext) => void = () => undefined;
  const nextHost = (): Promise<NodeContext> => new Promise((resolve) => (booted = resolve));
  const first = nextHost();
  world.node("n", async (context) => booted(context));
  const { files } = world.disk("n");
  files.chooser = LOSE_UNSYNCED;
  return {
    disk: (await first).disk,
    crash: async () => {
      const next = nextHost();
      world.crash("n", "power");
      world.start("n");
      return (await next).disk;
    },
    failNextSync: () => (world.disk("n").failNextSync = true),
    leaveRoom: (room) => files.leaveRoom(room),
  };
}

/** Its handles belong to a dead process, which hears nothing: in the simulator that promise is kept by silence. */
const BY_SILENCE = "crash: files opened before it: STORE_FAILED";

for (const contractCase of [...DISK_CASES, ...DISK_CRASH_CASES.filter(({ name }) => name !== BY_SILENCE)]) {
  test(`Disk contract: ${contractCase.name}`, async () => {
    const world = new World(1);
    await world.complete(
      contractCase.run(() => subjectOf(world)),
      60_000,
    );
  });
}
