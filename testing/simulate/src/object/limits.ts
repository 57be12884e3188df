/** Parts of a multipart upload in the simulation: small, so that there can be several. */
export const PART_BYTES_MIN = 18_000;
