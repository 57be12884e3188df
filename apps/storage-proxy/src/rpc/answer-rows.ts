import type { Row, RowKey } from "@concord/ports";
import { ConcordError, toHex } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { ANSWER_ROW_BYTES_MAX } from "../limits.ts";

const KEY_TEXT_CHARS = 200;

/**
 * Refuses rows that no answer takes, by name. A page has one such row at most, and it is the only row of its page. LIMIT_EXCEEDED: the row, its size, and what
 * gets past it. `columns`: those that are answered; undefined: all.
 */
export function checkAnswer(rows: readonly (Row | undefined)[], columns?: ReadonlySet<string>): void {
  let total = 0;
  let largest: { readonly row: Row; readonly bytes: number } | undefined;
  for (const row of rows) {
    if (row === undefined) continue;
    const bytes = bytesOf(row, columns);
    total += bytes;
    if (largest === undefined || bytes > largest.bytes) largest = { row, bytes };
  }
  if (largest === undefined || total <= ANSWER_ROW_BYTES_MAX) return;
  const row = keyText(largest.row.key);
  const isAlone = largest.bytes > ANSWER_ROW_BYTES_MAX;
  const what = isAlone ? `row ${row} has ${largest.bytes} bytes` : `${rows.length} rows have ${total} bytes, ${row} the most`;
  const advice = isAlone
    ? "SELECT fewer of its columns at a time; a listing goes on behind its key; set its large columns to smaller values, or delete it"
    : "ask for fewer rows at a time";
  const metadata = {
    row,
    limit: "ANSWER_ROW_BYTES_MAX",
    largest: String(ANSWER_ROW_BYTES_MAX),
    value: String(isAlone ? largest.bytes : total),
  };
  throw new ConcordError("LIMIT_EXCEEDED", `${what}, an answer takes ${ANSWER_ROW_BYTES_MAX}: ${advice}`, { applied: "no", metadata });
}

/** About what they have on the wire. */
function bytesOf({ columns: all }: Row, columns: ReadonlySet<string> | undefined): number {
  let bytes = 0;
  for (const [name, value] of all) if (columns === undefined || columns.has(name)) bytes += name.length + valueBytes(value);
  return bytes;
}

function valueBytes(value: CellValue): number {
  if (value.kind === "blob") return value.value.length;
  return typeof value.value === "string" ? Buffer.byteLength(value.value) : 16;
}

function keyText({ table, partition, clustering }: RowKey): string {
  const values = [partition, clustering].filter((part) => part.length > 0).map((part) => part.map(valueText).join(", "));
  const text = `${table}(${values.join("; ")})`;
  return text.length <= KEY_TEXT_CHARS ? text : `${text.slice(0, KEY_TEXT_CHARS)}...`;
}

function valueText(value: CellValue): string {
  return value.kind === "blob" ? `0x${toHex(value.value)}` : String(value.value);
}
