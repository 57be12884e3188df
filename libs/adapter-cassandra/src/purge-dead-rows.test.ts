// Passes over deleted rows (TXC5), on a model of three replicas with Cassandra's rules. A real node: src/test/dead-rows.cassandra.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation, RowImage, RowKey } from "@concord/ports";
import { emptyImage, imageOf, liveRow, mergeImages } from "@concord/rows";
import { silentLog, silentMetrics, timestampUsOf, type Clock } from "@concord/runtime";
import { DeadRows } from "./dead-rows.ts";
import { DEAD_ROW_AGE_MS, DEAD_ROWS_FAILURES_MAX, DEAD_ROWS_LOOK_MS, DEAD_ROWS_PARTITION_MAX, DEAD_ROWS_SLOT_MS } from "./limits.ts";
import { purgeDeadRows, type DeadRowsPass } from "./purge-dead-rows.ts";
import { imageOfRow, statementsOf, storedKey } from "./row-codec.ts";
import { REPLICAS, ThreeReplicas } from "./test/three-replicas.ts";

const AGE_US = BigInt(DEAD_ROW_AGE_MS) * 1000n;
const bigint = (value: bigint | number) => ({ kind: "bigint", value: BigInt(value) }) as const;

function key(partition: number, clustering: number): RowKey {
  return { table: "notes", partition: [bigint(partition)], clustering: [bigint(clustering)] };
}

function insertAt(of: RowKey, us: bigint): Mutation {
  return { kind: "insert", key: of, columns: [{ column: "n", value: bigint(us) }], timestampUs: timestampUsOf(us) };
}

function updateAt(of: RowKey, us: bigint): Mutation {
  return { kind: "update", key: of, columns: [{ column: "m", value: bigint(us) }], timestampUs: timestampUsOf(us) };
}

function removeAt(of: RowKey, us: bigint): Mutation {
  return { kind: "delete", key: of, timestampUs: timestampUsOf(us) };
}

/** Draws from a seed (mulberry32). */
function drawsOf(seed: number) {
  let state = seed;
  const float = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (limit: number): number => Math.floor(float() * limit);
  return { float, below, bytes: (length: number) => Uint8Array.from({ length }, () => below(256)) };
}

function fixture(seed = 1) {
  const random = drawsOf(seed);
  const replicas = new ThreeReplicas(random);
  let nowUs = 1_000_000_000_000_000n;
  const clock = {
    nowUs: () => nowUs,
    nowMs: () => Number(nowUs / 1000n),
    monotonicMs: () => Number(nowUs / 1000n),
    setTimer: (_: number, run: () => void) => {
      const timer = setImmediate(run);
      return { cancel: () => clearImmediate(timer) };
    },
  } as unknown as Clock;
  const options = { session: replicas, keyspace: "concord", clock, random, timeoutMs: 1_000 };
  return {
    replicas,
    random,
    options,
    now: () => nowUs,
    elapse: (us: bigint) => void (nowUs += us),
    write: (...mutations: readonly Mutation[]) =>
      replicas.write(
        mutations.flatMap((mutation) => statementsOf("concord", mutation).statements),
        { timeoutMs: 1_000 },
      ),
    deliver: (replica: number, mutation: Mutation) => replicas.deliver(replica, statementsOf("concord", mutation).statements),
    pass: (signal = new AbortController().signal): Promise<DeadRowsPass> => purgeDeadRows({ ...options, signal }),
    /** Images that each two replicas have of a row. */
    images: (of: RowKey): readonly (RowImage | undefined)[] => {
      const { partition, clustering } = storedKey(of);
      return replicas.readsOf(partition, clustering).map((row) => imageOfRow(of, row));
    },
  };
}

test("[TXC5] a thousand moves of an index row left a thousand rows for ever: a pass leaves the one that lives", async () => {
  const { replicas, write, elapse, pass, now, images } = fixture();
  await write(insertAt(key(1, 0), now()));
  for (let move = 1; move <= 1_000; move += 1) {
    elapse(1n);
    await write(removeAt(key(1, move - 1), now()), insertAt(key(1, move), now()));
  }
  assert.equal(replicas.storedRows, 1_001);
  elapse(AGE_US);
  assert.equal((await pass()).purged, 1_000);
  assert.equal(replicas.storedRows, 1);
  assert.ok(images(key(1, 1_000)).every((image) => liveRow(image) !== undefined));
  assert.deepEqual({ ...(await pass()) }, { purged: 0, newer: 0, crowded: 0, unacknowledged: 0, unread: 0, isCut: false, reason: "" });
});

test("[TXC5] a deletion that is younger than the age: its row stays until it is older", async () => {
  const { replicas, write, elapse, pass, now } = fixture();
  await write(removeAt(key(1, 1), now()));
  elapse(AGE_US - 1n);
  assert.equal((await pass()).purged, 0);
  assert.equal(replicas.storedRows, 1);
  elapse(1n);
  assert.equal((await pass()).purged, 1);
  assert.equal(replicas.storedRows, 0);
});

test("[TXC5] anything newer in the row, a null too: nothing is written", async () => {
  const { replicas, write, elapse, pass, now } = fixture();
  const setNull: Mutation = {
    kind: "update",
    key: key(1, 1),
    columns: [{ column: "n", value: null }],
    timestampUs: timestampUsOf(now() + 1n),
  };
  await write(removeAt(key(1, 1), now()), setNull);
  await write(removeAt(key(1, 2), now()), insertAt(key(1, 2), now() + 1n));
  await write(removeAt(key(1, 3), now()), updateAt(key(1, 3), now() + 1n));
  elapse(AGE_US + 2n);
  let writes = 0;
  replicas.before = ([statement]) => void (statement!.query.startsWith("SELECT") || (writes += 1));
  const { purged, newer } = await pass();
  assert.deepEqual([purged, newer, writes], [0, 2, 0]);
});

test("[TXC5] a newer write between the look and the removal: it stays, whatever its kind", async () => {
  for (const later of [insertAt, updateAt, removeAt]) {
    const { replicas, write, elapse, pass, deliver, now, images } = fixture();
    await write(insertAt(key(1, 1), now()), removeAt(key(1, 1), now() + 1n));
    elapse(AGE_US + 1n);
    const change = later(key(1, 1), now());
    replicas.before = ([statement]) => {
      if (statement!.query.startsWith("DELETE FROM")) for (const replica of REPLICAS) deliver(replica, change);
    };
    await pass();
    for (const image of images(key(1, 1))) assert.deepEqual(liveRow(image), liveRow(imageOf(change)));
    if (later === removeAt) assert.equal(images(key(1, 1))[0]?.deletedAtUs, now());
  }
});

test("[TXC5] a replica that missed the deletion: it has it before any other forgets, so that the row does not come back", async () => {
  // The seed decides which two replicas a look asks: one that asks the third repairs it.
  for (const [at, failing] of Array.from({ length: 16 }, (_, each) => [each, each % 2 === 0 ? "UPDATE" : "DELETE FROM"] as const)) {
    const { replicas, write, elapse, pass, now, images } = fixture(at);
    await write(insertAt(key(1, 1), now()));
    replicas.down.add(2);
    await write(removeAt(key(1, 1), now() + 1n));
    elapse(AGE_US + 1n);
    assert.equal((await pass()).unacknowledged, 1, "a replica is down");
    replicas.down.clear();
    replicas.before = ([statement]) => void (statement!.query.startsWith(failing) && replicas.deaf.add(2));
    const { purged, unacknowledged } = await pass();
    assert.deepEqual([purged, unacknowledged], [0, 1], failing);
    // Its compactions forget what was removed before the third replica had it.
    replicas.forget(0);
    replicas.forget(1);
    assert.ok(
      images(key(1, 1)).every((image) => liveRow(image) === undefined),
      failing,
    );
    replicas.before = () => undefined;
    replicas.deaf.clear();
    // A pass finds it when its look asks the replica that still has it.
    for (let round = 0; round < 32 && replicas.storedRows > 0; round += 1) {
      await pass();
      for (const replica of REPLICAS) replicas.forget(replica);
    }
    assert.equal(replicas.storedRows, 0);
  }
});

test("[TXC5] a late write from before the deletion, after its purge: the tombstone covers it, and nothing above the deletion", async () => {
  const { write, elapse, pass, deliver, now, images } = fixture();
  await write(removeAt(key(1, 1), now()));
  const late = insertAt(key(1, 1), now() - 1n);
  elapse(AGE_US);
  assert.equal((await pass()).purged, 1);
  for (const replica of REPLICAS) deliver(replica, late);
  assert.ok(images(key(1, 1)).every((image) => image === undefined));
  const above = insertAt(key(1, 1), now() - AGE_US + 1n);
  for (const replica of REPLICAS) deliver(replica, above);
  for (const image of images(key(1, 1))) assert.deepEqual(liveRow(image), liveRow(imageOf(above)));
});

test("[TXC5] more dead rows in a partition than a pass takes: the limit in each, all in the end", async () => {
  const { replicas, write, elapse, pass, now } = fixture();
  const more = 7;
  for (let at = 0; at < DEAD_ROWS_PARTITION_MAX + more; at += 1) await write(removeAt(key(1, at), now()));
  elapse(AGE_US);
  const first = await pass();
  assert.deepEqual([first.purged, first.crowded], [DEAD_ROWS_PARTITION_MAX, more]);
  assert.equal((await pass()).purged, more);
  assert.equal(replicas.storedRows, 0);
});

test("[TXC5] tokens with too many tombstones: they are read in smaller parts; when all fails the pass ends and reports it", async () => {
  const { replicas, write, elapse, pass, now } = fixture();
  for (let at = 0; at < 64; at += 1) await write(insertAt(key(at, 0), now()), removeAt(key(at, 0), now() + 1n));
  elapse(AGE_US + 1n);
  await pass();
  for (let at = 64; at < 96; at += 1) await write(removeAt(key(at, 0), now() - AGE_US));
  replicas.tombstonesMax = 3;
  const { purged, unread, reason } = await pass();
  assert.deepEqual([purged, unread, reason], [32, 0, "tombstones"]);
  let reads = 0;
  replicas.before = () => void (reads += 1);
  replicas.tombstonesMax = -1;
  const failed = await pass();
  assert.deepEqual([failed.isCut, reads], [true, DEAD_ROWS_FAILURES_MAX]);
});

test("[TXC5] two passes at once, and one that is stopped in the middle: the rest is for the next, nothing is lost", async () => {
  const { replicas, write, elapse, pass, now, images } = fixture();
  for (let at = 0; at < 60; at += 1) await write(removeAt(key(at % 20, at), now()));
  await write(insertAt(key(1, 999), now()));
  elapse(AGE_US);
  const stopping = new AbortController();
  let removals = 0;
  replicas.before = ([statement]) => void (statement!.query.startsWith("DELETE FROM") && (removals += 1) === 3 && stopping.abort());
  assert.equal((await pass(stopping.signal)).isCut, true);
  assert.ok(replicas.storedRows > 1);
  await Promise.all([pass(), pass()]);
  assert.equal(replicas.storedRows, 1);
  assert.ok(images(key(1, 999)).every((image) => liveRow(image) !== undefined));
});

/**
 * Writes, deletions, passes, lost messages, hints and compactions in random order: each two replicas show what the merge of all writes shows. Hints are
 * gone before a replica forgets: Cassandra delivers none that is older than gc_grace.
 */
async function history(seed: number): Promise<number> {
  const { replicas, random, elapse, pass, deliver, now, images } = fixture(seed);
  const keys = [key(1, 1), key(1, 2), key(2, 1)];
  const expected = keys.map((of): RowImage => emptyImage(of));
  let hints: { readonly replica: number; readonly mutation: Mutation }[] = [];
  const write = (): void => {
    elapse(1n);
    const at = random.below(keys.length);
    const mutation = [insertAt, updateAt, removeAt, removeAt][random.below(4)]!(keys[at]!, now());
    expected[at] = mergeImages(expected[at]!, imageOf(mutation));
    const missing = random.below(4);
    for (const replica of REPLICAS) {
      if (replica !== missing) deliver(replica, mutation);
      else if (random.below(2) === 0) hints.push({ replica, mutation });
    }
  };
  let purged = 0;
  for (let step = 0; step < 60; step += 1) {
    const draw = random.below(10);
    if (draw < 5) write();
    else if (draw < 6 && hints.length > 0) {
      const [hint] = hints.splice(random.below(hints.length), 1);
      deliver(hint!.replica, hint!.mutation);
    } else if (draw < 7) {
      hints = [];
      replicas.forget(random.below(3));
    } else {
      elapse(AGE_US);
      replicas.before = () => {
        replicas.deaf.clear();
        if (random.below(4) === 0) replicas.deaf.add(random.below(3));
        if (random.below(8) === 0) write();
      };
      purged += (await pass()).purged;
      replicas.before = () => undefined;
      replicas.deaf.clear();
    }
    keys.forEach((of, at) => {
      for (const image of images(of)) assert.deepEqual(liveRow(image), liveRow(expected[at]), `seed ${seed}, step ${step}`);
    });
  }
  return purged;
}

test("[TXC5] random histories of writes, passes, lost messages, hints and compactions: each two replicas show the newest", async () => {
  let purged = 0;
  for (let seed = 1; seed <= 30; seed += 1) purged += await history(seed);
  assert.ok(purged > 100, `${purged} rows were purged`);
});

/** Backends of several processes on one cluster, under the test's clock. */
function processes(count: number) {
  const { replicas, options, write, elapse, now } = fixture();
  const looks: (() => void)[] = [];
  const counted: number[] = [];
  const lines: string[] = [];
  let isAllowed = true;
  const owners = Array.from({ length: count }, () => {
    const clock = {
      ...options.clock,
      setTimer: (delayMs: number, run: () => void) => {
        if (delayMs !== DEAD_ROWS_LOOK_MS) return options.clock.setTimer(0, run);
        looks.push(run);
        return { cancel: () => undefined };
      },
    };
    const metrics = { ...silentMetrics, count: (_: string, value = 1) => void counted.push(value) };
    const log = { ...silentLog, warn: (message: string) => void lines.push(message) };
    return new DeadRows({ ...options, clock, metrics, log, isAllowed: () => isAllowed });
  });
  for (const owner of owners) owner.start();
  const look = async (): Promise<void> => {
    const due = looks.splice(0);
    for (const run of due) run();
    while (looks.length < due.length) await new Promise((resolve) => setImmediate(resolve));
  };
  return { replicas, write, elapse, now, owners, look, counted, lines, allow: (allowed: boolean) => void (isAllowed = allowed) };
}

test("[TXC5] three processes: one pass in a slot, and again in the next one; a clock that was ahead stops none", async () => {
  const { replicas, write, elapse, now, owners, look, counted } = processes(3);
  await write(removeAt(key(1, 1), now() - AGE_US));
  await look();
  assert.deepEqual(counted, [1]);
  await look();
  assert.equal(counted.length, 1);
  elapse(BigInt(DEAD_ROWS_SLOT_MS) * 1000n);
  await look();
  assert.equal(counted.length, 2);
  replicas.slot = replicas.slot! + 1_000;
  await look();
  assert.equal(counted.length, 3);
  for (const owner of owners) await owner.stop();
});

test("[TXC5] a keyspace that is not as it must be: no pass; storage without an answer: it is logged, and looked for again", async () => {
  const { replicas, write, now, owners, look, counted, lines, allow } = processes(1);
  await write(removeAt(key(1, 1), now() - AGE_US));
  allow(false);
  await look();
  assert.deepEqual([counted.length, replicas.slot], [0, undefined]);
  allow(true);
  replicas.down.add(0).add(1);
  replicas.before = ([statement]) => {
    if (statement!.query.includes("migrations") && replicas.down.size > 0) throw new Error("no answer");
  };
  await look();
  assert.deepEqual([counted.length, lines.length], [0, 1]);
  replicas.down.clear();
  await look();
  assert.deepEqual(counted, [1]);
  await owners[0]!.stop();
});
