import assert from "node:assert/strict";
import { test } from "node:test";
import { assert as invariant, ConcordError, ERRORS, RETRY_AFTER_MS_DEFAULT, toConcordError, type ErrorCode } from "./index.ts";

test("errors: every code: rejected means nothing was applied and repeating does not help", () => {
  for (const [code, description] of Object.entries(ERRORS)) {
    if (description.kind === "rejected") {
      assert.equal(description.applied, "no", code);
      assert.equal(description.retryable, false, code);
    }
    if (description.kind === "unknown") assert.equal(description.applied, "unknown", code);
  }
});

test("errors: retryable code without a delay: the default delay; others: none", () => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const error = new ConcordError(code, "x");
    assert.equal(error.retryAfterMs, ERRORS[code].retryable ? RETRY_AFTER_MS_DEFAULT : undefined, code);
  }
});

test("errors: the thrower knows better what was applied: its word counts", () => {
  assert.equal(new ConcordError("CONNECTION_LOST", "never sent", { applied: "no" }).applied, "no");
});

test("errors: a foreign error: INTERNAL, applied unknown, cause kept", () => {
  const cause = new TypeError("boom");
  const error = toConcordError(cause);
  assert.deepEqual([error.code, error.applied, error.cause], ["INTERNAL", "unknown", cause]);
  assert.equal(toConcordError(error), error);
});

test("assert: false: INTERNAL with the message", () => {
  assert.throws(() => invariant(false, "one is two"), /one is two/);
  invariant(true, "fine");
});
