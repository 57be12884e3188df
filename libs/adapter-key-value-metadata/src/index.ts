export { KeyValueMetadata, type KeyValueMetadataOptions, type MetadataStore } from "./key-value-metadata.ts";
export { COMMIT_BYTES_MAX, COMMIT_ROWS_MAX } from "./limits.ts";
