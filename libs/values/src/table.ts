import type { CellTypeOf } from "./cell-type.ts";
import type { CellType } from "./model.ts";
import { bigint } from "./types/bigint.ts";
import { blob } from "./types/blob.ts";
import { boolean } from "./types/boolean.ts";
import { date } from "./types/date.ts";
import { decimal } from "./types/decimal.ts";
import { double } from "./types/double.ts";
import { inet } from "./types/inet.ts";
import { int } from "./types/int.ts";
import { text } from "./types/text.ts";
import { timestamp } from "./types/timestamp.ts";
import { uuid } from "./types/uuid.ts";

/** One entry per type: a type of the model without an entry does not compile. */
export const TABLE: { readonly [Kind in CellType]: Required<CellTypeOf<Kind>> } = {
  bigint: alike(bigint),
  int: alike(int),
  text: alike(text),
  blob: alike(blob),
  boolean: alike(boolean),
  double: alike(double),
  timestamp: alike(timestamp),
  uuid: alike(uuid),
  date: alike(date),
  inet: alike(inet),
  decimal: alike(decimal),
};

/** In the order in which messages list them; also the names of the types in CQL. */
export const CELL_TYPES = Object.keys(TABLE) as readonly CellType[];

export function isCellType(type: unknown): type is CellType {
  return typeof type === "string" && Object.hasOwn(TABLE, type);
}

/** Members in one order, hence entries of one hidden class: what works on values of all types stays fast. */
function alike<Kind extends CellType>(type: CellTypeOf<Kind>): Required<CellTypeOf<Kind>> {
  const { fromJavaScript, canonical, toWire } = type;
  const wireOf: CellTypeOf<Kind>["wireOf"] = (value) => {
    const content = fromJavaScript(value);
    return content === undefined ? undefined : toWire(canonical(content));
  };
  const members = Object.entries({ wireOf, ...type });
  return Object.fromEntries(members.toSorted(([left], [right]) => (left < right ? -1 : 1))) as unknown as Required<CellTypeOf<Kind>>;
}
