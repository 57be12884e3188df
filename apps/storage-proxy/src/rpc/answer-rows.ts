import type { Row } from "@concord/ports";
import { rowText } from "@concord/quorum";
import { columnBytes, encodeRowKey } from "@concord/rows";
import { ConcordError } from "@concord/runtime";
import { ANSWER_ROW_BYTES_MAX } from "../limits.ts";

/**
 * Refuses rows that no answer takes, by name. A page has one such row at most, and it is the only row of its page. LIMIT_EXCEEDED: the row, its size, and what
 * gets past it. `columns`: those that are answered; undefined: all.
 */
export function checkAnswer(rows: readonly (Row | undefined)[], columns?: ReadonlySet<string>): void {
  let total = 0;
  let largest: { readonly row: Row; readonly bytes: number } | undefined;
  for (const row of rows) {
    if (row === undefined) continue;
    const bytes = columnBytes(row, columns);
    total += bytes;
    if (largest === undefined || bytes > largest.bytes) largest = { row, bytes };
  }
  if (largest === undefined || total <= ANSWER_ROW_BYTES_MAX) return;
  const row = rowText(encodeRowKey(largest.row.key));
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
