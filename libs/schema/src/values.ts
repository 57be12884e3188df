import { ConcordError } from "@concord/runtime";
import { canonicalValue, valueBytes, valueProblem, type CellType, type CellValue } from "@concord/values";
import { SCHEMA_LIMITS } from "./limits.ts";

/** Where a value was meant to go: for the message of a refusal. */
export interface ValuePlace {
  readonly table: string;
  readonly column: string;
  readonly type: CellType;
  readonly inKey: boolean;
}

/**
 * A value as it may be stored: exactly of the column's type, within its range and size, in its one form, so that equal keys are equal
 * bytes. TYPE_MISMATCH and LIMIT_EXCEEDED name the column.
 */
export function checkedValue(value: CellValue, place: ValuePlace): CellValue {
  if (value.kind !== place.type) throw mismatch(place, `is a ${value.kind}`);
  const problem = valueProblem(value);
  if (problem !== undefined) throw mismatch(place, problem);
  const bytes = valueBytes(value);
  const limit = place.inKey ? SCHEMA_LIMITS.keyValueBytesMax : SCHEMA_LIMITS.cellValueBytesMax;
  if (bytes > limit) {
    const what = place.inKey ? "a key value" : "a value";
    throw new ConcordError("LIMIT_EXCEEDED", `${place.table}.${place.column}: ${what} of ${bytes} bytes; at most ${limit}`, {
      metadata: { table: place.table, column: place.column, limit: limit.toString() },
    });
  }
  return canonicalValue(value);
}

export function mismatch(place: ValuePlace, found: string): ConcordError {
  return new ConcordError("TYPE_MISMATCH", `${place.table}.${place.column} is a ${place.type}; the value given ${found}`, {
    metadata: { table: place.table, column: place.column, type: place.type },
  });
}
