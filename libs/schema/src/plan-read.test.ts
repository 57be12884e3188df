import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ConcordError, timestampUsOf } from "@concord/runtime";
import type { Row, RowRange } from "@concord/ports";
import { type CellValue, compareValues } from "@concord/values";
import {
  baseRowOf,
  compareClustering,
  indexColumnsOf,
  indexKeyOf,
  inRange,
  keyText,
  planRead,
  planReadRange,
  planReadRows,
  SCHEMA_LIMITS,
  valueOf,
  type Constraint,
  type ReadPlan,
  type ReadRequest,
  type TableDefinition,
} from "./index.ts";
import { bigint, CATALOGUE, catalogueFrom, int, photoKey, PHOTOS, planOf, text } from "./test/albums.ts";

function shownRange(range: RowRange): string {
  const values = (of: readonly CellValue[]): string => of.map((value) => String(value.value)).join("/");
  const lower = range.lower === undefined ? "" : ` ${range.lower.inclusive ? ">=" : ">"}${values(range.lower.prefix)}`;
  const upper = range.upper === undefined ? "" : ` ${range.upper.inclusive ? "<=" : "<"}${values(range.upper.prefix)}`;
  return `${range.table}[${values(range.partition)}]${lower}${upper}${range.reverse ? " reverse" : ""} max ${range.limit}`;
}

function shownPlan(cql: string, binds: readonly CellValue[] = []): string {
  const plan = planOf(cql, binds);
  switch (plan.kind) {
    case "read-rows":
      return `rows ${plan.keys.map(keyText).join(" ")}`;
    case "read-range":
      return `range ${shownRange(plan.range)}`;
    case "read-index":
      return `index ${plan.scans.map((scan) => shownRange(scan.range)).join(" & ")}`;
    case "create-table":
    case "create-index":
    case "write":
    case "batch":
      return plan.kind;
  }
}

const served: readonly [string, string][] = [
  ["SELECT * FROM albums WHERE id = 1", `rows ${keyText({ table: "albums", partition: [bigint(1)], clustering: [] })}`],
  ["SELECT * FROM photos WHERE id = 2 AND album = 1", `rows ${keyText(photoKey(1, 2))}`],
  ["SELECT * FROM photos WHERE id = 2 AND album = 1 ORDER BY id DESC LIMIT 5", `rows ${keyText(photoKey(1, 2))}`],
  ["SELECT * FROM photos WHERE album = 1", "range photos[1] max 1000"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT 5", "range photos[1] max 5"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT 5000", "range photos[1] max 1000"],
  ["SELECT * FROM photos WHERE album = 1 ORDER BY id DESC", "range photos[1] reverse max 1000"],
  ["SELECT * FROM photos WHERE album = 1 AND id > 2", "range photos[1] >2 max 1000"],
  ["SELECT * FROM photos WHERE album = 1 AND id >= 2 AND id < 9", "range photos[1] >=2 <9 max 1000"],
  ["SELECT * FROM photos WHERE album = 1 AND id <= 9", "range photos[1] <=9 max 1000"],
  ["SELECT * FROM photos WHERE owner = 7", "index photos__by_owner[7] max 1000"],
  ["SELECT * FROM photos WHERE owner = 7 AND modified > 50", "index photos__by_owner[7] >50 max 1000"],
  ["SELECT * FROM photos WHERE owner = 7 AND modified = 50", "index photos__by_owner[7] >=50 <=50 max 1000"],
  ["SELECT * FROM photos WHERE owner = 7 AND modified = 50 AND album > 3", "index photos__by_owner[7] >50/3 <=50 max 1000"],
  ["SELECT * FROM photos WHERE owner = 7 ORDER BY modified DESC LIMIT 3", "index photos__by_owner[7] reverse max 3"],
  ["SELECT * FROM photos WHERE owner = 7 AND modified = 5 ORDER BY modified, album, id", "index photos__by_owner[7] >=5 <=5 max 1000"],
  ["SELECT * FROM photos WHERE owner = 7 AND modified = 5 ORDER BY album DESC", "index photos__by_owner[7] >=5 <=5 reverse max 1000"],
  ["SELECT * FROM photos WHERE album = 1 AND modified > 5", "index photos__by_album[1] >5 max 1000"],
  ["SELECT * FROM photos WHERE album = 1 ORDER BY modified DESC", "index photos__by_album[1] reverse max 1000"],
  ["SELECT * FROM photos WHERE status = 'public' AND album = 1", "index photos__by_status[public] >=1 <=1 max 1000"],
  ["SELECT * FROM photos WHERE status = 'public' AND album = 1 AND id > 5", "index photos__by_status[public] >1/5 <=1 max 1000"],
  ["SELECT * FROM concord_nodes WHERE id = 1", `rows ${keyText({ table: "concord_nodes", partition: [bigint(1)], clustering: [] })}`],
];

for (const [cql, expected] of served) {
  test(`[TX20] [TX22] planRead: ${cql}: ${expected}`, () => {
    assert.equal(shownPlan(cql), expected);
  });
}

const intersections: readonly [string, string][] = [
  ["SELECT * FROM photos WHERE owner = 7 AND status = 'public'", "index photos__by_status[public] max 1000 & photos__by_owner[7] max 1000"],
  [
    "SELECT * FROM photos WHERE status = 'x' AND owner = 7 AND modified > 5 LIMIT 3",
    "index photos__by_owner[7] >5 max 1000 & photos__by_status[x] max 1000",
  ],
  [
    "SELECT * FROM photos WHERE status = 'x' AND owner = 7 ORDER BY album DESC",
    "index photos__by_status[x] reverse max 1000 & photos__by_owner[7] max 1000",
  ],
  ["SELECT * FROM photos WHERE owner = 7 AND album = 1", "index photos__by_owner[7] max 1000 & photos__by_album[1] max 1000"],
  [
    "SELECT * FROM photos WHERE owner = 7 AND modified > 5 AND album = 1",
    "index photos__by_owner[7] >5 max 1000 & photos__by_album[1] >5 max 1000",
  ],
  [
    "SELECT * FROM photos WHERE status = 'x' AND owner = 7 AND album = 1",
    "index photos__by_status[x] >=1 <=1 max 1000 & photos__by_owner[7] max 1000",
  ],
];

for (const [cql, expected] of intersections) {
  test(`[TX28] planRead: ${cql}: ${expected}`, () => {
    assert.equal(shownPlan(cql), expected);
  });
}

test("[TX28] planRead: several indexes: LIMIT is left to the reader of the intersection", () => {
  const plan = planOf("SELECT * FROM photos WHERE owner = 7 AND status = 'x' LIMIT 3");
  assert.ok(plan.kind === "read-index");
  assert.deepEqual([plan.limit, plan.scans.map((scan) => scan.range.limit)], [3, [1000, 1000]]);
});

const scans: readonly string[] = [
  "SELECT * FROM photos",
  "SELECT * FROM photos LIMIT 1",
  "SELECT * FROM photos ORDER BY id",
  "SELECT * FROM photos WHERE id = 2",
  "SELECT * FROM photos WHERE title = 'x'",
  "SELECT * FROM photos WHERE album > 1",
  "SELECT * FROM photos WHERE owner > 7",
  "SELECT * FROM photos WHERE modified > 5",
  "SELECT * FROM photos WHERE album = 1 AND title = 'x'",
  "SELECT * FROM photos WHERE album = 1 AND id = 2 AND title = 'x'",
  "SELECT * FROM photos WHERE owner = 7 AND title = 'x'",
  "SELECT * FROM photos WHERE owner = 7 AND status > 'x'",
  "SELECT * FROM photos WHERE owner = 7 ORDER BY title",
  "SELECT * FROM events WHERE device = 01234567-89ab-cdef-0123-456789abcdef",
  "SELECT * FROM events WHERE device = 01234567-89ab-cdef-0123-456789abcdef AND day = 3 AND part = 1",
  "SELECT * FROM events WHERE device = 01234567-89ab-cdef-0123-456789abcdef AND day = 3 AND at > 1 AND part = 1",
];

for (const cql of scans) {
  test(`[TX22] planRead: ${cql}: SCAN_REFUSED`, () => {
    assert.throws(() => planOf(cql), { code: "SCAN_REFUSED" });
  });
}

test("[TX22] planRead: refusal: names the primary key and the indexes", () => {
  const message = /scan photos: its primary key is \(\(album\), id\), its indexes are by_owner \(owner, modified\), by_status \(status\)/;
  assert.throws(() => planOf("SELECT * FROM photos"), { message, metadata: { table: "photos" } });
  assert.throws(() => planOf("SELECT * FROM albums"), { message: /\(\(id\)\), it has no index/ });
});

const refused: readonly [string, string][] = [
  ["SELECT * FROM nope WHERE id = 1", "TABLE_UNKNOWN"],
  ["SELECT * FROM photos__by_owner WHERE owner = 1", "TABLE_UNKNOWN"],
  ["SELECT nope FROM photos WHERE album = 1", "COLUMN_UNKNOWN"],
  ["SELECT * FROM photos WHERE nope = 1", "COLUMN_UNKNOWN"],
  ["SELECT * FROM photos WHERE album = 1 ORDER BY nope", "COLUMN_UNKNOWN"],
  ["SELECT id, id FROM photos WHERE album = 1", "MALFORMED_REQUEST"],
  ["SELECT * FROM photos WHERE album = 'x'", "TYPE_MISMATCH"],
  ["SELECT * FROM photos WHERE album = 9223372036854775808", "TYPE_MISMATCH"],
  ["SELECT * FROM photos WHERE album = 1.0", "TYPE_MISMATCH"],
  ["SELECT * FROM photos WHERE album = null", "CQL_UNSUPPORTED"],
  ["SELECT * FROM photos WHERE album = 1 AND album = 2", "CQL_SYNTAX"],
  ["SELECT * FROM photos WHERE album = 1 AND id > 1 AND id >= 2", "CQL_SYNTAX"],
  ["SELECT * FROM photos WHERE album = 1 AND id > 1 AND id = 2", "CQL_SYNTAX"],
  ["SELECT * FROM photos WHERE album = 1 AND id = 1 AND id < 2", "CQL_SYNTAX"],
  ["SELECT * FROM photos WHERE album = 1 ORDER BY title", "CQL_UNSUPPORTED"],
  ["SELECT * FROM photos WHERE album = 1 ORDER BY album", "CQL_UNSUPPORTED"],
  ["SELECT * FROM events WHERE device = 01234567-89ab-cdef-0123-456789abcdef AND day = 3 ORDER BY at DESC, part ASC", "CQL_UNSUPPORTED"],
  ["SELECT * FROM events WHERE device = 01234567-89ab-cdef-0123-456789abcdef AND day = 3 ORDER BY part", "CQL_UNSUPPORTED"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT 0", "MALFORMED_REQUEST"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT -1", "MALFORMED_REQUEST"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT 1000001", "LIMIT_EXCEEDED"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT 'x'", "TYPE_MISMATCH"],
  ["SELECT * FROM photos WHERE album = 1 LIMIT null", "TYPE_MISMATCH"],
];

for (const [cql, code] of refused) {
  test(`[TX24] planRead: ${cql}: ${code}`, () => {
    assert.throws(() => planOf(cql), { code });
  });
}

test("[TX24] planRead: binds for values and LIMIT: as literals", () => {
  const cql = "SELECT id FROM photos WHERE album = ? AND id > ? LIMIT ?";
  assert.equal(shownPlan(cql, [bigint(1), bigint(5), int(3)]), "range photos[1] >5 max 3");
  for (const binds of [
    [int(1), bigint(5), int(3)],
    [bigint(1), bigint(5), bigint(3)],
    [bigint(1), text("5"), int(3)],
  ]) {
    assert.throws(() => planOf(cql, binds), { code: "TYPE_MISMATCH" });
  }
  for (const binds of [[], [bigint(1)], [bigint(1), bigint(5), int(3), int(3)]]) {
    assert.throws(() => planOf(cql, binds), { code: "MALFORMED_REQUEST" });
  }
});

test("planRead: projection: the columns asked for in their order, all without one", () => {
  const some = planOf("SELECT title, album FROM photos WHERE album = 1");
  const all = planOf("SELECT * FROM photos WHERE album = 1");
  assert.ok(some.kind === "read-range" && all.kind === "read-range");
  assert.deepEqual([some.columns, all.columns.length], [["title", "album"], PHOTOS.columns.length]);
});

test("[TX20] planRead: two indexes serve a query: the one with fewest other columns, whose rows with a null are missing", () => {
  const catalogue = catalogueFrom(
    "CREATE TABLE t (id int PRIMARY KEY, a int, b int)",
    "CREATE INDEX ab ON t (a, b)",
    "CREATE INDEX a ON t (a)",
  );
  const plan = planOf("SELECT * FROM t WHERE a = 1", [], catalogue);
  assert.ok(plan.kind === "read-index");
  assert.deepEqual(
    plan.scans.map((scan) => scan.index.name),
    ["a"],
  );
});

test("planReadRows: keys of one table: checked; too many or a wrong one refused", () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => photoKey(1, at));
  const plan = planReadRows(CATALOGUE, "photos", many(SCHEMA_LIMITS.keysPerReadMax), ["title"]);
  assert.ok(plan.kind === "read-rows" && plan.keys.length === SCHEMA_LIMITS.keysPerReadMax);
  assert.throws(() => planReadRows(CATALOGUE, "photos", many(SCHEMA_LIMITS.keysPerReadMax + 1)), { code: "LIMIT_EXCEEDED" });
  assert.throws(() => planReadRows(CATALOGUE, "albums", many(1)), { code: "MALFORMED_REQUEST" });
});

test("planReadRange: a range by positions: checked as validateRange does", () => {
  const range: RowRange = { table: "photos", partition: [bigint(1)], reverse: true, limit: 10 };
  assert.deepEqual(planReadRange(CATALOGUE, range, ["id"], 5), { kind: "read-range", table: "photos", columns: ["id"], range, limit: 5 });
  assert.throws(() => planReadRange(CATALOGUE, { ...range, limit: 0 }), { code: "LIMIT_EXCEEDED" });
  assert.throws(() => planReadRange(CATALOGUE, { ...range, table: "nope" }), { code: "TABLE_UNKNOWN" });
});

test("planRead: two constraints on one column: MALFORMED_REQUEST", () => {
  const equal: Constraint = { kind: "equal", column: "album", value: bigint(1) };
  assert.throws(() => planRead(CATALOGUE, { table: "photos", columns: undefined, where: [equal, equal], order: [], limit: undefined }), {
    code: "MALFORMED_REQUEST",
  });
});

// Any accepted plan, carried out on rows and index rows, against filtering all rows.

const tables: readonly TableDefinition[] = [PHOTOS, ...wide()];

function wide(): TableDefinition[] {
  const catalogue = catalogueFrom(
    "CREATE TABLE wide (p1 int, p2 int, c1 int, c2 int, a int, b int, PRIMARY KEY ((p1, p2), c1, c2))",
    "CREATE INDEX ON wide (a, b)",
    "CREATE INDEX ON wide (b, c2)",
    "CREATE INDEX ON wide (p1)",
  );
  return [...catalogue.tables.values()];
}

const small = fc.integer({ min: 0, max: 2 });

function valueAs(definition: TableDefinition, column: string, at: number): CellValue {
  const { type } = definition.columns.find((candidate) => candidate.name === column)!;
  if (type === "text") return text(`v${at}`);
  return type === "int" ? int(at) : { kind: type === "timestamp" ? "timestamp" : "bigint", value: BigInt(at) };
}

function rowsOf(definition: TableDefinition): fc.Arbitrary<Row[]> {
  const cells = fc.array(fc.option(small, { nil: null, freq: 8 }), {
    minLength: definition.columns.length,
    maxLength: definition.columns.length,
  });
  const row = cells.map((given): Row => {
    const at = (column: string): CellValue | undefined => {
      const cell = given[definition.columns.findIndex((candidate) => candidate.name === column)];
      return cell === null || cell === undefined ? undefined : valueAs(definition, column, cell);
    };
    const key = (columns: readonly string[]): CellValue[] => columns.map((column) => at(column) ?? valueAs(definition, column, 0));
    const others = definition.columns
      .map((column) => column.name)
      .filter((name) => !definition.partitionKey.includes(name) && !definition.clusteringKey.includes(name));
    const columns = others.flatMap((name): [string, CellValue][] => (at(name) === undefined ? [] : [[name, at(name)!]]));
    return {
      key: { table: definition.name, partition: key(definition.partitionKey), clustering: key(definition.clusteringKey) },
      columns: new Map(columns),
      newestUs: timestampUsOf(0n),
    };
  });
  return fc.array(row, { maxLength: 40, size: "max" }).map((all) => [...new Map(all.map((one) => [keyText(one.key), one])).values()]);
}

function requestOf(definition: TableDefinition): fc.Arbitrary<ReadRequest> {
  const names = definition.columns.map((column) => column.name);
  const bound = (column: string) =>
    fc.option(fc.record({ value: small.map((at) => valueAs(definition, column, at)), inclusive: fc.boolean() }), { nil: undefined });
  const constraint = (column: string): fc.Arbitrary<Constraint> =>
    fc.oneof(
      { weight: 3, arbitrary: small.map((at): Constraint => ({ kind: "equal", column, value: valueAs(definition, column, at) })) },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant("range" as const),
          column: fc.constant(column),
          lower: bound(column),
          upper: bound(column),
        }),
      },
    );
  return fc.record({
    table: fc.constant(definition.name),
    columns: fc.constant(undefined),
    where: fc.subarray(names, { minLength: 1, maxLength: 4 }).chain((columns) => fc.tuple(...columns.map(constraint))),
    order: fc
      .option(fc.record({ column: fc.constantFrom(...names), descending: fc.boolean() }), { nil: undefined })
      .map((one) => (one === undefined ? [] : [one])),
    limit: fc.constant(undefined),
  });
}

function satisfies(definition: TableDefinition, row: Row, constraint: Constraint): boolean {
  const value = valueOf(definition, row, constraint.column);
  if (value === undefined) return false;
  if (constraint.kind === "equal") return compareValues(value, constraint.value) === 0;
  const { lower, upper } = constraint;
  const above = lower === undefined || compareValues(value, lower.value) > (lower.inclusive ? -1 : 0);
  return above && (upper === undefined || compareValues(value, upper.value) < (upper.inclusive ? 1 : 0));
}

/** Rows of a range of the table, or of an index's table made from its rows, in the range's order. */
function readRange(rows: readonly Row[], range: RowRange): Row[] {
  const found = rows.filter((row) => inRange(range, row.key));
  return found.toSorted((left, right) => compareClustering(left.key.clustering, right.key.clustering) * (range.reverse ? -1 : 1));
}

function carriedOut(definition: TableDefinition, rows: readonly Row[], plan: ReadPlan): Row[] {
  if (plan.kind === "read-rows") return rows.filter((row) => plan.keys.some((key) => keyText(key) === keyText(row.key)));
  if (plan.kind === "read-range") return readRange(rows, plan.range);
  const [first, ...others] = plan.scans.map(({ index, range }) => {
    const indexRows = rows.flatMap((row): Row[] => {
      const key = indexKeyOf(definition, index, row);
      if (key === undefined) return [];
      const columns = indexColumnsOf(definition, index, row).map(({ column, value }): [string, CellValue] => [column, value!]);
      return [{ key, columns: new Map(columns), newestUs: timestampUsOf(0n) }];
    });
    return readRange(indexRows, range).map((row) => baseRowOf(definition, index, row));
  });
  return first!.filter((row) => others.every((other) => other.some((candidate) => keyText(candidate.key) === keyText(row.key))));
}

for (const definition of tables) {
  test(`[TX20] [TX22] [TX28] planRead: any query on ${definition.name}: refused, or exactly the (indexed) rows that satisfy it, in the order asked for`, () => {
    const catalogue = { version: 1n, tables: new Map([[definition.name, definition]]), storageTables: new Map() };
    const kinds = new Map<string, number>();
    fc.assert(
      fc.property(rowsOf(definition), requestOf(definition), (rows, request) => {
        let plan: ReadPlan;
        try {
          plan = planRead(catalogue, request);
        } catch (thrown) {
          assert.ok(thrown instanceof ConcordError && (thrown.code === "SCAN_REFUSED" || thrown.code === "CQL_UNSUPPORTED"));
          kinds.set(thrown.code, (kinds.get(thrown.code) ?? 0) + 1);
          return;
        }
        const kind = plan.kind === "read-index" && plan.scans.length > 1 ? "intersection" : plan.kind;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
        const found = carriedOut(definition, rows, plan);
        const indexed = plan.kind === "read-index" ? plan.scans.flatMap((scan) => scan.index.columns) : [];
        const isIndexed = (row: Row): boolean => indexed.every((column) => valueOf(definition, row, column) !== undefined);
        const expected = rows.filter(
          (row) => isIndexed(row) && request.where.every((constraint) => satisfies(definition, row, constraint)),
        );
        assert.deepEqual(found.map(essence).toSorted(), expected.map(essence).toSorted());
        const [order] = request.order;
        if (order === undefined || plan.kind === "read-rows") return;
        const values = found.map((row) => valueOf(definition, row, order.column)!);
        const sorted = values.toSorted((left, right) => compareValues(left, right) * (order.descending ? -1 : 1));
        assert.deepEqual(values, sorted);
      }),
      { numRuns: 4000, seed: 20261121 },
    );
    for (const kind of ["read-range", "read-index", "intersection", "SCAN_REFUSED", "CQL_UNSUPPORTED"])
      assert.ok((kinds.get(kind) ?? 0) > 0, `${kind} was never met`);
  });
}

function essence(row: Row): string {
  return [keyText(row.key), ...[...row.columns].map(([column, value]) => `${column}=${String(value.value)}`).toSorted()].join(" ");
}
