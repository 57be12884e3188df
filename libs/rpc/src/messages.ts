/** Bytes <-> messages at the edge, the same for every transport: size first, then form, each with its own error. */
import { MessageTooLarge, type Method } from "@concord/protos";
import { ConcordError, type MethodDescriptor } from "@concord/runtime";

/** A server's view of a request: LIMIT_EXCEEDED or MALFORMED_REQUEST, nothing applied. */
export function decodeRequest(method: MethodDescriptor, bytes: Uint8Array, bytesMax: number): object {
  if (bytes.length > bytesMax) throw tooLarge("request", bytesMax);
  try {
    return method.decodeRequest(bytes);
  } catch (thrown) {
    throw new ConcordError("MALFORMED_REQUEST", `the request of ${method.path} cannot be decoded`, { cause: thrown });
  }
}

/** The handler has run: what it did stays done although its answer does not fit. */
export function encodeResponse(method: MethodDescriptor, response: object, bytesMax: number): Uint8Array {
  return encodeLimited(() => method.encodeResponse(response, bytesMax), bytesMax);
}

/** As `encodeResponse`, for a part of one. */
export function encodeLimited(encode: () => Uint8Array, bytesMax: number): Uint8Array {
  try {
    return encode();
  } catch (thrown) {
    throw thrown instanceof MessageTooLarge ? tooLarge("response", bytesMax) : thrown;
  }
}

/** A client's view of its own request: LIMIT_EXCEEDED or MALFORMED_REQUEST before anything is sent. */
export function encodeRequest(method: MethodDescriptor, request: object, bytesMax: number): Uint8Array {
  try {
    return method.encodeRequest(request, bytesMax);
  } catch (thrown) {
    if (thrown instanceof MessageTooLarge) throw tooLarge("request", bytesMax);
    throw new ConcordError("MALFORMED_REQUEST", `the request of ${method.path} cannot be encoded: ${String(thrown)}`, { cause: thrown });
  }
}

/** The method of a session as one end sees it: a frame of more than `bytesMax` bytes is refused where it is encoded. */
export function limitedMethod(method: Method, bytesMax: number): Method {
  return {
    ...method,
    encodeRequest: (message) => encodeRequest(method, message, bytesMax),
    encodeResponse: (message) => encodeResponse(method, message, bytesMax),
  };
}

/** What ends a stream for one bad message: calls before it may be running, so nothing is said about them (I3). */
export function endingError(thrown: unknown): ConcordError {
  const error = thrown instanceof ConcordError ? thrown : new ConcordError("INTERNAL", String(thrown), { cause: thrown });
  return new ConcordError(error.code, error.message, { applied: "unknown", metadata: error.metadata, cause: thrown });
}

function tooLarge(what: "request" | "response", bytesMax: number): ConcordError {
  const applied = what === "request" ? "no" : "unknown";
  const metadata = { limit: "messageBytesMax", value: String(bytesMax) };
  return new ConcordError("LIMIT_EXCEEDED", `the ${what} has more than the ${bytesMax} bytes that are allowed`, { applied, metadata });
}
