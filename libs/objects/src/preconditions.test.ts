import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import type { Precondition } from "./api.ts";
import { checkCopyCondition, checkReadCondition, checkWriteCondition } from "./preconditions.ts";
import type { StoredObject } from "./rows.ts";
import { NO_ATTRIBUTES } from "./test/fixture.ts";

const MODIFIED = 10_400;
const object: StoredObject = {
  kind: "object",
  content: { kind: "inline", bytes: new Uint8Array() },
  sizeBytes: 0,
  etag: "e",
  modifiedMs: MODIFIED,
  attributes: NO_ATTRIBUTES,
  checksum: undefined,
};

const outcome = (check: () => void): string => {
  try {
    check();
    return "fine";
  } catch (error) {
    assert.ok(error instanceof ConcordError);
    return error.code;
  }
};

const FAILED = "PRECONDITION_FAILED";
const NOT = "NOT_MODIFIED";
/** Condition, of a read, of a copy's source. Times are in whole seconds: 10 s is when the object was modified. */
const READS: readonly (readonly [string, Precondition, string, string])[] = [
  ["none", {}, "fine", "fine"],
  ["if-match fits", { ifMatch: ["x", "e"] }, "fine", "fine"],
  ["if-match any", { ifMatch: ["*"] }, "fine", "fine"],
  ["if-match another", { ifMatch: ["x"] }, FAILED, FAILED],
  ["if-match fits, modified since: the ETag decides", { ifMatch: ["e"], ifUnmodifiedSinceMs: 1000 }, "fine", "fine"],
  ["if-match another, not modified since", { ifMatch: ["x"], ifUnmodifiedSinceMs: 20_000 }, FAILED, FAILED],
  ["unmodified since then", { ifUnmodifiedSinceMs: 10_000 }, "fine", "fine"],
  ["modified since then", { ifUnmodifiedSinceMs: 9000 }, FAILED, FAILED],
  ["if-none-match fits", { ifNoneMatch: ["e"] }, NOT, FAILED],
  ["if-none-match any", { ifNoneMatch: ["*"] }, NOT, FAILED],
  ["if-none-match another", { ifNoneMatch: ["x"] }, "fine", "fine"],
  ["if-none-match another, not modified: the ETag decides", { ifNoneMatch: ["x"], ifModifiedSinceMs: 20_000 }, "fine", "fine"],
  ["if-none-match fits, modified since", { ifNoneMatch: ["e"], ifModifiedSinceMs: 1000 }, NOT, FAILED],
  ["not modified since", { ifModifiedSinceMs: 10_000 }, NOT, FAILED],
  ["modified since", { ifModifiedSinceMs: 9000 }, "fine", "fine"],
  ["if-match another before if-none-match", { ifMatch: ["x"], ifNoneMatch: ["e"] }, FAILED, FAILED],
  ["if-match fits, then if-none-match fits", { ifMatch: ["e"], ifNoneMatch: ["e"] }, NOT, FAILED],
];

for (const [name, condition, read, copy] of READS) {
  test(`preconditions of reads: ${name}: ${read}, as a copy's source ${copy}`, () => {
    assert.equal(
      outcome(() => checkReadCondition(condition, object)),
      read,
    );
    assert.equal(
      outcome(() => checkCopyCondition(condition, object)),
      copy,
    );
  });
}

/** Condition, over an object, over nothing. */
const WRITES: readonly (readonly [string, Precondition, string, string])[] = [
  ["none", {}, "fine", "fine"],
  ["if-none-match any", { ifNoneMatch: ["*"] }, FAILED, "fine"],
  ["if-none-match fits", { ifNoneMatch: ["e"] }, FAILED, "fine"],
  ["if-none-match another", { ifNoneMatch: ["x"] }, "fine", "fine"],
  ["if-match fits", { ifMatch: ["e"] }, "fine", "OBJECT_UNKNOWN"],
  ["if-match any", { ifMatch: ["*"] }, "fine", "OBJECT_UNKNOWN"],
  ["if-match another", { ifMatch: ["x"] }, FAILED, "OBJECT_UNKNOWN"],
];

for (const [name, condition, over, absent] of WRITES) {
  test(`preconditions of writes: ${name}: ${over} over an object, ${absent} over nothing`, () => {
    assert.equal(
      outcome(() => checkWriteCondition(condition, object)),
      over,
    );
    assert.equal(
      outcome(() => checkWriteCondition(condition, undefined)),
      absent,
    );
  });
}

test("preconditions: not modified: tells what the answer's headers say", () => {
  assert.throws(() => checkReadCondition({ ifNoneMatch: ["e"] }, object), { metadata: { etag: "e", modifiedMs: String(MODIFIED) } });
});
