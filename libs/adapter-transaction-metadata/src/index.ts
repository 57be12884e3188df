export { CALL_TIMEOUT_MS_DEFAULT } from "./limits.ts";
export { TransactionMetadata, type TransactionMetadataOptions } from "./transaction-metadata.ts";
