/** ConcordError <-> what grpc-js throws and takes. */
import { Metadata, status as GrpcStatus, type ServiceError, type StatusObject } from "@grpc/grpc-js";
import { ConcordError, type Applied, type ErrorCode } from "@concord/runtime";
import { REQUEST_ID_KEY } from "./request-id.ts";
import { decodeStatus, encodeStatus, publicError, toStatus } from "./status.ts";

const DETAILS_KEY = "grpc-status-details-bin";
/** Encodings of messages that a server takes: nothing is inflated, so that a small request is small in memory too. */
export const ACCEPT_ENCODING_KEY = "grpc-accept-encoding";
export const IDENTITY = "identity";

/** The error as grpc-js servers want it: plain status for any client, rich details for those that read them, and which call it was. */
export function toServiceError(thrown: unknown, requestId: string): StatusObject & Error {
  const error = publicError(thrown);
  const { code, message } = toStatus(error);
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(encodeStatus(error)));
  metadata.set(REQUEST_ID_KEY, requestId);
  metadata.set(ACCEPT_ENCODING_KEY, IDENTITY);
  return Object.assign(new Error(message), { code, details: message, metadata });
}

/** What a client of ours makes of a failed call. */
export function fromServiceError(error: ServiceError): ConcordError {
  const bytes = error.metadata?.get(DETAILS_KEY)[0];
  const rich = bytes instanceof Uint8Array ? decodeStatus(bytes) : undefined;
  return rich ?? fromBareStatus(error);
}

/** A status that no Concord server wrote: made by grpc-js on either side, or by something between. */
function fromBareStatus(error: ServiceError): ConcordError {
  const { code, applied } = meaningOf(error);
  const text = error.details || error.message;
  const metadata = { status: GrpcStatus[error.code] ?? String(error.code) };
  return new ConcordError(code, isUnconnected(error) ? UNCONNECTED : text, { applied, metadata, cause: error });
}

const UNCONNECTED = "the deadline passed before the server could be connected to";

/** grpc-js names the step that the deadline interrupted: this one comes before a connection. */
function isUnconnected({ code, details }: ServiceError): boolean {
  return code === GrpcStatus.DEADLINE_EXCEEDED && details.endsWith("Waiting for LB pick");
}

interface Meaning {
  readonly code: ErrorCode;
  readonly applied: Applied;
}

/** A status that is not here is INTERNAL and unknown. */
const MEANINGS: ReadonlyMap<GrpcStatus, Meaning> = new Map<GrpcStatus, Meaning>([
  [GrpcStatus.CANCELLED, { code: "CANCELLED", applied: "unknown" }],
  [GrpcStatus.DEADLINE_EXCEEDED, { code: "DEADLINE_EXCEEDED", applied: "unknown" }],
  [GrpcStatus.UNAVAILABLE, { code: "CONNECTION_LOST", applied: "unknown" }],
  [GrpcStatus.UNIMPLEMENTED, { code: "UNIMPLEMENTED", applied: "no" }],
  [GrpcStatus.UNAUTHENTICATED, { code: "UNAUTHENTICATED", applied: "no" }],
  [GrpcStatus.PERMISSION_DENIED, { code: "PERMISSION_DENIED", applied: "no" }],
  // Either side of grpc-js found a message too large: the request (nothing applied) or the response (applied).
  [GrpcStatus.RESOURCE_EXHAUSTED, { code: "LIMIT_EXCEEDED", applied: "unknown" }],
]);

function meaningOf(error: ServiceError): Meaning {
  if (error.code === GrpcStatus.RESOURCE_EXHAUSTED && error.details === BROKEN_OFF) return { code: "OVERLOADED", applied: "unknown" };
  if (isUnconnected(error)) return { code: "DEADLINE_EXCEEDED", applied: "no" };
  if (neverReceived(error)) return { code: "CONNECTION_LOST", applied: "no" };
  return MEANINGS.get(error.code) ?? { code: "INTERNAL", applied: "unknown" };
}

/** What grpc-js says when the server broke off what this client did not read: `resetUnread`. */
const BROKEN_OFF = "Bandwidth exhausted or memory limit exceeded";

/** grpc-js says so only in the text: the request was not put on a connection, or the server refused its stream unread (HTTP/2). */
const NEVER_RECEIVED: readonly string[] = [
  "No connection established",
  "Channel closed before call started",
  "Name resolution failed",
  "Stream refused by server",
  "Write error: Stream closed with error code NGHTTP2_REFUSED_STREAM",
  "Failed to start HTTP/2 stream",
];

function neverReceived(error: ServiceError): boolean {
  return NEVER_RECEIVED.some((text) => error.details.startsWith(text));
}
