// Pages of a range against a session of the test's: the engine's part is in src/test.
import { compareBytes } from "@concord/codec";
import type { RowRange } from "@concord/ports";
import { timestampUsOf } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { CassandraRowStore } from "./cassandra-row-store.ts";
import { statementsOf } from "./row-codec.ts";
import type { CassandraSession, ResultRow, Statement } from "./session.ts";

const never = (): never => {
  throw new Error("not asked for");
};

const RANGE: RowRange = { table: "notes", partition: [{ kind: "bigint", value: 1n }], reverse: false, limit: 100 };

/** A row as it is stored, with a body of so many bytes. */
function stored(at: number, bytes: number): ResultRow {
  const body = { kind: "blob", value: new Uint8Array(bytes).fill(1) } as const;
  const key = { table: RANGE.table, partition: RANGE.partition, clustering: [{ kind: "bigint", value: BigInt(at) } as const] };
  const mutation = { kind: "insert", key, columns: [{ column: "body", value: body }], timestampUs: timestampUsOf(1n) } as const;
  const [marker, cells, , clustering] = statementsOf("k", mutation).statements[0]!.parameters.slice(1);
  return { clustering, deleted: null, marker, cells } as ResultRow;
}

function storeOf(rows: readonly ResultRow[]): CassandraRowStore {
  const keyOf = (row: ResultRow): Uint8Array => row["clustering"] as Uint8Array;
  const read = async ({
    query,
    parameters,
  }: Statement): Promise<{ rows: readonly ResultRow[]; pageState: undefined; isApplied: boolean }> => {
    const [, from, to, limit] = parameters as [Uint8Array, Uint8Array, Uint8Array, number];
    const least = query.includes(">=") ? 0 : 1;
    const found = rows.filter((row) => compareBytes(keyOf(row), from) >= least && compareBytes(keyOf(row), to) < 0);
    const ordered = query.includes("DESC") ? found.toReversed() : found;
    return { rows: ordered.slice(0, limit), pageState: undefined, isApplied: true };
  };
  const others = { write: never, writeLogged: never, compareAndSet: never, define: never, ask: never, avoid: never, close: never };
  const session: CassandraSession = { ...others, read, nodes: () => [] };
  return new CassandraRowStore({ session, keyspace: "k", batchBytesMax: () => 1024, whenApplied: never, clock: { monotonicMs: () => 0 } });
}

test("range: a listing with rows of 900 KB stood at a page that no message takes: pages end by bytes, every row comes once", async () => {
  const sizes = [10, 900_000, 900_000, 900_000, 10, 3_000_000, 10, 10];
  const rows = storeOf(sizes.map((bytes, at) => stored(at, bytes)));
  for (const reverse of [false, true]) {
    const pages: number[][] = [];
    let after: RowRange["after"];
    do {
      const page = await rows.readRange({ ...RANGE, reverse, ...(after === undefined ? {} : { after }) }, { timeoutMs: 1_000 });
      pages.push(page.rows.map(({ key }) => Number(key.clustering[0]!.value)));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(pages, reverse ? [[7, 6], [5], [4, 3, 2], [1, 0]] : [[0, 1, 2], [3, 4], [5], [6, 7]]);
  }
});
