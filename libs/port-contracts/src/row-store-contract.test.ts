// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryRowStore } from "./memory-row-store.ts";
import type { Mutation, RowImage, RowKey, RowPage, RowRange } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { plusUs, TIMESTAMP_ZERO } from "@concord/runtime";
import { failedCases, registerContract } from "./contract.ts";
import { ROW_STORE_CASES, rowStoreContract, SUPERSEDED_CASES } from "./row-store-contract.ts";

class LastCallWins extends MemoryRowStore {
  #lastUs = TIMESTAMP_ZERO;

  override apply(mutations: readonly Mutation[]): Promise<void> {
    return super.apply(mutations.map((mutation) => ({ ...mutation, timestampUs: (this.#lastUs = plusUs(this.#lastUs, 1n)) })));
  }
}

class ForgetsDeletesOfAbsentRows extends MemoryRowStore {
  override async apply(mutations: readonly Mutation[]): Promise<void> {
    for (const mutation of mutations) {
      const [present] = await this.read([mutation.key]);
      if (mutation.kind !== "delete" || liveRow(present) !== undefined) await super.apply([mutation]);
    }
  }
}

class UpdatesInsert extends MemoryRowStore {
  override apply(mutations: readonly Mutation[]): Promise<void> {
    return super.apply(mutations.map((mutation) => (mutation.kind === "update" ? { ...mutation, kind: "insert" } : mutation)));
  }
}

class BoundsAreInclusive extends MemoryRowStore {
  override readRange(range: RowRange): Promise<RowPage> {
    return super.readRange(range.lower === undefined ? range : { ...range, lower: { ...range.lower, inclusive: true } });
  }
}

class PagesCountDeadRows extends MemoryRowStore {
  override async readRange(range: RowRange): Promise<RowPage> {
    const page = await super.readRange(range);
    return { rows: page.rows.slice(0, Math.max(1, range.limit - 1)), next: undefined };
  }
}

class RepeatsTheLastRow extends MemoryRowStore {
  override readRange(range: RowRange): Promise<RowPage> {
    const { after, ...rest } = range;
    if (after === undefined) return super.readRange(range);
    const bound = { prefix: after, inclusive: true };
    return super.readRange(range.reverse ? { ...rest, upper: bound } : { ...rest, lower: bound, limit: range.limit + 1 });
  }
}

class AnswersSortedKeys extends MemoryRowStore {
  override async read(keys: readonly RowKey[]): Promise<(RowImage | undefined)[]> {
    const images = await super.read(keys);
    return [...images.filter((image) => image !== undefined), ...images.filter((image) => image === undefined)];
  }
}

class TombstonesAreNoNews extends MemoryRowStore {
  override async read(keys: readonly RowKey[]): Promise<(RowImage | undefined)[]> {
    const images = await super.read(keys);
    return images.map((image) => image && { ...image, cells: new Map([...image.cells].filter(([, cell]) => cell.value !== null)) });
  }
}

class MergesUnseen extends MemoryRowStore {
  override apply(mutations: readonly Mutation[]): Promise<void> {
    return super.apply(mutations);
  }
}

rowStoreContract(test, async () => new MemoryRowStore());
registerContract(test, "RowStore", SUPERSEDED_CASES, async () => new MemoryRowStore());

test("RowStore contract: seeded fault MergesUnseen: found", async () => {
  assert.notDeepEqual(await failedCases(SUPERSEDED_CASES, async () => new MergesUnseen()), []);
});

test("RowStore contract: size: at least 20 cases", () => assert.ok(ROW_STORE_CASES.length >= 20));

const FAULTS = [
  LastCallWins,
  ForgetsDeletesOfAbsentRows,
  UpdatesInsert,
  BoundsAreInclusive,
  PagesCountDeadRows,
  RepeatsTheLastRow,
  AnswersSortedKeys,
  TombstonesAreNoNews,
];

for (const Fault of FAULTS) {
  test(`RowStore contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(await failedCases(ROW_STORE_CASES, async () => new Fault()), []);
  });
}
