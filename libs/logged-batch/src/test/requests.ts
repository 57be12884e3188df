import assert from "node:assert/strict";
import type { BatchRequest } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { inserts, type MemoryRing, WRITE_TIMEOUT_MS } from "./memory-ring.ts";

export const PARTITIONS = ["p1", "p2", "p3"];

export function requestOf(ring: MemoryRing, change: Partial<BatchRequest> = {}): BatchRequest {
  return { id: ring.newId(), timestampUs: undefined, mutationsAt: inserts(PARTITIONS, "v1"), unlogged: false, ...change };
}

/** The error of a batch that must fail, time moved on as far as needed. */
export async function failure(ring: MemoryRing, result: Promise<unknown>): Promise<ConcordError> {
  const settled = result.then(
    () => new Error("the batch succeeded"),
    (thrown: unknown) => thrown,
  );
  await ring.clock.advance(3 * WRITE_TIMEOUT_MS);
  const thrown = await settled;
  assert.ok(thrown instanceof ConcordError, String(thrown));
  return thrown;
}
