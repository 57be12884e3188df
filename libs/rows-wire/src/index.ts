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
  type WireColumn,
  type WireRow,
  type WireRowImage,
  type WireRowKey,
  type WireRowRange,
} from "./cells.ts";
export { definitionToWire, schemaToWire, type WireSchema, type WireTableDefinition } from "./definitions.ts";
export { mutationFromWire, mutationOf, writeFromWire, type WireMutation, type WireRowWrite } from "./writes.ts";
