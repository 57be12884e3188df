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
export { definitionToWire, schemaToWire, type SchemaMessage } from "./definitions.ts";
export { checkGroupLogProtocol, GROUP_LOG_PROTOCOL } from "./group-log-protocol.ts";
export {
  objectAmountsFromWire,
  objectAmountsToWire,
  objectConditionFromWire,
  objectConditionToWire,
  objectOutcomeFromWire,
  objectOutcomeToWire,
  objectRowFromWire,
  objectRowsFromWire,
  objectRowsToWire,
  objectRowToWire,
  objectWriteFromWire,
  objectWriteToWire,
} from "./object-rows.ts";
export { mutationFromWire, mutationOf, writeFromWire } from "./writes.ts";
