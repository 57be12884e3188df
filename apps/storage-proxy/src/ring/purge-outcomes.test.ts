// What commits leave behind under load is removed as fast as it was made.
import assert from "node:assert/strict";
import { test } from "node:test";
import { compareBytes } from "@concord/codec";

import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type KeyRange, type StoreStep } from "@concord/ports";
import { encodeRowKey } from "@concord/rows";
import { storedRowKey } from "@concord/quorum";
import { PURGE_STEP_ROWS_MAX } from "./limits.ts";
import { VirtualClock } from "../test/virtual-clock.ts";
import { purgeOutcomes } from "./purge-outcomes.ts";

const GROUPS = ["g0", "g1", "g2"];
/** A group's commits of a minute, 500 flushes a second. */
const ROWS_PER_BUCKET = 30_000;

function outcomeKey(table: string, group: string, bucket: number, seq: number): Uint8Array {
  const bigint = (value: number) => ({ kind: "bigint", value: BigInt(value) }) as const;
  const partition = [{ kind: "text", value: group } as const, bigint(bucket)];
  return storedRowKey(encodeRowKey({ table, partition, clustering: [bigint(bucket * 600), bigint(seq)] }));
}

/** Rows by key, and what steps did to them. */
class Rows {
  keys: Uint8Array[];
  steps = 0;
  stepRowsMost = 0;

  constructor(keys: readonly Uint8Array[]) {
    this.keys = keys.toSorted(compareBytes);
  }

  range({ from, to, limit }: KeyRange): Promise<{ key: Uint8Array; value: Uint8Array }[]> {
    const found: { key: Uint8Array; value: Uint8Array }[] = [];
    let at = this.#placeOf(from);
    while (at < this.keys.length && found.length < limit && compareBytes(this.keys[at]!, to) < 0) {
      found.push({ key: this.keys[at]!, value: new Uint8Array() });
      at += 1;
    }
    return Promise.resolve(found);
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const { persist, reply } = step.run([]);
    this.steps += 1;
    this.stepRowsMost = Math.max(this.stepRowsMost, persist.length);
    // A step's rows are neighbours.
    const first = this.#placeOf(persist[0]!.key);
    for (const [nth, { kind, key }] of persist.entries()) {
      assert.equal(kind, "delete");
      assert.equal(compareBytes(this.keys[first + nth]!, key), 0);
    }
    this.keys.splice(first, persist.length);
    return Promise.resolve(reply);
  }

  #placeOf(key: Uint8Array): number {
    let [low, high] = [0, this.keys.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.keys[middle]!, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function purgeOf(rows: Rows, clock: VirtualClock, beforeBucket: number, goesOn: () => boolean = () => true): Promise<number> {
  return purgeOutcomes({ reader: rows, runner: rows, clock, beforeMs: beforeBucket * OUTCOME_BUCKET_MS, goesOn });
}

async function ended<Answer>(clock: VirtualClock, work: Promise<Answer>): Promise<Answer> {
  let isOver = false;
  void work.finally(() => (isOver = true));
  while (!isOver) await clock.advance(1_000);
  return work;
}

test("[TXD7] purge: more old outcomes than a minute of full load leaves: one purge removes them all, and nothing else", async () => {
  const kept = [
    ...GROUPS.map((group) => outcomeKey(OUTCOMES_TABLE, group, 102, 1)),
    outcomeKey("concord_outcome", "g0", 100, 1),
    outcomeKey("concord_outcomes_", "g0", 100, 1),
  ];
  const old = GROUPS.flatMap((group) =>
    [100, 101].flatMap((bucket) => Array.from({ length: ROWS_PER_BUCKET }, (_, seq) => outcomeKey(OUTCOMES_TABLE, group, bucket, seq))),
  );
  const rows = new Rows([...kept, ...old]);
  const clock = new VirtualClock();
  const startedMs = clock.monotonicMs();
  assert.equal(await ended(clock, purgeOf(rows, clock, 102)), old.length);
  assert.deepEqual(rows.keys, kept.toSorted(compareBytes));
  assert.equal(rows.stepRowsMost, PURGE_STEP_ROWS_MAX);
  // As long as two buckets, it must be over before the third: the rests leave time for that.
  assert.ok(clock.monotonicMs() - startedMs < OUTCOME_BUCKET_MS / 5);
});

test("purge: the node stops meanwhile: no further step, and what is left is removed by a later purge", async () => {
  const rows = new Rows(Array.from({ length: 3 * PURGE_STEP_ROWS_MAX }, (_, seq) => outcomeKey(OUTCOMES_TABLE, "g0", 100, seq)));
  const clock = new VirtualClock();
  assert.equal(
    await ended(
      clock,
      purgeOf(rows, clock, 101, () => rows.steps < 2),
    ),
    2 * PURGE_STEP_ROWS_MAX,
  );
  assert.equal(rows.keys.length, PURGE_STEP_ROWS_MAX);
  assert.equal(await ended(clock, purgeOf(rows, clock, 101)), PURGE_STEP_ROWS_MAX);
  assert.equal(rows.keys.length, 0);
});
