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
  imageRowKey,
  mutationRowKey,
} from "./storage-format.ts";
