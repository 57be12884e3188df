// Epochs and blocks of names: nothing is used that is not certainly reserved (OGD6).
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryObjectData, MemoryObjectMetadata, type CommitFate } from "@concord/port-contracts";
import { oidOf, parseOid, type Oid } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics } from "@concord/runtime";
import { codeOf, TestClock, turns } from "../test/gateway.ts";
import { isRecovered, putEpoch, readEpoch } from "./epoch-row.ts";
import { openEpoch, type EpochOptions, type GatewayEpoch } from "./gateway-epoch.ts";
import { BLOCK_FETCH_SHARE, BLOCK_NAMES, EPOCH_HEARTBEAT_MS, TAKE_WAIT_MS, TAKERS_WAITING_MAX } from "./limits.ts";
import { EpochNames, type NameBlock } from "./names.ts";

const SMALL_BLOCK = 4;

interface Shared {
  readonly metadata: MemoryObjectMetadata;
  readonly data: MemoryObjectData;
  readonly clock: TestClock;
}

const newShared = (): Shared => ({ metadata: new MemoryObjectMetadata(), data: new MemoryObjectData(), clock: new TestClock() });

interface Opened extends Shared {
  readonly options: EpochOptions;
  readonly recorded: NameBlock[];
  readonly fenced: number[];
}

let guid = 0n;

function setUp(shared: Shared = newShared(), more: Partial<EpochOptions> = {}): Opened {
  const recorded: NameBlock[] = [];
  const fenced: number[] = [];
  const record = async (_: number, block: NameBlock): Promise<void> => {
    recorded.push(block);
  };
  const options: EpochOptions = {
    ...shared,
    guids: { next: () => Promise.resolve((guid += 1n)) },
    instance: "one",
    names: { kind: "blocks", record },
    log: silentLog,
    metrics: silentMetrics,
    failpoint: () => undefined,
    onFenced: (epoch) => fenced.push(epoch),
    ...more,
  };
  return { ...shared, options, recorded, fenced };
}

const take = async (epoch: GatewayEpoch, count: number): Promise<Oid[]> => {
  const oids: Oid[] = [];
  for (let at = 0; at < count; at += 1) oids.push(await epoch.take());
  return oids;
};

test("[OGD6] open: the first block is in the row and in the journal before the first name", async () => {
  const { options, metadata, recorded } = setUp();
  const epoch = await openEpoch(options);
  assert.deepEqual(recorded, [{ from: 0, to: BLOCK_NAMES }]);
  const held = await readEpoch(metadata, epoch.epoch);
  assert.deepEqual(held!.row, { kind: "epoch", epoch: 1, instance: "one", reservedTo: BLOCK_NAMES, lowWater: 0, closed: false });
  assert.equal(await epoch.take(), oidOf(1, 0));
  assert.equal(await epoch.take(), oidOf(1, 1));
});

test("[OGD6] take: above half use nothing is fetched, at half use the next block is, in the background", async () => {
  const { options, recorded } = setUp();
  const epoch = await openEpoch(options);
  await take(epoch, BLOCK_NAMES * BLOCK_FETCH_SHARE - 1);
  await turns();
  assert.equal(recorded.length, 1);
  await epoch.take();
  await turns();
  assert.deepEqual(recorded.at(-1), { from: BLOCK_NAMES, to: 2 * BLOCK_NAMES });
});

test("[OGD6] take: the next block is in the row, but not yet in the journal: takers wait for it", async () => {
  const gate = Promise.withResolvers<void>();
  let records = 0;
  const record = async (): Promise<void> => {
    records += 1;
    if (records > 1) await gate.promise;
  };
  const { options } = setUp(undefined, { names: { kind: "blocks", record } });
  const epoch = await openEpoch(options);
  await take(epoch, BLOCK_NAMES);
  let taken: Oid | undefined;
  const waiting = epoch.take().then((oid) => (taken = oid));
  await turns();
  assert.deepEqual([records, taken], [2, undefined]);
  gate.resolve();
  await waiting;
  assert.equal(taken, oidOf(1, BLOCK_NAMES));
});

test("[OGD6] take: the journal refuses a block: it is never used, the next one is", async () => {
  const recorded: NameBlock[] = [];
  const record = async (_: number, block: NameBlock): Promise<void> => {
    if (block.from === BLOCK_NAMES) throw new ConcordError("STORE_FAILED", "no sync");
    recorded.push(block);
  };
  const { options } = setUp(undefined, { names: { kind: "blocks", record } });
  const epoch = await openEpoch(options);
  const oids = await take(epoch, BLOCK_NAMES + 1);
  assert.equal(parseOid(oids.at(-1)!).sequence, 2 * BLOCK_NAMES);
  assert.deepEqual(
    recorded.map(({ from }) => from),
    [0, 2 * BLOCK_NAMES],
  );
});

for (const fates of [
  ["applied"],
  ["lost"],
  ["late"],
  ["lost", "applied"],
  ["late", "late", "lost", "late", "applied"],
  ["lost", "lost", "lost", "lost", "lost", "lost"],
] as const) {
  test(`[OGD2] take: the answer of a reservation is lost (${fates.join(", ")}): no name twice, none that is not reserved`, async () => {
    const { options, metadata } = setUp();
    const epoch = await openEpoch(options);
    const seen = new Set<Oid>();
    for (let round = 0; round < 3; round += 1) {
      metadata.nextFates(...(fates as readonly CommitFate[]));
      for (const oid of await take(epoch, BLOCK_NAMES)) {
        assert.ok(!seen.has(oid));
        seen.add(oid);
        const { sequence } = parseOid(oid);
        if (sequence % 100 === 0) assert.ok(sequence < (await readEpoch(metadata, 1))!.row.reservedTo, "reserved in the row");
      }
      metadata.applyLate();
    }
  });
}

test("open: the answer is lost: the same number when the row is there, another's number is left to it", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const { options, metadata } = setUp();
    metadata.nextFates(fate);
    const epoch = await openEpoch(options);
    assert.equal(epoch.epoch, 1);
    assert.equal(metadata.applyLate(), 0);
    assert.equal(metadata.contents().length, 1);
  }
});

test("open: two at once, and blobs whose rows are lost: every epoch has its own number", async () => {
  const shared = newShared();
  await shared.data.create(oidOf(7, 0), { bucket: "b", key: "k", part: undefined, guid: 1n });
  const epochs = await Promise.all([1, 2, 3].map((at) => openEpoch(setUp(shared, { instance: `g${at}` }).options)));
  assert.deepEqual(
    epochs.map(({ epoch }) => epoch).sort((left, right) => left - right),
    [8, 9, 10],
  );
});

test("take: no block is reserved in time: OVERLOADED; later it goes on", async () => {
  const { options, metadata, clock } = setUp();
  const epoch = await openEpoch(options);
  metadata.before = (operation) => {
    if (operation === "commit") throw new ConcordError("STORE_FAILED", "away", { applied: "no" });
  };
  await take(epoch, BLOCK_NAMES);
  const waiting = codeOf(epoch.take());
  await turns(3);
  await clock.advance(TAKE_WAIT_MS);
  assert.equal(await waiting, "OVERLOADED");
  metadata.before = () => undefined;
  assert.equal(await epoch.take(), oidOf(1, BLOCK_NAMES));
});

test("stop: an upload waits for a name: DRAINING at once, although no block comes", async () => {
  const gate = Promise.withResolvers<void>();
  const { options, metadata } = setUp();
  const epoch = await openEpoch(options);
  metadata.before = () => gate.promise;
  await take(epoch, BLOCK_NAMES);
  const waiting = codeOf(epoch.take());
  const stopped = epoch.stop();
  assert.equal(await waiting, "DRAINING");
  gate.resolve();
  await stopped;
});

test("take: below, at and above the limit of takers that wait: taken, taken, OVERLOADED; their time limits end with them", async () => {
  const { options, metadata, clock } = setUp();
  const epoch = await openEpoch(options);
  const gate = Promise.withResolvers<void>();
  metadata.before = () => gate.promise;
  await take(epoch, BLOCK_NAMES);
  const waiting = Array.from({ length: TAKERS_WAITING_MAX }, () => epoch.take());
  assert.equal(await codeOf(epoch.take()), "OVERLOADED");
  gate.resolve();
  const oids = await Promise.all(waiting);
  assert.equal(new Set(oids).size, TAKERS_WAITING_MAX);
  await clock.advance(TAKE_WAIT_MS);
  assert.deepEqual([epoch.state, epoch.unresolved().length], ["open", BLOCK_NAMES + TAKERS_WAITING_MAX]);
});

test("[OGD6] blocks of four names: the first and each further one has four, fetched at half use", async () => {
  const { options, metadata, recorded } = setUp(newShared(), { blockNames: SMALL_BLOCK });
  const epoch = await openEpoch(options);
  await take(epoch, SMALL_BLOCK * BLOCK_FETCH_SHARE - 1);
  await turns();
  assert.deepEqual(recorded, [{ from: 0, to: SMALL_BLOCK }]);
  await epoch.take();
  await turns();
  assert.deepEqual(recorded.at(-1), { from: SMALL_BLOCK, to: 2 * SMALL_BLOCK });
  assert.equal((await readEpoch(metadata, 1))!.row.reservedTo, 2 * SMALL_BLOCK);
});

test("[OGD3] the epoch is closed by another gateway: the next block, the heartbeat, a look: EPOCH_FENCED, told once", async () => {
  for (const notice of ["block", "heartbeat", "look"] as const) {
    const { options, metadata, clock, fenced } = setUp();
    const epoch = await openEpoch(options);
    const held = (await readEpoch(metadata, 1))!;
    await putEpoch(options, held, { ...held.row, closed: true });
    if (notice === "block") await take(epoch, BLOCK_NAMES * BLOCK_FETCH_SHARE);
    if (notice === "heartbeat") await clock.advance(EPOCH_HEARTBEAT_MS);
    if (notice === "look") assert.equal(await codeOf(epoch.confirmOpen()), "EPOCH_FENCED");
    await turns();
    assert.deepEqual([epoch.state, fenced, await codeOf(epoch.take())], ["fenced", [1], "EPOCH_FENCED"]);
    await clock.advance(10 * EPOCH_HEARTBEAT_MS);
    assert.deepEqual(fenced, [1]);
  }
});

test("[OGD7] low water: the lowest name that is not resolved; written with the heartbeat, never beyond what is reserved", async () => {
  const { options, metadata, clock } = setUp();
  const epoch = await openEpoch(options);
  const oids = await take(epoch, 10);
  const written = async (): Promise<number> => {
    await clock.advance(EPOCH_HEARTBEAT_MS);
    return (await readEpoch(metadata, 1))!.row.lowWater;
  };
  epoch.resolve(oids[0]!);
  epoch.resolve(oids[2]!);
  assert.equal(await written(), 1);
  epoch.resolve(oids[1]!);
  assert.equal(await written(), 3);
  for (const oid of oids.slice(3)) epoch.resolve(oid);
  assert.equal(await written(), 10);
  assert.throws(() => epoch.resolve(oids[3]!), /resolved once/);
});

test("stop: nothing unresolved: closed and recovered; else it stays open with its low-water mark", async () => {
  for (const unresolved of [false, true]) {
    const { options, metadata, data } = setUp();
    const epoch = await openEpoch(options);
    const oids = await take(epoch, 5);
    for (const oid of oids.slice(0, unresolved ? 3 : 5)) epoch.resolve(oid);
    await epoch.stop();
    const { row } = (await readEpoch(metadata, 1))!;
    assert.deepEqual([isRecovered(row), row.lowWater], unresolved ? [false, 3] : [true, BLOCK_NAMES]);
    assert.equal(await codeOf(epoch.take()), "DRAINING");
    const create = codeOf(data.create(oidOf(1, 900), { bucket: "b", key: "k", part: undefined, guid: 1n }));
    assert.equal(await create, unresolved ? "done" : "EPOCH_FENCED");
  }
});

test("free names: unique by the epoch's number alone; nothing is reserved", async () => {
  const { options, metadata, recorded } = setUp(undefined, { names: { kind: "free" } });
  const epoch = await openEpoch(options);
  const oids = await take(epoch, 3 * BLOCK_NAMES);
  assert.equal(new Set(oids).size, 3 * BLOCK_NAMES);
  assert.deepEqual([recorded, (await readEpoch(metadata, 1))!.row.reservedTo], [[], 0]);
  for (const oid of oids) epoch.resolve(oid);
  await epoch.stop();
  assert.ok(isRecovered((await readEpoch(metadata, 1))!.row));
});

test("names: blocks with gaps: in order, each once; low water counts what was skipped as resolved", () => {
  const names = new EpochNames();
  names.add({ from: 0, to: 2 });
  names.add({ from: 10, to: 11 });
  assert.deepEqual([names.available, names.take(), names.take(), names.take(), names.take()], [3, 0, 1, 10, undefined]);
  names.resolve(0);
  assert.deepEqual([names.lowWater, names.unresolved()], [1, [1, 10]]);
  names.resolve(1);
  assert.equal(names.lowWater, 10);
  names.resolve(10);
  assert.equal(names.lowWater, 11);
  assert.throws(() => names.add({ from: 5, to: 6 }), /ascend/);
});
