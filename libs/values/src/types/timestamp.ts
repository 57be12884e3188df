import type { CellTypeOf } from "../cell-type.ts";
import { INT64, wholeOf } from "./int64.ts";

/** The largest distance from 1970 that a JavaScript Date can have. */
const DATE_MS_MAX = 8_640_000_000_000_000n;

/** Milliseconds since the Unix epoch. */
export const timestamp: CellTypeOf<"timestamp"> = {
  ...INT64,
  tag: 7,
  takes: "a Date or whole milliseconds since 1970",
  toWire: (content) => ({ timestampValue: content }),
  fromWire: (message) => message.timestampValue,
  fromJavaScript: (value) => {
    if (!(value instanceof Date)) return wholeOf(value);
    return Number.isNaN(value.getTime()) ? undefined : BigInt(value.getTime());
  },
  toJavaScript: (content) => (content <= DATE_MS_MAX && content >= -DATE_MS_MAX ? new Date(Number(content)) : content),
};
