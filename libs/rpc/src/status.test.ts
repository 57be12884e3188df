import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { contract } from "@concord/protos-common";
import { ConcordError, ERRORS, type ErrorCode } from "@concord/runtime";
import { STATUS_METADATA_ENTRIES_MAX, STATUS_TEXT_MAX } from "./limits.ts";
import { decodeStatus, encodeStatus, fromStatus, publicError, toStatus } from "./status.ts";

const PREFIX = "ERROR_REASON_";
const codes = Object.keys(ERRORS) as ErrorCode[];

test("errors: the list in code and the one in the contracts: equal, in order", () => {
  const reasons = contract.enumNames("ErrorReason").map((name) => name.slice(PREFIX.length));
  assert.deepEqual(reasons, ["UNSPECIFIED", ...codes]);
});

test("status: any error: arrives as it was thrown (I1)", () => {
  const metadata = fc.dictionary(
    fc.string({ minLength: 1, maxLength: 10 }).filter((key) => key !== "applied" && key !== "__proto__"),
    fc.string({ maxLength: 40 }),
    {
      maxKeys: STATUS_METADATA_ENTRIES_MAX,
    },
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...codes),
      fc.string(),
      fc.constantFrom("no", "yes", "unknown"),
      metadata,
      fc.integer({ min: 0, max: 10_000_000 }),
      (code, message, applied, data, retryAfterMs) => {
        const error = new ConcordError(code, message, { applied, metadata: data, retryAfterMs });
        const copy = decodeStatus(encodeStatus(error))!;
        assert.deepEqual(
          [copy.code, copy.message, copy.applied, { ...copy.metadata }, copy.retryAfterMs],
          [error.code, error.message, error.applied, { ...error.metadata }, error.retryAfterMs],
        );
      },
    ),
  );
});

test("status: retryable codes: RetryInfo; others: none", () => {
  for (const code of codes) {
    const names = toStatus(new ConcordError(code, "x")).details.map((one) => one.typeUrl.split("/")[1]);
    assert.deepEqual(names, ERRORS[code].retryable ? ["google.rpc.ErrorInfo", "google.rpc.RetryInfo"] : ["google.rpc.ErrorInfo"], code);
  }
});

test("status: long texts and much metadata: cut to the limits", () => {
  const many = Object.fromEntries(
    Array.from({ length: STATUS_METADATA_ENTRIES_MAX + 1 }, (_, i) => [`key${i}`, "v".repeat(STATUS_TEXT_MAX + 1)]),
  );
  const copy = decodeStatus(encodeStatus(new ConcordError("NOT_FOUND", "m".repeat(STATUS_TEXT_MAX + 1), { metadata: many })))!;
  assert.equal(copy.message.length, STATUS_TEXT_MAX);
  assert.equal(Object.keys(copy.metadata).length, STATUS_METADATA_ENTRIES_MAX);
  assert.equal(copy.metadata["key0"]!.length, STATUS_TEXT_MAX);
});

test("status: not ours: undefined; a reason of a newer server: INTERNAL that keeps applied and the reason", () => {
  assert.equal(decodeStatus(Uint8Array.from([1, 2, 3])), undefined);
  assert.equal(fromStatus({ code: 5, message: "x", details: [] }), undefined);
  const newer = encodeStatus(new ConcordError("NOT_FOUND", "later"));
  const renamed = Buffer.from(Buffer.from(newer).toString("latin1").replace("NOT_FOUND", "NEW_FOUND"), "latin1");
  const error = decodeStatus(renamed)!;
  assert.deepEqual([error.code, error.applied, error.metadata], ["INTERNAL", "no", { reason: "NEW_FOUND" }]);
});

test("status: a value that is no error of ours: INTERNAL without its text", () => {
  const error = publicError(new Error("password=hunter2"));
  assert.deepEqual([error.code, error.applied], ["INTERNAL", "unknown"]);
  assert.doesNotMatch(error.message, /hunter2/);
});
