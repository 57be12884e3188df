// Who waits for which input offset, and for how long verdicts are kept.
import assert from "node:assert/strict";
import { test } from "node:test";
import { IdTable } from "./id-table.ts";
import type { JudgedPage } from "./judge-page.ts";
import { VERDICTS_KEPT } from "./limits.ts";
import { Verdicts } from "./verdicts.ts";

/** A page of accepted messages; offsets may have gaps. */
function page(from: bigint, count: number, step = 1n): JudgedPage {
  const offsets = Array.from({ length: count }, (_, at) => from + BigInt(at) * step);
  return {
    from,
    next: from + BigInt(count) * step,
    publication: { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n },
    offsets,
    kinds: offsets.map(() => "accepted" as const),
    positions: Uint32Array.from(offsets, (_, at) => at),
    fresh: new IdTable(0),
    freshPositions: [],
    publishedMs: 0,
  };
}

const unknown = { code: "OUTCOME_UNKNOWN", applied: "unknown" };

test("verdicts: kept up to their limit, dropped by whole pages", async () => {
  const verdicts = new Verdicts();
  verdicts.settle(page(0n, 10), 0n, 0n);
  verdicts.settle(page(10n, VERDICTS_KEPT - 10), 10n, 0n);
  assert.deepEqual(await verdicts.whenProcessed(9n), { kind: "accepted", offset: 9n });
  verdicts.settle(page(BigInt(VERDICTS_KEPT), 1), BigInt(VERDICTS_KEPT), 0n);
  await assert.rejects(verdicts.whenProcessed(9n), unknown);
  assert.deepEqual(await verdicts.whenProcessed(10n), { kind: "accepted", offset: 10n });
});

test("verdicts: a page above the limit: kept while it is the newest", async () => {
  const verdicts = new Verdicts();
  verdicts.settle(page(0n, VERDICTS_KEPT + 1), 0n, 0n);
  assert.equal((await verdicts.whenProcessed(5n)).kind, "accepted");
});

test("verdicts: several wait for one offset: all told; an offset without a message: unknown", async () => {
  const verdicts = new Verdicts();
  const both = [verdicts.whenProcessed(2n), verdicts.whenProcessed(2n)];
  verdicts.settle(page(0n, 3, 2n), 100n, 0n);
  assert.deepEqual(await Promise.all(both), [
    { kind: "accepted", offset: 101n },
    { kind: "accepted", offset: 101n },
  ]);
  await assert.rejects(verdicts.whenProcessed(3n), unknown);
});

test("verdicts: processing goes on further ahead: those before it are unknown, those behind wait on", async () => {
  const verdicts = new Verdicts();
  const [before, behind] = [verdicts.whenProcessed(4n), verdicts.whenProcessed(5n)];
  verdicts.resumeAt(5n);
  await assert.rejects(before, unknown);
  verdicts.settle(page(5n, 1), 0n, 0n);
  assert.deepEqual(await behind, { kind: "accepted", offset: 0n });
});
