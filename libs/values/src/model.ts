/**
 * The column types and what a value of each is, in plain TypeScript: this file names no other package, so that the types of the
 * installed client stand alone. Per type: `content` in memory, `wire` in concord.common.v1.CellValue, `taken` from and `given` to
 * JavaScript.
 */
export interface CellModel {
  readonly bigint: { content: bigint; wire: bigint; taken: bigint | number; given: bigint };
  /** 32-bit. */
  readonly int: { content: number; wire: number; taken: number | bigint; given: number };
  readonly text: { content: string; wire: string; taken: string; given: string };
  readonly blob: { content: Uint8Array; wire: Uint8Array; taken: Uint8Array; given: Uint8Array };
  readonly boolean: { content: boolean; wire: boolean; taken: boolean; given: boolean };
  readonly double: { content: number; wire: number; taken: number; given: number };
  /** Milliseconds since the Unix epoch; given as bigint beyond the range of a Date. */
  readonly timestamp: { content: bigint; wire: bigint; taken: Date | bigint | number; given: Date | bigint };
  /** 32 lower-case hex digits; given with dashes. */
  readonly uuid: { content: string; wire: Uint8Array; taken: string | Uint8Array; given: string };
  /** Days since 1970-01-01, years 1 to 9999; taken and given as "YYYY-MM-DD". */
  readonly date: { content: number; wire: number; taken: string; given: string };
  /** 4 or 16 bytes; an IPv4 address mapped into IPv6 is the IPv4 address. Given as text (RFC 5952). */
  readonly inet: { content: Uint8Array; wire: Uint8Array; taken: string | Uint8Array; given: string };
  /** Canonical text: equal numbers are equal texts. Given as it is. */
  readonly decimal: {
    content: string;
    wire: { readonly unscaled: Uint8Array; readonly scale: number };
    taken: string | bigint | number;
    given: string;
  };
}

export type CellType = keyof CellModel;

/** A value of one type; of a union of types: a union of values. */
export type CellOf<Kind extends CellType> = {
  readonly [Each in Kind]: { readonly kind: Each; readonly value: CellModel[Each]["content"] };
}[Kind];

/** One typed value. */
export type CellValue = CellOf<CellType>;

/** A value as JavaScript has it: what a column of some type takes or gives. */
export type JavaScriptValue = CellModel[CellType]["taken" | "given"];

/** A value as a message of the contracts: exactly one field, named after the type. */
export type CellMessageOf<Kind extends CellType> = { readonly [Each in Kind as `${Each}Value`]: CellModel[Each]["wire"] };

/** concord.common.v1.CellValue; a decoded message names the field that is set in `kind`. */
export type CellMessage = { readonly kind?: `${CellType}Value` | "nullValue" | undefined; readonly nullValue?: boolean | undefined } & {
  readonly [Each in CellType as `${Each}Value`]?: CellModel[Each]["wire"] | undefined;
};
