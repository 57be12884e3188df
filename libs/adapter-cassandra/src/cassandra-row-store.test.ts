// Pages of a range among dead rows, under the test's clock. Rows on a real node: `npm run test:engines`.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowKey, RowRange } from "@concord/ports";
import { CassandraRowStore } from "./cassandra-row-store.ts";
import { RANGE_ROWS_SCANNED_MAX } from "./limits.ts";
import { storedKey } from "./row-codec.ts";
import type { ResultRow, Statement } from "./session.ts";

const RANGE: RowRange = { table: "notes", partition: [{ kind: "text", value: "p" }], reverse: false, limit: 3 };
const TIMEOUT_MS = 2_000;

function key(at: number): RowKey {
  return { table: RANGE.table, partition: RANGE.partition, clustering: [{ kind: "bigint", value: BigInt(at) }] };
}

/** A partition of dead rows in which some live; each request takes `requestMs`. */
function fixture(count: number, alive: readonly number[], requestMs: number) {
  const rows = Array.from({ length: count }, (_, at): ResultRow => {
    const { clustering } = storedKey(key(at));
    return { clustering, deleted: alive.includes(at) ? null : 1n, marker: alive.includes(at) ? 2n : null, cells: null };
  });
  let nowMs = 0;
  const timeouts: number[] = [];
  const session = {
    read: async ({ parameters }: Statement, { timeoutMs }: { readonly timeoutMs: number }) => {
      timeouts.push(timeoutMs);
      nowMs += requestMs;
      const [, from, , limit] = parameters as [Uint8Array, Uint8Array, Uint8Array, number];
      const first = rows.findIndex((row) => Buffer.compare(row["clustering"] as Uint8Array, from) > 0);
      return { rows: first < 0 ? [] : rows.slice(first, first + limit), pageState: undefined, isApplied: true };
    },
  } as never;
  const options = { session, keyspace: "concord", batchBytesMax: () => 0, whenApplied: async () => undefined };
  const store = new CassandraRowStore({ ...options, clock: { monotonicMs: () => nowMs } });
  const page = async (after?: RowRange["after"]) => {
    const { rows: found, next } = await store.readRange(after === undefined ? RANGE : { ...RANGE, after }, { timeoutMs: TIMEOUT_MS });
    return { found: found.map((image) => Number(image.key.clustering[0]!.value)), next };
  };
  return { page, timeouts };
}

test("range: more dead rows than a page looks at came back as an empty page: it goes on until it has a row", async () => {
  const last = 2 * RANGE_ROWS_SCANNED_MAX + 100;
  const { page } = fixture(last + 1, [last], 1);
  assert.deepEqual(await page(), { found: [last], next: undefined });
});

test("range: a page that has a row ends where it has looked at enough, and the next goes on behind it", async () => {
  const last = 2 * RANGE_ROWS_SCANNED_MAX + 100;
  const { page } = fixture(last + 1, [5, last], 1);
  const { found, next } = await page();
  assert.deepEqual(found, [5]);
  assert.deepEqual(await page(next), { found: [last], next: undefined });
});

test("range: a slow engine: a page ends once half of its time is used, with or without a row; no request has more than what is left", async () => {
  const { page, timeouts } = fixture(RANGE_ROWS_SCANNED_MAX, [RANGE_ROWS_SCANNED_MAX - 1], 400);
  const { found, next } = await page();
  assert.deepEqual(found, []);
  assert.ok(next !== undefined);
  assert.deepEqual(timeouts, [2_000, 1_600, 1_200]);
});
