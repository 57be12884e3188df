export { ByteReader, corrupt } from "./byte-reader.ts";
export { ByteWriter } from "./byte-writer.ts";
export { compareBytes } from "./compare-bytes.ts";
export { fnv1a64, Hash64 } from "./fnv1a64.ts";
export { keyHash, KeyTable, type Keyed } from "./key-table.ts";
export { keyText } from "./key-text.ts";
export { PlacedPut, type PutPlace } from "./placed-put.ts";
export { foldName } from "./names.ts";
export {
  readOrderedBytes,
  readOrderedF64,
  readOrderedI32,
  readOrderedI64,
  readOrderedText,
  writeOrderedBytes,
  writeOrderedF64,
  writeOrderedI32,
  writeOrderedI64,
  writeOrderedText,
} from "./ordered.ts";
export { openRecord, sealRecord } from "./sealed.ts";
