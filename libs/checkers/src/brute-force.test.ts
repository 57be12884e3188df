/** The checker against the definition: all orders of at most six transactions. 6,000 histories; verdicts must be equal. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkListAppend, type Element } from "./index.ts";
import type { PointOperation } from "./list-append-history.ts";
import type { PointTransaction } from "./range-reads.ts";

type Draw = (limit: number) => number;

function generator(seed: number): Draw {
  let state = seed | 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/**
 * Runs random transactions in a random order against real lists, then spoils some of it: stale snapshots, orders against real
 * time, failed transactions that took effect, torn commits. About a third of the histories come out invalid.
 */
function randomHistory(draw: Draw): PointTransaction[] {
  const count = 3 + draw(4);
  const spoil = draw(7) % 4;
  const versions: Map<string, Element[]>[] = [new Map()];
  let element = 0;
  const transactions: PointTransaction[] = [];
  for (let n = 0; n < count; n += 1) {
    const newest = versions.at(-1)!;
    const stale = spoil === 1 && draw(2) === 0 ? versions[draw(versions.length)]! : newest;
    const snapshot = new Map([...stale].map(([key, list]) => [key, [...list]]));
    const next = new Map([...newest].map(([key, list]) => [key, [...list]]));
    const outcome = draw(6) === 0 ? (draw(2) === 0 ? "fail" : "info") : "ok";
    const tookEffect = outcome === "ok" ? true : outcome === "info" ? draw(2) === 0 : spoil === 2;
    const operations: PointOperation[] = [];
    for (let i = 1 + draw(4); i > 0; i -= 1) {
      const key = "xy"[draw(2)]!;
      if (draw(2) === 0) {
        element += 1;
        operations.push({ kind: "append", key, element });
        snapshot.set(key, [...(snapshot.get(key) ?? []), element]);
        const isTorn = spoil === 3 && draw(3) === 0;
        if (tookEffect && !isTorn) next.set(key, [...(next.get(key) ?? []), element]);
      } else {
        operations.push({ kind: "read", key, elements: outcome === "ok" ? [...(snapshot.get(key) ?? [])] : undefined });
      }
    }
    versions.push(next);
    const startedAt = Math.max(0, n * 10 - draw(40));
    transactions.push({ name: `T${n}`, outcome, startedAt, endedAt: startedAt + 1 + draw(30), operations });
  }
  return transactions;
}

function isStrictlySerializable(transactions: readonly PointTransaction[]): boolean {
  const committed = transactions.filter(({ outcome }) => outcome === "ok");
  const indeterminate = transactions.filter(({ outcome }) => outcome === "info");
  for (let subset = 0; subset < 1 << indeterminate.length; subset += 1) {
    const chosen = [...committed, ...indeterminate.filter((_, bit) => (subset & (1 << bit)) !== 0)];
    if (hasOrder(chosen, new Map())) return true;
  }
  return false;
}

function hasOrder(left: readonly PointTransaction[], lists: ReadonlyMap<string, readonly Element[]>): boolean {
  if (left.length === 0) return true;
  return left.some((candidate) => {
    const isLate = left.some((other) => other !== candidate && other.outcome === "ok" && other.endedAt < candidate.startedAt);
    if (isLate) return false;
    const after = execute(candidate, lists);
    return (
      after !== undefined &&
      hasOrder(
        left.filter((other) => other !== candidate),
        after,
      )
    );
  });
}

function execute(
  transaction: PointTransaction,
  lists: ReadonlyMap<string, readonly Element[]>,
): Map<string, readonly Element[]> | undefined {
  const after = new Map(lists);
  for (const operation of transaction.operations) {
    const list = after.get(operation.key) ?? [];
    if (operation.kind === "append") after.set(operation.key, [...list, operation.element]);
    else if (operation.elements !== undefined && operation.elements.join() !== list.join()) return undefined;
  }
  return after;
}

test("list-append: 6,000 random histories of at most six transactions: the verdict of brute force", () => {
  const draw = generator(20_261_121);
  const verdicts = { valid: 0, invalid: 0 };
  for (let n = 0; n < 6_000; n += 1) {
    const history = randomHistory(draw);
    const expected = isStrictlySerializable(history);
    const { isValid, anomalies } = checkListAppend(history);
    verdicts[expected ? "valid" : "invalid"] += 1;
    const found = anomalies.map(({ kind }) => kind).join();
    assert.equal(isValid, expected, `history ${n}, found [${found}]: ${JSON.stringify(history, undefined, 1)}`);
  }
  assert.ok(verdicts.valid > 1_000 && verdicts.invalid > 1_000, JSON.stringify(verdicts));
});
