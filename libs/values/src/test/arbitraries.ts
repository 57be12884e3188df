import fc from "fast-check";
import { canonicalValue } from "../checks.ts";
import { fromJavaScript } from "../conversions.ts";
import type { CellOf, CellType, CellValue } from "../model.ts";

const i64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const of =
  <Kind extends CellType>(kind: Kind) =>
  (value: CellOf<Kind>["value"]): CellOf<Kind> =>
    ({ kind, value }) as CellOf<Kind>;
const character = fc.constantFrom("a", "b", "\0", "\u0001", "ä", "\ud7ff", "\ue000", "！", "\uffff", "😀", "\u{10ffff}");

/** Any storable value of a type, likely edges often. A type without an entry does not compile. */
export const VALUES: { readonly [Kind in CellType]: fc.Arbitrary<CellOf<Kind>> } = {
  bigint: i64.map(of("bigint")),
  int: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map(of("int")),
  text: fc.string({ unit: character, maxLength: 5 }).map(of("text")),
  blob: fc.uint8Array({ maxLength: 5 }).map(of("blob")),
  boolean: fc.boolean().map(of("boolean")),
  double: fc.double({ noNaN: true }).map((value) => ({ kind: "double", value: value === 0 ? 0 : value })),
  timestamp: i64.map(of("timestamp")),
  uuid: fc.uuid().map((value) => ({ kind: "uuid", value: value.replaceAll("-", "") })),
  date: fc.integer({ min: -719_162, max: 2_932_896 }).map(of("date")),
  inet: fc
    .oneof(fc.uint8Array({ minLength: 4, maxLength: 4 }), fc.uint8Array({ minLength: 16, maxLength: 16 }))
    .map((bytes) => canonicalValue({ kind: "inet", value: bytes })),
  decimal: fc
    .tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.integer({ min: -40, max: 40 }))
    .map(([unscaled, scale]) => fromJavaScript("decimal", `${unscaled}e${-scale}`)!),
};

/** Any storable value. */
export const anyValue: fc.Arbitrary<CellValue> = fc.oneof(...Object.values(VALUES));
