// The suites of batches themselves: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchRequest, BatchResult, Mutation, ReplayCount, RowKey, RowStore } from "@concord/ports";
import { plusUs, timestampUsOf, type TimeId } from "@concord/runtime";
import {
  BATCH_REPLAY_CASES,
  BATCHES_CASES,
  batchesContract,
  batchReplayContract,
  type BatchesSubject,
  type LeftBatch,
  type ReplaySubject,
} from "./batches-contract.ts";
import { failedCases } from "./contract.ts";
import { MemoryBatches } from "./memory-batches.ts";
import { MemoryRowStore } from "./memory-row-store.ts";

type Make = (rows: RowStore) => MemoryBatches;

function subjectOf(make: Make): () => Promise<ReplaySubject> {
  return async () => {
    const rows = new MemoryRowStore();
    const batches = make(rows);
    const leaveBehind: ReplaySubject["leaveBehind"] = async (batch) => batches.leaveBehind(batch);
    return { batches, rows, leaveBehind, leaveExpired: async (batch) => batches.leaveExpired(batch) };
  };
}

batchesContract(
  test,
  subjectOf((rows) => new MemoryBatches(rows)),
);
batchReplayContract(
  test,
  subjectOf((rows) => new MemoryBatches(rows)),
);

test("Batches contract: size: at least 50 cases", () => {
  assert.ok(BATCHES_CASES.length + BATCH_REPLAY_CASES.length >= 50, `${BATCHES_CASES.length} and ${BATCH_REPLAY_CASES.length}`);
});

/** With every batch's mutations changed on their way. */
function changing(change: (mutations: readonly Mutation[]) => readonly Mutation[]): Make {
  class Changing extends MemoryBatches {
    override execute(request: BatchRequest): Promise<BatchResult> {
      return super.execute({ ...request, mutationsAt: (atUs) => change(request.mutationsAt(atUs)) });
    }
  }
  return (rows) => new Changing(rows);
}

class ForgetsIds extends MemoryBatches {
  #calls = 0;

  override async execute(request: BatchRequest): Promise<BatchResult> {
    const id = `${request.id.slice(0, -4)}${(this.#calls += 1).toString(16).padStart(4, "0")}` as TimeId;
    return { ...(await super.execute({ ...request, id })), id: request.id };
  }
}

class AnswersAnyRepeat extends MemoryBatches {
  readonly #results = new Map<TimeId, Promise<BatchResult>>();

  override execute(request: BatchRequest): Promise<BatchResult> {
    const result = this.#results.get(request.id) ?? super.execute(request);
    this.#results.set(request.id, result);
    return result;
  }
}

class DrawsItsOwnTimestamp extends MemoryBatches {
  override execute(request: BatchRequest): Promise<BatchResult> {
    return super.execute({ ...request, timestampUs: undefined });
  }
}

class LogsEverything extends MemoryBatches {
  override async execute(request: BatchRequest): Promise<BatchResult> {
    return { ...(await super.execute(request)), holders: ["memory"] };
  }
}

class WritesBeforeItChecks extends MemoryBatches {
  readonly #rows: RowStore;

  constructor(rows: RowStore) {
    super(rows);
    this.#rows = rows;
  }

  override async execute(request: BatchRequest): Promise<BatchResult> {
    const [first] = request.mutationsAt(request.timestampUs ?? timestampUsOf(1n));
    if (first !== undefined) await this.#rows.apply([first], { timeoutMs: 5000 });
    return super.execute(request);
  }
}

class ReplaysNothing extends MemoryBatches {
  override async replay(): Promise<ReplayCount> {
    return { completed: (await this.pending(1000)).total, kept: 0, deadLettered: 0 };
  }
}

class AlwaysForces extends MemoryBatches {
  override redrive(id: TimeId): Promise<readonly RowKey[]> {
    return super.redrive(id, true);
  }
}

class ListsWithoutLimit extends MemoryBatches {
  override pending(): ReturnType<MemoryBatches["pending"]> {
    return super.pending(1000);
  }
}

/** Runs again what it knows, at a timestamp of its own. */
class RunsRepeatsAgain extends MemoryBatches {
  #calls = 0;

  override async execute(request: BatchRequest): Promise<BatchResult> {
    const id = `${request.id.slice(0, -4)}${(this.#calls += 1).toString(16).padStart(4, "0")}` as TimeId;
    return { ...(await super.execute({ ...request, id, unlogged: false })), id: request.id, holders: [] };
  }
}

class LosesLettersOfOthers extends MemoryBatches {
  #isForced = false;

  override async redrive(id: TimeId, force: boolean): Promise<readonly RowKey[]> {
    const keys = await super.redrive(id, force);
    this.#isForced = true;
    return keys;
  }

  override async deadLetters(limit: number): ReturnType<MemoryBatches["deadLetters"]> {
    return this.#isForced ? [] : super.deadLetters(limit);
  }
}

class ReplaysTheFirstOnly extends MemoryBatches {
  readonly #left: LeftBatch[] = [];

  override leaveBehind(batch: LeftBatch): void {
    if (this.#left.push(batch) === 1) super.leaveBehind(batch);
  }
}

const withoutNulls = (mutation: Mutation): Mutation =>
  mutation.kind === "delete" ? mutation : { ...mutation, columns: mutation.columns.filter(({ value }) => value !== null) };

const FAULTS: readonly (readonly [string, Make])[] = [
  ["loses a row", changing((mutations) => mutations.slice(0, -1))],
  ["writes each row a tick later", changing((all) => all.map((one, at) => ({ ...one, timestampUs: plusUs(one.timestampUs, BigInt(at)) })))],
  ["forgets deletes", changing((all) => all.filter((one) => one.kind !== "delete"))],
  ["forgets nulls", changing((all) => all.map(withoutNulls))],
  ["knows one table", changing((all) => all.map((one) => ({ ...one, key: { ...one.key, table: "notes" } })))],
  ["RunsRepeatsAgain", (rows) => new RunsRepeatsAgain(rows)],
  ["ForgetsIds", (rows) => new ForgetsIds(rows)],
  ["AnswersAnyRepeat", (rows) => new AnswersAnyRepeat(rows)],
  ["DrawsItsOwnTimestamp", (rows) => new DrawsItsOwnTimestamp(rows)],
  ["LogsEverything", (rows) => new LogsEverything(rows)],
  ["WritesBeforeItChecks", (rows) => new WritesBeforeItChecks(rows)],
];

const REPLAY_FAULTS: readonly (readonly [string, Make])[] = [
  ["ReplaysNothing", (rows) => new ReplaysNothing(rows)],
  ["AlwaysForces", (rows) => new AlwaysForces(rows)],
  ["LosesLettersOfOthers", (rows) => new LosesLettersOfOthers(rows)],
  ["ReplaysTheFirstOnly", (rows) => new ReplaysTheFirstOnly(rows)],
  ["ListsWithoutLimit", (rows) => new ListsWithoutLimit(rows)],
];

for (const [name, make] of FAULTS) {
  test(`Batches contract: seeded fault ${name}: found`, async () => {
    const open: () => Promise<BatchesSubject> = subjectOf(make);
    assert.notDeepEqual(await failedCases(BATCHES_CASES, open), []);
  });
}

for (const [name, make] of REPLAY_FAULTS) {
  test(`Batches with a log contract: seeded fault ${name}: found`, async () => {
    assert.notDeepEqual(await failedCases(BATCH_REPLAY_CASES, subjectOf(make)), []);
  });
}
