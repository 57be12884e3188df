import { addCounters, type MetadataCondition, type MetadataRange, type MetadataRow, type RowVersion } from "@concord/ports";
import { assert } from "@concord/runtime";
import { CELL_OVERHEAD_BYTES, METADATA_READ_KEYS } from "./limits.ts";
import { bytesOf } from "./row-codec.ts";
import type { Column, Parameter, ResultRow, Statement } from "./session.ts";
import { METADATA_TABLE } from "./tables.ts";

/** What a row of the table is, by its column `kind`. */
const SLOT = 0;
const ROW = 1;
const COUNTER = 2;
const AMOUNT_BYTES = 8;

/** What a row becomes; undefined: only its condition matters. */
export type RowChange = { readonly kind: "put"; readonly row: MetadataRow } | { readonly kind: "delete" };

/** Where a process writes down each of its commits in a partition, the last one only. */
export interface SlotState {
  readonly seq: bigint;
  readonly commitId: Uint8Array | undefined;
}

/**
 * The statements of the table of rows (OGD15): one partition holds everything that may change together; it is written by lightweight
 * transactions only, without timestamps of its own and without TTL, and read at SERIAL only.
 */
export class MetadataStatements {
  readonly #table: string;

  constructor(keyspace: string) {
    this.#table = `${keyspace}.${METADATA_TABLE}`;
  }

  /** At most METADATA_READ_KEYS keys; the list is filled up, so that few statements are prepared. */
  readRows(partition: string, keys: readonly Uint8Array[]): Statement {
    assert(keys.length > 0 && keys.length <= METADATA_READ_KEYS, "a read has keys, not too many");
    const filled = keys.length === 1 ? keys : Array.from({ length: METADATA_READ_KEYS }, (_, at) => keys[at] ?? keys[0]!);
    const query = `SELECT key, commit_no, guid, value FROM ${this.#table} WHERE partition = ? AND kind = ? AND key IN (${marks(filled.length)})`;
    return { query, parameters: [partitionKey(partition), ROW, ...filled] };
  }

  readRange(partition: string, { from, to, reverse }: MetadataRange, limit: number): Statement {
    const order = reverse === true ? " ORDER BY kind DESC, key DESC" : "";
    const where = "partition = ? AND kind = ? AND key >= ? AND key < ?";
    const query = `SELECT key, commit_no, guid, value FROM ${this.#table} WHERE ${where}${order} LIMIT ?`;
    return { query, parameters: [partitionKey(partition), ROW, from, to, limit] };
  }

  readCounter(partition: string, key: Uint8Array): Statement {
    const query = `SELECT amounts FROM ${this.#table} WHERE partition = ? AND kind = ? AND key = ?`;
    return { query, parameters: [partitionKey(partition), COUNTER, key] };
  }

  readSlot(partition: string, slot: Uint8Array): Statement {
    const query = `SELECT seq, commit_id FROM ${this.#table} WHERE partition = ? AND kind = ? AND key = ?`;
    return { query, parameters: [partitionKey(partition), SLOT, slot] };
  }

  /** Holds once: whatever else was sent for this `seq` of the slot is refused from then on. */
  claimSlot(partition: string, slot: Uint8Array, seq: bigint, commitId: Uint8Array): Statement {
    const query = `UPDATE ${this.#table} SET seq = ?, commit_id = ? WHERE partition = ? AND kind = ? AND key = ? IF seq = ?`;
    return { query, parameters: [seq, commitId, partitionKey(partition), SLOT, slot, seq === 1n ? null : seq - 1n] };
  }

  /** The change of a row, the condition on it, or both. */
  changeRow(partition: string, key: Uint8Array, change: RowChange | undefined, condition: MetadataCondition | undefined): Statement {
    const where = [partitionKey(partition), ROW, key];
    const held = condition?.version;
    const conditions = condition === undefined ? [] : [held?.commit ?? null, held?.guid ?? null];
    const query = `WHERE partition = ? AND kind = ? AND key = ?${condition === undefined ? "" : " IF commit_no = ? AND guid = ?"}`;
    if (change?.kind === "put") {
      const { version, value } = change.row;
      const set = `UPDATE ${this.#table} SET commit_no = ?, guid = ?, value = ?`;
      return { query: `${set} ${query}`, parameters: [version.commit, version.guid, value, ...where, ...conditions] };
    }
    if (change?.kind === "delete") return { query: `DELETE FROM ${this.#table} ${query}`, parameters: [...where, ...conditions] };
    // A condition needs a statement that writes: what is there, again.
    if (held === undefined) return { query: `DELETE value FROM ${this.#table} ${query}`, parameters: [...where, ...conditions] };
    return { query: `UPDATE ${this.#table} SET guid = ? ${query}`, parameters: [held.guid, ...where, ...conditions] };
  }

  /** From the amounts that were read to what they become. */
  changeCounter(partition: string, key: Uint8Array, read: Uint8Array | undefined, amounts: readonly bigint[]): Statement {
    const query = `UPDATE ${this.#table} SET amounts = ? WHERE partition = ? AND kind = ? AND key = ? IF amounts = ?`;
    const sum = encodeAmounts(addCounters(decodeAmounts(read), amounts));
    return { query, parameters: [sum, partitionKey(partition), COUNTER, key, read ?? null] };
  }
}

/** A table's partition key is never empty. */
function partitionKey(partition: string): string {
  return `/${partition}`;
}

function marks(count: number): string {
  return Array.from({ length: count }, () => "?").join(", ");
}

/** Undefined: the row was deleted, or is only a condition's. */
export function metadataRowOf(row: ResultRow): MetadataRow | undefined {
  const { commit_no: commit, guid } = row;
  if (typeof commit !== "bigint" || typeof guid !== "bigint") return undefined;
  const version: RowVersion = { commit, guid };
  return { key: plainBytes(row["key"]), version, value: plainBytes(row["value"]) };
}

export function slotOf(row: ResultRow | undefined): SlotState {
  const seq = row?.["seq"];
  return typeof seq === "bigint" ? { seq, commitId: plainBytes(row!["commit_id"]) } : { seq: 0n, commitId: undefined };
}

export function amountsOf(row: ResultRow | undefined): Uint8Array | undefined {
  const amounts = row?.["amounts"];
  return amounts === undefined || amounts === null ? undefined : plainBytes(amounts);
}

export function decodeAmounts(bytes: Uint8Array | undefined): readonly bigint[] {
  if (bytes === undefined) return [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.length / AMOUNT_BYTES }, (_, at) => view.getBigInt64(at * AMOUNT_BYTES));
}

function encodeAmounts(amounts: readonly bigint[]): Uint8Array {
  const bytes = new Uint8Array(amounts.length * AMOUNT_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [at, amount] of amounts.entries()) view.setBigInt64(at * AMOUNT_BYTES, amount);
  return bytes;
}

/** Not as the Buffer the driver gives, and not a part of its larger one. */
function plainBytes(column: Column): Uint8Array {
  return Uint8Array.from(bytesOf(column));
}

/** Bytes of a statement's own parameters. */
export function parameterBytes(parameters: readonly Parameter[]): number {
  return parameters.reduce<number>((sum, value) => sum + (value instanceof Uint8Array ? value.length : CELL_OVERHEAD_BYTES), 0);
}
