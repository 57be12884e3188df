import { ConcordError, type ErrorCode } from "@concord/runtime";
import { SILENT_AFTER_MS } from "./limits.ts";

/** What a request to Cassandra failed by, as its driver shows it. */
export type FailureKind =
  /** The coordinator knew that too few replicas are alive: it sent nothing (0x1000). */
  | "unavailable"
  /** No coordinator took the request: all are down, overloaded or starting. */
  | "not-sent"
  /** Some replicas did not acknowledge in time, or failed (0x1100, 0x1500, 0x1700): `writeType` says what was being written. */
  | "write-unacknowledged"
  /** 0x1200, 0x1300. */
  | "read-unanswered"
  /** Sent, and neither acknowledged nor refused: time-out of the driver, closed connection, an error inside a node. */
  | "no-answer"
  /** Larger than Cassandra takes (0x2200). */
  | "too-large"
  /** Everything that would fail again: access, statements, protocol. */
  | "refused";

export type WriteType = "SIMPLE" | "BATCH" | "UNLOGGED_BATCH" | "COUNTER" | "BATCH_LOG" | "CAS" | "VIEW" | "CDC";

/** The only error of a session. */
export class CassandraFailure extends Error {
  readonly kind: FailureKind;
  readonly writeType: WriteType | undefined;

  constructor(kind: FailureKind, message: string, options: { readonly writeType?: WriteType; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "CassandraFailure";
    this.kind = kind;
    this.writeType = options.writeType;
  }

  /** Nothing of the request was carried out, and nothing of it will be. */
  get isWithoutEffect(): boolean {
    return this.kind === "unavailable" || this.kind === "not-sent" || this.kind === "too-large" || this.kind === "refused";
  }
}

/** The driver's errors by what they carry; its classes are not needed to tell them apart. */
export interface DriverErrorShape {
  readonly name: string;
  readonly message: string;
  readonly code?: number | string;
  readonly writeType?: string;
  /** Of a time-out: the coordinator's address. */
  readonly host?: string;
  readonly innerErrors?: Readonly<Record<string, unknown>>;
}

const KIND_OF_CODE: ReadonlyMap<number, FailureKind> = new Map([
  [0x0000, "no-answer"],
  [0x000a, "refused"],
  [0x0100, "refused"],
  [0x1000, "unavailable"],
  [0x1001, "not-sent"],
  [0x1002, "not-sent"],
  [0x1003, "no-answer"],
  [0x1100, "write-unacknowledged"],
  [0x1200, "read-unanswered"],
  [0x1300, "read-unanswered"],
  [0x1400, "refused"],
  [0x1500, "write-unacknowledged"],
  // Cassandra sends it from protocol v5 on; the driver uses v4 and gets 0x1100 CAS in its place.
  [0x1700, "write-unacknowledged"],
  [0x2000, "refused"],
  [0x2100, "refused"],
  [0x2200, "refused"],
  [0x2300, "refused"],
  [0x2400, "refused"],
  [0x2500, "not-sent"],
]);
const CAS_WRITE_UNKNOWN = 0x1700;
const TIMED_OUT = "OperationTimedOutError";
const INVALID = 0x2200;
const TOO_LARGE = /too large|oversized mutation|longer than maximum/;

/** Classes of the driver's own errors that were thrown before a request left. */
const NEVER_SENT = new Set(["BusyConnectionError", "ArgumentError", "NotSupportedError"]);

/** Any value that the driver threw (the error table of the README). */
export function failureOf(thrown: unknown): CassandraFailure {
  if (thrown instanceof CassandraFailure) return thrown;
  const error = shapeOf(thrown);
  const failed = (kind: FailureKind, writeType?: WriteType): CassandraFailure =>
    new CassandraFailure(kind, error.message, { cause: thrown, ...(writeType === undefined ? {} : { writeType }) });
  if (error.innerErrors !== undefined) return failed(kindOfAll(Object.values(error.innerErrors)));
  if (typeof error.code === "number") {
    const kind = error.code === INVALID && TOO_LARGE.test(error.message) ? "too-large" : (KIND_OF_CODE.get(error.code) ?? "no-answer");
    if (kind !== "write-unacknowledged") return failed(kind);
    return failed(kind, error.code === CAS_WRITE_UNKNOWN ? "CAS" : (error.writeType as WriteType | undefined));
  }
  if (error.name === "BusyConnectionError") return failed("not-sent");
  if (error.name === "AuthenticationError" || NEVER_SENT.has(error.name)) return failed("refused");
  return failed("no-answer");
}

/** Addresses of the coordinators that the request was sent to and that did not answer in time, of a request whose time was long enough to tell. */
export function silentNodes(thrown: unknown, timeoutMs: number): readonly string[] {
  if (timeoutMs < SILENT_AFTER_MS) return [];
  const { name, host, innerErrors } = shapeOf(thrown);
  if (innerErrors === undefined) return name === TIMED_OUT && host !== undefined ? [host] : [];
  return Object.entries(innerErrors).flatMap(([address, inner]) => (shapeOf(inner).name === TIMED_OUT ? [address] : []));
}

/** Of a request that several coordinators were tried for: without effect only if none of them had it. */
function kindOfAll(inner: readonly unknown[]): FailureKind {
  const kinds = inner.map((each): FailureKind => {
    const error = shapeOf(each);
    if (typeof error.code === "number") return failureOf(each).kind;
    if (error.name === "AuthenticationError") return "refused";
    // A time-out or a connection that closed under the request; everything else happened while connecting or choosing a connection.
    return error.name === TIMED_OUT || /Socket was closed/i.test(error.message) ? "no-answer" : "not-sent";
  });
  const worst = kinds.find((kind) => kind === "no-answer" || kind === "write-unacknowledged" || kind === "read-unanswered");
  return worst ?? kinds.find((kind) => kind !== "not-sent") ?? "not-sent";
}

function shapeOf(thrown: unknown): DriverErrorShape {
  if (typeof thrown !== "object" || thrown === null) return { name: typeof thrown, message: String(thrown) };
  const { name, message, code, writeType, host, innerErrors } = thrown as Partial<DriverErrorShape>;
  return {
    name: name ?? "Error",
    message: message ?? "",
    ...(code === undefined ? {} : { code }),
    ...(host === undefined ? {} : { host }),
    ...(writeType === undefined ? {} : { writeType }),
    ...(innerErrors === undefined ? {} : { innerErrors }),
  };
}

const READ_CODES = {
  unavailable: "REPLICAS_UNAVAILABLE",
  "not-sent": "REPLICAS_UNAVAILABLE",
  // A serial read may answer with a write time-out: it completes what it finds, and wrote nothing of its own.
  "write-unacknowledged": "READ_TIMEOUT",
  "read-unanswered": "READ_TIMEOUT",
  "no-answer": "READ_TIMEOUT",
  "too-large": "LIMIT_EXCEEDED",
  refused: "INTERNAL",
} as const satisfies Record<FailureKind, ErrorCode>;

const WRITE_CODES = {
  unavailable: "REPLICAS_UNAVAILABLE",
  "not-sent": "REPLICAS_UNAVAILABLE",
  "write-unacknowledged": "WRITE_TIMEOUT",
  "read-unanswered": "WRITE_TIMEOUT",
  "no-answer": "WRITE_TIMEOUT",
  "too-large": "LIMIT_EXCEEDED",
  refused: "INTERNAL",
} as const satisfies Record<FailureKind, ErrorCode>;

/** A failed read: it may be asked again. */
export function readError(failure: CassandraFailure): ConcordError {
  return errorOf(READ_CODES[failure.kind], failure, true);
}

/** A failed write with explicit timestamps. */
export function writeError(failure: CassandraFailure): ConcordError {
  return errorOf(WRITE_CODES[failure.kind], failure, failure.isWithoutEffect);
}

function errorOf(code: ErrorCode, failure: CassandraFailure, isWithoutEffect: boolean): ConcordError {
  const metadata = failure.writeType === undefined ? {} : { writeType: failure.writeType };
  const applied = isWithoutEffect ? "no" : "unknown";
  return new ConcordError(code, `Cassandra: ${failure.message}`, { applied, metadata, cause: failure });
}
