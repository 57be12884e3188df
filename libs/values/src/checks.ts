import type { CellOf, CellType } from "./model.ts";
import { TABLE } from "./table.ts";

/** What keeps a value from being stored, as "the value given ..." goes on; undefined = nothing. */
export function valueProblem<Kind extends CellType>({ kind, value }: CellOf<Kind>): string | undefined {
  return TABLE[kind].problemOf(value);
}

/** What keeps a value from a key; less than `valueProblem`, for those who have no schema. */
export function keyProblem<Kind extends CellType>({ kind, value }: CellOf<Kind>): string | undefined {
  return TABLE[kind].keyProblemOf(value);
}

/** The one form of equal values, so that equal keys are equal bytes: -0 becomes 0. */
export function canonicalValue<Kind extends CellType>(cell: CellOf<Kind>): CellOf<Kind> {
  const { kind, value } = cell;
  const canonical = TABLE[kind].canonical(value);
  return Object.is(canonical, value) ? cell : ({ kind, value: canonical } as CellOf<Kind>);
}

/** Size of a value for the limits of keys and rows. */
export function valueBytes<Kind extends CellType>({ kind, value }: CellOf<Kind>): number {
  return TABLE[kind].bytesOf(value);
}

/** A text that two values share exactly when they are equal: for maps and lock tables. */
export function valueText<Kind extends CellType>({ kind, value }: CellOf<Kind>): string {
  const content = TABLE[kind].keyText(value);
  return `${kind}:${content.length}:${content}`;
}
