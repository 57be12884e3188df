// Two tables of one partition key, so that a partition's rows and counters are one transaction group (OGD15, OGD16).
import { ByteReader, ByteWriter } from "@concord/codec";
import type { MetadataRow } from "@concord/ports";
import { NAME_BYTES } from "./limits.ts";

export const ROWS = "object_rows";
export const COUNTERS = "object_counters";

export const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS ${ROWS} (partition text, name blob, name_rest blob, commit_number bigint, guid bigint, content blob, PRIMARY KEY (partition, name, name_rest))`,
  `CREATE TABLE IF NOT EXISTS ${COUNTERS} (partition text, name blob, name_rest blob, slot int, amounts blob, PRIMARY KEY (partition, name, name_rest, slot))`,
];

/** A partition's name as a key: never empty. */
const partitionKey = (partition: string): string => `/${partition}`;

/** A row's key in two columns: cut at one place, so that their order is that of the whole. */
export type Name = {
  readonly name: Uint8Array;
  readonly name_rest: Uint8Array;
};

export interface StoredRow extends Name {
  readonly commit_number: bigint;
  readonly guid: bigint;
  readonly content: Uint8Array;
}

export interface StoredCounter {
  readonly amounts: Uint8Array;
}

export const nameOf = (key: Uint8Array): Name => ({ name: key.slice(0, NAME_BYTES), name_rest: key.slice(NAME_BYTES) });

export const rowKey = (partition: string, key: Uint8Array): { readonly partition: string } & Name => ({
  partition: partitionKey(partition),
  ...nameOf(key),
});

export const counterKey = (
  partition: string,
  key: Uint8Array,
  slot: number,
): { readonly partition: string; readonly slot: number } & Name => ({
  ...rowKey(partition, key),
  slot,
});

export function storedRow(partition: string, { key, version, value }: MetadataRow): StoredRow & { readonly partition: string } {
  return { ...rowKey(partition, key), commit_number: version.commit, guid: version.guid, content: Uint8Array.from(value) };
}

function joined({ name, name_rest: rest }: Name): Uint8Array {
  return rest.length === 0 ? name : new ByteWriter(name.length + rest.length).raw(name).raw(rest).finish();
}

/** Absent rows stay undefined. */
export function metadataRow(row: StoredRow | undefined): MetadataRow | undefined {
  return row && { key: joined(row), version: { commit: row.commit_number, guid: row.guid }, value: row.content };
}

export function encodeAmounts(amounts: readonly bigint[]): Uint8Array {
  const writer = new ByteWriter();
  for (const amount of amounts) writer.i64(amount);
  return writer.finish();
}

/** CORRUPT_DATA when the bytes are no list. */
export function decodeAmounts(row: StoredCounter | undefined): bigint[] {
  if (row === undefined) return [];
  const reader = new ByteReader(row.amounts);
  const amounts: bigint[] = [];
  while (reader.remaining > 0) amounts.push(reader.i64());
  return amounts;
}
