import { decodeStatus, encodeStatus, publicError } from "@concord/rpc";
import { ConcordError, type Applied } from "@concord/runtime";

/** An error as the bytes that travel on a real connection. */
export function encodeError(thrown: unknown): Uint8Array {
  return encodeStatus(publicError(thrown));
}

export function decodeError(bytes: Uint8Array): ConcordError {
  return decodeStatus(bytes) ?? new ConcordError("INTERNAL", "a status that no Concord process wrote");
}

export function connectionLost(address: string, applied: Applied): ConcordError {
  return new ConcordError("CONNECTION_LOST", `connection to ${address} lost`, { applied });
}
