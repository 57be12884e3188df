export { columnBytes, imageBytes } from "./column-bytes.ts";
export { emptyImage, imageOf, liveRow, mergeImages, newestTimestamp, sameImage, supersedingUs } from "./row-image.ts";
export {
  decodeImage,
  decodeMutation,
  decodeRowKey,
  encodeImage,
  encodeMutation,
  encodePartition,
  encodeRange,
  encodeRowKey,
  encodeRowsPart,
  imageRowKey,
  isTombstone,
  joinRows,
  mutationRowKey,
  readRows,
  rowPlaces,
  type RowPlace,
} from "./storage-format.ts";
