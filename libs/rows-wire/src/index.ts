export {
  columnFromWire,
  imageFromWire,
  imageToWire,
  keyFromWire,
  keyToWire,
  malformed,
  rangeFromWire,
  rangeToWire,
  required,
  rowToWire,
} from "./cells.ts";
export { definitionToWire, schemaToWire, type WireSchema, type WireTableDefinition } from "./definitions.ts";
export { mutationFromWire, mutationOf, writeFromWire } from "./writes.ts";
/** Until the handlers are typed. */
export type {
  CellValue as WireCellValue,
  Column as WireColumn,
  RowKey as WireRowKey,
  RowRange as WireRowRange,
  RowWrite as WireRowWrite,
} from "@concord/protos-common";
export type { Mutation as WireMutation } from "@concord/protos-storage";
