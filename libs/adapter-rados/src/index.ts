export { connectPool, type RadosOptions } from "./librados-pool.ts";
export { BLOB_BYTES_MAX, OPERATION_TIMEOUT_S, STRIPE_BYTES } from "./limits.ts";
export { RadosObjectData, type RadosObjectDataOptions } from "./rados-object-data.ts";
