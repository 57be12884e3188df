import { ByteReader, ByteWriter } from "@concord/codec";
import type { CellImage, Mutation, RowImage, RowKey } from "@concord/ports";
import { decodeRowKey, emptyImage, encodePartition, encodeRowKey, mergeImages } from "@concord/rows";
import { assert, ConcordError, timestampUsOf, unreachable, type TimestampUs } from "@concord/runtime";
import { readKeyValue, writeKeyValue, type CellValue } from "@concord/values";
import { CELL_OVERHEAD_BYTES, KEY_BYTES_MAX, STATEMENT_OVERHEAD_BYTES } from "./limits.ts";
import type { Column, ResultRow, Statement } from "./session.ts";
import { rowTableOf, type RowTable } from "./tables.ts";

/** Above every tag of a value: on equal timestamps Cassandra keeps the larger bytes, and null wins (I2). */
const NULL = 0xff;

/** A row's address as Cassandra has it. */
export interface StoredKey {
  readonly table: RowTable;
  readonly partition: Uint8Array;
  readonly clustering: Uint8Array;
}

export function storedKey(key: RowKey): StoredKey {
  const partition = encodePartition(key.table, key.partition);
  const clustering = encodeRowKey(key).subarray(partition.length);
  checkKeyBytes(partition);
  checkKeyBytes(clustering);
  return { table: rowTableOf(key.table), partition, clustering };
}

export function checkKeyBytes(bytes: Uint8Array): void {
  if (bytes.length <= KEY_BYTES_MAX) return;
  const metadata = { limit: "KEY_BYTES_MAX", largest: String(KEY_BYTES_MAX), value: String(bytes.length) };
  throw new ConcordError("LIMIT_EXCEEDED", `a key has ${bytes.length} bytes, Cassandra takes ${KEY_BYTES_MAX}`, { metadata });
}

/** The key of a stored row of this partition. */
export function rowKeyOf(partition: Uint8Array, clustering: Uint8Array): RowKey {
  const bytes = new Uint8Array(partition.length + clustering.length);
  bytes.set(partition);
  bytes.set(clustering, partition.length);
  return decodeRowKey(bytes);
}

/** What one mutation is on Cassandra, and where. */
export interface MutationStatements {
  readonly key: StoredKey;
  readonly statements: readonly Statement[];
  /** Not below what Cassandra counts for them. */
  readonly bytes: number;
}

/** Statements with explicit timestamps: any number of times, in any order with others, they give the same row. */
export function statementsOf(keyspace: string, mutation: Mutation): MutationStatements {
  const key = storedKey(mutation.key);
  const statements = build(`${keyspace}.${key.table}`, key, mutation);
  const keyBytes = key.partition.length + key.clustering.length + STATEMENT_OVERHEAD_BYTES;
  return { key, statements, bytes: statements.length * keyBytes + cellBytes(statements) };
}

function build(table: string, { partition, clustering }: StoredKey, mutation: Mutation): readonly Statement[] {
  const { timestampUs } = mutation;
  const where = [partition, clustering];
  switch (mutation.kind) {
    case "delete":
      return [
        // Frees what it deletes; that it is deleted is said by the value, which readers see.
        {
          query: `DELETE marker, cells FROM ${table} USING TIMESTAMP ? WHERE partition = ? AND clustering = ?`,
          parameters: [timestampUs, ...where],
        },
        {
          query: `UPDATE ${table} USING TIMESTAMP ? SET deleted = ? WHERE partition = ? AND clustering = ?`,
          parameters: [timestampUs, timestampUs, ...where],
        },
      ];
    case "insert":
    case "update": {
      const marker = mutation.kind === "insert" ? timestampUs : undefined;
      const cells = new Map(mutation.columns.map(({ column, value }) => [column, encodeCell({ timestampUs, value })]));
      // An update of nothing would be a statement that sets nothing.
      if (marker === undefined && cells.size === 0) return [];
      const query = `UPDATE ${table} USING TIMESTAMP ? SET marker = ?, cells = cells + ? WHERE partition = ? AND clustering = ?`;
      return [{ query, parameters: [timestampUs, marker, cells, ...where] }];
    }
    default:
      return unreachable(mutation);
  }
}

function cellBytes(statements: readonly Statement[]): number {
  let bytes = 0;
  for (const { parameters } of statements) {
    for (const value of parameters) {
      if (!(value instanceof Map)) continue;
      for (const [column, cell] of value as ReadonlyMap<string, Uint8Array>) bytes += 3 * column.length + cell.length + CELL_OVERHEAD_BYTES;
    }
  }
  return bytes;
}

function encodeCell({ timestampUs, value }: CellImage): Uint8Array {
  const writer = new ByteWriter(32).i64(timestampUs);
  if (value === null) writer.u8(NULL);
  else writeKeyValue(writer, value);
  return writer.finish();
}

function decodeCell(bytes: Uint8Array): CellImage {
  const reader = new ByteReader(bytes);
  const timestampUs = reader.timestampUs();
  let value: CellValue | null = null;
  if (reader.peek() === NULL) reader.u8();
  else value = readKeyValue(reader);
  reader.end();
  return { timestampUs, value };
}

/** The image in a stored row; undefined when nothing is stored. What a newer delete hides is left out. */
export function imageOfRow(key: RowKey, row: ResultRow | undefined): RowImage | undefined {
  if (row === undefined) return undefined;
  const cells = new Map<string, CellImage>();
  for (const [column, bytes] of cellsOf(row["cells"])) cells.set(column, decodeCell(bytes));
  const image: RowImage = { key, deletedAtUs: timestampOf(row["deleted"]), markerUs: timestampOf(row["marker"]), cells };
  return mergeImages(emptyImage(key), image);
}

function cellsOf(column: Column): ReadonlyMap<string, Uint8Array> {
  if (column === null || column === undefined) return new Map();
  assert(column instanceof Map, "cells is a map");
  return column as ReadonlyMap<string, Uint8Array>;
}

function timestampOf(column: Column): TimestampUs | undefined {
  return typeof column === "bigint" ? timestampUsOf(column) : undefined;
}

export function bytesOf(column: Column): Uint8Array {
  assert(column instanceof Uint8Array, "the column is a blob");
  return column;
}

/** Bytes of a stored row in an answer, roughly. */
export function rowBytes(row: ResultRow): number {
  let bytes = STATEMENT_OVERHEAD_BYTES + bytesOf(row["clustering"]).length;
  for (const [column, cell] of cellsOf(row["cells"])) bytes += column.length + cell.length;
  return bytes;
}
