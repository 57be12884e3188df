import type { ColumnWrite, Mutation, RowImage, RowKey, RowRange, RowStore } from "@concord/ports";
import { liveRow } from "@concord/rows";
import type { CellValue } from "@concord/values";
import { CELL_TYPES } from "@concord/values";
import { rowOfEveryType, sampleCells } from "@concord/values/testing";
import { timestampUsOf } from "@concord/runtime";
import { expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

type Case = ContractCase<RowStore>;

/** Of what must succeed: a real engine shares its machine with everything else. */
const OPTIONS = { timeoutMs: 60_000 };
const text = (value: string): CellValue => ({ kind: "text", value });
const bigint = (value: number): CellValue => ({ kind: "bigint", value: BigInt(value) });
const key = (partition: string, ...clustering: CellValue[]): RowKey => ({ table: "notes", partition: [text(partition)], clustering });
const write = (kind: "insert" | "update", of: RowKey, columns: Readonly<Record<string, CellValue | null>>, at: number): Mutation => ({
  kind,
  key: of,
  columns: Object.entries(columns).map(([column, value]): ColumnWrite => ({ column, value })),
  timestampUs: timestampUsOf(BigInt(at)),
});
const insert = (of: RowKey, columns: Readonly<Record<string, CellValue | null>>, at: number): Mutation => write("insert", of, columns, at);
const update = (of: RowKey, columns: Readonly<Record<string, CellValue | null>>, at: number): Mutation => write("update", of, columns, at);
const remove = (of: RowKey, at: number): Mutation => ({ kind: "delete", key: of, timestampUs: timestampUsOf(BigInt(at)) });

const ROW = key("p", bigint(1));

/** The live columns of a row; undefined when nothing of it lives. */
async function columnsOf(store: RowStore, of: RowKey): Promise<ReadonlyMap<string, CellValue> | undefined> {
  return liveRow((await store.read([of], OPTIONS))[0])?.columns;
}

async function expectColumns(
  store: RowStore,
  of: RowKey,
  columns: Readonly<Record<string, CellValue>> | undefined,
  what: string,
): Promise<void> {
  expectEqual(await columnsOf(store, of), columns && new Map(Object.entries(columns)), what);
}

/** What a row is after these mutations, one call each. */
function after(name: string, mutations: readonly Mutation[], columns: Readonly<Record<string, CellValue>> | undefined): Case {
  return simple(name, async (store) => {
    for (const mutation of mutations) await store.apply([mutation], OPTIONS);
    await expectColumns(store, ROW, columns, "row");
  });
}

function simple(name: string, run: (store: RowStore) => Promise<void>): Case {
  return { name, run: async (open) => run(await open()) };
}

const ALL_TYPES = rowOfEveryType();

const READ_CASES: readonly Case[] = [
  simple("read: never written: undefined", async (store) => expectEqual(await store.read([ROW], OPTIONS), [undefined], "read")),
  simple("read: several keys: answers in their order, a key twice answered twice", async (store) => {
    await store.apply(
      [1, 2].map((at) => insert(key("p", bigint(at)), { n: bigint(at) }, 1)),
      OPTIONS,
    );
    const images = await store.read(
      [2, 3, 1, 2].map((at) => key("p", bigint(at))),
      OPTIONS,
    );
    expectEqual(
      images.map((image) => liveRow(image)?.columns.get("n")),
      [bigint(2), undefined, bigint(1), bigint(2)],
      "rows",
    );
  }),
  simple("read: a value of every type: as written", async (store) => {
    await store.apply([insert(ROW, ALL_TYPES, 1)], OPTIONS);
    await expectColumns(store, ROW, ALL_TYPES, "row");
  }),
  simple("read: a key of every type: found, and carried in the row", async (store) => {
    const of: RowKey = { table: "notes", partition: Object.values(ALL_TYPES).slice(0, 4), clustering: Object.values(ALL_TYPES).slice(4) };
    await store.apply([insert(of, { v: text("x") }, 1)], OPTIONS);
    expectEqual(liveRow((await store.read([of], OPTIONS))[0])?.key, of, "key");
  }),
  simple("read: equal keys in another table or partition: other rows", async (store) => {
    await store.apply([insert(ROW, { v: text("x") }, 1)], OPTIONS);
    const others: RowKey[] = [{ ...ROW, table: "note" }, { ...ROW, table: "notes2" }, key("p2", bigint(1)), key("", bigint(1))];
    expectEqual(
      (await store.read(others, OPTIONS)).map(liveRow),
      others.map(() => undefined),
      "rows",
    );
  }),
  simple("read: newest timestamp: of everything in the row, tombstones included", async (store) => {
    await store.apply([insert(ROW, { a: text("x"), b: text("y") }, 3), update(ROW, { b: null }, 9)], OPTIONS);
    expectEqual(liveRow((await store.read([ROW], OPTIONS))[0])?.newestUs, 9n, "newestUs");
  }),
];

const CONFLICT_CASES: readonly Case[] = [
  after("insert: without columns: the row exists", [insert(ROW, {}, 1)], {}),
  after("insert: all columns null: the row exists", [insert(ROW, { v: null }, 1)], {}),
  after("update: sets columns of a row that was never inserted: it lives by its columns", [update(ROW, { v: text("x") }, 1)], {
    v: text("x"),
  }),
  after(
    "update: its only column set to null again: the row is gone",
    [update(ROW, { v: text("x") }, 1), update(ROW, { v: null }, 2)],
    undefined,
  ),
  after("update: an inserted row's column set to null: the row stays", [insert(ROW, { v: text("x") }, 1), update(ROW, { v: null }, 2)], {}),
  after("conflict: the older write comes last: the newer stays", [insert(ROW, { v: text("new") }, 9), insert(ROW, { v: text("old") }, 3)], {
    v: text("new"),
  }),
  after(
    "conflict: columns have timestamps of their own: each keeps its newest",
    [update(ROW, { a: text("a9"), b: text("b2") }, 2), update(ROW, { a: text("a9") }, 9), update(ROW, { a: text("a5"), b: text("b5") }, 5)],
    { a: text("a9"), b: text("b5") },
  ),
  after(
    "conflict: equal timestamps: the larger value, whatever the order",
    [update(ROW, { v: text("b") }, 5), update(ROW, { v: text("a") }, 5)],
    { v: text("b") },
  ),
  after("conflict: equal timestamps: null wins over a value", [insert(ROW, { v: null }, 5), update(ROW, { v: text("z") }, 5)], {}),
  after("delete: everything at or below its timestamp is gone", [insert(ROW, { v: text("x") }, 5), remove(ROW, 5)], undefined),
  after("delete: comes before the older write it hides: the row stays gone", [remove(ROW, 5), insert(ROW, { v: text("x") }, 4)], undefined),
  after("delete: on a tie with an insert: the row is gone", [remove(ROW, 5), insert(ROW, { v: text("x") }, 5)], undefined),
  after("delete: newer cells stay", [insert(ROW, { a: text("a"), b: text("b") }, 3), update(ROW, { b: text("new") }, 9), remove(ROW, 5)], {
    b: text("new"),
  }),
  after(
    "delete: one tick before an insert: a new row without the old columns",
    [insert(ROW, { a: text("a") }, 1), remove(ROW, 8), insert(ROW, { b: text("b") }, 9)],
    { b: text("b") },
  ),
  after("delete: of a row that never was: nothing", [remove(ROW, 5)], undefined),
];

const APPLY_CASES: readonly Case[] = [
  simple("apply: any order, any number of times: the same image", async (store) => {
    const mutations = (of: RowKey): Mutation[] => [
      insert(of, { a: text("a") }, 3),
      remove(of, 5),
      update(of, { a: text("b"), c: null }, 7),
      insert(of, { d: text("d") }, 6),
    ];
    const other = key("p", bigint(2));
    await store.apply(mutations(ROW), OPTIONS);
    for (const mutation of [...mutations(other).toReversed(), ...mutations(other)]) await store.apply([mutation], OPTIONS);
    const [left, right] = (await store.read([ROW, other], OPTIONS)) as [RowImage, RowImage];
    expectEqual({ ...left, key: undefined }, { ...right, key: undefined }, "images");
  }),
  simple("apply: many rows in one call, one row several times: all of them", async (store) => {
    const rows = Array.from({ length: 1500 }, (_, at) => key(`p${at % 7}`, bigint(at)));
    await store.apply(
      [...rows.map((of, at) => insert(of, { n: bigint(at) }, 1)), update(rows[3]!, { n: bigint(-1) }, 2), remove(rows[4]!, 2)],
      OPTIONS,
    );
    const images = await store.read(rows, OPTIONS);
    const expected = rows.map((_, at) => (at === 3 ? bigint(-1) : at === 4 ? undefined : bigint(at)));
    expectEqual(
      images.map((image) => liveRow(image)?.columns.get("n")),
      expected,
      "rows",
    );
  }),
  simple("apply: nothing: resolves", async (store) => store.apply([], OPTIONS)),
];

const RANGE: RowRange = { table: "notes", partition: [text("p")], reverse: false, limit: 100 };

async function numbered(store: RowStore, numbers: readonly number[]): Promise<void> {
  await store.apply(
    numbers.map((at) => insert(key("p", bigint(at)), { n: bigint(at) }, 1)),
    OPTIONS,
  );
}

/** The last clustering value of each row, page after page. */
async function readAll(store: RowStore, range: RowRange): Promise<{ values: unknown[]; pages: number }> {
  const values: unknown[] = [];
  let after: readonly CellValue[] | undefined;
  for (let pages = 1; ; pages += 1) {
    const page = await store.readRange(after === undefined ? range : { ...range, after }, OPTIONS);
    if (page.rows.length > range.limit) expectEqual(page.rows.length, range.limit, "rows of a page");
    values.push(...page.rows.map((image) => image.key.clustering.at(-1)!.value));
    if (page.next === undefined) return { values, pages };
    after = page.next;
  }
}

function range(name: string, numbers: readonly number[], narrowed: Partial<RowRange>, expected: readonly number[]): Case {
  return simple(name, async (store) => {
    await numbered(store, numbers);
    expectEqual((await readAll(store, { ...RANGE, ...narrowed })).values, expected.map(BigInt), "rows");
  });
}

const RANGE_CASES: readonly Case[] = [
  range("readRange: empty partition: nothing", [], {}, []),
  range("readRange: in clustering order, negative numbers first", [3, -1, 20, -300, 0], {}, [-300, -1, 0, 3, 20]),
  range("readRange: reverse: the other way round", [3, -1, 20], { reverse: true }, [20, 3, -1]),
  range(
    "readRange: inclusive bounds: with them",
    [1, 2, 3, 4, 5],
    { lower: { prefix: [bigint(2)], inclusive: true }, upper: { prefix: [bigint(4)], inclusive: true } },
    [2, 3, 4],
  ),
  range(
    "readRange: exclusive bounds: without them",
    [1, 2, 3, 4, 5],
    { lower: { prefix: [bigint(2)], inclusive: false }, upper: { prefix: [bigint(4)], inclusive: false } },
    [3],
  ),
  range(
    "readRange: reverse with bounds: the same rows",
    [1, 2, 3, 4, 5],
    { reverse: true, lower: { prefix: [bigint(2)], inclusive: false }, upper: { prefix: [bigint(4)], inclusive: true } },
    [4, 3],
  ),
  range(
    "readRange: inverted bounds: nothing",
    [1, 2, 3],
    { lower: { prefix: [bigint(3)], inclusive: true }, upper: { prefix: [bigint(1)], inclusive: true } },
    [],
  ),
  range("readRange: pages of two: every row once", [1, 2, 3, 4, 5, 6, 7], { limit: 2 }, [1, 2, 3, 4, 5, 6, 7]),
  range("readRange: pages of two in reverse: every row once", [1, 2, 3, 4, 5], { limit: 2, reverse: true }, [5, 4, 3, 2, 1]),
  range("readRange: after a key that is no row: what comes behind it", [1, 2, 5, 6], { after: [bigint(3)] }, [5, 6]),
  ...CELL_TYPES.map((type) =>
    simple(`readRange: clustering key of type ${type}: ascending, and between bounds`, async (store) => {
      const cells = sampleCells(type);
      await store.apply(
        cells.toReversed().map((cell) => insert(key("p", cell), {}, 1)),
        OPTIONS,
      );
      const rest = { lower: { prefix: [cells[0]!], inclusive: false } };
      const contents = cells.map(({ value }) => value);
      expectEqual((await readAll(store, RANGE)).values, contents, "all");
      expectEqual((await readAll(store, { ...RANGE, ...rest, limit: 1 })).values, contents.slice(1), "above the first, page by page");
      expectEqual((await readAll(store, { ...RANGE, reverse: true })).values, contents.toReversed(), "in reverse");
    }),
  ),
  simple("readRange: texts: by their bytes, a prefix first", async (store) => {
    const names = ["b", "a", "aa", "", "ä", "a\u0000", "Z"];
    await store.apply(
      names.map((name) => insert(key("p", text(name)), {}, 1)),
      OPTIONS,
    );
    expectEqual((await readAll(store, RANGE)).values, ["", "Z", "a", "a\u0000", "aa", "b", "ä"], "rows");
  }),
  simple("readRange: bounds that are a prefix of the clustering key: all rows below it", async (store) => {
    for (const first of ["a", "b", "c"])
      await store.apply(
        [1, 2].map((at) => insert(key("p", text(first), bigint(at)), {}, 1)),
        OPTIONS,
      );
    const bounds = (inclusive: boolean): Partial<RowRange> => ({
      lower: { prefix: [text("a")], inclusive },
      upper: { prefix: [text("b")], inclusive: true },
    });
    expectEqual((await readAll(store, { ...RANGE, ...bounds(true) })).values, [1n, 2n, 1n, 2n], "inclusive");
    expectEqual((await readAll(store, { ...RANGE, ...bounds(false) })).values, [1n, 2n], "exclusive");
  }),
  simple("readRange: other partitions and tables: not in it", async (store) => {
    await numbered(store, [1, 2]);
    const others = [key("p2", bigint(1)), key("", bigint(1)), { ...ROW, table: "notes2" }, { ...ROW, table: "note" }];
    await store.apply(
      others.map((of) => insert(of, {}, 1)),
      OPTIONS,
    );
    expectEqual((await readAll(store, RANGE)).values, [1n, 2n], "rows");
  }),
  simple("readRange: dead rows between: skipped, and pages are filled", async (store) => {
    await numbered(
      store,
      Array.from({ length: 120 }, (_, at) => at),
    );
    await store.apply(
      Array.from({ length: 118 }, (_, at) => remove(key("p", bigint(at + 1)), 2)),
      OPTIONS,
    );
    const page = await store.readRange({ ...RANGE, limit: 2 }, OPTIONS);
    expectEqual(
      page.rows.map((image) => image.key.clustering[0]!.value),
      [0n, 119n],
      "rows",
    );
  }),
  simple("readRange: only dead rows: nothing, and no end of it in sight means no next", async (store) => {
    await numbered(store, [1, 2, 3]);
    await store.apply(
      [1, 2, 3].map((at) => remove(key("p", bigint(at)), 2)),
      OPTIONS,
    );
    expectEqual((await readAll(store, { ...RANGE, limit: 1 })).values, [], "rows");
  }),
  simple("readRange: a partition larger than a page of a replica: complete", async (store) => {
    const numbers = Array.from({ length: 2300 }, (_, at) => at);
    await numbered(store, numbers);
    expectEqual((await readAll(store, { ...RANGE, limit: 1000 })).values, numbers.map(BigInt), "rows");
  }),
];

export const ROW_STORE_CASES: readonly Case[] = [...READ_CASES, ...CONFLICT_CASES, ...APPLY_CASES, ...RANGE_CASES];

/** The newest timestamp that `apply` reports as superseding this mutation. */
async function superseding(store: RowStore, mutation: Mutation): Promise<bigint | undefined> {
  let newestUs: bigint | undefined;
  await store.apply([mutation], { ...OPTIONS, onSuperseded: (heldUs) => void (newestUs = heldUs) });
  return newestUs;
}

function superseded(name: string, stored: readonly Mutation[], mutation: Mutation, expected: bigint | undefined): Case {
  return simple(`superseded: ${name}`, async (store) => {
    for (const each of stored) await store.apply([each], OPTIONS);
    expectEqual(await superseding(store, mutation), expected, "reported");
    expectEqual(await superseding(store, mutation), expected, "a repeat");
  });
}

/** Cases of a backend's stores, where plain rows are written: a port behind them may leave the report out. */
export const SUPERSEDED_CASES: readonly Case[] = [
  superseded("an insert below a newer cell: reported", [insert(ROW, { v: text("new") }, 9)], insert(ROW, { v: text("old") }, 3), 9n),
  superseded("an update below a newer null: reported", [insert(ROW, { v: null }, 9)], update(ROW, { v: text("old") }, 3), 9n),
  superseded("an insert below a deletion: reported", [remove(ROW, 9)], insert(ROW, { v: text("old") }, 3), 9n),
  superseded("a deletion below a newer cell: reported", [insert(ROW, { v: text("new") }, 9)], remove(ROW, 3), 9n),
  superseded("a deletion below a newer deletion: nothing is lost", [remove(ROW, 9)], remove(ROW, 3), undefined),
  superseded(
    "a newer cell of another column: nothing is lost",
    [insert(ROW, { a: text("a") }, 9)],
    update(ROW, { b: text("b") }, 3),
    undefined,
  ),
  superseded(
    "above older cells, and of a new row: nothing is lost",
    [insert(ROW, { v: text("old") }, 3)],
    insert(ROW, { v: text("v") }, 9),
    undefined,
  ),
];

/** Registers one test per promise of the RowStore port. `open` gives an empty store each time. */
export function rowStoreContract(test: TestFunction, open: () => Promise<RowStore>): void {
  registerContract(test, "RowStore", ROW_STORE_CASES, open);
}
