// The error table of the README: what the driver throws, what it says of the request, what callers get.
import assert from "node:assert/strict";
import { test } from "node:test";
import { loggedOutcome } from "./cassandra-batches.ts";
import { failureOf, readError, writeError, type FailureKind } from "./failure.ts";

const response = (code: number, more: object = {}): Error =>
  Object.assign(new Error(`code ${code}`), { name: "ResponseError", code, ...more });
const driver = (name: string, message = name): Error => Object.assign(new Error(message), { name });
const noHost = (...inner: Error[]): Error =>
  Object.assign(driver("NoHostAvailableError"), { innerErrors: Object.fromEntries(inner.map((error, at) => [`host ${at}`, error])) });
const slow = driver("OperationTimedOutError", "The host did not reply before timeout");
const closed = driver("DriverError", "Socket was closed");

type Row = readonly [what: string, thrown: unknown, kind: FailureKind, write: string, applied: string, read: string];
const TABLE: readonly Row[] = [
  ["too few replicas alive", response(0x1000), "unavailable", "REPLICAS_UNAVAILABLE", "no", "REPLICAS_UNAVAILABLE"],
  ["coordinator overloaded", response(0x1001), "not-sent", "REPLICAS_UNAVAILABLE", "no", "REPLICAS_UNAVAILABLE"],
  ["coordinator starting", response(0x1002), "not-sent", "REPLICAS_UNAVAILABLE", "no", "REPLICAS_UNAVAILABLE"],
  ["write time-out", response(0x1100, { writeType: "SIMPLE" }), "write-unacknowledged", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  [
    "contended or lost Paxos round",
    response(0x1100, { writeType: "CAS" }),
    "write-unacknowledged",
    "WRITE_TIMEOUT",
    "unknown",
    "READ_TIMEOUT",
  ],
  ["CAS write unknown (protocol v5)", response(0x1700), "write-unacknowledged", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["write failure", response(0x1500, { writeType: "SIMPLE" }), "write-unacknowledged", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["read time-out", response(0x1200), "read-unanswered", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["read failure", response(0x1300), "read-unanswered", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["server error", response(0x0000), "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["a code of the future", response(0x7777), "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  [
    "batch above the threshold",
    Object.assign(response(0x2200), { message: "Batch too large" }),
    "too-large",
    "LIMIT_EXCEEDED",
    "no",
    "LIMIT_EXCEEDED",
  ],
  ["invalid statement", response(0x2200), "refused", "INTERNAL", "no", "INTERNAL"],
  ["no permission", response(0x2100), "refused", "INTERNAL", "no", "INTERNAL"],
  ["time-out of the driver", slow, "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["connection closed under it", closed, "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  ["connections full", driver("BusyConnectionError"), "not-sent", "REPLICAS_UNAVAILABLE", "no", "REPLICAS_UNAVAILABLE"],
  [
    "no host: none could be connected",
    noHost(driver("Error", "connect ECONNREFUSED")),
    "not-sent",
    "REPLICAS_UNAVAILABLE",
    "no",
    "REPLICAS_UNAVAILABLE",
  ],
  [
    "no host: one of them had it",
    noHost(driver("Error", "connect ECONNREFUSED"), slow),
    "no-answer",
    "WRITE_TIMEOUT",
    "unknown",
    "READ_TIMEOUT",
  ],
  ["no host: a connection closed under it", noHost(closed), "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
  [
    "no host: one knew too few replicas",
    noHost(response(0x1000), driver("Error")),
    "unavailable",
    "REPLICAS_UNAVAILABLE",
    "no",
    "REPLICAS_UNAVAILABLE",
  ],
  ["no host: nothing was tried", noHost(), "not-sent", "REPLICAS_UNAVAILABLE", "no", "REPLICAS_UNAVAILABLE"],
  ["wrong password", driver("AuthenticationError"), "refused", "INTERNAL", "no", "INTERNAL"],
  ["no error at all", "text", "no-answer", "WRITE_TIMEOUT", "unknown", "READ_TIMEOUT"],
];

for (const [what, thrown, kind, write, applied, read] of TABLE) {
  test(`[TXC2] failure: ${what}: ${kind}; a write gets ${write} (applied: ${applied}), a read ${read}`, () => {
    const failure = failureOf(thrown);
    assert.equal(failure.kind, kind);
    assert.deepEqual([writeError(failure).code, writeError(failure).applied], [write, applied]);
    // A read changed nothing, whatever it failed by.
    assert.deepEqual([readError(failure).code, readError(failure).applied], [read, "no"]);
    assert.equal(failureOf(failure), failure);
  });
}

const BATCHES: readonly (readonly [string, unknown, string, string, string])[] = [
  [
    "two holders did not acknowledge the log",
    response(0x1100, { writeType: "BATCH_LOG" }),
    "BATCH_LOG_TIMEOUT",
    "BATCH_LOG",
    "LOG_UNKNOWN",
  ],
  ["replicas did not acknowledge the rows", response(0x1100, { writeType: "BATCH" }), "BATCH_TIMEOUT", "BATCH", "LOGGED_PENDING"],
  ["replicas failed", response(0x1500, { writeType: "BATCH" }), "BATCH_TIMEOUT", "BATCH", "LOGGED_PENDING"],
  ["coordinator killed", closed, "BATCH_LOG_TIMEOUT", "BATCH_LOG", "LOG_UNKNOWN"],
  ["no answer", slow, "BATCH_LOG_TIMEOUT", "BATCH_LOG", "LOG_UNKNOWN"],
  ["too few replicas alive", response(0x1000), "REPLICAS_UNAVAILABLE", "BATCH_LOG", "NOT_LOGGED"],
  ["another type of write", response(0x1100, { writeType: "SIMPLE" }), "BATCH_LOG_TIMEOUT", "BATCH_LOG", "LOG_UNKNOWN"],
];

for (const [what, thrown, code, writeType, outcome] of BATCHES) {
  test(`[LBC1] logged batch: ${what}: ${code}, ${outcome}`, () => {
    assert.deepEqual(loggedOutcome(failureOf(thrown)), { code, writeType, outcome });
  });
}
