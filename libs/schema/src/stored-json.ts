import { ConcordError } from "@concord/runtime";

/** Strict reading of JSON that we wrote ourselves: anything unexpected is CORRUPT_DATA, never guessed at. */
export type StoredObject = Readonly<Record<string, unknown>>;

/** Parses an object with exactly `fields` and `formatVersion` 1. */
export function storedObject(what: string, text: string, fields: readonly string[]): StoredObject {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (thrown) {
    throw corrupt(what, "is not JSON", thrown);
  }
  const object = objectOf(what, parsed, ["formatVersion", ...fields]);
  if (object["formatVersion"] !== 1) throw corrupt(what, `has format version ${JSON.stringify(object["formatVersion"])}, this reads 1`);
  return object;
}

/** A plain object with exactly `fields`. */
export function objectOf(what: string, value: unknown, fields: readonly string[]): StoredObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw corrupt(what, "is no object");
  const names = Object.keys(value);
  const unexpected = names.find((name) => !fields.includes(name));
  if (unexpected !== undefined) throw corrupt(what, `has unknown field ${unexpected}`);
  const missing = fields.find((name) => !names.includes(name));
  if (missing !== undefined) throw corrupt(what, `lacks field ${missing}`);
  return value as StoredObject;
}

export function arrayOf<Item>(what: string, value: unknown, read: (item: unknown) => Item): Item[] {
  if (!Array.isArray(value)) throw corrupt(what, "is no array");
  return value.map((item: unknown) => read(item));
}

export function textOf(what: string, value: unknown): string {
  if (typeof value !== "string") throw corrupt(what, "is no text");
  return value;
}

/** A non-negative decimal string. */
export function countOf(what: string, value: unknown): bigint {
  if (typeof value !== "string" || !/^(0|[1-9][0-9]{0,19})$/.test(value)) throw corrupt(what, "is no decimal number");
  return BigInt(value);
}

export function corrupt(what: string, problem: string, cause?: unknown): ConcordError {
  return new ConcordError("CORRUPT_DATA", `stored ${what} ${problem}`, { cause });
}
