import type { Clock, Metadata } from "@concord/runtime";

/** Metadata that names a call, by its caller or by the server: it comes back with the answer, and log lines about the call have it. */
export const REQUEST_ID_KEY = "x-request-id";
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;
const BASE = 36;

/** Undefined when there is none, or one that does not belong into a log: other than 1 to 128 visible letters of ASCII. */
export function requestIdOf(metadata: Metadata): string | undefined {
  const id = metadata[REQUEST_ID_KEY];
  return id !== undefined && REQUEST_ID.test(id) ? id : undefined;
}

/** Makes the ids of calls that their callers did not name; none comes twice in a process, and those of another start differ. */
export function requestIds({ nowMs }: Pick<Clock, "nowMs">): () => string {
  const start = nowMs().toString(BASE);
  let last = 0;
  return () => `${start}-${(last += 1).toString(BASE)}`;
}

/** Of a call in a session: the session's, and which call of it. */
export function requestIdOfCall(metadata: Metadata, callId: number | bigint): string | undefined {
  const id = requestIdOf(metadata);
  return id === undefined ? undefined : `${id}/${callId}`;
}

/** As a field of a log line. */
export function requestIdField(requestId: string | undefined): { readonly requestId?: string } {
  return requestId === undefined ? {} : { requestId };
}
