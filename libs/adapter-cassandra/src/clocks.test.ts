// Plain rows on Cassandra while clocks are wrong, on a model of three replicas with its rules. A real node: src/test/contract.cassandra.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation, RowKey } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { timestampUsOf, TIMESTAMP_ZERO, type TimestampUs } from "@concord/runtime";
import { CassandraRowStore } from "./cassandra-row-store.ts";
import { CassandraFailure } from "./failure.ts";
import { cassandraWriteMark } from "./cassandra-write-mark.ts";
import { statementsOf } from "./row-codec.ts";
import { REPLICAS, ThreeReplicas } from "./test/three-replicas.ts";

const TIMEOUT_MS = 1_000;
const NOW_US = 1_000_000_000_000_000n;
const AHEAD_US = NOW_US + 8n * 3_600_000_000n;
const KEY: RowKey = { table: "notes", partition: [{ kind: "bigint", value: 1n }], clustering: [] };

const columns = (body: bigint | null) => [{ column: "body", value: body === null ? null : ({ kind: "bigint", value: body } as const) }];
const insert = (body: bigint | null, us: bigint): Mutation => ({
  kind: "insert",
  key: KEY,
  columns: columns(body),
  timestampUs: timestampUsOf(us),
});
const update = (body: bigint, us: bigint): Mutation => ({ ...insert(body, us), kind: "update" }) as Mutation;
const remove = (us: bigint): Mutation => ({ kind: "delete", key: KEY, timestampUs: timestampUsOf(us) });

function fixture() {
  const replicas = new ThreeReplicas({ below: () => 0 });
  const target = { session: replicas as never, keyspace: "concord", batchBytesMax: () => 50_000 };
  const store = new CassandraRowStore({ ...target, clock: { monotonicMs: () => 0 }, whenApplied: async () => undefined });
  return {
    replicas,
    store,
    mark: () => cassandraWriteMark(store, TIMEOUT_MS),
    /** The newest timestamp that kept a part of the write from its effect; undefined: it has its effect. */
    async write(mutation: Mutation): Promise<TimestampUs | undefined> {
      let newestUs: TimestampUs | undefined;
      await store.apply([mutation], { timeoutMs: TIMEOUT_MS, onSuperseded: (heldUs) => void (newestUs = heldUs) });
      return newestUs;
    },
    async body(): Promise<unknown> {
      const [image] = await store.read([KEY], { timeoutMs: TIMEOUT_MS });
      return liveRow(image)?.columns.get("body")?.value;
    },
  };
}

for (const [change, mutation] of [
  ["insert", insert(2n, NOW_US)],
  ["insert of null", insert(null, NOW_US)],
  ["update", update(2n, NOW_US)],
  ["deletion", remove(NOW_US)],
] as const) {
  test(`Cassandra: a row was written by a clock 8 h ahead: ${change} by a right clock was lost and answered as done`, async () => {
    const { write, body } = fixture();
    assert.equal(await write(insert(1n, AHEAD_US)), undefined);
    assert.equal(await write(mutation), AHEAD_US);
    assert.equal(await body(), 1n);
  });

  test(`Cassandra: a row was deleted by a clock 8 h ahead: ${change} by a right clock is reported where it would leave a row`, async () => {
    const { write, body } = fixture();
    await write(insert(1n, NOW_US - 5n));
    await write(remove(AHEAD_US));
    assert.equal(await write(mutation), mutation.kind === "delete" ? undefined : AHEAD_US);
    assert.equal(await body(), undefined);
  });
}

test("Cassandra: a write on top of older cells, and its repeat, are not superseded; a newer one by another node supersedes its repeat", async () => {
  const { write } = fixture();
  await write(insert(1n, NOW_US));
  assert.equal(await write(insert(2n, NOW_US + 1n)), undefined);
  assert.equal(await write(insert(2n, NOW_US + 1n)), undefined);
  await write(update(3n, NOW_US + 2n));
  assert.equal(await write(insert(2n, NOW_US + 1n)), NOW_US + 2n);
});

test("Cassandra: the newer cells are at two of three replicas only: each write reports them", async () => {
  for (const behind of REPLICAS) {
    const { replicas, write } = fixture();
    const { statements } = statementsOf("concord", insert(1n, AHEAD_US));
    for (const replica of REPLICAS) if (replica !== behind) replicas.deliver(replica, statements);
    assert.equal(await write(insert(2n, NOW_US)), AHEAD_US);
  }
});

test("Cassandra: written, but newer cells could not be looked for: unknown, not done", async () => {
  const { replicas, store, write } = fixture();
  await write(insert(1n, AHEAD_US));
  const { read } = replicas;
  replicas.read = async () => Promise.reject(new CassandraFailure("unavailable", "two replicas are down"));
  await assert.rejects(write(insert(2n, NOW_US)), { code: "WRITE_TIMEOUT", applied: "unknown" });
  // Callers that do not ask are not kept up by a read.
  await store.apply([update(3n, NOW_US + 1n)], { timeoutMs: TIMEOUT_MS });
  replicas.read = read;
  assert.equal(await write(insert(2n, NOW_US)), AHEAD_US);
});

test("Cassandra: nothing was written: what the write failed by is reported, whatever became of the look for newer cells", async () => {
  const { replicas, write } = fixture();
  replicas.down.add(0).add(1);
  await assert.rejects(write(insert(2n, NOW_US)), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
});

test("Cassandra: a clock stood 8 h ahead, was set right, and the program restarted: it forgot how far its timestamps came", async () => {
  const { mark } = fixture();
  assert.equal(await mark().load(), TIMESTAMP_ZERO);
  await mark().raise(timestampUsOf(AHEAD_US));
  assert.equal(await mark().load(), AHEAD_US);
  await mark().raise(timestampUsOf(NOW_US));
  assert.equal(await mark().load(), AHEAD_US, "a node behind does not lower it");
  await mark().raise(timestampUsOf(AHEAD_US + 1n));
  assert.equal(await mark().load(), AHEAD_US + 1n);
});
