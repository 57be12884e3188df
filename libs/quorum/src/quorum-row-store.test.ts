// Quorum procedures over replicas that answer late, not at all, or with less than the others.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryRowStore, rowStoreContract } from "@concord/port-contracts";
import type { ColumnWrite, Mutation, RowKey, RowRange } from "@concord/ports";
import { encodeMutation, encodeRowKey, encodeRowsPart, imageOf, joinRows, liveRow } from "@concord/rows";
import { ConcordError, seqOf, timestampUsOf, toConcordError } from "@concord/runtime";
import { QuorumRowStore, rowsOfEntry, rowText, storedRowKey, type RowReplica } from "./index.ts";
import { behave, cutPages, insert, KEY, keyOf, OPTIONS, RANGE, remove, settled, text } from "./test/notes.ts";
import { checksum, testRing, turn, type Behaviour, type TestReplica, type TestRing } from "./test/ring.ts";

rowStoreContract(test, async () => testRing(1).rows);
rowStoreContract(test, async () => testRing(3).rows);
rowStoreContract(test, async () => {
  const { rows, replicas } = testRing(3);
  replicas[1]!.behaviour = "refusing";
  return rows;
});

/** The value on one replica alone. */
async function valueOn(replica: TestReplica, key: RowKey = KEY): Promise<string | undefined> {
  const [stored] = await replica.store.getMany([storedRowKey(encodeRowKey(key))]);
  return stored === undefined ? undefined : (new TextDecoder().decode(stored).match(/value-[a-z]+/)?.[0] ?? "dead");
}

async function read(ring: TestRing): Promise<unknown> {
  return liveRow((await ring.rows.read([KEY], OPTIONS))[0])?.columns.get("v")?.value;
}

test("write: 900 KB to replicas that are slower than the write timeout: acknowledged within the time of its bytes, a small one is not waited for", async () => {
  for (const { bytes, outcome } of [
    { bytes: 900_000, outcome: "acknowledged" },
    { bytes: 100, outcome: "WRITE_TIMEOUT" },
  ]) {
    const ring = testRing(3);
    behave(ring, "held", "held", "held");
    const written = ring.rows.apply([insert("x".repeat(bytes), 1)], OPTIONS).then(
      () => "acknowledged",
      (thrown: unknown) => toConcordError(thrown).code,
    );
    await turn();
    await ring.clock.pass(3 * OPTIONS.timeoutMs);
    for (const replica of ring.replicas) await replica.release();
    assert.equal(await written, outcome);
  }
});

test("[TX11] apply: one of three is silent: confirmed by the other two; it gets the write when it goes on", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "normal", "held");
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  assert.equal(await valueOn(ring.replicas[2]!), undefined);
  await ring.replicas[2]!.release();
  await turn();
  assert.equal(await valueOn(ring.replicas[2]!), "value-a");
  assert.equal(ring.clock.timers, 0);
});

/** Milliseconds of READS reads, sorted; answers take 1 to 4 ms, and STALL_MS more in 5 % of what replica `stalling` is asked. */
async function readLatencies(stalling: number | undefined): Promise<{ readonly sortedMs: readonly number[]; readonly asked: number }> {
  const ring = testRing(3);
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  let [state, asked] = [1, 0];
  const dice = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
  const slow = ring.replicas.map((replica, at): RowReplica => {
    const readRows: RowReplica["readRows"] = async (...call) => {
      asked += 1;
      const [delayMs, isStalled] = [1 + dice(4), dice(100) < 5];
      await new Promise<void>((resolve) => ring.clock.setTimer(delayMs + (isStalled && at === stalling ? STALL_MS : 0), resolve));
      return replica.readRows(...call);
    };
    return {
      name: replica.name,
      reachable: true,
      readRows,
      collection: replica.collection,
      applyRows: (mutations) => replica.applyRows(mutations),
      applyCopies: (mutations, collection) => replica.applyCopies(mutations, collection),
      readRowRange: (...call) => replica.readRowRange(...call),
      catchUp: (...call) => replica.catchUp(...call),
    };
  });
  const rows = new QuorumRowStore({ replicas: slow, clock: ring.clock, checksum });
  const latenciesMs: number[] = [];
  for (let reads = 0; reads < READS; reads += 1) {
    const beganMs = ring.clock.ms;
    let isDone = false;
    const done = rows.read([KEY], OPTIONS).finally(() => (isDone = true));
    while (!isDone) await ring.clock.pass(1);
    await done;
    latenciesMs.push(ring.clock.ms - beganMs);
  }
  return { sortedMs: latenciesMs.sort((a, b) => a - b), asked };
}

const STALL_MS = 200;
const READS = 500;
const P99 = READS * 0.99;

test("[TX12] read: one replica stalls for 200 ms in 5 % of its requests: p99 at most twice the healthy one, and nothing is asked twice", async () => {
  const healthy = await readLatencies(undefined);
  for (const stalling of [0, 1, 2]) {
    const { sortedMs, asked } = await readLatencies(stalling);
    assert.ok(sortedMs[P99]! <= 2 * healthy.sortedMs[P99]!, `p99 ${sortedMs[P99]} ms, healthy ${healthy.sortedMs[P99]} ms`);
    assert.ok(sortedMs.at(-1)! < STALL_MS, "no read waits for a stall");
    assert.equal(asked, healthy.asked);
    assert.equal(asked, 3 * READS, "each replica once for each read");
  }
});

test("[TX11] apply: two of three are silent: not confirmed before a second one is; the time-out says unknown", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "held", "mute");
  const first = ring.rows.apply([insert("value-a", 5)], OPTIONS);
  assert.equal(await settled(first), "waiting");
  await ring.replicas[1]!.release();
  await first;
  behave(ring, "normal", "mute", "mute");
  const second = ring.rows.apply([insert("value-b", 6)], OPTIONS);
  assert.equal(await settled(second), "waiting");
  await ring.clock.pass(1000);
  assert.equal(await settled(second), "WRITE_TIMEOUT/unknown");
});

test("apply: fewer than a quorum reachable: refused before anything is sent", async () => {
  const ring = testRing(3);
  ring.replicas[1]!.reachable = false;
  ring.replicas[2]!.reachable = false;
  assert.equal(await settled(ring.rows.apply([insert("value-a", 5)], OPTIONS)), "REPLICAS_UNAVAILABLE/no");
  assert.deepEqual(
    ring.replicas.flatMap((replica) => replica.calls),
    [],
  );
});

test("apply: no replica took it: not applied; one took it and the others did not: unknown", async () => {
  const ring = testRing(3);
  behave(ring, "refusing", "refusing", "refusing");
  assert.equal(await settled(ring.rows.apply([insert("value-a", 5)], OPTIONS)), "REPLICAS_UNAVAILABLE/no");
  behave(ring, "normal", "refusing", "refusing");
  assert.equal(await settled(ring.rows.apply([insert("value-a", 5)], OPTIONS)), "WRITE_TIMEOUT/unknown");
  behave(ring, "breaking", "breaking", "refusing");
  assert.equal(await settled(ring.rows.apply([insert("value-a", 5)], OPTIONS)), "WRITE_TIMEOUT/unknown");
  behave(ring, "refusing", "refusing", "mute");
  const waiting = ring.rows.apply([insert("value-a", 5)], OPTIONS);
  assert.equal(await settled(waiting), "waiting");
  await ring.clock.pass(50);
  assert.equal(await settled(waiting), "WRITE_TIMEOUT/unknown");
});

test("[TX12] read: the slowest of three: answered without it", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  behave(ring, "held", "normal", "normal");
  assert.equal(await read(ring), "value-a");
  assert.deepEqual(
    ring.replicas.map((replica) => replica.calls.filter((call) => call === "read 1").length),
    [1, 1, 1],
    "all were asked",
  );
});

const note = (value: string, timestampUs: number): Mutation => {
  const columns = [{ column: "note", value: text(value) }];
  return { kind: "update", key: KEY, columns, timestampUs: timestampUsOf(BigInt(timestampUs)) };
};

interface Change {
  readonly before: readonly Mutation[];
  readonly change: readonly Mutation[];
  readonly left: unknown;
}

/** Changes of a row with the columns v and note, and what they leave. */
const CHANGES: Readonly<Record<string, Change>> = {
  insert: { before: [], change: [insert("value-a", 5)], left: { v: "value-a" } },
  update: { before: [insert("value-a", 5)], change: [note("new", 6)], left: { v: "value-a", note: "new" } },
  delete: { before: [insert("value-a", 5), note("old", 5)], change: [remove(6)], left: undefined },
  "delete and insert": {
    before: [insert("value-a", 5), note("old", 5)],
    change: [remove(6), insert("value-b", 7)],
    left: { v: "value-b" },
  },
};

for (const [what, { before, change, left }] of Object.entries(CHANGES)) {
  test(`[TX30] read: ${what}: one of the two answers is from before it: merged, and the older repaired before the answer`, async () => {
    const ring = testRing(3);
    for (const mutation of before) await ring.rows.apply([mutation], OPTIONS);
    await turn();
    behave(ring, "normal", "refusing", "normal");
    for (const mutation of change) await ring.rows.apply([mutation], OPTIONS);
    behave(ring, "normal", "normal", "mute");
    const stored = storedRowKey(encodeRowKey(KEY));
    const [changed, behind] = [await ring.replicas[0]!.store.get(stored), await ring.replicas[1]!.store.get(stored)];
    assert.notDeepEqual(behind, changed);
    const row = liveRow((await ring.rows.read([KEY], OPTIONS))[0]);
    assert.deepEqual(row && Object.fromEntries([...row.columns].map(([column, { value }]) => [column, value])), left);
    assert.deepEqual(await ring.replicas[1]!.store.get(stored), changed);
  });
}

test("[TX30] read: the repair is not confirmed: no answer, until a quorum has what the reader would see", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "refusing", "refusing");
  await assert.rejects(ring.rows.apply([insert("value-a", 5)], OPTIONS));
  behave(ring, "normal", "normal", "held");
  const { applyCopies } = ring.replicas[1]!;
  ring.replicas[1]!.applyCopies = () => new Promise<never>(() => undefined);
  const answer = read(ring);
  assert.equal(await settled(answer), "waiting");
  ring.replicas[1]!.applyCopies = applyCopies;
  await ring.replicas[2]!.release();
  assert.equal(await answer, "value-a");
  assert.equal(await valueOn(ring.replicas[2]!), "value-a");
});

test("[TX30] read: a write that only one replica has: seen by one reader, then by every later one, whichever replicas answer", async () => {
  for (const later of [
    [0, 1],
    [0, 2],
    [1, 2],
  ] as const) {
    const ring = testRing(3);
    behave(ring, "normal", "refusing", "refusing");
    await assert.rejects(ring.rows.apply([insert("value-a", 5)], OPTIONS));
    behave(ring, "normal", "normal", "refusing");
    assert.equal(await read(ring), "value-a");
    behave(ring, ...([0, 1, 2].map((at) => (later.includes(at as never) ? "normal" : "refusing")) as Behaviour[]));
    assert.equal(await read(ring), "value-a");
  }
});

test("[TX12] read: the third answer comes late and older: dropped for the caller, its replica repaired behind him", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "normal", "refusing");
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  behave(ring, "normal", "normal", "held");
  assert.equal(await read(ring), "value-a");
  assert.equal(await valueOn(ring.replicas[2]!), undefined);
  await ring.replicas[2]!.release();
  for (let turns = 0; turns < 5; turns += 1) await turn();
  assert.equal(await valueOn(ring.replicas[2]!), "value-a");
});

test("read: a tombstone on one replica, the row on another: dead, whichever answers first", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  behave(ring, "normal", "normal", "refusing");
  await ring.rows.apply([remove(6)], OPTIONS);
  behave(ring, "refusing", "normal", "normal");
  assert.equal(await read(ring), undefined);
  assert.deepEqual((await ring.rows.readRange(RANGE, OPTIONS)).rows, []);
  assert.equal(await valueOn(ring.replicas[2]!), "dead");
});

test("[SEC6] read: every byte of a stored row, changed in turn: refused by its checksum with the row's name, alone and in a range; never other values", async () => {
  const ring = testRing(1);
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  const key = storedRowKey(encodeRowKey(KEY));
  const { store } = ring.replicas[0]!;
  const sound = (await store.get(key))!;
  const isRefused = (thrown: unknown): boolean =>
    thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA" && thrown.metadata["row"] === rowText(encodeRowKey(KEY));
  for (let at = 0; at < sound.length; at += 1) {
    for (const bit of [1, 64]) {
      const value = sound.slice();
      value[at]! ^= bit;
      await store.batch([{ kind: "put", key, value }], { sync: true });
      await assert.rejects(read(ring), isRefused, `byte ${at}`);
      await assert.rejects(ring.rows.readRange(RANGE, OPTIONS), isRefused, `byte ${at}`);
    }
  }
  await store.batch([{ kind: "put", key, value: sound }], { sync: true });
  assert.equal(await read(ring), "value-a");
});

test("[SEC6] read: one replica's row is corrupt: the others answer, the row is quarantined and stays refused there", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert("value-a", 5)], OPTIONS);
  await turn();
  const key = storedRowKey(encodeRowKey(KEY));
  const stored = (await ring.replicas[0]!.store.get(key))!;
  stored[10]! ^= 1;
  await ring.replicas[0]!.store.batch([{ kind: "put", key, value: stored }], { sync: true });
  assert.equal(await read(ring), "value-a");
  await turn();
  const contents = ring.replicas[0]!.store.contents();
  assert.deepEqual(
    contents.map((entry) => entry.key[0]),
    [0x72, 0x78],
  );
  assert.deepEqual(contents[1]!.value, stored);
  behave(ring, "normal", "normal", "refusing");
  assert.equal(await settled(read(ring)), "CORRUPT_DATA/no");
  assert.equal(await settled(ring.rows.apply([insert("value-b", 6)], OPTIONS)), "WRITE_TIMEOUT/unknown");
});

test("read: of a node alone one row is corrupt: a range is refused with that row's name, those before and behind it are read", async () => {
  const ring = testRing(1);
  for (const at of [1, 2, 3]) await ring.rows.apply([insert(`value-${at}`, 5, keyOf(at))], OPTIONS);
  const key = storedRowKey(encodeRowKey(keyOf(2)));
  const stored = (await ring.replicas[0]!.store.get(key))!;
  stored[10]! ^= 1;
  await ring.replicas[0]!.store.batch([{ kind: "put", key, value: stored }], { sync: true });
  for (let tries = 0; tries < 2; tries += 1) {
    const refused: unknown = await ring.rows.readRange(RANGE, OPTIONS).catch((thrown: unknown) => thrown);
    assert.ok(refused instanceof ConcordError);
    assert.deepEqual([refused.code, refused.applied, refused.metadata["row"]], ["CORRUPT_DATA", "no", rowText(encodeRowKey(keyOf(2)))]);
  }
  const behind = await ring.rows.readRange({ ...RANGE, after: keyOf(2).clustering }, OPTIONS);
  const before = await ring.rows.readRange({ ...RANGE, reverse: true, after: keyOf(2).clustering }, OPTIONS);
  assert.deepEqual(
    [...before.rows, ...behind.rows].map(({ key: found }) => found),
    [keyOf(1), keyOf(3)],
  );
});

test("property: replicas that missed any writes, pages cut anywhere: ranges as the merged rows", async () => {
  const change = fc.record({
    row: fc.integer({ min: 0, max: 6 }),
    at: fc.integer({ min: 1, max: 9 }),
    dead: fc.boolean(),
    missedBy: fc.integer({ min: 0, max: 3 }),
  });
  const shape = fc.record({ limit: fc.integer({ min: 1, max: 4 }), reverse: fc.boolean(), cut: fc.integer({ min: 1, max: 3 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 30, size: "max" }), shape, async (changes, { limit, reverse, cut }) => {
      const ring = testRing(3);
      const reference = new MemoryRowStore();
      for (const { row, at, dead, missedBy } of changes) {
        const mutation = dead ? remove(at, keyOf(row)) : insert(`value-${at}`, at, keyOf(row));
        await reference.apply([mutation]);
        ring.replicas.forEach((replica, index) => (replica.behaviour = index === missedBy ? "refusing" : "normal"));
        await ring.rows.apply([mutation], OPTIONS);
      }
      behave(ring, "normal", "normal", "normal");
      ring.replicas.forEach((replica, index) => cutPages(replica, cut + index));
      const expected = await reference.readRange({ ...RANGE, reverse, limit: 1000 });
      const found: unknown[] = [];
      let after: RowRange["after"];
      do {
        const page = await ring.rows.readRange({ ...RANGE, reverse, limit, ...(after === undefined ? {} : { after }) }, OPTIONS);
        assert.ok(page.rows.length <= limit);
        found.push(...page.rows.map((image) => [image.key.clustering[0]!.value, image.cells]));
        after = page.next;
      } while (after !== undefined);
      assert.deepEqual(
        found,
        expected.rows.map((image) => [image.key.clustering[0]!.value, image.cells]),
      );
    }),
    { numRuns: 100 },
  );
});

test("[LB10] applyRows: the same mutations again: nothing is written", async () => {
  const ring = testRing(1);
  const columns: ColumnWrite[] = [{ column: "v", value: text("x") }];
  await ring.rows.apply([{ kind: "update", key: KEY, columns, timestampUs: timestampUsOf(5n) }], OPTIONS);
  const before = ring.replicas[0]!.store.contents();
  await ring.rows.apply([{ kind: "update", key: KEY, columns, timestampUs: timestampUsOf(5n) }], OPTIONS);
  assert.deepEqual(ring.replicas[0]!.store.contents(), before);
});

test("applyRows: a mutation that does not decode: CORRUPT_DATA, nothing of the call is written", async () => {
  const { replicas } = testRing(1);
  const good = encodeMutation(insert("value-a", 5));
  for (const bad of [good.subarray(0, good.length - 1), Uint8Array.of(9, ...good.subarray(1)), new Uint8Array()]) {
    assert.equal(await settled(replicas[0]!.applyRows([good, bad])), "CORRUPT_DATA/no");
  }
  assert.deepEqual(replicas[0]!.store.contents(), []);
});

/** Puts a row into a replica as its group's log does. */
async function follow(replica: TestReplica, seq: number, value: string, key: RowKey = KEY): Promise<void> {
  const rows = joinRows([encodeRowsPart([imageOf(insert(value, seq, key))])]);
  await replica.store.batch(rowsOfEntry("g", { seq: seqOf(BigInt(seq)), rows }, checksum), { sync: true });
}

test("[TX30] [TXD14] read: a row of a group, one replica behind in its log: the later entry counts, the other catches up first", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "normal", "mute");
  const [ahead, behind] = ring.replicas as [TestReplica, TestReplica];
  await follow(ahead, 7, "value-new");
  await follow(behind, 5, "value-old");
  const asked: string[] = [];
  behind.onCatchUp = async (group, seq) => {
    asked.push(`${group} ${seq}`);
    await follow(behind, Number(seq), "value-new");
  };
  assert.equal(await read(ring), "value-new");
  assert.deepEqual([asked, await valueOn(behind)], [["g 7"], "value-new"]);
  assert.ok(!behind.calls.some((call) => call.startsWith("apply")), "nothing is merged");
});

test("[TX30] [TXD14] read: a replica that has none of the row catches up too; it cannot: the read fails", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "normal", "refusing");
  await follow(ring.replicas[0]!, 7, "value-new");
  ring.replicas[1]!.onCatchUp = () => Promise.reject(new ConcordError("REPLICAS_UNAVAILABLE", "not there yet"));
  assert.equal(await settled(ring.rows.read([KEY], OPTIONS)), "REPLICAS_UNAVAILABLE/no");
});

test("[TXD14] read: a row merged by timestamp before its group's rows followed from the log: the one in the log counts", async () => {
  const ring = testRing(3);
  await ring.rows.apply([insert("value-merged", 9)], OPTIONS);
  await follow(ring.replicas[0]!, 1, "value-log");
  behave(ring, "normal", "normal", "refusing");
  assert.equal(await read(ring), "value-log");
});

test("[TXD14] apply: merging into a row that follows from a log: refused with USE_TRANSACTION, what changes nothing is fine", async () => {
  const ring = testRing(1);
  await follow(ring.replicas[0]!, 7, "value-new");
  await assert.rejects(ring.replicas[0]!.applyRows([encodeMutation(insert("value-x", 9))]), { code: "USE_TRANSACTION" });
  await ring.replicas[0]!.applyRows([encodeMutation(insert("value-old", 3))]);
  assert.equal(await valueOn(ring.replicas[0]!), "value-new");
});

test("[TX30] [TXD14] read after a commit: every replica that counts has applied its entry first, and none decides it by that", async () => {
  const ring = testRing(3);
  for (const replica of ring.replicas) await follow(replica, 5, "value-old");
  const asked: string[] = [];
  for (const replica of ring.replicas) {
    replica.onCatchUp = async (group, seq) => {
      asked.push(`${replica.name} ${group} ${seq}`);
      if (replica.name !== "r3") await follow(replica, 7, "value-new");
      else throw new ConcordError("REPLICAS_UNAVAILABLE", "not decided here");
    };
  }
  const after = [{ group: "g", seq: seqOf(7n) }];
  const [row] = await ring.rows.read([KEY], { ...OPTIONS, after });
  assert.equal(liveRow(row)?.columns.get("v")?.value, "value-new");
  assert.deepEqual(asked.toSorted(), ["r1 g 7", "r2 g 7", "r3 g 7"]);
});

/** A replica that had the row as another one has it, then deleted it, and forgot its tombstone once all had applied the deletion. */
function forgetting(ring: TestRing): void {
  behave(ring, "normal", "normal", "refusing");
  // The one answered before it applied the deletion: what it says is older than what the other says.
  ring.replicas[0]!.onCatchUp = async () =>
    ring.replicas[0]!.store.batch([{ kind: "delete", key: storedRowKey(encodeRowKey(KEY)) }], { sync: true });
}

test("[TX30] read: one replica has forgotten a deletion that the other answers from before: the row does not come back", async () => {
  const ring = testRing(3);
  forgetting(ring);
  await follow(ring.replicas[0]!, 5, "value-old");
  assert.equal(await read(ring), undefined);
  assert.deepEqual(ring.replicas[1]!.calls, ["read 1", "read 1"]);
});

test("[TX30] readRange: one replica has forgotten a deletion that the other answers from before: the row does not come back", async () => {
  const ring = testRing(3);
  forgetting(ring);
  await follow(ring.replicas[0]!, 5, "value-old");
  const { rows } = await ring.rows.readRange(RANGE, OPTIONS);
  assert.deepEqual(rows, []);
});

test("[TX30] read after a commit: a replica that applied it lacks the row: deleted, though the other answers it still", async () => {
  const ring = testRing(3);
  behave(ring, "normal", "normal", "refusing");
  await follow(ring.replicas[0]!, 5, "value-old");
  const after = [{ group: "g", seq: seqOf(5n) }];
  assert.deepEqual(await ring.rows.read([KEY], { ...OPTIONS, after }), [undefined]);
  assert.deepEqual(ring.replicas[1]!.calls, ["read 1"], "known at once");
});

/** The replica drops tombstones before each of the next copies that reach it. */
function collecting(replica: TestReplica, times: number): void {
  const { applyCopies } = replica;
  replica.applyCopies = (mutations, collection) => {
    if (times > 0) replica.forgotten.collected(timestampUsOf(1n));
    times -= 1;
    return applyCopies.call(replica, mutations, collection);
  };
}

for (const [what, readIn] of [
  ["row", (ring: TestRing) => ring.rows.read([KEY], OPTIONS)],
  ["range", (ring: TestRing) => ring.rows.readRange(RANGE, OPTIONS)],
] as const) {
  test(`[TX30] read repair: a replica drops tombstones after it was read: the ${what} is read and repaired anew; each time: refused`, async () => {
    const ring = testRing(3);
    behave(ring, "normal", "refusing", "refusing");
    await assert.rejects(ring.rows.apply([insert("value-a", 10)], OPTIONS));
    behave(ring, "normal", "normal", "refusing");
    collecting(ring.replicas[1]!, 1);
    await readIn(ring);
    assert.equal(await valueOn(ring.replicas[1]!), "value-a");
    behave(ring, "refusing", "normal", "normal");
    collecting(ring.replicas[2]!, Infinity);
    assert.equal(await settled(readIn(ring)), "REPLICAS_UNAVAILABLE/no");
  });
}

test("write: as old as a deletion that all have forgotten: TIMESTAMP_OUT_OF_RANGE; a tick newer: taken", async () => {
  const ring = testRing(3);
  for (const { forgotten } of ring.replicas) forgotten.collected(timestampUsOf(20n));
  await assert.rejects(ring.rows.apply([insert("value-a", 30), insert("value-a", 20, keyOf(2))], OPTIONS), {
    code: "TIMESTAMP_OUT_OF_RANGE",
    applied: "no",
  });
  assert.equal(await valueOn(ring.replicas[0]!), undefined);
  await ring.rows.apply([insert("value-a", 21)], OPTIONS);
  assert.equal(await valueOn(ring.replicas[0]!), "value-a");
});
