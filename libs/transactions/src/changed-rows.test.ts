// What a row's writes come to, against the merge of their net mutations; payload digests of both forms; outcome rows.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RowImage } from "@concord/ports";
import { imageOf, mergeImages } from "@concord/rows";
import { timestampUsOf, type TimeId } from "@concord/runtime";
import { netMutations, type RowWrite } from "@concord/schema";
import { ByteWriter } from "@concord/codec";
import { encodeMutation } from "@concord/rows";
import { payloadOf, requireSamePayload } from "./digest.ts";
import { outcomeMutations, outcomesIn, OUTCOME_SLICE_MS } from "./outcome-rows.ts";
import { withWrites } from "./pending-rows.ts";
import { albumKey, ALBUMS, checksum, insert, int, START_MS, text, TestFixture, update, write } from "./test/fixture.ts";

const KEY = albumKey(1);
const COMMIT_US = timestampUsOf(100n);

const cells = fc.dictionary(fc.constantFrom("title", "public_photos"), fc.option(fc.integer({ min: 0, max: 9 }), { nil: null }));
const aWrite = fc.record({ kind: fc.constantFrom("insert" as const, "insert-new" as const, "update" as const, "delete" as const), cells });

function writeOf({ kind, cells: columns }: { kind: RowWrite["kind"]; cells: Record<string, number | null> }): RowWrite {
  const shown = kind === "delete" ? [] : Object.entries(columns);
  return {
    kind,
    table: "albums",
    key: KEY,
    columns: shown.map(([column, value]) => ({ column, value: value === null ? null : int(value) })),
  };
}

const committed = fc.array(aWrite, { maxLength: 3 }).map((writes) => {
  let image: RowImage = { key: KEY, deletedAtUs: undefined, markerUs: undefined, cells: new Map() };
  writes.forEach((one, at) => {
    for (const mutation of netMutations([writeOf(one)], timestampUsOf(BigInt(10 + 10 * at)))) image = mergeImages(image, imageOf(mutation));
  });
  return image;
});

test("[TXD4] [TXD14] writes of a row: the whole row is what their net mutations merged into it make", () => {
  fc.assert(
    fc.property(committed, fc.array(aWrite, { maxLength: 5 }), (before, given) => {
      const writes = given.map(writeOf);
      let merged = before;
      for (const mutation of netMutations(writes, COMMIT_US)) merged = mergeImages(merged, imageOf(mutation));
      const sorted = ({ cells: all, ...rest }: RowImage): object => ({ ...rest, cells: [...all].sort(([a], [b]) => (a < b ? -1 : 1)) });
      assert.deepEqual(sorted(withWrites(before, { definition: ALBUMS, key: KEY, writes }, COMMIT_US)), sorted(merged));
    }),
    { numRuns: 2000 },
  );
});

test("[TXD7] digest: other kind, key, column, value or order: another digest; the same writes: the same", () => {
  const base = [insert(KEY, { title: text("a"), public_photos: int(1) }), update(albumKey(2), { title: text("b") })];
  const others = [
    [update(KEY, { title: text("a"), public_photos: int(1) }), base[1]!],
    [write("insert-new", KEY, { title: text("a"), public_photos: int(1) }), base[1]!],
    [insert(albumKey(3), { title: text("a"), public_photos: int(1) }), base[1]!],
    [insert(KEY, { title: text("a"), public_photos: int(2) }), base[1]!],
    [insert(KEY, { title: text("a"), public_photos: null }), base[1]!],
    [insert(KEY, { title: text("a") }), base[1]!],
    [insert(KEY, { title: text("") }), base[1]!],
    [base[1]!, base[0]!],
    [base[0]!],
  ];
  const digests = [base, ...others].map((writes) => payloadOf(writes).digest);
  assert.equal(new Set(digests).size, digests.length);
  assert.equal(payloadOf([...base]).digest, digests[0]);
  assert.equal(payloadOf([]).digest, 0n);
});

test("[TXD7] digest: of an outcome from before digests were hashes: the same writes are accepted, others refused", () => {
  const writes = [insert(KEY, { title: text("a") })];
  const writer = new ByteWriter(512);
  for (const { write } of writes) {
    writer.bytes(encodeMutation({ kind: "insert", key: write.key, columns: write.columns, timestampUs: timestampUsOf(0n) }));
  }
  const bytes = writer.finish();
  const earlier = (BigInt(checksum(bytes) >>> 0) << 32n) | BigInt(bytes.length);
  requireSamePayload(earlier, payloadOf(writes), checksum);
  const other = payloadOf([insert(KEY, { title: text("b") })]);
  assert.throws(() => requireSamePayload(earlier, other, checksum), { code: "IDEMPOTENCY_MISMATCH" });
  assert.throws(() => requireSamePayload(0n, other, checksum), { code: "IDEMPOTENCY_MISMATCH" });
  const isNew = payloadOf([write("insert-new", KEY, { title: text("a") })]);
  assert.throws(() => requireSamePayload(earlier, isNew, checksum), { code: "IDEMPOTENCY_MISMATCH" });
});

test("[TXD7] outcome rows: one per slice of the ids' time, with all of them; golden bytes", () => {
  const fixture = new TestFixture();
  const slice = START_MS - (START_MS % OUTCOME_SLICE_MS);
  const ids = [slice, slice + OUTCOME_SLICE_MS - 1, slice + OUTCOME_SLICE_MS].map((atMs) => fixture.id(atMs));
  const of = (id: TimeId, at: number, owner = 0n): Parameters<typeof outcomeMutations>[1][number] => {
    return {
      kind: at === 1 ? "aborted" : "committed",
      id,
      timestampUs: timestampUsOf(BigInt(50 + at)),
      digest: BigInt(at),
      owner,
      mutations: [],
    };
  };
  const rows = outcomeMutations(
    "g0",
    ids.map((id, at) => of(id, at)),
    7n as never,
  ).map(imageOf);
  const found = rows.map(outcomesIn);
  assert.deepEqual(
    found.map((row) => row.map(([id]) => id)),
    [ids.slice(0, 2), ids.slice(2)],
  );
  assert.deepEqual(found[0]![1], [ids[1], { kind: "aborted", timestampUs: 51n, seq: 7n, digest: 1n, owner: 0n }]);
  const [cell] = rows[1]!.cells.values();
  assert.ok(cell?.value?.kind === "blob");
  assert.equal(Buffer.from(cell.value.value).toString("hex"), `01${ids[2]}0100000000000000340000000000000002`);
  const owned = outcomeMutations("g0", [of(ids[0]!, 0, 9n), of(ids[1]!, 1)], 7n as never).map(imageOf);
  assert.deepEqual(
    outcomesIn(owned[0]!).map(([, { kind, owner }]) => [kind, owner]),
    [
      ["committed", 9n],
      ["aborted", 0n],
    ],
  );
  const [mixed] = owned[0]!.cells.values();
  assert.ok(mixed?.value?.kind === "blob");
  assert.equal(
    Buffer.from(mixed.value.value).toString("hex"),
    `02${ids[0]}01000000000000003200000000000000000000000000000009${ids[1]}02000000000000003300000000000000010000000000000000`,
  );
});
