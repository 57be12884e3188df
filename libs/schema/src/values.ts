import { ConcordError, unreachable } from "@concord/runtime";
import type { CellType, CellValue } from "@concord/ports";
import { SCHEMA_LIMITS } from "./limits.ts";

export const INT_MIN = -(2 ** 31);
export const INT_MAX = 2 ** 31 - 1;
export const BIGINT_MIN = -(1n << 63n);
export const BIGINT_MAX = (1n << 63n) - 1n;
const UUID = /^[0-9a-f]{32}$/;

/** Where a value was meant to go: for the message of a refusal. */
export interface ValuePlace {
  readonly table: string;
  readonly column: string;
  readonly type: CellType;
  readonly inKey: boolean;
}

/**
 * A value as it may be stored: exactly of the column's type, within its range and size; -0 becomes 0, so that equal keys are equal
 * bytes. TYPE_MISMATCH and LIMIT_EXCEEDED name the column.
 */
export function checkedValue(value: CellValue, place: ValuePlace): CellValue {
  if (value.kind !== place.type) throw mismatch(place, `is a ${value.kind}`);
  const bytes = checkedBytes(value, place);
  const limit = place.inKey ? SCHEMA_LIMITS.keyValueBytesMax : SCHEMA_LIMITS.cellValueBytesMax;
  if (bytes > limit) {
    const what = place.inKey ? "a key value" : "a value";
    throw new ConcordError("LIMIT_EXCEEDED", `${place.table}.${place.column}: ${what} of ${bytes} bytes; at most ${limit}`, {
      metadata: { table: place.table, column: place.column, limit: limit.toString() },
    });
  }
  return value.kind === "double" && value.value === 0 ? { kind: "double", value: 0 } : value;
}

/** Size of a value for the limits above. */
export function valueBytes(value: CellValue): number {
  switch (value.kind) {
    case "bigint":
    case "timestamp":
    case "double":
      return 8;
    case "int":
      return 4;
    case "boolean":
      return 1;
    case "uuid":
      return 16;
    case "blob":
      return value.value.length;
    case "text":
      return utf8Length(value.value);
    default:
      return unreachable(value);
  }
}

export function mismatch(place: ValuePlace, found: string): ConcordError {
  return new ConcordError("TYPE_MISMATCH", `${place.table}.${place.column} is a ${place.type}; the value given ${found}`, {
    metadata: { table: place.table, column: place.column, type: place.type },
  });
}

function checkedBytes(value: CellValue, place: ValuePlace): number {
  const valid = isValid(value);
  if (valid !== undefined) throw mismatch(place, valid);
  return valueBytes(value);
}

/** What is wrong with the content, or undefined. */
function isValid(value: CellValue): string | undefined {
  switch (value.kind) {
    case "bigint":
    case "timestamp":
      return value.value >= BIGINT_MIN && value.value <= BIGINT_MAX ? undefined : "is outside 64 bits";
    case "int":
      return Number.isInteger(value.value) && value.value >= INT_MIN && value.value <= INT_MAX ? undefined : "is outside 32 bits";
    case "double":
      return Number.isNaN(value.value) ? "is NaN, which has no order" : undefined;
    case "uuid":
      return UUID.test(value.value) ? undefined : "is not 32 lower-case hex digits";
    case "text":
      return value.value.isWellFormed() ? undefined : "has half a surrogate pair";
    case "blob":
    case "boolean":
      return undefined;
    default:
      return unreachable(value);
  }
}

function utf8Length(text: string): number {
  let length = 0;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) length += 1;
    else if (unit < 0x800) length += 2;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      length += 4;
      i += 1;
    } else length += 3;
  }
  return length;
}
