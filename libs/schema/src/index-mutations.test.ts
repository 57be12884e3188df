import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { ColumnWrite, Mutation, Row, RowImage } from "@concord/ports";
import { imageOf, liveRow, mergeImages } from "@concord/rows";
import type { CellValue } from "@concord/values";
import { timestampUsOf, type TimestampUs } from "@concord/runtime";
import {
  baseKeyOf,
  baseRowOf,
  catalogueOf,
  indexFixesToken,
  indexKeysTouched,
  indexKeyOf,
  indexMutations,
  indexTableOf,
  keyText,
  netMutations,
  storageTableOf,
  tableOf,
  type RowWrite,
} from "./index.ts";
import { bigint, CATALOGUE, photo, photoKey, PHOTOS, text, timestamp } from "./test/albums.ts";

const [BY_OWNER, BY_STATUS, BY_ALBUM] = PHOTOS.indexes;
const TS = timestampUsOf(1000n);

const before = photo(1, 2, { owner: bigint(7), modified: timestamp(50), status: text("public"), title: text("sea") });

/** The photo with some columns changed; null takes one away. */
function changed(columns: Readonly<Record<string, CellValue | null>>): Row {
  const all = new Map(before.columns);
  for (const [column, value] of Object.entries(columns)) {
    if (value === null) all.delete(column);
    else all.set(column, value);
  }
  return { ...before, columns: all };
}

function shown(mutations: readonly Mutation[], table: string): string[] {
  return mutations
    .filter((mutation) => mutation.key.table === table)
    .map((mutation) => {
      const values = [...mutation.key.partition, ...mutation.key.clustering].map((value) => String(value.value)).join("/");
      const columns =
        mutation.kind === "delete"
          ? []
          : mutation.columns.map(({ column, value }) => `${column}=${value === null ? "null" : String(value.value)}`);
      return [mutation.kind, values, ...columns].join(" ");
    });
}

test("[TX20] indexTableOf: index (owner, modified): key (owner, modified, primary key) and a copy of the row", () => {
  const table = indexTableOf(PHOTOS, BY_OWNER!);
  assert.deepEqual(
    [table.name, table.partitionKey, table.clusteringKey, table.columns],
    ["photos__by_owner", ["owner"], ["modified", "album", "id"], PHOTOS.columns],
  );
});

test("[TX20] indexTableOf: an indexed column is of the primary key: it is there once", () => {
  assert.deepEqual(indexTableOf(PHOTOS, BY_ALBUM!).clusteringKey, ["modified", "id"]);
});

test("[TXD6] indexFixesToken: the index begins with the entity's id: true, else false", () => {
  assert.deepEqual(
    [BY_OWNER, BY_STATUS, BY_ALBUM].map((index) => indexFixesToken(PHOTOS, index!)),
    [false, false, true],
  );
});

test("catalogue: an index's storage table: known to storage, not to users", () => {
  assert.equal(storageTableOf(CATALOGUE, "photos__by_owner").partitionKey[0], "owner");
  assert.throws(() => tableOf(CATALOGUE, "photos__by_owner"), { code: "TABLE_UNKNOWN" });
  assert.throws(() => storageTableOf(catalogueOf(1n, []), "photos"), { code: "TABLE_UNKNOWN" });
});

const byOwner: readonly [string, Row | undefined, Row | undefined, readonly string[]][] = [
  ["a new row", undefined, before, ["insert 7/50/1/2 status=public title=sea"]],
  ["a deleted row", before, undefined, ["delete 7/50/1/2"]],
  ["nothing changed", before, changed({}), []],
  ["a copied column changed", before, changed({ title: text("sun") }), ["insert 7/50/1/2 status=public title=sun"]],
  ["a copied column taken away", before, changed({ title: null }), ["insert 7/50/1/2 status=public title=null"]],
  ["a copied column added", changed({ title: null }), before, ["insert 7/50/1/2 status=public title=sea"]],
  [
    "an indexed column changed",
    before,
    changed({ modified: timestamp(60) }),
    ["delete 7/50/1/2", "insert 7/60/1/2 status=public title=sea"],
  ],
  ["an indexed column taken away", before, changed({ owner: null }), ["delete 7/50/1/2"]],
  ["an indexed column set at last", changed({ owner: null }), before, ["insert 7/50/1/2 status=public title=sea"]],
  ["no indexed column before or after", changed({ owner: null }), changed({ owner: null, title: null }), []],
  ["no row before or after", undefined, undefined, []],
];

for (const [what, from, to, expected] of byOwner) {
  test(`[TX21] indexMutations: ${what}: ${expected.length === 0 ? "nothing" : expected.join(", ")}`, () => {
    const mutations = indexMutations(PHOTOS, from, to, TS);
    assert.deepEqual(shown(mutations, "photos__by_owner"), expected);
    assert.ok(mutations.every((mutation) => mutation.timestampUs === TS));
  });
}

test("[TXD6] indexKeysTouched: a moved row: old and new index keys, an unmoved one once", () => {
  const keys = indexKeysTouched(PHOTOS, before, changed({ modified: timestamp(60) }));
  assert.deepEqual(
    keys.map((key) => key.table),
    ["photos__by_owner", "photos__by_owner", "photos__by_status", "photos__by_album", "photos__by_album"],
  );
});

test("[TX20] baseRowOf: the index row of a row: the row again", () => {
  for (const index of PHOTOS.indexes) {
    const key = indexKeyOf(PHOTOS, index, before)!;
    const insert = indexMutations(PHOTOS, undefined, before, TS).find((mutation) => mutation.key.table === key.table)!;
    const row = liveRow(imageOf(insert))!;
    assert.deepEqual(baseKeyOf(PHOTOS, index, key), before.key);
    assert.equal(textOf(baseRowOf(PHOTOS, index, row)), textOf(before));
  }
});

/** A store of images: what the replicas come to. */
class Store {
  readonly images = new Map<string, RowImage>();

  apply(mutations: readonly Mutation[]): void {
    for (const mutation of mutations) {
      const at = keyText(mutation.key);
      const present = this.images.get(at);
      this.images.set(at, present === undefined ? imageOf(mutation) : mergeImages(present, imageOf(mutation)));
    }
  }

  rows(table: string): Row[] {
    return [...this.images.values()].flatMap((image) => (image.key.table === table ? (liveRow(image) ?? []) : []));
  }
}

const small = fc.integer({ min: 0, max: 2 });
const cell = (column: string, make: (at: number) => CellValue): fc.Arbitrary<ColumnWrite> =>
  fc.option(small, { nil: null }).map((at) => ({ column, value: at === null ? null : make(at) }));
const columnWrites = fc
  .tuple(
    cell("owner", bigint),
    cell("modified", timestamp),
    cell("status", (at) => text(`s${at}`)),
    cell("title", (at) => text(`t${at}`)),
  )
  .chain((cells) => fc.subarray(cells, { minLength: 1 }));
const write: fc.Arbitrary<RowWrite> = fc
  .record({ kind: fc.constantFrom("insert" as const, "update" as const, "delete" as const), id: small, columns: columnWrites })
  .map(({ kind, id, columns }) => ({ kind, table: "photos", key: photoKey(1, id), columns: kind === "delete" ? [] : columns }));
const commits = fc.array(fc.array(write, { minLength: 1, maxLength: 5 }), { maxLength: 12 });

/** One commit as the coordinator makes it: the net image of each row and the index rows that follow from before and after. */
function commit(store: Store, writes: readonly RowWrite[], timestampUs: TimestampUs): Mutation[] {
  const ids = new Set(writes.map((one) => keyText(one.key)));
  return [...ids].flatMap((id) => {
    const image = store.images.get(id);
    const net = netMutations(
      writes.filter((one) => keyText(one.key) === id),
      timestampUs,
    );
    const merged = net
      .map(imageOf)
      .reduce<RowImage | undefined>((left, right) => (left === undefined ? right : mergeImages(left, right)), image);
    return [...net, ...indexMutations(PHOTOS, liveRow(image), liveRow(merged), timestampUs)];
  });
}

test("[TX21] [TXD4] index rows: any commits, delivered in any order: exactly the rows of the table, whole, by their indexed values", () => {
  fc.assert(
    fc.property(commits, fc.boolean(), (all, reversed) => {
      const store = new Store();
      const replica = new Store();
      const log = all.flatMap((writes, at) => {
        const mutations = commit(store, writes, timestampUsOf(BigInt(at + 1) * 10n));
        store.apply(mutations);
        return mutations;
      });
      replica.apply(reversed ? log.toReversed() : log);
      const rows = replica.rows("photos");
      for (const index of PHOTOS.indexes) {
        const table = indexTableOf(PHOTOS, index);
        const expected = rows.filter((row) => indexKeyOf(PHOTOS, index, row) !== undefined).map(textOf);
        const found = replica.rows(table.name).map((row) => textOf(baseRowOf(PHOTOS, index, row)));
        assert.deepEqual(found.toSorted(), expected.toSorted());
      }
    }),
    { numRuns: 500 },
  );
});

function textOf(row: Row): string {
  const columns = [...row.columns].map(([column, value]) => `${column}=${String(value.value)}`);
  return [keyText(row.key), ...columns.toSorted()].join(" ");
}
