// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryObjectMetadata } from "./memory-object-metadata.ts";
import type { MetadataCommit, MetadataOutcome, MetadataRange, MetadataRow, ObjectMetadata } from "@concord/ports";
import { failedCases } from "./contract.ts";
import { OBJECT_METADATA_CASES, objectMetadataContract, type ObjectMetadataSubject } from "./object-metadata-contract.ts";

function subjectOf(make: (memory: MemoryObjectMetadata) => ObjectMetadata): () => Promise<ObjectMetadataSubject> {
  return async () => {
    const metadata = make(new MemoryObjectMetadata());
    return { metadata, crash: async () => metadata };
  };
}

/** Correct metadata to inherit the other methods of a fault from. */
class Delegate implements ObjectMetadata {
  readonly memory: MemoryObjectMetadata;

  constructor(memory: MemoryObjectMetadata) {
    this.memory = memory;
  }

  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    return this.memory.read(partition, keys);
  }

  range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return this.memory.range(partition, range);
  }

  readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    return this.memory.readCounters(partition, key);
  }

  commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit(commit);
  }
}

class IgnoresConditions extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit({ ...commit, conditions: [] });
  }
}

class ChecksOnlyTheFirstCondition extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit({ ...commit, conditions: commit.conditions.slice(0, 1) });
  }
}

class ChecksOnlyWrittenRows extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const written = commit.writes.map((write) => (write.kind === "put" ? write.row.key : write.key).join());
    return this.memory.commit({ ...commit, conditions: commit.conditions.filter(({ key }) => written.includes(key.join())) });
  }
}

class IgnoresTheGuid extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const rows = await this.memory.read(
      commit.partition,
      commit.conditions.map(({ key }) => key),
    );
    const conditions = commit.conditions.map((condition, at) =>
      condition.version !== undefined && rows[at]?.version.commit === condition.version.commit
        ? { key: condition.key, version: rows[at].version }
        : condition,
    );
    return this.memory.commit({ ...commit, conditions });
  }
}

class WritesInPart extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const outcome = await this.memory.commit(commit);
    if (outcome.kind === "conflict") await this.memory.commit({ ...commit, conditions: [], writes: commit.writes.slice(1) });
    return outcome;
  }
}

class CountsRefusedOnes extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const writes = commit.writes.filter((write) => write.kind === "add");
    await this.memory.commit({ ...commit, conditions: [], writes });
    return this.memory.commit({ ...commit, writes: commit.writes.filter((write) => write.kind !== "add") });
  }
}

class ChecksThenWrites extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const checked = await this.memory.commit({ ...commit, writes: [] });
    if (checked.kind !== "committed") return checked;
    await Promise.resolve();
    return this.memory.commit({ ...commit, conditions: [] });
  }
}

class ShowsStaleConflicts extends Delegate {
  readonly #seen = new Map<string, MetadataRow | undefined>();

  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const outcome = await this.memory.commit(commit);
    for (const write of commit.writes)
      if (write.kind === "put" && outcome.kind === "committed" && !this.#seen.has(write.row.key.join()))
        this.#seen.set(write.row.key.join(), write.row);
    if (outcome.kind !== "conflict") return outcome;
    return { kind: "conflict", rows: outcome.rows.map((row) => row && (this.#seen.get(row.key.join()) ?? row)) };
  }
}

class ShowsOnlyFailedConditions extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const outcome = await this.memory.commit(commit);
    if (outcome.kind !== "conflict") return outcome;
    return {
      kind: "conflict",
      rows: outcome.rows.filter((row, at) => row?.version.guid !== commit.conditions[at]!.version?.guid),
    };
  }
}

class LosesCounts extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const before = await Promise.all(
      commit.writes.map(async (write) => (write.kind === "add" ? this.memory.readCounters(commit.partition, write.key) : [])),
    );
    await Promise.resolve();
    const outcome = await this.memory.commit(commit);
    if (outcome.kind !== "committed") return outcome;
    for (const [at, write] of commit.writes.entries()) {
      if (write.kind !== "add") continue;
      const now = await this.memory.readCounters(commit.partition, write.key);
      const amounts = now.map((value, item) => (before[at]![item] ?? 0n) + (write.amounts[item] ?? 0n) - value);
      await this.memory.commit({ partition: commit.partition, conditions: [], writes: [{ ...write, amounts }] });
    }
    return outcome;
  }
}

class UpperBoundIncluded extends Delegate {
  override range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return this.memory.range(partition, { ...range, to: Uint8Array.from([...range.to, 0]) });
  }
}

class ReverseTakesTheFirst extends Delegate {
  override async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    const rows = await this.memory.range(partition, { ...range, reverse: false });
    return range.reverse === true ? rows.toReversed() : rows;
  }
}

class OrdersByText extends Delegate {
  override async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return [...(await this.memory.range(partition, range))].sort((left, right) => (left.key.join() < right.key.join() ? -1 : 1));
  }
}

class OnePartition extends Delegate {
  override read(_: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    return this.memory.read("", keys);
  }

  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit({ ...commit, partition: "" });
  }

  override range(_: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return this.memory.range("", range);
  }

  override readCounters(_: string, key: Uint8Array): Promise<readonly bigint[]> {
    return this.memory.readCounters("", key);
  }
}

/** Versions through a double: exact to 2^53. */
class RoundsVersions extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const rounded = (value: bigint): bigint => BigInt(Number(value));
    const writes = commit.writes.map((write) =>
      write.kind === "put"
        ? { ...write, row: { ...write.row, version: { commit: rounded(write.row.version.commit), guid: rounded(write.row.version.guid) } } }
        : write,
    );
    return this.memory.commit({ ...commit, writes });
  }
}

class AnswersBeforeItIsWritten extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const checked = await this.memory.commit({ ...commit, writes: [] });
    if (checked.kind === "committed") setImmediate(() => void this.memory.commit(commit));
    return checked;
  }
}

class WritesAHundredAtMost extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit({ ...commit, writes: commit.writes.slice(0, 100) });
  }
}

class NormalizesPartitions extends Delegate {
  override commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    return this.memory.commit({ ...commit, partition: commit.partition.normalize() });
  }

  override read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    return this.memory.read(partition.normalize(), keys);
  }
}

/** Each row's condition is checked just before that row is written. */
class ChecksRowByRow extends Delegate {
  override async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const checked = await this.memory.commit({ ...commit, writes: [] });
    if (checked.kind !== "committed") return checked;
    for (const write of commit.writes) {
      const name = (write.kind === "put" ? write.row.key : write.key).join();
      const conditions = commit.conditions.filter((condition) => condition.key.join() === name);
      await this.memory.commit({ ...commit, conditions, writes: [write] });
    }
    return checked;
  }
}

objectMetadataContract(
  test,
  subjectOf((memory) => memory),
);

test("ObjectMetadata contract: size: at least 50 cases", () =>
  assert.ok(OBJECT_METADATA_CASES.length >= 50, `${OBJECT_METADATA_CASES.length}`));

const FAULTS = [
  IgnoresConditions,
  ChecksOnlyTheFirstCondition,
  ChecksOnlyWrittenRows,
  IgnoresTheGuid,
  WritesInPart,
  CountsRefusedOnes,
  ChecksThenWrites,
  ShowsStaleConflicts,
  ShowsOnlyFailedConditions,
  LosesCounts,
  UpperBoundIncluded,
  ReverseTakesTheFirst,
  OrdersByText,
  OnePartition,
  RoundsVersions,
  AnswersBeforeItIsWritten,
  WritesAHundredAtMost,
  NormalizesPartitions,
  ChecksRowByRow,
];

for (const Fault of FAULTS) {
  test(`ObjectMetadata contract: seeded fault ${Fault.name}: found`, async () => {
    const failed = await failedCases(
      OBJECT_METADATA_CASES,
      subjectOf((memory) => new Fault(memory)),
    );
    assert.notDeepEqual(failed, []);
  });
}

/** Forgets at a crash what it answered last. */
test("ObjectMetadata contract: seeded fault NotDurable: found", async () => {
  const failed = await failedCases(OBJECT_METADATA_CASES, async () => ({
    metadata: new MemoryObjectMetadata(),
    crash: async () => new MemoryObjectMetadata(),
  }));
  assert.deepEqual(failed, [
    "crash: after committed: rows, deletes and counters are there",
    "crash: what was refused left nothing; a second crash changes nothing",
    "crash: conditions afterwards: judged by what is there",
  ]);
});
