import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { ColumnWrite, Mutation, RowImage } from "@concord/ports";
import { emptyImage, imageOf, liveRow, mergeImages } from "@concord/rows";
import { plusUs, timestampUsOf, type TimestampUs } from "@concord/runtime";
import { netBatch, netMutations, type RowWrite } from "./index.ts";
import { photoKey, text } from "./test/albums.ts";

const KEY = photoKey(1, 2);
const TS = timestampUsOf(1000n);

function write(kind: RowWrite["kind"], columns: Readonly<Record<string, string | null>> = {}, key = KEY): RowWrite {
  const writes = Object.entries(columns).map(([column, value]): ColumnWrite => ({ column, value: value === null ? null : text(value) }));
  return { kind, table: key.table, key, columns: writes };
}

function shown(mutations: readonly Mutation[]): string[] {
  return mutations.map((mutation) => {
    const columns =
      mutation.kind === "delete" ? [] : mutation.columns.map(({ column, value }) => `${column}=${String(value?.value ?? null)}`);
    return [mutation.kind, `@${mutation.timestampUs - TS}`, ...columns].join(" ");
  });
}

const cases: readonly [string, readonly RowWrite[], readonly string[]][] = [
  ["nothing", [], []],
  ["one insert", [write("insert", { a: "1" })], ["insert @0 a=1"]],
  ["an insert of key columns only", [write("insert")], ["insert @0"]],
  ["one update", [write("update", { a: "1" })], ["update @0 a=1"]],
  ["one delete", [write("delete")], ["delete @0"]],
  ["two updates", [write("update", { a: "1", b: "1" }), write("update", { b: "2" })], ["update @0 a=1 b=2"]],
  ["update and insert", [write("update", { a: "1" }), write("insert", { b: "2" })], ["insert @0 a=1 b=2"]],
  ["insert and delete", [write("insert", { a: "1" }), write("delete")], ["delete @0"]],
  ["delete and insert", [write("delete"), write("insert", { a: "1" })], ["delete @-1", "insert @0 a=1"]],
  ["delete and update", [write("delete"), write("update", { a: "1" })], ["delete @-1", "update @0 a=1"]],
  ["delete and update to null", [write("delete"), write("update", { a: null })], ["delete @0"]],
  [
    "insert, delete, insert",
    [write("insert", { a: "1", b: "1" }), write("delete"), write("insert", { b: "2" })],
    ["delete @-1", "insert @0 b=2"],
  ],
  ["insert, delete, update, delete", [write("insert"), write("delete"), write("update", { a: "1" }), write("delete")], ["delete @0"]],
  ["update to null", [write("update", { a: "1" }), write("update", { a: null })], ["update @0 a=null"]],
];

for (const [what, writes, expected] of cases) {
  test(`[TXD4] [LBD14] netMutations: ${what}: ${expected.length === 0 ? "nothing" : expected.join(", ")}`, () => {
    assert.deepEqual(shown(netMutations(writes, TS)), expected);
  });
}

const value = fc.option(fc.constantFrom("1", "2", "3"), { nil: null });
const columns = fc.dictionary(fc.constantFrom("a", "b", "c"), value, { maxKeys: 3 });
const writeOfAnyKind = fc.oneof(
  columns.map((given) => write("insert", given)),
  columns.map((given) => write("insert-new", given)),
  columns.map((given) => write("update", given)),
  fc.constant(write("delete")),
);
const writes = fc.array(writeOfAnyKind, { maxLength: 6 });

function applied(image: RowImage, mutations: readonly Mutation[]): RowImage {
  return mutations.reduce((merged, mutation) => mergeImages(merged, imageOf(mutation)), image);
}

/** What a user sees: the live cells, and whether the row lives at all. */
function seen(image: RowImage): unknown {
  const row = liveRow(image);
  return row === undefined ? undefined : [...row.columns].map(([column, { value }]) => `${column}=${String(value)}`).toSorted();
}

/** Each write at its own, growing timestamp: the order of the statements made plain. */
function oneByOne(image: RowImage, given: readonly RowWrite[], firstUs: TimestampUs): RowImage {
  return given.reduce((merged, { kind, key, columns: set }, at) => {
    const timestampUs = plusUs(firstUs, BigInt(at));
    return applied(merged, [
      kind === "delete" ? { kind, key, timestampUs } : { kind: kind === "update" ? kind : "insert", key, columns: set, timestampUs },
    ]);
  }, image);
}

test("[TXD4] [LBD14] netMutations: any writes on any earlier row, in any order of delivery, repeated: as one after another", () => {
  fc.assert(
    fc.property(writes, writes, fc.boolean(), (earlier, given, reversed) => {
      const before = oneByOne(emptyImage(KEY), earlier, timestampUsOf(1n));
      const net = netMutations(given, TS);
      const delivered = reversed ? net.toReversed() : net;
      const after = applied(applied(before, delivered), delivered);
      assert.deepEqual(seen(after), seen(oneByOne(before, given, TS)));
      assert.ok(net.every((mutation) => mutation.timestampUs === TS || mutation.timestampUs === TS - 1n));
    }),
    { numRuns: 2000 },
  );
});

test("[LBD14] netBatch: writes of several rows mixed: one net image per row, rows in order of first mention", () => {
  const other = photoKey(1, 3);
  const net = netBatch(
    [write("insert", { a: "1" }), write("delete", {}, other), write("update", { a: "2" }), write("insert", { b: "1" }, other)],
    TS,
  );
  assert.deepEqual(shown(net), ["insert @0 a=2", "delete @-1", "insert @0 b=1"]);
  assert.deepEqual(
    net.map((mutation) => mutation.key),
    [KEY, other, other],
  );
});

test("netMutations: two rows, or a timestamp with no tick below it: an assertion fails", () => {
  assert.throws(() => netMutations([write("delete"), write("delete", {}, photoKey(1, 3))], TS), { code: "INTERNAL" });
  assert.throws(() => netMutations([write("delete")], timestampUsOf(1n)), { code: "INTERNAL" });
});
