import { fromHex, toHex } from "@concord/runtime";
import type { TypedValue, Value } from "./api.ts";
import { clientError } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";

export const CELL_TYPES = ["bigint", "int", "text", "blob", "boolean", "double", "timestamp", "uuid"] as const;
export type CellType = (typeof CELL_TYPES)[number];

const BIGINT_LIMIT = 1n << 63n;
const INT_LIMIT = 2 ** 31;
/** The largest distance from 1970 that a JavaScript Date can have. */
const DATE_MS_MAX = 8_640_000_000_000_000n;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Makes values that say their type, for bind markers whose column the client cannot see. */
export const typed = {
  bigint: (value: bigint | number): TypedValue => cellOf("bigint", value, "a bigint"),
  int: (value: number): TypedValue => cellOf("int", value, "an int"),
  text: (value: string): TypedValue => cellOf("text", value, "a text"),
  blob: (value: Uint8Array): TypedValue => cellOf("blob", value, "a blob"),
  boolean: (value: boolean): TypedValue => cellOf("boolean", value, "a boolean"),
  double: (value: number): TypedValue => cellOf("double", value, "a double"),
  timestamp: (value: Date | bigint | number): TypedValue => cellOf("timestamp", value, "a timestamp"),
  uuid: (value: string | Uint8Array): TypedValue => cellOf("uuid", value, "a uuid"),
};

/** The value as one of `type`; TYPE_MISMATCH names `place` when it is none. */
export function cellOf(type: CellType, value: Exclude<Value, null> | TypedValue, place: string): TypedValue {
  if (isTyped(value)) {
    if (value.kind !== type) throw mismatch(place, type, `a typed ${value.kind}`);
    return cellOf(type, value.value, place);
  }
  const cell = convert(type, value);
  if (cell === undefined) throw mismatch(place, type, describe(value));
  return cell;
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

/** A stored value as JavaScript has it: timestamp as Date (bigint milliseconds beyond a Date's range), uuid with dashes. */
export function valueOf(cell: TypedValue): Exclude<Value, null> {
  switch (cell.kind) {
    case "timestamp":
      return cell.value <= DATE_MS_MAX && cell.value >= -DATE_MS_MAX ? new Date(Number(cell.value)) : cell.value;
    case "uuid":
      return cell.value.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
    default:
      return cell.value;
  }
}

export function isTyped(value: unknown): value is TypedValue {
  return typeof value === "object" && value !== null && "kind" in value && "value" in value;
}

function convert(type: CellType, value: Exclude<Value, null>): TypedValue | undefined {
  switch (type) {
    case "bigint":
      return whole(type, value);
    case "timestamp":
      if (!(value instanceof Date)) return whole(type, value);
      return Number.isNaN(value.getTime()) ? undefined : { kind: type, value: BigInt(value.getTime()) };
    case "int": {
      const number = typeof value === "bigint" ? Number(value) : value;
      if (typeof number !== "number" || !Number.isInteger(number)) return undefined;
      return number >= -INT_LIMIT && number < INT_LIMIT ? { kind: type, value: number } : undefined;
    }
    case "double":
      return typeof value === "number" && !Number.isNaN(value) ? { kind: type, value } : undefined;
    case "text":
      return typeof value === "string" ? { kind: type, value } : undefined;
    case "boolean":
      return typeof value === "boolean" ? { kind: type, value } : undefined;
    case "blob":
      return value instanceof Uint8Array ? { kind: type, value } : undefined;
    case "uuid":
      if (value instanceof Uint8Array) return value.length === 16 ? { kind: type, value: toHex(value) } : undefined;
      return typeof value === "string" && UUID.test(value) ? { kind: type, value: value.replaceAll("-", "").toLowerCase() } : undefined;
  }
}

function whole(kind: "bigint" | "timestamp", value: Exclude<Value, null>): TypedValue | undefined {
  if (typeof value === "number" && Number.isSafeInteger(value)) return { kind, value: BigInt(value) };
  return typeof value === "bigint" && value >= -BIGINT_LIMIT && value < BIGINT_LIMIT ? { kind, value } : undefined;
}

function mismatch(place: string, type: CellType, found: string): ConcordClientError {
  return clientError("TYPE_MISMATCH", `${place} takes ${EXPECTED[type]}, not ${found}`, { metadata: { place, type } });
}

const EXPECTED: Readonly<Record<CellType, string>> = {
  bigint: "a bigint or whole number of 64 bits",
  int: "a whole number of 32 bits",
  text: "a string",
  blob: "a Uint8Array",
  boolean: "a boolean",
  double: "a number other than NaN",
  timestamp: "a Date or whole milliseconds since 1970",
  uuid: "a uuid as string or 16 bytes",
};

/** What was given, by type only: values stay out of messages. */
function describe(value: unknown): string {
  if (value instanceof Uint8Array) return `a Uint8Array of ${value.length} bytes`;
  if (value instanceof Date) return "a Date";
  if (typeof value === "number") return Number.isInteger(value) ? "this whole number" : "this number";
  return value === null ? "null" : `a ${typeof value} like this`;
}

/** A cell as the contracts' messages have it. */
export type CellMessage = Readonly<Record<string, unknown>>;

export function cellMessage(cell: TypedValue | null): CellMessage {
  if (cell === null) return { nullValue: true };
  return { [`${cell.kind}Value`]: cell.kind === "uuid" ? fromHex(cell.value) : cell.value };
}

/** Null for a null_value and for a kind this client does not know. */
export function cellFromMessage(message: CellMessage): TypedValue | null {
  const field = message["kind"] as string | undefined;
  const kind = field?.replace(/Value$/, "") as CellType | undefined;
  if (field === undefined || kind === undefined || !CELL_TYPES.includes(kind)) return null;
  const value = message[field];
  return { kind, value: kind === "uuid" ? toHex(value as Uint8Array) : value } as TypedValue;
}
