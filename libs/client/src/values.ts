import { CELL_TYPES, cellFromWire, cellToWire, fromJavaScript, javaScriptToWire, takenBy } from "@concord/values";
import type { CellMessage, CellModel, CellType } from "@concord/values/model";
import type { TypedValue, Value } from "./api.ts";
import { clientError } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";

/** -2^31 to 2^31 - 1 is an int. */
const INT_LIMIT = 2 ** 31;

/** Makes values that say their type, for bind markers whose column the client cannot see. */
export const typed = Object.fromEntries(
  CELL_TYPES.map((type) => [type, (value: Exclude<Value, null>) => cellOf(type, value, `${/^[aeiou]/.test(type) ? "an" : "a"} ${type}`)]),
) as { readonly [Type in CellType]: (value: CellModel[Type]["taken"]) => TypedValue };

/** The value as one of `type`; TYPE_MISMATCH names `place` when it is none. */
export function cellOf(type: CellType, value: Exclude<Value, null> | TypedValue, place: string): TypedValue {
  if (isTyped(value)) {
    if (value.kind !== type) throw mismatch(place, type, `a typed ${value.kind}`);
    return cellOf(type, value.value, place);
  }
  const cell = fromJavaScript(type, value);
  if (cell === undefined) throw mismatch(place, type, describe(value));
  return cell;
}

/** `cellOf` as it is sent. */
export function cellMessage(type: CellType, value: Exclude<Value, null> | TypedValue, place: string): CellMessage {
  return javaScriptToWire(type, value) ?? cellToWire(cellOf(type, value, place));
}

/** The type a value has when nothing tells its column: whole numbers are int, other numbers double. */
export function inferredCell(value: Exclude<Value, null> | TypedValue, place: string): TypedValue {
  if (isTyped(value)) return cellOf(value.kind, value, place);
  switch (typeof value) {
    case "bigint":
      return cellOf("bigint", value, place);
    case "number":
      return cellOf(Number.isInteger(value) && Math.abs(value) < INT_LIMIT ? "int" : "double", value, place);
    case "string":
      return { kind: "text", value };
    case "boolean":
      return { kind: "boolean", value };
    default:
      return cellOf(value instanceof Date ? "timestamp" : "blob", value, place);
  }
}

export function isTyped(value: unknown): value is TypedValue {
  return typeof value === "object" && value !== null && "kind" in value && "value" in value;
}

function mismatch(place: string, type: CellType, found: string): ConcordClientError {
  return clientError("TYPE_MISMATCH", `${place} takes ${takenBy(type)}, not ${found}`, { metadata: { place, type } });
}

/** What was given, by type only: values stay out of messages. */
function describe(value: unknown): string {
  if (value instanceof Uint8Array) return `a Uint8Array of ${value.length} bytes`;
  if (value instanceof Date) return "a Date";
  if (typeof value === "number") return Number.isInteger(value) ? "this whole number" : "this number";
  return value === null ? "null" : `a ${typeof value} like this`;
}

/** Null for a null_value and for a kind this client does not know. */
export function cellFromMessage(message: CellMessage): TypedValue | null {
  return message.kind === undefined ? null : cellFromWire(message);
}
