import type { CellValue } from "@concord/ports";
import type { Term } from "./cql/ast.ts";
import { mismatch, type ValuePlace } from "./values.ts";

type Literal = Exclude<Term, { kind: "bind" } | { kind: "call" }>;

/** Whole numbers beyond this are not exact as double. */
const EXACT_DOUBLE_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** A literal as a value of the column's type; a whole number fits bigint, int, timestamp and double. TYPE_MISMATCH otherwise; ranges are checked later. */
export function literalValue(term: Literal, place: ValuePlace): CellValue | null {
  switch (term.kind) {
    case "null":
      return null;
    case "integer":
      return integerValue(term.value, place);
    case "decimal":
      if (place.type !== "double") break;
      return { kind: "double", value: term.value };
    case "text":
      return { kind: "text", value: term.value };
    case "blob":
      return { kind: "blob", value: term.value };
    case "boolean":
      return { kind: "boolean", value: term.value };
    case "uuid":
      return { kind: "uuid", value: term.value };
  }
  throw mismatch(place, `is a ${term.kind} literal`);
}

function integerValue(value: bigint, place: ValuePlace): CellValue {
  switch (place.type) {
    case "bigint":
    case "timestamp":
      return { kind: place.type, value };
    case "int":
      return { kind: "int", value: Number(value) };
    case "double":
      if (value > EXACT_DOUBLE_MAX || value < -EXACT_DOUBLE_MAX)
        throw mismatch(place, "is a whole number that is not exact as double; write 1.0e20");
      return { kind: "double", value: Number(value) };
    case "text":
    case "blob":
    case "boolean":
    case "uuid":
      throw mismatch(place, "is a whole number");
  }
}
