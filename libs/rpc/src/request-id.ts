import type { Metadata } from "@concord/runtime";

/** Metadata by which a caller names its request: it comes back with the answer, and log lines about the call have it. */
export const REQUEST_ID_KEY = "x-request-id";
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Undefined when the caller gave none, or one that does not belong into a log: other than 1 to 128 visible letters of ASCII. */
export function requestIdOf(metadata: Metadata): string | undefined {
  const id = metadata[REQUEST_ID_KEY];
  return id !== undefined && REQUEST_ID.test(id) ? id : undefined;
}

/** As a field of a log line. */
export function requestIdField(metadata: Metadata): { readonly requestId?: string } {
  const requestId = requestIdOf(metadata);
  return requestId === undefined ? {} : { requestId };
}
