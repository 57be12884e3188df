import type { Literal } from "./cell-type.ts";
import type { CellMessage, CellModel, CellOf, CellType, CellValue } from "./model.ts";
import { TABLE } from "./table.ts";

export type LiteralOutcome = { readonly kind: "value"; readonly value: CellValue } | { readonly kind: "refused"; readonly problem: string };

/** A literal of CQL as a value of `type`; what is wrong with it as "the value given ..." goes on. Ranges are checked later. */
export function literalValue(type: CellType, literal: Literal): LiteralOutcome {
  const content = TABLE[type].fromLiteral(literal);
  if (typeof content === "object" && "refused" in content) return { kind: "refused", problem: content.refused };
  return { kind: "value", value: { kind: type, value: content } as CellValue };
}

/** A JavaScript value as one of `type`, in its one form, so that clients compute the tokens of servers; undefined = it is none. */
export function fromJavaScript<Kind extends CellType>(kind: Kind, value: unknown): CellOf<Kind> | undefined {
  const content = TABLE[kind].fromJavaScript(value);
  return content === undefined ? undefined : ({ kind, value: TABLE[kind].canonical(content) } as CellOf<Kind>);
}

/** `fromJavaScript` as it is sent. */
export function javaScriptToWire<Kind extends CellType>(kind: Kind, value: unknown): CellMessage | undefined {
  return TABLE[kind].wireOf(value) as CellMessage | undefined;
}

export function toJavaScript<Kind extends CellType>({ kind, value }: CellOf<Kind>): CellModel[Kind]["given"] {
  return TABLE[kind].toJavaScript(value);
}

/** What a column of the type takes, for refusals: "a boolean". */
export function takenBy(type: CellType): string {
  return TABLE[type].takes;
}
