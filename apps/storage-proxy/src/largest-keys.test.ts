// What the schema allows must be applicable: a commit that is logged and cannot be applied would stop its group for ever.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import type { Row, RowKey } from "@concord/ports";
import { indexKeyOf, SCHEMA_LIMITS, validateDefinition, validateKey, type TableDefinition } from "@concord/schema";
import { keyToWire } from "@concord/rows-wire";
import type { CellValue } from "@concord/values";
import { timestampUsOf } from "@concord/runtime";
import { COORDINATOR, MemoryRing } from "./test/memory-ring.ts";

let ring: MemoryRing;

afterEach(() => ring.stop());

const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${prefix}${at}`);
const longest = "x".repeat(SCHEMA_LIMITS.nameLengthMax);
const keyColumns = names("k", SCHEMA_LIMITS.keyColumnsMax);
const indexed = names("c", SCHEMA_LIMITS.indexColumnsMax);

/** Every limit of the schema at once. */
const WIDEST: TableDefinition = validateDefinition({
  name: longest,
  kind: "transactional",
  columns: [...keyColumns, ...indexed].map((name) => ({ name, type: "text" })),
  partitionKey: keyColumns.slice(0, 1),
  clusteringKey: keyColumns.slice(1),
  indexes: [{ name: longest, columns: indexed }],
  version: 1n,
});

test("[TX21] apply: the largest key and the largest index key the schema allows: taken and read again", async () => {
  ring = new MemoryRing({ size: 1 });
  await ring.start();
  const node = ring.nodes[0]!;
  // a zero takes two bytes in a key
  const value: CellValue = { kind: "text", value: "\0".repeat(SCHEMA_LIMITS.keyValueBytesMax) };
  const key: RowKey = { table: longest, partition: [value], clustering: keyColumns.slice(1).map(() => value) };
  const row: Row = { key: validateKey(WIDEST, key), columns: new Map(indexed.map((name) => [name, value])), newestUs: timestampUsOf(1n) };
  const indexKey = indexKeyOf(WIDEST, WIDEST.indexes[0]!, row)!;
  const mutations = [key, indexKey].map((one) => ({
    write: { kind: "WRITE_KIND_INSERT", key: keyToWire(one), columns: [] },
    timestampUs: timestampUsOf(5n),
  }));
  await ring.call(node, "RowsService/Apply", { mutations }, COORDINATOR);
  const { results } = await ring.call<{ results: readonly { row: object | null }[] }>(
    node,
    "RowsService/Read",
    { keys: [keyToWire(key), keyToWire(indexKey)] },
    COORDINATOR,
  );
  assert.deepEqual(
    results.map(({ row: found }) => found !== null),
    [true, true],
  );
});
