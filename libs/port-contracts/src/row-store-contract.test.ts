// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryRowStore, type ConditionalFate } from "./memory-row-store.ts";
import type { Condition, ConditionalOutcome, Mutation, ReadOptions, RowImage, RowKey, RowPage, RowRange } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { plusUs, TIMESTAMP_ZERO } from "@concord/runtime";
import { failedCases } from "./contract.ts";
import {
  CONDITIONAL_ROWS_CASES,
  conditionalRowsContract,
  ROW_STORE_CASES,
  rowStoreContract,
  type ConditionalRowsSubject,
} from "./row-store-contract.ts";

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

rowStoreContract(test, async () => new MemoryRowStore());

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

const FATES: readonly ConditionalFate[] = ["applied", "lost", "undecided"];

function conditionalOf(make: () => MemoryRowStore, fate: ConditionalFate): () => Promise<ConditionalRowsSubject> {
  return async () => {
    const store = make();
    return { store, loseNextOutcome: () => store.nextFate(fate) };
  };
}

for (const fate of FATES) {
  conditionalRowsContract(
    (name, run) => test(`${name} (${fate})`, run),
    conditionalOf(() => new MemoryRowStore(), fate),
  );
}

class ReadsSerialAtQuorum extends MemoryRowStore {
  override read(keys: readonly RowKey[]): Promise<(RowImage | undefined)[]> {
    return super.read(keys);
  }
}

class RangesSerialAtQuorum extends MemoryRowStore {
  override readRange(range: RowRange): Promise<RowPage> {
    return super.readRange(range);
  }
}

/** A serial read shows what is undecided and leaves it so: until it is completed, quorum reads miss it again. */
class ShowsAndForgets extends MemoryRowStore {
  #shown: Mutation[] = [];

  override async applyIf(conditions: readonly Condition[], mutations: readonly Mutation[]): Promise<ConditionalOutcome> {
    const outcome = await super.applyIf(conditions, mutations);
    if (outcome.kind === "unknown") this.#shown.push(...mutations);
    return outcome;
  }

  override async read(keys: readonly RowKey[], options?: ReadOptions): Promise<(RowImage | undefined)[]> {
    if (options?.consistency !== "serial" || this.#shown.length === 0) return super.read(keys);
    const copy = new MemoryRowStore();
    await copy.apply(this.#shown);
    return copy.read(keys);
  }
}

/** Takes an unknown outcome for a failure. */
class RepeatsByItself extends MemoryRowStore {
  override async applyIf(conditions: readonly Condition[], mutations: readonly Mutation[]): Promise<ConditionalOutcome> {
    const outcome = await super.applyIf(conditions, mutations);
    return outcome.kind === "unknown" ? { kind: "not-applied", current: [] } : outcome;
  }
}

for (const Fault of [ReadsSerialAtQuorum, RangesSerialAtQuorum, ShowsAndForgets, RepeatsByItself]) {
  test(`RowStore with applyIf contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(
      await failedCases(
        CONDITIONAL_ROWS_CASES,
        conditionalOf(() => new Fault(), "undecided"),
      ),
      [],
    );
  });
}
