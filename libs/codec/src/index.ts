export { ByteReader, corrupt } from "./byte-reader.ts";
export { ByteWriter } from "./byte-writer.ts";
export { compareBytes } from "./compare-bytes.ts";
export { foldName } from "./names.ts";
export {
  readOrderedBytes,
  readOrderedF64,
  readOrderedI32,
  readOrderedI64,
  writeOrderedBytes,
  writeOrderedF64,
  writeOrderedI32,
  writeOrderedI64,
  writeOrderedText,
} from "./ordered.ts";
export { openRecord, sealRecord } from "./sealed.ts";
export { fnv1a64, TOKEN_MAX, tokenOf, type TokenValue } from "./token.ts";
