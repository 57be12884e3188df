/** Bytes <-> messages at the edge, the same for every transport: size first, then form, each with its own error. */
import { ConcordError, type MethodDescriptor } from "@concord/runtime";

/** A server's view of a request: LIMIT_EXCEEDED or MALFORMED_REQUEST, nothing applied. */
export function decodeRequest(method: MethodDescriptor, bytes: Uint8Array, bytesMax: number): object {
  if (bytes.length > bytesMax) throw tooLarge("request", bytes.length, bytesMax);
  try {
    return method.decodeRequest(bytes);
  } catch (thrown) {
    throw new ConcordError("MALFORMED_REQUEST", `the request of ${method.path} cannot be decoded`, { cause: thrown });
  }
}

/** The handler has run: what it did stays done although its answer does not fit. */
export function encodeResponse(method: MethodDescriptor, response: object, bytesMax: number): Uint8Array {
  const bytes = method.encodeResponse(response);
  if (bytes.length > bytesMax) throw tooLarge("response", bytes.length, bytesMax);
  return bytes;
}

/** A client's view of its own request: LIMIT_EXCEEDED or MALFORMED_REQUEST before anything is sent. */
export function encodeRequest(method: MethodDescriptor, request: object, bytesMax: number): Uint8Array {
  let bytes: Uint8Array;
  try {
    bytes = method.encodeRequest(request);
  } catch (thrown) {
    throw new ConcordError("MALFORMED_REQUEST", `the request of ${method.path} cannot be encoded: ${String(thrown)}`, { cause: thrown });
  }
  if (bytes.length > bytesMax) throw tooLarge("request", bytes.length, bytesMax);
  return bytes;
}

/** What ends a stream for one bad message: calls before it may be running, so nothing is said about them (I3). */
export function endingError(thrown: unknown): ConcordError {
  const error = thrown instanceof ConcordError ? thrown : new ConcordError("INTERNAL", String(thrown), { cause: thrown });
  return new ConcordError(error.code, error.message, { applied: "unknown", metadata: error.metadata, cause: thrown });
}

function tooLarge(what: "request" | "response", bytes: number, bytesMax: number): ConcordError {
  const applied = what === "request" ? "no" : "unknown";
  const metadata = { limit: "messageBytesMax", value: String(bytesMax) };
  return new ConcordError("LIMIT_EXCEEDED", `the ${what} has ${bytes} bytes, at most ${bytesMax} are allowed`, { applied, metadata });
}
