import { keyText } from "@concord/codec";
import { decodeImage, decodeMutation, decodeRowKey, encodeImage, imageOf, mergeImages, mutationRowKey } from "@concord/rows";
import { BoundedCache, ConcordError, toHex, type Checksum } from "@concord/runtime";
import type { RowImage, SuspectKeys } from "@concord/ports";
import type { CellValue } from "@concord/values";
import { LARGE_ROWS_NOTICED, ROW_BYTES_MAX, ROW_BYTES_NOTICED } from "./limits.ts";
import { openRow, SEAL_BYTES, storedRowKey } from "./stored-row.ts";

export interface RowSizesOptions {
  /** Sees every step submitted before. */
  readonly reader: { getMany(keys: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> };
  readonly checksum: Checksum;
  /** This node's keys whose reads are refused: a write merges into what is there, so it would be refused too, perhaps after a part of it was applied. */
  readonly suspects?: Pick<SuspectKeys, "ranges" | "refusal">;
}

/** Value of a key that is remembered. */
const LARGE = {};

interface Written {
  readonly storedKey: Uint8Array;
  readonly mutations: Uint8Array[];
  bytes: number;
}

/**
 * Bounds rows before a write is sent (I13): afterwards nothing that is acknowledged or copied is refused for its size. What this node merges and
 * compares shows it the rows above ROW_BYTES_NOTICED; only a write to one of these, or a large write, costs a read.
 */
export class RowSizes {
  readonly #options: RowSizesOptions;
  /** Stored keys, the oldest notice first. */
  readonly #large = new BoundedCache<string, typeof LARGE>(LARGE_ROWS_NOTICED);

  constructor(options: RowSizesOptions) {
    this.#options = options;
  }

  /** A row is stored with so many bytes here. */
  readonly noticed = (storedKey: Uint8Array, bytes: number): void => {
    if (bytes <= ROW_BYTES_NOTICED) {
      if (this.#large.size > 0) this.#large.delete(keyText(storedKey));
      return;
    }
    this.#large.set(keyText(storedKey), LARGE);
  };

  /** Bytes of those of the rows that are known to be large, at most; their keys are without namespace. */
  known(keys: readonly Uint8Array[]): number {
    if (this.#large.size === 0) return 0;
    return keys.filter((key) => this.#large.get(keyText(storedRowKey(key))) !== undefined).length * ROW_BYTES_MAX;
  }

  /**
   * Rejects with LIMIT_EXCEEDED (applied: no) when a row would grow above ROW_BYTES_MAX; a write that leaves it no larger than it is passes. Undefined:
   * no row of them can. CORRUPT_DATA (applied: no): a row is suspect here.
   */
  check(mutations: readonly Uint8Array[]): Promise<void> | undefined {
    const refusal = this.#suspectRefusal(mutations);
    if (refusal !== undefined) return Promise.reject(refusal);
    let bytes = 0;
    for (const mutation of mutations) bytes += mutation.length;
    if (this.#large.size === 0 && bytes <= ROW_BYTES_MAX - ROW_BYTES_NOTICED) return undefined;
    const rows = new Map<string, Written>();
    for (const mutation of mutations) {
      const storedKey = storedRowKey(mutationRowKey(mutation));
      const name = keyText(storedKey);
      const row = rows.get(name) ?? { storedKey, mutations: [], bytes: 0 };
      row.mutations.push(mutation);
      row.bytes += mutation.length;
      rows.set(name, row);
    }
    const checked = [...rows].filter(([name, row]) => this.#large.get(name) !== undefined || row.bytes > ROW_BYTES_MAX - ROW_BYTES_NOTICED);
    return checked.length === 0 ? undefined : this.#checkRows(checked.map(([, row]) => row));
  }

  #suspectRefusal(mutations: readonly Uint8Array[]): ConcordError | undefined {
    const { suspects } = this.#options;
    if (suspects === undefined || suspects.ranges.length === 0) return undefined;
    return suspects.refusal(mutations.map((mutation) => storedRowKey(mutationRowKey(mutation))));
  }

  async #checkRows(rows: readonly Written[]): Promise<void> {
    const stored = await this.#options.reader.getMany(rows.map(({ storedKey }) => storedKey));
    for (const [at, row] of rows.entries()) {
      const before = stored[at];
      const change = row.mutations.map((mutation) => imageOf(decodeMutation(mutation))).reduce(mergeImages);
      const image = this.#imageOf(before);
      const merged = image === undefined ? change : mergeImages(image, change);
      const rowKey = row.storedKey.subarray(1);
      const bytes = encodeImage(merged, rowKey).length + SEAL_BYTES;
      if (bytes > ROW_BYTES_MAX && bytes > (before?.length ?? 0)) throw tooLarge(rowKey, bytes);
    }
  }

  /** Undefined: there is none, or it fails its check, which the write meets itself. */
  #imageOf(stored: Uint8Array | undefined): RowImage | undefined {
    if (stored === undefined) return undefined;
    try {
      return decodeImage(openRow(stored, this.#options.checksum).image);
    } catch (thrown) {
      if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
      throw thrown;
    }
  }
}

function tooLarge(rowKey: Uint8Array, bytes: number): ConcordError {
  const row = rowText(rowKey);
  const text = `row ${row} would have ${bytes} bytes, ROW_BYTES_MAX is ${ROW_BYTES_MAX}: nothing was written; delete columns of it, or write to another row`;
  const metadata = { row, limit: "ROW_BYTES_MAX", largest: String(ROW_BYTES_MAX), value: String(bytes) };
  return new ConcordError("LIMIT_EXCEEDED", text, { applied: "no", metadata });
}

const KEY_TEXT_CHARS = 200;

/** A row's key for people: table(partition; clustering), cut. */
export function rowText(rowKey: Uint8Array): string {
  const { table, partition, clustering } = decodeRowKey(rowKey);
  const values = [partition, clustering].filter((part) => part.length > 0).map((part) => part.map(valueText).join(", "));
  const text = `${table}(${values.join("; ")})`;
  return text.length <= KEY_TEXT_CHARS ? text : `${text.slice(0, KEY_TEXT_CHARS)}...`;
}

function valueText(value: CellValue): string {
  return value.kind === "blob" ? `0x${toHex(value.value)}` : String(value.value);
}
