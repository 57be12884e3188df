import type { CellTypeOf } from "../cell-type.ts";
import { INT32, isInt32 } from "./int32.ts";
import { asItIs, malformed, otherLiteral } from "./shared.ts";

export const int: CellTypeOf<"int"> = {
  ...INT32,
  tag: 2,
  takes: "a whole number of 32 bits",
  problemOf: (content) => (isInt32(content) ? undefined : "is outside 32 bits"),
  toWire: (content) => ({ intValue: content }),
  fromWire: ({ intValue }) => {
    if (!isInt32(intValue)) throw malformed("an int value is outside 32 bits");
    return intValue;
  },
  fromLiteral: (literal) => (literal.kind === "integer" ? Number(literal.value) : otherLiteral(literal)),
  fromJavaScript: (value) => {
    const number = typeof value === "bigint" ? Number(value) : value;
    return typeof number === "number" && isInt32(number) ? number : undefined;
  },
  toJavaScript: asItIs,
};
