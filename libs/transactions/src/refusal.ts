import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { Row, RowKey } from "@concord/ports";
import { assert, ConcordError, type TimestampUs } from "@concord/runtime";
import { keyText, type TableCondition } from "@concord/schema";
import { readCellValue, writeCellValue, type CellValue } from "@concord/values";
import type { Payload } from "./digest.ts";
import type { FlushedTransaction } from "./flush-entry.ts";
import { shownKey } from "./group-locks.ts";
import { REFUSAL_BYTES_MAX } from "./limits.ts";
import { ownerHash } from "./owners.ts";
import type { TableWrite } from "./pending-rows.ts";
import type { Transaction } from "./transaction.ts";

const ABSENT = 0;
const PRESENT = 1;
const LEFT_OUT = 2;

/** A row whose condition did not hold, as it was under its lock. */
export interface FailedRow {
  readonly key: RowKey;
  /** Undefined: it was absent, or its columns were left out. */
  readonly row: Row | undefined;
  /** The row is present, and too large to be kept with the outcome. */
  readonly isLeftOut: boolean;
}

/** PRECONDITION_FAILED with the rows that failed; nothing was written. */
export class ConditionsFailed extends ConcordError {
  readonly failed: readonly FailedRow[];

  constructor(failed: readonly FailedRow[]) {
    const [first] = failed;
    assert(first !== undefined, "UN20: a refusal names the rows that failed");
    const shown = shownKey(keyText(first.key));
    const others = failed.length === 1 ? "" : `, nor of ${failed.length - 1} other rows`;
    const text = `the condition of row ${shown} does not hold${others}; nothing was written`;
    super("PRECONDITION_FAILED", text, { metadata: { table: first.key.table, key: shown } });
    this.failed = failed;
  }
}

/** A request as far as a refusal refers to it. */
interface Request {
  readonly conditions: readonly TableCondition[];
  readonly writes: readonly TableWrite[];
}

/** The outcome of a transaction whose conditions failed, as it is logged. */
export function refusedTransaction(
  { id, owner }: Transaction,
  failed: readonly FailedRow[],
  payload: Payload,
  timestampUs: TimestampUs,
): FlushedTransaction & { readonly kind: "refused"; readonly refusal: Uint8Array } {
  const { digest } = payload;
  const refusal = encodeRefusal(failed, payload);
  return { kind: "refused", id, timestampUs, digest, owner: ownerHash(owner.identity), mutations: [], refusal };
}

/**
 * The rows that failed as an outcome keeps them: varint count | per row: varint distance of its first place among the request's conditions and
 * then writes, u8 state | per row that is present and fits: i64 newest timestamp, varint columns, per column: text name, value.
 * Keys are not in it: only the same request gets the answer again.
 */
export function encodeRefusal(failed: readonly FailedRow[], request: Request): Uint8Array {
  const places = placesOf(request);
  const placed = failed.map((row) => ({ ...row, place: places.get(keyText(row.key))! })).toSorted((a, b) => a.place - b.place);
  const bodies = placed.map(({ row }) => (row === undefined ? undefined : encodeRow(row)));
  let bytes = REFUSAL_BYTES_MAX - failed.length * 3 - 3;
  const writer = new ByteWriter(256).varint(failed.length);
  const kept: Uint8Array[] = [];
  let before = 0;
  for (const [at, { place, isLeftOut }] of placed.entries()) {
    assert(place >= before, "UN20: a row that failed is one of the request");
    const body = bodies[at];
    const fits = body !== undefined && body.length <= bytes;
    if (fits) kept.push(body);
    bytes -= fits ? body.length : 0;
    const absent = isLeftOut ? LEFT_OUT : ABSENT;
    writer.varint(place - before).u8(fits ? PRESENT : body === undefined ? absent : LEFT_OUT);
    before = place;
  }
  for (const body of kept) writer.raw(body);
  assert(writer.length <= REFUSAL_BYTES_MAX, "UN20: what an outcome keeps of a refusal is bounded");
  return writer.finish();
}

/** The rows that failed, from what the outcome of the same request keeps. CORRUPT_DATA. */
export function decodeRefusal(bytes: Uint8Array, { conditions, writes }: Request): FailedRow[] {
  const reader = new ByteReader(bytes);
  const states: { readonly key: RowKey; readonly state: number }[] = [];
  const count = reader.varint();
  let place = 0;
  for (let at = 0; at < count; at += 1) {
    place += reader.varint();
    const key = conditions[place]?.condition.key ?? writes[place - conditions.length]?.write.key;
    if (key === undefined) throw corrupt(`a refusal names place ${place} of its request`);
    states.push({ key, state: reader.u8() });
  }
  const failed = states.map(({ key, state }) => ({
    key,
    row: state === PRESENT ? readRow(reader, key) : undefined,
    isLeftOut: state === LEFT_OUT,
  }));
  reader.end();
  return failed;
}

/** The first place of each row. */
function placesOf({ conditions, writes }: Request): Map<string, number> {
  const places = new Map<string, number>();
  const keys = [...conditions.map(({ condition }) => condition.key), ...writes.map(({ write }) => write.key)];
  for (const [at, key] of keys.entries()) {
    const text = keyText(key);
    if (!places.has(text)) places.set(text, at);
  }
  return places;
}

function encodeRow({ newestUs, columns }: Row): Uint8Array {
  const writer = new ByteWriter(256).i64(newestUs).varint(columns.size);
  for (const [column, value] of columns) writeCellValue(writer.text(column), value);
  return writer.finish();
}

function readRow(reader: ByteReader, key: RowKey): Row {
  const newestUs = reader.timestampUs();
  const columns = new Map<string, CellValue>();
  const count = reader.varint();
  for (let at = 0; at < count; at += 1) {
    const column = reader.text();
    const value = readCellValue(reader);
    if (value === null) throw corrupt("a refusal has a cell without a value");
    columns.set(column, value);
  }
  return { key, columns, newestUs };
}
