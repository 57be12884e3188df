// Ends of a range's pages, over replicas that end theirs early, late or never.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RowRange } from "@concord/ports";
import { encodeRange } from "@concord/rows";
import { QuorumRowStore, type RowReplica } from "./index.ts";
import { RANGE_BYTES_TARGET, RANGE_IMAGES_MAX, RANGE_SCAN_IMAGES_MAX } from "./limits.ts";
import { behave, cutPages, insert, keyOf, OPTIONS, RANGE, remove, settled } from "./test/notes.ts";
import { checksum, testRing } from "./test/ring.ts";

test("range: a listing with rows of 1.5 MiB stood at a page that no message takes: pages end by bytes, every row comes once", async () => {
  const { rows } = testRing(3);
  const sizes = [10, 1_500_000, 1_500_000, 10, 3_000_000, 10, 10];
  for (const [at, size] of sizes.entries()) await rows.apply([insert("x".repeat(size), 1, keyOf(at))], OPTIONS);
  for (const reverse of [false, true]) {
    const pages: number[][] = [];
    let after: RowRange["after"];
    for (;;) {
      const page = await rows.readRange({ ...RANGE, reverse, ...(after === undefined ? {} : { after }) }, OPTIONS);
      pages.push(page.rows.map(({ key }) => Number(key.clustering[0]!.value)));
      if (page.next === undefined) break;
      after = page.next;
    }
    assert.deepEqual(pages, reverse ? [[6, 5], [4], [3, 2], [1, 0]] : [[0, 1], [2, 3], [4], [5, 6]]);
  }
});

test("readRange: more dead rows than a page looks at came back as an empty page: it goes on until it has a row, or half of its time is used", async () => {
  const pagesMax = RANGE_SCAN_IMAGES_MAX / RANGE_IMAGES_MAX;
  const ring = testRing(1);
  await ring.rows.apply(
    Array.from({ length: RANGE_IMAGES_MAX }, (_, at) => remove(1, keyOf(at))),
    OPTIONS,
  );
  await ring.rows.apply([insert("value-a", 1, keyOf(RANGE_IMAGES_MAX))], OPTIONS);
  const replica: RowReplica = ring.replicas[0]!;
  const bounds = encodeRange(RANGE);
  const dead = await replica.readRowRange({ ...bounds, reverse: false, limit: RANGE_IMAGES_MAX }, OPTIONS.timeoutMs, []);
  /** The same dead rows page after page, each for so long, then what is there. */
  const page = async (eachMs: number) => {
    let pages = 0;
    const readRowRange: RowReplica["readRowRange"] = async (...call) => {
      await ring.clock.pass(eachMs);
      pages += 1;
      return pages <= pagesMax ? { rows: dead.rows, more: true } : replica.readRowRange(...call);
    };
    const { name, collection } = replica;
    const slow = { ...functionsOf(replica), name, collection, reachable: true, readRowRange };
    return new QuorumRowStore({ replicas: [slow], clock: ring.clock, checksum }).readRange({ ...RANGE, limit: 1 }, OPTIONS);
  };
  const found = await page(1);
  assert.deepEqual(
    found.rows.map(({ key }) => key),
    [keyOf(RANGE_IMAGES_MAX)],
  );
  const short = await page((OPTIONS.timeoutMs * 0.6) / pagesMax);
  assert.deepEqual([short.rows.length, short.next], [0, keyOf(RANGE_IMAGES_MAX - 1).clustering]);
});

function functionsOf(replica: RowReplica): Pick<RowReplica, "applyRows" | "applyCopies" | "readRows" | "catchUp"> {
  return {
    applyRows: (...call) => replica.applyRows(...call),
    applyCopies: (...call) => replica.applyCopies(...call),
    readRows: (...call) => replica.readRows(...call),
    catchUp: (...call) => replica.catchUp(...call),
  };
}

test("readRange: two replicas end their pages at different rows: nothing beyond the shorter one is decided", async () => {
  const ring = testRing(3);
  await ring.rows.apply(
    [1, 2, 3, 4, 5, 6].map((at) => insert("value-a", 5, keyOf(at))),
    OPTIONS,
  );
  behave(ring, "refusing", "normal", "normal");
  await ring.rows.apply(
    [4, 5, 6].map((at) => remove(6, keyOf(at))),
    OPTIONS,
  );
  behave(ring, "normal", "normal", "refusing");
  cutPages(ring.replicas[1]!, 3);
  const page = await ring.rows.readRange(RANGE, OPTIONS);
  assert.deepEqual(
    page.rows.map((image) => image.key.clustering[0]!.value),
    [1n, 2n, 3n],
  );
  assert.equal(page.next, undefined);
});

test("readRange: a replica that says more and gives nothing: not believed", async () => {
  const ring = testRing(3);
  const endless: RowReplica["readRowRange"] = () => Promise.resolve({ rows: [], more: true });
  ring.replicas[0]!.readRowRange = endless;
  ring.replicas[1]!.readRowRange = endless;
  const page = ring.rows.readRange(RANGE, OPTIONS);
  assert.equal(await settled(page), "READ_TIMEOUT/no");
});

test("readRange: large rows: a replica reads a page's bytes at once, however many rows are asked for; all are found", async () => {
  const ring = testRing(1);
  const rows = 12;
  const value = "x".repeat(RANGE_BYTES_TARGET / 4);
  for (let at = 0; at < rows; at += 1) await ring.rows.apply([insert(value, 5, keyOf(at))], OPTIONS);
  const { store } = ring.replicas[0]!;
  const whole = store.range.bind(store);
  let most = 0;
  store.range = async (range) => {
    const entries = await whole(range);
    most = Math.max(most, entries.length);
    return entries;
  };
  const first = await ring.rows.readRange(RANGE, OPTIONS);
  const second = await ring.rows.readRange({ ...RANGE, after: first.next! }, OPTIONS);
  assert.deepEqual([first.rows.length + second.rows.length, second.next], [rows, undefined]);
  assert.equal(most, 4);
});

test("readRange: very many deleted rows before the one wanted: found in few rounds", async () => {
  const ring = testRing(1);
  const deleted = 4000;
  await ring.rows.apply(
    Array.from({ length: deleted }, (_, at) => remove(5, keyOf(at))),
    OPTIONS,
  );
  await ring.rows.apply([insert("value", 5, keyOf(deleted))], OPTIONS);
  const { calls } = ring.replicas[0]!;
  const before = calls.length;
  const page = await ring.rows.readRange({ ...RANGE, limit: 1 }, OPTIONS);
  assert.equal(page.rows.length, 1);
  assert.ok(calls.length - before <= 12, `${calls.length - before} rounds`);
});
