/** ConcordError <-> what grpc-js throws and takes. */
import { Metadata, status as GrpcStatus, type ServiceError, type StatusObject } from "@grpc/grpc-js";
import { ConcordError, type Applied, type ErrorCode } from "@concord/runtime";
import { decodeStatus, encodeStatus, publicError, toStatus } from "./status.ts";

const DETAILS_KEY = "grpc-status-details-bin";

/** The error as grpc-js servers want it: plain status for any client, rich details for those that read them. */
export function toServiceError(thrown: unknown): StatusObject & Error {
  const error = publicError(thrown);
  const { code, message } = toStatus(error);
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(encodeStatus(error)));
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
  const metadata = { status: GrpcStatus[error.code] ?? String(error.code) };
  return new ConcordError(code, error.details || error.message, { applied, metadata, cause: error });
}

function meaningOf(error: ServiceError): { readonly code: ErrorCode; readonly applied: Applied } {
  switch (error.code) {
    case GrpcStatus.CANCELLED:
      return { code: "CANCELLED", applied: "unknown" };
    case GrpcStatus.DEADLINE_EXCEEDED:
      return { code: "DEADLINE_EXCEEDED", applied: "unknown" };
    case GrpcStatus.UNAVAILABLE:
      return { code: "CONNECTION_LOST", applied: neverConnected(error) ? "no" : "unknown" };
    case GrpcStatus.UNIMPLEMENTED:
      return { code: "UNIMPLEMENTED", applied: "no" };
    case GrpcStatus.UNAUTHENTICATED:
      return { code: "UNAUTHENTICATED", applied: "no" };
    case GrpcStatus.PERMISSION_DENIED:
      return { code: "PERMISSION_DENIED", applied: "no" };
    case GrpcStatus.RESOURCE_EXHAUSTED:
      // Either side of grpc-js found a message too large: the request (nothing applied) or the response (applied).
      return { code: "LIMIT_EXCEEDED", applied: "unknown" };
    default:
      return { code: "INTERNAL", applied: "unknown" };
  }
}

/** grpc-js says so only in the text: the request was never put on a connection. */
function neverConnected(error: ServiceError): boolean {
  return error.details.startsWith("No connection established") || error.details.startsWith("Name resolution failed");
}
