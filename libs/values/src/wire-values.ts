import type { CellMessage, CellMessageOf, CellOf, CellType, CellValue } from "./model.ts";
import { CELL_TYPES, TABLE } from "./table.ts";
import { malformed } from "./types/shared.ts";

/** By the field that is set in the message. */
const READERS: ReadonlyMap<string, (message: CellMessage) => CellValue> = new Map(
  CELL_TYPES.map((kind) => [`${kind}Value`, readerFor(kind)]),
);

/** A value of concord.common.v1; null deletes a cell. MALFORMED_REQUEST for a message without a kind and for what no value can be. */
export function cellFromWire(message: CellMessage | null | undefined): CellValue | null {
  const field = message?.kind;
  if (message === null || message === undefined || field === undefined) throw malformed("a value has no kind");
  const read = READERS.get(field);
  if (read !== undefined) return read(message);
  if (field === "nullValue") return null;
  throw malformed("a value has no kind");
}

export function cellToWire(value: CellValue | null): CellMessage {
  return value === null ? { nullValue: true } : messageOf(value);
}

function messageOf<Kind extends CellType>({ kind, value }: CellOf<Kind>): CellMessage {
  return TABLE[kind].toWire(value) as CellMessage;
}

function readerFor<Kind extends CellType>(kind: Kind): (message: CellMessage) => CellValue {
  const { fromWire } = TABLE[kind];
  return (message) => ({ kind, value: fromWire(message as CellMessageOf<Kind>) }) as CellValue;
}
