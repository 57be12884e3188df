/**
 * ConcordError <-> google.rpc.Status. Nothing of an error is lost between two Concord processes: code, message, applied, metadata
 * and the time after which to repeat arrive as they were thrown (I1).
 */
import type { MessageCodec } from "@concord/protos";
import {
  contract,
  type ErrorInfo,
  type ErrorInfoInit,
  type RetryInfo,
  type RetryInfoInit,
  type Status,
  type StatusInit,
} from "@concord/protos/google.rpc";
import { ConcordError, ERRORS, toConcordError, type Applied, type ErrorCode, type GrpcStatusName } from "@concord/runtime";
import { STATUS_METADATA_ENTRIES_MAX, STATUS_TEXT_MAX } from "./limits.ts";

export const GRPC_STATUS_NUMBERS: Readonly<Record<GrpcStatusName, number>> = {
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
};

const ERROR_DOMAIN = "concord";
const TYPE_PREFIX = "type.googleapis.com/";
const ERROR_INFO = "google.rpc.ErrorInfo";
const RETRY_INFO = "google.rpc.RetryInfo";
/** Metadata keys of ErrorInfo that carry fields of the error; the thrower's own metadata cannot have them. */
const APPLIED_KEY = "applied";

interface Codecs {
  readonly status: MessageCodec<Status, StatusInit>;
  readonly errorInfo: MessageCodec<ErrorInfo, ErrorInfoInit>;
  readonly retryInfo: MessageCodec<RetryInfo, RetryInfoInit>;
}

let loaded: Codecs | undefined;

function codecs(): Codecs {
  loaded ??= { status: contract.message("Status"), errorInfo: contract.message("ErrorInfo"), retryInfo: contract.message("RetryInfo") };
  return loaded;
}

/** The status a failed call travels as: ErrorInfo always, RetryInfo when repeating can help. */
export function toStatus(error: ConcordError): Status {
  const details = [{ typeUrl: TYPE_PREFIX + ERROR_INFO, value: codecs().errorInfo.encode(errorInfo(error)) }];
  if (error.retryAfterMs !== undefined) {
    details.push({ typeUrl: TYPE_PREFIX + RETRY_INFO, value: codecs().retryInfo.encode(retryInfo(error.retryAfterMs)) });
  }
  return { code: GRPC_STATUS_NUMBERS[ERRORS[error.code].status], message: cut(error.message), details };
}

/** The error a status was made of; undefined when no Concord process made it. */
export function fromStatus(status: Status): ConcordError | undefined {
  const info = detail(status, ERROR_INFO, codecs().errorInfo);
  if (info === undefined || info.domain !== ERROR_DOMAIN) return undefined;
  const { [APPLIED_KEY]: applied, ...metadata } = info.metadata;
  if (!(info.reason in ERRORS)) {
    // A newer server's reason: we know nothing about it but what the status itself says.
    return new ConcordError("INTERNAL", status.message, { applied: appliedOf(applied), metadata: { ...metadata, reason: info.reason } });
  }
  const retry = detail(status, RETRY_INFO, codecs().retryInfo);
  const delay = retry?.retryDelay;
  const retryAfterMs = delay === undefined || delay === null ? undefined : Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  return new ConcordError(info.reason as ErrorCode, status.message, {
    applied: appliedOf(applied),
    metadata,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

export function encodeStatus(error: ConcordError): Uint8Array {
  return codecs().status.encode(toStatus(error));
}

/** Undefined when the bytes are not a status of ours. */
export function decodeStatus(bytes: Uint8Array): ConcordError | undefined {
  try {
    return fromStatus(codecs().status.decode(bytes));
  } catch {
    return undefined;
  }
}

/** What a caller may see of a thrown value: texts of errors we did not write ourselves stay in the log. */
export function publicError(thrown: unknown): ConcordError {
  if (thrown instanceof ConcordError) return thrown;
  return new ConcordError("INTERNAL", "internal error; the server's log has the details", { cause: toConcordError(thrown) });
}

function errorInfo(error: ConcordError): ErrorInfoInit {
  const metadata: Record<string, string> = {};
  for (const [key, value] of Object.entries(error.metadata).slice(0, STATUS_METADATA_ENTRIES_MAX)) metadata[key] = cut(value);
  metadata[APPLIED_KEY] = error.applied;
  return { reason: error.code, domain: ERROR_DOMAIN, metadata };
}

function retryInfo(retryAfterMs: number): RetryInfoInit {
  return { retryDelay: { seconds: BigInt(Math.floor(retryAfterMs / 1000)), nanos: Math.round((retryAfterMs % 1000) * 1e6) } };
}

function detail<Message extends object, Init extends object>(
  status: Status,
  name: string,
  codec: MessageCodec<Message, Init>,
): Message | undefined {
  const found = status.details.find((one) => one.typeUrl.endsWith(`/${name}`));
  return found === undefined ? undefined : codec.decode(found.value);
}

function appliedOf(text: string | undefined): Applied {
  return text === "no" || text === "yes" ? text : "unknown";
}

function cut(text: string): string {
  // Well-formed: grpc-js cannot send a text with half a surrogate pair.
  return (text.length <= STATUS_TEXT_MAX ? text : `${text.slice(0, STATUS_TEXT_MAX - 1)}…`).toWellFormed();
}
