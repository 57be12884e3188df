// Who waits for which input offset, and for how long results are kept.
import assert from "node:assert/strict";
import { test } from "node:test";
import { IdTable } from "./id-table.ts";
import type { ClassifiedPage } from "./classify-page.ts";
import { RESULTS_KEPT } from "./limits.ts";
import { InputResults } from "./input-results.ts";

/** A page of accepted messages; offsets may have gaps. */
function page(from: bigint, count: number, step = 1n): ClassifiedPage {
  const offsets = Array.from({ length: count }, (_, at) => from + BigInt(at) * step);
  return {
    from,
    next: from + BigInt(count) * step,
    publication: { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n },
    offsets,
    kinds: offsets.map(() => "accepted" as const),
    bySource: new Map(),
    positions: Uint32Array.from(offsets, (_, at) => at),
    fresh: new IdTable(0),
    freshPositions: [],
    publishedMs: 0,
  };
}

const unknown = { code: "OUTCOME_UNKNOWN", applied: "unknown" };

test("results: kept up to their limit, dropped by whole pages", async () => {
  const results = new InputResults();
  results.record(page(0n, 10), 0n, BigInt);
  results.record(page(10n, RESULTS_KEPT - 10), 10n, BigInt);
  assert.deepEqual(await results.whenProcessed(9n), { kind: "accepted", offset: 9n });
  results.record(page(BigInt(RESULTS_KEPT), 1), BigInt(RESULTS_KEPT), BigInt);
  await assert.rejects(results.whenProcessed(9n), unknown);
  assert.deepEqual(await results.whenProcessed(10n), { kind: "accepted", offset: 10n });
});

test("results: a page above the limit: kept while it is the newest", async () => {
  const results = new InputResults();
  results.record(page(0n, RESULTS_KEPT + 1), 0n, BigInt);
  assert.equal((await results.whenProcessed(5n)).kind, "accepted");
});

test("results: several wait for one offset: all told; an offset without a message: unknown", async () => {
  const results = new InputResults();
  const both = [results.whenProcessed(2n), results.whenProcessed(2n)];
  results.record(page(0n, 3, 2n), 100n, BigInt);
  assert.deepEqual(await Promise.all(both), [
    { kind: "accepted", offset: 101n },
    { kind: "accepted", offset: 101n },
  ]);
  await assert.rejects(results.whenProcessed(3n), unknown);
});

test("results: processing goes on further ahead: those before it are unknown, those behind wait on", async () => {
  const results = new InputResults();
  const [before, behind] = [results.whenProcessed(4n), results.whenProcessed(5n)];
  results.resumeAt(5n);
  await assert.rejects(before, unknown);
  results.record(page(5n, 1), 0n, BigInt);
  assert.deepEqual(await behind, { kind: "accepted", offset: 0n });
});
