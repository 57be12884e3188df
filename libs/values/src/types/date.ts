import { corrupt } from "@concord/codec";
import type { CellTypeOf } from "../cell-type.ts";
import { INT32 } from "./int32.ts";
import { malformed, otherLiteral } from "./shared.ts";

const DAY_MS = 86_400_000;
/** 0001-01-01 and 9999-12-31: what dates of every language can be. Stored as 32 bits, so that the limits can move. */
const DAYS_MIN = -719_162;
const DAYS_MAX = 2_932_896;
const RANGE = "is outside the years 0001 to 9999";
const TEXT = /^\d{4}-\d{2}-\d{2}$/;

/** Days since 1970-01-01. CQL counts them from -2^31 instead, but only on its own wire. */
export const date: CellTypeOf<"date"> = {
  ...INT32,
  tag: 10,
  takes: 'a date as "YYYY-MM-DD"',
  problemOf: (content) => (isDate(content) ? undefined : RANGE),
  readKey: (reader) => inRange(INT32.readKey(reader)),
  readCell: (reader) => inRange(INT32.readCell(reader)),
  toWire: (content) => ({ dateValue: content }),
  fromWire: ({ dateValue }) => {
    if (!isDate(dateValue)) throw malformed(`a date ${RANGE}`);
    return dateValue;
  },
  fromLiteral: (literal) => {
    if (literal.kind !== "text") return otherLiteral(literal);
    return daysOf(literal.value) ?? { refused: "is no date such as '2026-11-22'" };
  },
  fromJavaScript: (value) => (typeof value === "string" ? daysOf(value) : undefined),
  toJavaScript: (content) => new Date(content * DAY_MS).toISOString().slice(0, 10),
};

function isDate(days: number): boolean {
  return Number.isInteger(days) && days >= DAYS_MIN && days <= DAYS_MAX;
}

function inRange(days: number): number {
  if (!isDate(days)) throw corrupt(`a date ${RANGE}`);
  return days;
}

function daysOf(text: string): number | undefined {
  if (!TEXT.test(text)) return undefined;
  const days = Date.parse(`${text}T00:00:00Z`) / DAY_MS;
  // The 30th of February is a day of March to some parsers: only what comes back is a date.
  return isDate(days) && date.toJavaScript(days) === text ? days : undefined;
}
