// Snapshots of a window: what is uploaded and kept, and what another worker makes of them, or of what is left of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "@concord/port-contracts";
import type { MessageLog } from "@concord/ports";
import { silentMetrics, toHex } from "@concord/runtime";
import type { SnapshotOptions } from "./api.ts";
import { SNAPSHOT_EVERY_MS_MIN, SNAPSHOTS_KEPT_MAX } from "./limits.ts";
import { decodeSnapshot, encodeSnapshot, snapshotNames, type Snapshot } from "./snapshot-format.ts";
import { checksum, fixture, Life, message, outputValues, processed, until, utf8, type Fixture } from "./test/fixture.ts";
import { MemorySnapshotStore } from "./test/memory-snapshot-store.ts";

const EVERY_MS = 1_000;

function snapshotsOf(store: MemorySnapshotStore, kept = 2): SnapshotOptions {
  return { store, everyMs: EVERY_MS, kept };
}

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => message(`id ${from + at}`));

/** Processes what is appended; a snapshot holds the newest whole segment then. */
async function work(worker: Fixture, store: MemorySnapshotStore, from: number, to: number): Promise<void> {
  await worker.log.append(0, ids(from, to));
  await processed(worker);
  const { appliedOutput } = (await worker.worker.statistics()).window;
  const whole = (appliedOutput / 16n) * 16n;
  await until(() => snapshotNames([...store.held.keys()])[0]?.outNext === whole, `a snapshot up to ${whole}`);
}

/** A worker that had the partition, stopped, and its log: 40 ids in 50 offsets, two segments and two ids more. */
async function first(store: MemorySnapshotStore, kept = 2): Promise<MemoryMessageLog> {
  const worker = fixture({ snapshots: snapshotsOf(store, kept) });
  await worker.worker.start();
  await work(worker, store, 0, 40);
  await until(() => store.calls.at(-1) !== `put ${store.names("window-")[0]!}`, "tidied up");
  await worker.worker.stop();
  return worker.log;
}

/** Every id that was published is a duplicate, a new one is not. */
async function knowsAll(worker: Fixture, published: number): Promise<void> {
  await worker.worker.start();
  const { from } = await worker.log.append(0, [...ids(0, published), message("new")]);
  const last = await worker.worker.whenProcessed(from + BigInt(published));
  assert.equal(last.kind, "accepted", "a new id");
  assert.equal((await outputValues(worker.log)).length, published + 1, "nothing twice");
  await worker.worker.stop();
}

function tracedReads(reads: bigint[]): (log: MessageLog) => MessageLog {
  return (log) =>
    new Proxy(log, {
      get: (object, name): unknown => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== "function") return value;
        return (...given: unknown[]): unknown => {
          if (name === "read" && given[0] === "output" && (given[3] as { messages: number }).messages > 1) reads.push(given[2] as bigint);
          return (value as (...all: unknown[]) => unknown).apply(object, given);
        };
      },
    });
}

const WIDE = { worker: { window: { idsPerSegment: 16, segmentsMax: 8, windowMs: 0 } } } as const;

test("[DD11] restore: another worker without a window: attached from the snapshot, the output read from outNext on only", async () => {
  const store = new MemorySnapshotStore();
  const log = await first(store);
  const reads: bigint[] = [];
  const gauges = new Map<string, number>();
  const metrics = {
    ...silentMetrics,
    gauge: (name: string, value: number, labels: object = {}) => void gauges.set(JSON.stringify([name, labels]), value),
  };
  const other = fixture({ ...WIDE, log, snapshots: snapshotsOf(store), seenLog: tracedReads(reads), metrics });
  await knowsAll(other, 40);
  assert.equal(reads[0], 48n, "not from the start");
  const restored = [...gauges.keys()].filter((key) => key.includes("restore_seconds"));
  assert.equal(restored.length, 3);
});

test("[DDD11] snapshots: taken again: each blob is uploaded once, the manifest last, and what is not named any more removed", async () => {
  const store = new MemorySnapshotStore();
  const worker = fixture({ snapshots: snapshotsOf(store, 2) });
  await worker.worker.start();
  for (let at = 0; at < 6; at += 1) await work(worker, store, at * 40, at * 40 + 40);
  await until(() => store.names("window-").length === 2, "two are kept");
  await until(() => store.names("ids-").length <= 3 + 3, "the blobs of two snapshots");
  const puts = store.calls.filter((call) => call.startsWith("put "));
  assert.equal(new Set(puts).size, puts.length, "nothing twice");
  assert.ok(puts.at(-1)!.startsWith("put window-"));
  for (const name of store.names("window-")) {
    const { segments } = decodeSnapshot(store.held.get(name)!, checksum);
    for (const blob of segments.flatMap(({ blobs }) => blobs)) assert.ok(store.held.has(blob), `${name} names ${blob}`);
  }
  await worker.worker.stop();
});

test("[DD18] snapshots: periodic: none without a new segment, one after the next, none by a limit outside the allowed", async () => {
  const store = new MemorySnapshotStore();
  const worker = fixture({ snapshots: snapshotsOf(store) });
  await worker.worker.start();
  await worker.log.append(0, ids(0, 8));
  await processed(worker);
  for (let turns = 0; turns < 50; turns += 1) await new Promise((resolve) => void setImmediate(resolve));
  assert.equal(store.held.size, 0, "no segment, no snapshot");
  await work(worker, store, 8, 40);
  const taken = store.calls.length;
  for (let turns = 0; turns < 50; turns += 1) await new Promise((resolve) => void setImmediate(resolve));
  assert.equal(store.calls.length, taken, "nothing to do");
  await worker.worker.stop();
  for (const wrong of [{ kept: 0 }, { kept: SNAPSHOTS_KEPT_MAX + 1 }, { everyMs: SNAPSHOT_EVERY_MS_MIN - 1 }]) {
    const code = /LIMIT_EXCEEDED|allowed are/;
    assert.throws(() => fixture({ snapshots: { ...snapshotsOf(store), ...wrong } }), code);
  }
});

test("[DD18] snapshots: pause, detach, attach, resume: each of several owners restores what the one before left", async () => {
  const store = new MemorySnapshotStore();
  let log = new MemoryMessageLog(1);
  for (let owner = 0; owner < 4; owner += 1) {
    const worker = fixture({ ...WIDE, log, snapshots: snapshotsOf(store) });
    await worker.worker.start();
    await work(worker, store, Math.max(0, owner * 20 - 10), owner * 20 + 20);
    await worker.worker.stop();
    log = log.restart();
  }
  assert.equal((await outputValues(log)).length, 80);
  assert.equal(new Set(store.names("window-").map((name) => name.slice(-32))).size, 1, "one key, handed on");
});

/** What the table of the README says of a snapshot that cannot be used. */
const UNUSABLE: readonly (readonly [what: string, change: (store: MemorySnapshotStore) => void])[] = [
  ["a blob is gone", (store) => void store.held.delete(store.names("ids-")[0]!)],
  ["a blob is changed", (store) => store.names("ids-").forEach((name) => (store.held.get(name)![3]! ^= 1))],
  ["a blob is cut", (store) => store.names("ids-").forEach((name) => store.held.set(name, store.held.get(name)!.subarray(0, 32)))],
  ["two blobs are swapped", swapBlobs],
  ["the manifest is changed", (store) => store.names("window-").forEach((name) => (store.held.get(name)![20]! ^= 1))],
  ["the manifest is of another partition", (store) => rewrite(store, (snapshot) => ({ ...snapshot, partition: 1 }))],
  ["it ends behind the output", (store) => rewrite(store, (snapshot) => ({ ...snapshot, outNext: 5_000n }))],
  [
    "it is of another output",
    (store) => rewrite(store, (snapshot) => ({ ...snapshot, witness: { ...snapshot.witness, hash: new Uint8Array(16) } })),
  ],
  ["it does not answer", (store) => void (store.fault = "hangs")],
  ["it refuses", (store) => void (store.fault = "refuses")],
  ["it has none", (store) => store.held.clear()],
];

function swapBlobs(store: MemorySnapshotStore): void {
  const [one, two] = store.names("ids-") as [string, string];
  const bytes = store.held.get(one)!;
  store.held.set(one, store.held.get(two)!);
  store.held.set(two, bytes);
}

function rewrite(store: MemorySnapshotStore, change: (snapshot: Snapshot) => Snapshot): void {
  for (const name of store.names("window-"))
    store.held.set(name, encodeSnapshot(change(decodeSnapshot(store.held.get(name)!, checksum)), checksum));
}

test("[DDD11] restore: a snapshot that cannot be used, each reason: rebuilt from the output, never started empty", async () => {
  for (const [what, change] of UNUSABLE) {
    const store = new MemorySnapshotStore();
    const log = await first(store);
    change(store);
    const reads: bigint[] = [];
    const other = fixture({ ...WIDE, log, snapshots: snapshotsOf(store), seenLog: tracedReads(reads) });
    await knowsAll(other, 40);
    assert.equal(reads[0], 0n, `${what}: from the start`);
  }
});

test("restore: the newest is damaged, the one before is whole: that one, and the output from there on", async () => {
  const store = new MemorySnapshotStore();
  const worker = fixture({ ...WIDE, snapshots: snapshotsOf(store) });
  await worker.worker.start();
  await work(worker, store, 0, 20);
  await work(worker, store, 20, 40);
  await worker.worker.stop();
  store.held.get(store.names("window-").at(-1)!)![20]! ^= 1;
  const reads: bigint[] = [];
  await knowsAll(fixture({ ...WIDE, log: worker.log, snapshots: snapshotsOf(store), seenLog: tracedReads(reads) }), 40);
  assert.ok(reads[0]! > 0n && reads[0]! < 48n, String(reads[0]));
});

test("restore: the window may have fewer segments than the snapshot: the newest of them", async () => {
  const store = new MemorySnapshotStore();
  const log = await first(store);
  const window = { idsPerSegment: 16, segmentsMax: 1, windowMs: 0 };
  const other = fixture({ worker: { window }, log, snapshots: snapshotsOf(store) });
  await other.worker.start();
  const { segments } = (await other.worker.statistics()).window;
  const seen = await other.worker.seen(["id 0", "id 36", "id 39"].map(utf8));
  await other.worker.stop();
  assert.deepEqual([segments, ...seen], [1, false, true, true]);
});

test("restore: a window is there: snapshots are not read, the window's own outNext counts", async () => {
  const store = new MemorySnapshotStore();
  const worker = fixture({ ...WIDE, snapshots: snapshotsOf(store) });
  await worker.worker.start();
  await work(worker, store, 0, 40);
  await worker.worker.stop();
  const before = store.calls.length;
  store.fault = "hangs";
  await knowsAll(fixture({ ...WIDE, log: worker.log, stores: worker.stores, snapshots: snapshotsOf(store) }), 40);
  assert.ok(
    store.calls.slice(before).every((call) => call === "list"),
    "at most tries at a next one",
  );
});

test("[DDD11] restore: death at each point of it: the next start has all ids", async () => {
  for (const cut of ["power", "process"] as const) {
    for (let hits = 1; hits < 8; hits += 1) {
      const store = new MemorySnapshotStore();
      const log = await first(store);
      const life = new Life(hits);
      const dying = fixture({ ...WIDE, log, life, snapshots: snapshotsOf(store) });
      dying.worker.start().catch(() => undefined);
      await log.append(0, [message("id 1")]);
      await life.died;
      void dying.worker.stop();
      await knowsAll(fixture({ ...WIDE, log: log.restart(), stores: dying.stores.restart(cut), snapshots: snapshotsOf(store) }), 40);
    }
  }
});

test("snapshots: those of windows with another key, and what an interrupted upload left: replaced by the next one", async () => {
  const store = new MemorySnapshotStore();
  const foreign = `window-${"9".repeat(20)}-${"f".repeat(32)}`;
  store.held.set(foreign, Uint8Array.of(1));
  store.held.set(`ids-${"f".repeat(32)}`, Uint8Array.of(1));
  store.held.set("not-ours", Uint8Array.of(1));
  const log = await first(store);
  const left = store.calls.filter((call) => call.startsWith("remove"));
  assert.deepEqual(left, [`remove ${foreign}`, `remove ids-${"f".repeat(32)}`]);
  assert.ok(store.held.has("not-ours"));
  await knowsAll(fixture({ ...WIDE, log, snapshots: snapshotsOf(store) }), 40);
});

test("snapshots: the store fails for a while: work goes on, the next one that succeeds has everything", async () => {
  const store = new MemorySnapshotStore();
  const worker = fixture({ ...WIDE, snapshots: snapshotsOf(store) });
  for (const fault of ["refuses", "hangs"] as const) {
    store.fault = fault;
    if (fault === "refuses") await worker.worker.start();
    const tries = store.calls.length;
    await worker.log.append(0, fault === "refuses" ? ids(0, 20) : ids(20, 40));
    await processed(worker);
    await until(() => store.calls.length > tries + 2, "tried again");
    assert.equal(store.held.size, 0);
  }
  store.fault = "none";
  await work(worker, store, 40, 60);
  await worker.worker.stop();
  await knowsAll(fixture({ ...WIDE, log: worker.log, snapshots: snapshotsOf(store) }), 60);
});

test("snapshot format: version 1: golden bytes", () => {
  const snapshot: Snapshot = {
    partition: 3,
    idKey: new Uint8Array(16).fill(7),
    outNext: 64n,
    witness: { offset: 62n, hash: new Uint8Array(16).fill(9) },
    segments: [{ from: 16n, to: 64n, ids: 2, oldestMs: 5, newestMs: 6, blobs: [`ids-${"ab".repeat(16)}`] }],
  };
  const bytes = encodeSnapshot(snapshot, checksum);
  assert.equal(toHex(bytes), GOLDEN);
  assert.deepEqual(decodeSnapshot(bytes, checksum), snapshot);
  assert.throws(() => decodeSnapshot(encodeSnapshot({ ...snapshot, segments: [] }, checksum), checksum), /0 segments/);
  assert.throws(() => decodeSnapshot(encodeSnapshot({ ...snapshot, outNext: 60n }, checksum), checksum), /follow/);
});

const GOLDEN =
  "0111b5ead200000003070707070707070707070707070707070000000000000040000000000000003e090909090909090909090909090909090100000000000000" +
  "1000000000000000400000000200000000000000050000000000000006abababababababababababababababab";
