import { ConcordError, ERRORS, toConcordError, type Applied, type ErrorCode } from "@concord/runtime";

interface WireError {
  readonly code: string;
  readonly message: string;
  readonly applied: Applied;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retryAfterMs: number | undefined;
}

/** An error as bytes, with what survives the real wire: code, message, applied, metadata, retry delay. */
export function encodeError(thrown: unknown): Uint8Array {
  const { code, message, applied, metadata, retryAfterMs } = toConcordError(thrown);
  const wire: WireError = { code, message, applied, metadata, retryAfterMs };
  return Buffer.from(JSON.stringify(wire));
}

export function decodeError(bytes: Uint8Array): ConcordError {
  const wire = JSON.parse(Buffer.from(bytes).toString()) as WireError;
  const code: ErrorCode = wire.code in ERRORS ? (wire.code as ErrorCode) : "INTERNAL";
  return new ConcordError(code, wire.message, {
    applied: wire.applied,
    metadata: wire.metadata,
    ...(wire.retryAfterMs === undefined ? {} : { retryAfterMs: wire.retryAfterMs }),
  });
}

export function connectionLost(address: string, applied: Applied = "unknown"): ConcordError {
  return new ConcordError("CONNECTION_LOST", `connection to ${address} lost`, { applied });
}
