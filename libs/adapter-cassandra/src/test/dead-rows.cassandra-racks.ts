// Deleted rows on three nodes, one of which is down while they are deleted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Mutation, RowKey } from "@concord/ports";
import { timestampUsOf } from "@concord/runtime";
import { DEAD_ROWS_PAUSE_MS } from "../limits.ts";
import { purgeDeadRows, type DeadRowsPass } from "../purge-dead-rows.ts";
import { backendOn, changeNode, clock, newKeyspace, type TestKeyspace } from "./real-cassandra.ts";

const OWNERS = 20;
const PHOTOS = 5;
const OPTIONS = { timeoutMs: 20_000 };
/** Passes and reads after a node came back: the others take it for dead for some seconds. */
const TRIES_MAX = 60;
const PAUSE_MS = 1_000;

const keys: readonly RowKey[] = Array.from({ length: OWNERS * PHOTOS }, (_, at) => ({
  table: "photos_by_owner",
  partition: [{ kind: "text", value: `owner ${at % OWNERS}` }],
  clustering: [{ kind: "bigint", value: BigInt(at) }],
}));
/** Never deleted. */
const [kept, ...dead] = keys as readonly [RowKey, ...RowKey[]];

const insert = (key: RowKey): Mutation => ({
  kind: "insert",
  key,
  columns: [{ column: "title", value: { kind: "text", value: "a photo" } }],
  timestampUs: timestampUsOf(1n),
});
const remove = (key: RowKey): Mutation => ({ kind: "delete", key, timestampUs: timestampUsOf(10n) });

async function until<Value>(what: string, attempt: () => Promise<Value>, isRight: (value: Value) => boolean): Promise<Value> {
  let last: unknown;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    try {
      const value = await attempt();
      if (isRight(value)) return value;
      last = value;
    } catch (thrown) {
      last = thrown;
    }
    await sleep(PAUSE_MS);
  }
  throw new Error(`${what}: not within ${TRIES_MAX} tries; the last: ${JSON.stringify(last)} ${String(last)}`);
}

function pass({ session, name }: TestKeyspace): Promise<DeadRowsPass> {
  const eager = {
    ...clock,
    setTimer: (delayMs: number, run: () => void) => clock.setTimer(delayMs === DEAD_ROWS_PAUSE_MS ? 0 : delayMs, run),
  };
  const random = { bytes: (length: number) => new Uint8Array(length), below: () => 7, float: () => 0 };
  return purgeDeadRows({ session, keyspace: name, clock: eager, random, timeoutMs: 10_000, signal: new AbortController().signal });
}

/** Rows that Cassandra has, those of deletions too. */
async function stored({ session, name }: TestKeyspace): Promise<number> {
  const count = { query: `SELECT COUNT(*) AS rows FROM ${name}.rows`, parameters: [] };
  return Number((await session.read(count, { consistency: "quorum", timeoutMs: 20_000 })).rows[0]!["rows"]);
}

test("[TXC5] a node was dead while rows were deleted: none is purged before it is back, all are then, and its old rows do not come back", async () => {
  const keyspace = await newKeyspace(3);
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  await backend.rows.apply(keys.map(insert), OPTIONS);
  changeNode("kill", "2");
  // Timestamps make it harmless to repeat.
  await until(
    "rows are deleted by two nodes",
    () => backend.rows.apply(dead.map(remove), OPTIONS),
    () => true,
  );
  const whileDown = await pass(keyspace);
  assert.deepEqual([whileDown.purged, whileDown.newer, whileDown.crowded], [0, 0, 0], whileDown.reason);
  assert.ok(whileDown.unacknowledged > 0 || whileDown.isCut, "a replica is dead");
  assert.equal(
    await until(
      "two nodes count",
      () => stored(keyspace),
      () => true,
    ),
    keys.length,
  );

  changeNode("start", "2");
  let purged = 0;
  const again = async (): Promise<number> => (purged += (await pass(keyspace)).purged);
  await until("every deleted row is purged", again, () => purged >= dead.length);
  assert.equal(
    await until(
      "three nodes count",
      () => stored(keyspace),
      () => true,
    ),
    1,
  );

  // The quorum is now one node that saw the deletions and the one that did not.
  changeNode("kill", "1");
  try {
    assert.equal(
      await until(
        "nodes 2 and 3 count",
        () => stored(keyspace),
        () => true,
      ),
      1,
    );
    const found = await until(
      "nodes 2 and 3 answer",
      () => backend.rows.read([kept, ...dead], OPTIONS),
      () => true,
    );
    assert.deepEqual(
      found.map((image) => image !== undefined && image.cells.size > 0),
      keys.map((key) => key === kept),
    );
  } finally {
    changeNode("start", "1");
  }
  await backend.stop();
});
