// Deleted rows on a real node: what a pass leaves of them, and what a listing among them answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation, RowKey, RowRange } from "@concord/ports";
import { timestampUsOf } from "@concord/runtime";
import { DeadRows } from "../dead-rows.ts";
import { DEAD_ROWS_LOOK_MS, DEAD_ROWS_PAUSE_MS } from "../limits.ts";
import { purgeDeadRows } from "../purge-dead-rows.ts";
import { backendOn, clock, newKeyspace, type TestKeyspace } from "./real-cassandra.ts";

const OPTIONS = { timeoutMs: 60_000 };
const made = newKeyspace();
const random = { bytes: (length: number) => new Uint8Array(length), below: () => 7, float: () => 0 };
/** Pauses of a pass end at once. */
const eager = {
  ...clock,
  setTimer: (delayMs: number, run: () => void) => clock.setTimer(delayMs === DEAD_ROWS_PAUSE_MS ? 0 : delayMs, run),
};

function key(at: number, owner = "ann"): RowKey {
  return {
    table: "photos_by_owner",
    partition: [{ kind: "text", value: owner }],
    clustering: [{ kind: "bigint", value: BigInt(at) }],
  };
}

const insert = (at: number, us: number): Mutation => ({
  kind: "insert",
  key: key(at),
  columns: [{ column: "title", value: { kind: "text", value: `photo ${at}` } }],
  timestampUs: timestampUsOf(BigInt(us)),
});
const remove = (at: number, us: number): Mutation => ({ kind: "delete", key: key(at), timestampUs: timestampUsOf(BigInt(us)) });
const RANGE: RowRange = { table: "photos_by_owner", partition: key(0).partition, reverse: false, limit: 10 };

async function stored({ name, session }: TestKeyspace): Promise<number> {
  const count = { query: `SELECT COUNT(*) AS rows FROM ${name}.rows`, parameters: [] };
  const { rows } = await session.read(count, { consistency: "quorum", timeoutMs: 60_000 });
  return Number(rows[0]!["rows"]);
}

test("[TXC5] a thousand moves on a real node: a pass leaves the row that lives; an older write stays covered, a newer one is shown", async (t) => {
  const keyspace = await made;
  await keyspace.empty();
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  await backend.rows.apply([insert(0, 1)], OPTIONS);
  for (let from = 1; from <= 1_000; from += 50) {
    const moves = Array.from({ length: 50 }, (_, at) => from + at);
    await backend.rows.apply(
      moves.flatMap((at) => [remove(at - 1, 2 * at), insert(at, 2 * at)]),
      OPTIONS,
    );
  }
  assert.equal(await stored(keyspace), 1_001);
  const page = async (): Promise<readonly bigint[]> =>
    (await backend.rows.readRange(RANGE, OPTIONS)).rows.map((row) => row.key.clustering[0]!.value as bigint);
  const pageMs = async (): Promise<string> => {
    const tookMs: number[] = [];
    for (let round = 0; round < 15; round += 1) {
      const startMs = performance.now();
      assert.deepEqual(await page(), [1_000n]);
      tookMs.push(performance.now() - startMs);
    }
    return tookMs.toSorted((left, right) => left - right)[7]!.toFixed(1);
  };
  const beforeMs = await pageMs();
  const { session, name } = keyspace;
  const options = { session, keyspace: name, clock: eager, random, timeoutMs: 60_000, signal: new AbortController().signal };
  const pass = await purgeDeadRows(options);
  assert.deepEqual({ ...pass }, { purged: 1_000, newer: 0, crowded: 0, unacknowledged: 0, unread: 0, isCut: false, reason: "" });
  assert.equal(await stored(keyspace), 1);
  t.diagnostic(`page p50 ${beforeMs} ms before the pass, ${await pageMs()} ms after it`);
  await backend.rows.apply([insert(4, 9), insert(5, 5_000), remove(6, 4_000)], OPTIONS);
  assert.deepEqual(await page(), [5n, 1_000n]);
  assert.deepEqual({ ...(await purgeDeadRows(options)) }, { ...pass, purged: 1 });
  assert.deepEqual(await page(), [5n, 1_000n]);
  await backend.stop();
});

test("[TXC5] one pass in a slot of time on a real node, noted by a lightweight transaction beside the schema's version", async () => {
  const keyspace = await made;
  await keyspace.empty();
  const { session, name } = keyspace;
  const passes: number[] = [];
  const looks: (() => void)[] = [];
  const owners = [1, 2, 3].map(
    () =>
      new DeadRows({
        session,
        keyspace: name,
        random,
        timeoutMs: 60_000,
        isAllowed: () => true,
        clock: {
          ...eager,
          setTimer: (delayMs, run) =>
            delayMs === DEAD_ROWS_LOOK_MS ? (looks.push(run), { cancel: () => undefined }) : eager.setTimer(delayMs, run),
        },
        log: { debug: assert.fail, info: assert.fail, warn: (message) => assert.fail(message), error: assert.fail },
        metrics: { count: (_, value) => void passes.push(value ?? 1), gauge: () => undefined, observe: () => undefined },
      }),
  );
  for (const owner of owners) owner.start();
  for (const run of looks.splice(0)) run();
  while (looks.length < owners.length) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(passes, [0]);
  for (const owner of owners) await owner.stop();
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  await backend.stop();
});

test("a page among twenty-five thousand dead rows came back empty: it goes on until it has a row", async () => {
  const keyspace = await made;
  await keyspace.empty();
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  for (let from = 0; from < 25_000; from += 2_500) {
    await backend.rows.apply(
      Array.from({ length: 2_500 }, (_, at) => remove(from + at, 1)),
      OPTIONS,
    );
  }
  await backend.rows.apply([insert(30_000, 1)], OPTIONS);
  const { rows } = await backend.rows.readRange({ ...RANGE, limit: 1 }, OPTIONS);
  assert.deepEqual(
    rows.map((row) => row.key.clustering[0]!.value),
    [30_000n],
  );
  await backend.stop();
});
