import type { CellTypeOf } from "../cell-type.ts";
import { INT64, wholeOf } from "./int64.ts";
import { asItIs } from "./shared.ts";

export const bigint: CellTypeOf<"bigint"> = {
  ...INT64,
  tag: 1,
  takes: "a bigint or whole number of 64 bits",
  toWire: (content) => ({ bigintValue: content }),
  fromWire: (message) => message.bigintValue,
  fromJavaScript: wholeOf,
  toJavaScript: asItIs,
};
