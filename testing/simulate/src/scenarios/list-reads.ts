import type { MicroOperation } from "@concord/checkers";
import type { ConcordClient, Row, Transaction } from "@concord/client";
import type { SeededRandom, World } from "@concord/simulation";
import { reportBug } from "../outcome.ts";

export interface ListRow {
  readonly k: bigint;
  readonly elements: string;
}

/** How a transaction reads a list by its key: only `lock` takes the lock that the append needs. */
export const ROW_READS = ["lock", "read", "readMany", "select"] as const;
export type RowRead = (typeof ROW_READS)[number];

export function elementsOf(row: ListRow | undefined): number[] {
  return row === undefined ? [] : row.elements.split(" ").map(Number);
}

/** The row under a lock that the transaction keeps; beside it the next key's, read by the same call, where one call reads several. */
export async function readRows(
  txn: Transaction,
  entity: bigint,
  k: bigint,
  by: RowRead,
  mode: "exclusive" | "shared",
): Promise<ReadonlyMap<bigint, ListRow | undefined>> {
  switch (by) {
    case "lock":
      return new Map([[k, await txn.lock<ListRow>("lists", { entity, k }, { mode })]]);
    case "read":
      return new Map([[k, await txn.read<ListRow>("lists", { entity, k })]]);
    case "readMany": {
      const keys = [k, k + 1n];
      const rows = await txn.readMany<ListRow>(
        "lists",
        keys.map((key) => ({ entity, k: key })),
      );
      return new Map(keys.map((key, at) => [key, rows[at]]));
    }
    case "select": {
      const { rows } = await txn.query<ListRow>("SELECT * FROM lists WHERE entity = ? AND k = ?", [entity, k]);
      return new Map([[k, rows[0]]]);
    }
  }
}

type OutsideRead = (db: ConcordClient, entity: bigint, keys: readonly bigint[], timeoutMs: number) => Promise<readonly Row[]>;

const OUTSIDE_READS: readonly OutsideRead[] = [
  async (db, entity, keys, timeoutMs) => {
    const rows = await db.readMany(
      "lists",
      keys.map((k) => ({ entity, k })),
      { timeoutMs },
    );
    return rows.filter((row) => row !== undefined);
  },
  (db, entity, _keys, timeoutMs) => allOf(db.readRange<Row>("lists", { partition: { entity } }, { timeoutMs })),
  (db, entity, _keys, timeoutMs) =>
    allOf(db.queryRows<Row>("SELECT * FROM lists WHERE entity = ? AND size > ?", [entity, 0], { timeoutMs })),
];

async function allOf(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

/** A client that has committed reads its rows from outside of transactions, in the fast mode: each element that it appended is there (TX30). */
export async function lookAtOwn(
  { cluster: { world, swarm } }: { readonly cluster: { readonly world: World; readonly swarm: { readonly timeoutMs: number } } },
  db: ConcordClient,
  random: SeededRandom,
  entity: bigint,
  operations: readonly MicroOperation[],
): Promise<void> {
  const own = operations.filter((operation) => operation.kind === "append");
  const look = random.pick(OUTSIDE_READS);
  if (own.length === 0) return;
  const keys = [...new Set(own.map(({ key }) => BigInt(key.split("/")[1]!)))];
  try {
    const rows = (await look(db, entity, keys, swarm.timeoutMs)) as readonly (Row & ListRow)[];
    world.count("sim:op-own-look");
    for (const { key, element } of own) {
      const row = rows.find(({ k }) => key === `${entity}/${k}`);
      if (!elementsOf(row).includes(Number(element)))
        world.violation("own commit not read", `${key}: ${element}, which its client committed, is not in ${row?.elements}`);
    }
  } catch (thrown) {
    reportBug(world, "look at own commits", thrown);
  }
}
