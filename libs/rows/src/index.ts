export { emptyImage, imageOf, liveRow, mergeImages, newestTimestamp, sameImage } from "./row-image.ts";
export {
  decodeImage,
  decodeMutation,
  decodeRowKey,
  encodeImage,
  encodeMutation,
  encodePartition,
  encodeRange,
  encodeRowKey,
  encodeRows,
  imageRowKey,
  mutationRowKey,
  readRows,
} from "./storage-format.ts";
