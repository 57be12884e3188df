import type { Row, RowKey } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { TIMESTAMP_ZERO } from "@concord/runtime";
import { catalogueOf, parse, plan, withTable, type Plan, type SchemaCatalogue, type TableDefinition } from "../index.ts";

/** The tables of the tests: albums and their photos, and a plain one. */
export const bigint = (value: bigint | number): CellValue => ({ kind: "bigint", value: BigInt(value) });
export const int = (value: number): CellValue => ({ kind: "int", value });
export const text = (value: string): CellValue => ({ kind: "text", value });
export const timestamp = (value: bigint | number): CellValue => ({ kind: "timestamp", value: BigInt(value) });

export const ALBUMS: TableDefinition = {
  name: "albums",
  kind: "transactional",
  columns: [
    { name: "id", type: "bigint" },
    { name: "title", type: "text" },
    { name: "photos", type: "int" },
  ],
  partitionKey: ["id"],
  clusteringKey: [],
  indexes: [],
  version: 1n,
};

export const PHOTOS: TableDefinition = {
  name: "photos",
  kind: "transactional",
  columns: [
    { name: "album", type: "bigint" },
    { name: "id", type: "bigint" },
    { name: "owner", type: "bigint" },
    { name: "modified", type: "timestamp" },
    { name: "status", type: "text" },
    { name: "title", type: "text" },
  ],
  partitionKey: ["album"],
  clusteringKey: ["id"],
  indexes: [
    { name: "by_owner", columns: ["owner", "modified"] },
    { name: "by_status", columns: ["status"] },
    { name: "by_album", columns: ["album", "modified"] },
  ],
  version: 1n,
};

export const EVENTS: TableDefinition = {
  name: "events",
  kind: "plain",
  columns: [
    { name: "device", type: "uuid" },
    { name: "day", type: "int" },
    { name: "at", type: "timestamp" },
    { name: "part", type: "int" },
    { name: "level", type: "double" },
    { name: "raw", type: "blob" },
    { name: "seen", type: "boolean" },
  ],
  partitionKey: ["device", "day"],
  clusteringKey: ["at", "part"],
  indexes: [],
  version: 1n,
};

export const NODES: TableDefinition = { ...ALBUMS, name: "concord_nodes" };

export const CATALOGUE: SchemaCatalogue = catalogueOf(7n, [ALBUMS, PHOTOS, EVENTS, NODES]);

export const NOW_MS = 1_790_000_000_123;

/** A clock that stands still and random numbers that count up: the tests plan the same statement to the same plan. */
export function planContext(): Parameters<typeof plan>[3] {
  let next = 0;
  const clock = { nowMs: () => NOW_MS, nowUs: () => BigInt(NOW_MS) * 1000n, monotonicMs: () => 0 };
  const never = (): never => {
    throw new Error("planning sets no timer");
  };
  const random = {
    bytes: (length: number) => new Uint8Array(length).map(() => (next += 1) % 256),
    below: () => 0,
    float: () => 0,
  };
  return { clock: { ...clock, setTimer: never, defer: never }, random };
}

export function planOf(cql: string, binds: readonly (CellValue | null)[] = [], catalogue: SchemaCatalogue = CATALOGUE): Plan {
  return plan(parse(cql), catalogue, binds, planContext());
}

/** A catalogue built by CREATE statements. */
export function catalogueFrom(...statements: readonly string[]): SchemaCatalogue {
  return statements.reduce(
    (catalogue, statement) => {
      const made = planOf(statement, [], catalogue);
      if (made.kind !== "create-table" && made.kind !== "create-index") throw new Error("not a schema statement");
      return withTable(catalogue, made.definition, catalogue.version + 1n);
    },
    catalogueOf(1n, []),
  );
}

export function photoKey(album: number, id: number): RowKey {
  return { table: "photos", partition: [bigint(album)], clustering: [bigint(id)] };
}

export function photo(album: number, id: number, columns: Readonly<Record<string, CellValue>>, newestUs = TIMESTAMP_ZERO): Row {
  return { key: photoKey(album, id), columns: new Map(Object.entries(columns)), newestUs };
}
