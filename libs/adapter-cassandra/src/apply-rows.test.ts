// What goes to Cassandra together, and what is known when a part of it fails. The session is the test's: the engine's part is in src/test.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation } from "@concord/ports";
import { timestampUsOf } from "@concord/runtime";
import { applyRows } from "./apply-rows.ts";
import { CassandraFailure } from "./failure.ts";
import { BATCH_BYTES_STANDARD, BATCH_STATEMENTS_MAX, PARTITION_BATCH_BYTES_MAX } from "./limits.ts";
import type { CassandraSession, Statement } from "./session.ts";

const never = (): never => {
  throw new Error("not asked for");
};

function sessionOf(write: (statements: readonly Statement[]) => Promise<void>): CassandraSession {
  return {
    read: never,
    write,
    writeLogged: never,
    compareAndSet: never,
    define: never,
    ask: never,
    nodes: () => [],
    avoid: never,
    close: never,
  };
}

const insert = (partition: number, row: number, bytes: number): Mutation => ({
  kind: "insert",
  key: {
    table: "notes",
    partition: [{ kind: "bigint", value: BigInt(partition) }],
    clustering: [{ kind: "bigint", value: BigInt(row) }],
  },
  columns: [{ column: "body", value: { kind: "blob", value: new Uint8Array(bytes).fill(1) } }],
  timestampUs: timestampUsOf(1n),
});

async function batchesOf(mutations: readonly Mutation[]): Promise<readonly (readonly Statement[])[]> {
  const batches: (readonly Statement[])[] = [];
  const session = sessionOf(async (statements) => void batches.push(statements));
  await applyRows({ session, keyspace: "k", batchBytesMax: () => 3 * 1024 * 1024 }, mutations, 1000);
  return batches;
}

const partitionsOf = (statements: readonly Statement[]): number =>
  new Set(statements.map(({ parameters }) => Buffer.from(parameters.at(-2) as Uint8Array).toString("hex"))).size;
const bytesOf = (statements: readonly Statement[]): number =>
  statements.reduce((sum, { parameters }) => sum + [...(parameters[2] as ReadonlyMap<string, Uint8Array>).values()][0]!.length, 0);

test("[TXC3] apply: rows of several partitions: one unlogged batch", async () => {
  const batches = await batchesOf([insert(1, 1, 200), insert(2, 1, 200), insert(1, 2, 200)]);
  assert.deepEqual(batches.map(partitionsOf), [2]);
});

test("[TXC3] apply: more than 50 KiB: several batches, those of several partitions below it", async () => {
  const mutations = Array.from({ length: 100 }, (_, at) => insert(at, 1, 2_000));
  const batches = await batchesOf(mutations);
  assert.equal(batches.flat().length, 100);
  for (const batch of batches) assert.ok(bytesOf(batch) <= BATCH_BYTES_STANDARD);
  assert.ok(batches.length <= 6, `${batches.length} batches`);
});

test("[TXC3] apply: a large partition beside small ones: it goes alone, in parts", async () => {
  const large = Array.from({ length: 20 }, (_, at) => insert(1, at, 40_000));
  const batches = await batchesOf([insert(2, 1, 10), ...large, insert(3, 1, 10)]);
  for (const batch of batches) {
    assert.ok(bytesOf(batch) <= (partitionsOf(batch) > 1 ? BATCH_BYTES_STANDARD : PARTITION_BATCH_BYTES_MAX));
    assert.ok(batch.length <= BATCH_STATEMENTS_MAX);
  }
  assert.equal(batches.flat().length, 22);
});

test("apply: an update of nothing: no statement", async () => {
  assert.deepEqual(await batchesOf([{ kind: "update", key: insert(1, 1, 0).key, columns: [], timestampUs: timestampUsOf(1n) }]), []);
});

test("apply: a row that no mutation can hold: LIMIT_EXCEEDED, nothing is sent", async () => {
  const session = sessionOf(never);
  const apply = applyRows({ session, keyspace: "k", batchBytesMax: () => 1 }, [insert(1, 1, 10), insert(2, 1, 4_000_000)], 1000);
  await assert.rejects(apply, { code: "LIMIT_EXCEEDED", applied: "no" });
});

const FAILURES: readonly (readonly [string, readonly (CassandraFailure | undefined)[], string, string])[] = [
  ["none was written", [new CassandraFailure("unavailable", "")], "REPLICAS_UNAVAILABLE", "no"],
  ["the first was written, the second was not", [undefined, new CassandraFailure("unavailable", "")], "WRITE_TIMEOUT", "unknown"],
  ["one is unknown", [new CassandraFailure("unavailable", ""), new CassandraFailure("no-answer", "")], "WRITE_TIMEOUT", "unknown"],
];

for (const [what, outcomes, code, applied] of FAILURES) {
  test(`apply: several batches, ${what}: ${code}, applied: ${applied}`, async () => {
    let at = 0;
    const session = sessionOf(async () => {
      const failure = outcomes[at++ % outcomes.length];
      if (failure !== undefined) throw failure;
    });
    const apply = applyRows({ session, keyspace: "k", batchBytesMax: () => 1 }, [insert(1, 1, 60_000), insert(2, 1, 60_000)], 1000);
    await assert.rejects(apply, { code, applied });
  });
}
