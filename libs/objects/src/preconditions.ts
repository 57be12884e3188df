import { assert, ConcordError } from "@concord/runtime";
import type { DeleteCondition, Precondition } from "./api.ts";
import type { StoredObject } from "./rows.ts";

/**
 * Conditions of a read in the order of RFC 9110, 13.2.2: If-Match, else If-Unmodified-Since: PRECONDITION_FAILED; then If-None-Match, else
 * If-Modified-Since: NOT_MODIFIED.
 */
export function checkReadCondition(condition: Precondition, object: StoredObject): void {
  condition.judge?.(object);
  if (condition.ifMatch !== undefined) {
    if (!names(condition.ifMatch, object)) throw failed("If-Match");
  } else if (condition.ifUnmodifiedSinceMs !== undefined && modifiedAfter(object, condition.ifUnmodifiedSinceMs)) {
    throw failed("If-Unmodified-Since");
  }
  if (condition.ifNoneMatch !== undefined) {
    if (names(condition.ifNoneMatch, object)) throw notModified(object);
  } else if (condition.ifModifiedSinceMs !== undefined && !modifiedAfter(object, condition.ifModifiedSinceMs)) {
    throw notModified(object);
  }
}

/** The same rules for the source of a copy, where "not modified" is a failed condition too (S3). */
export function checkCopyCondition(condition: Precondition, object: StoredObject): void {
  try {
    checkReadCondition(condition, object);
  } catch (error) {
    if (error instanceof ConcordError && error.code === "NOT_MODIFIED") throw failed("the copy source's condition");
    throw error;
  }
}

/** Conditions of a write, against what the key holds now. OBJECT_UNKNOWN: If-Match where there is nothing (S3). */
export function checkWriteCondition(condition: Precondition, object: StoredObject | undefined): void {
  condition.judge?.(object);
  if (condition.ifMatch !== undefined) {
    if (object === undefined) throw new ConcordError("OBJECT_UNKNOWN", "If-Match: there is no such object");
    if (!names(condition.ifMatch, object)) throw failed("If-Match");
  }
  if (condition.ifNoneMatch !== undefined && object !== undefined && names(condition.ifNoneMatch, object)) throw failed("If-None-Match");
}

/** Conditions of a delete, against what the key holds now. OBJECT_UNKNOWN as for writes. */
export function checkDeleteCondition(condition: DeleteCondition, object: StoredObject | undefined): void {
  condition.judge?.(object);
  const { ifMatch, modifiedMs, sizeBytes } = condition;
  checkWriteCondition(ifMatch === undefined ? {} : { ifMatch }, object);
  if (object === undefined) {
    assert(ifMatch === undefined, "OGD4: a delete with If-Match deletes what has that ETag");
    return;
  }
  if (sizeBytes !== undefined && object.sizeBytes !== sizeBytes) throw failed("x-amz-if-match-size");
  if (modifiedMs !== undefined && wholeSeconds(object.modifiedMs) !== wholeSeconds(modifiedMs))
    throw failed("x-amz-if-match-last-modified-time");
}

function names(etags: readonly string[], object: StoredObject): boolean {
  return etags.includes("*") || etags.includes(object.etag);
}

/** As dates in headers have them. */
const wholeSeconds = (timeMs: number): number => Math.floor(timeMs / 1000);

function modifiedAfter(object: StoredObject, timeMs: number): boolean {
  return wholeSeconds(object.modifiedMs) > wholeSeconds(timeMs);
}

function failed(condition: string): ConcordError {
  return new ConcordError("PRECONDITION_FAILED", `${condition} does not hold`, { metadata: { condition } });
}

/** The caller answers with the headers of the object, so the error tells them. */
function notModified(object: StoredObject): ConcordError {
  return new ConcordError("NOT_MODIFIED", "the object was not modified", {
    metadata: { etag: object.etag, modifiedMs: String(object.modifiedMs) },
  });
}
