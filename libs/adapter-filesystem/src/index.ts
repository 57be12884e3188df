export { checkClosedBelow } from "./closed-below.ts";
export { FilesystemObjectData, type FilesystemOptions } from "./filesystem-object-data.ts";
export { BLOCK_BYTES, HEADER_BYTES_MAX, PACK_BYTES_MAX, BLOB_BYTES_MAX, BLOBS_PER_FOLDER, WRITE_BYTES } from "./limits.ts";
