import { ConcordError, toHex } from "@concord/runtime";
import { compareBytes } from "@concord/codec";
import {
  addCounters,
  sameVersion,
  type MetadataCommit,
  type MetadataOutcome,
  type MetadataRange,
  type MetadataRow,
  type MetadataWrite,
  type ObjectMetadata,
} from "@concord/ports";

/**
 * What becomes of a commit. The last three are answered `unknown`: it was done (if its conditions held), it never will be, or it waits
 * for `applyLate` and is judged by the rows of that moment.
 */
export type CommitFate = "answered" | "applied" | "lost" | "late";

export type MetadataOperation = "read" | "range" | "readCounters" | "commit";

interface Partition {
  readonly rows: MetadataRow[];
  readonly counters: Map<string, bigint[]>;
}

/** The reference of the ObjectMetadata port: every commit is durable at once, so a crash loses nothing but late ones. Several gateways may share one. */
export class MemoryObjectMetadata implements ObjectMetadata {
  /** Asked before every commit. */
  fate: (commit: MetadataCommit) => CommitFate = () => "answered";
  /** Awaited before every operation: a test may hold it, or throw. */
  before: (operation: MetadataOperation, partition: string) => Promise<void> | void = () => undefined;
  /** Keys in hex of rows that ranges find damaged. */
  readonly unreadable = new Set<string>();
  readonly #partitions = new Map<string, Partition>();
  #late: MetadataCommit[] = [];

  /** Fates of the next commits, in order; later ones are answered. */
  nextFates(...fates: readonly CommitFate[]): void {
    const waiting = [...fates];
    this.fate = () => waiting.shift() ?? "answered";
  }

  /** Commits whose fate was "late", not yet judged. */
  get lateCommits(): readonly MetadataCommit[] {
    return this.#late;
  }

  /** Lets the late commits arrive, each under its conditions; how many were applied. */
  applyLate(): number {
    const arriving = this.#late;
    this.#late = [];
    return arriving.filter((commit) => this.#apply(commit).kind === "committed").length;
  }

  /** Rows of a partition in order, or of all partitions: what tests compare. */
  contents(partition?: string): readonly MetadataRow[] {
    if (partition !== undefined) return this.#of(partition).rows.map(copyOf);
    return [...this.#partitions.keys()].sort().flatMap((name) => this.contents(name));
  }

  /** Names of the partitions that were written to. */
  partitions(): readonly string[] {
    return [...this.#partitions.keys()].sort();
  }

  async read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    await this.before("read", partition);
    return keys.map((key) => this.#find(partition, key));
  }

  async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    await this.before("range", partition);
    const inside = this.#of(partition).rows.filter((row) => compareBytes(row.key, range.from) >= 0 && compareBytes(row.key, range.to) < 0);
    if (range.reverse === true) inside.reverse();
    const damaged = inside.filter((row) => this.unreadable.has(toHex(row.key)));
    if (damaged.length > 0 && range.onUnreadable === undefined) throw new ConcordError("CORRUPT_DATA", "a row cannot be read");
    for (const row of damaged) range.onUnreadable?.(row.key);
    return inside
      .filter((row) => !damaged.includes(row))
      .slice(0, range.limit)
      .map(copyOf);
  }

  async readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    await this.before("readCounters", partition);
    return [...(this.#of(partition).counters.get(toHex(key)) ?? [])];
  }

  async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const own = copyOfCommit(commit);
    await this.before("commit", commit.partition);
    const fate = this.fate(own);
    if (fate === "answered") return this.#apply(own);
    if (fate === "applied") this.#apply(own);
    if (fate === "late") this.#late.push(own);
    return { kind: "unknown", cause: new ConcordError("STORE_FAILED", `the answer was lost (${fate})`) };
  }

  #apply(commit: MetadataCommit): MetadataOutcome {
    const rows = commit.conditions.map((condition) => this.#find(commit.partition, condition.key));
    const holds = commit.conditions.every((condition, at) => sameVersion(rows[at]?.version, condition.version));
    if (!holds) return { kind: "conflict", rows };
    for (const write of commit.writes) applyTo(this.#of(commit.partition), write);
    return { kind: "committed" };
  }

  #find(partition: string, key: Uint8Array): MetadataRow | undefined {
    const { rows } = this.#of(partition);
    const row = rows[lowerBound(rows, key)];
    return row !== undefined && compareBytes(row.key, key) === 0 ? copyOf(row) : undefined;
  }

  #of(name: string): Partition {
    const known = this.#partitions.get(name);
    if (known !== undefined) return known;
    const made: Partition = { rows: [], counters: new Map() };
    this.#partitions.set(name, made);
    return made;
  }
}

function applyTo(partition: Partition, write: MetadataWrite): void {
  if (write.kind === "add") {
    const name = toHex(write.key);
    partition.counters.set(name, addCounters(partition.counters.get(name) ?? [], write.amounts));
    return;
  }
  const key = write.kind === "put" ? write.row.key : write.key;
  const at = lowerBound(partition.rows, key);
  const found = partition.rows[at];
  const present = found !== undefined && compareBytes(found.key, key) === 0 ? 1 : 0;
  if (write.kind === "put") partition.rows.splice(at, present, write.row);
  else partition.rows.splice(at, present);
}

function lowerBound(rows: readonly MetadataRow[], key: Uint8Array): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareBytes(rows[middle]!.key, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function copyOf(row: MetadataRow): MetadataRow {
  return { key: Uint8Array.from(row.key), version: { ...row.version }, value: Uint8Array.from(row.value) };
}

function copyOfCommit(commit: MetadataCommit): MetadataCommit {
  return {
    partition: commit.partition,
    conditions: commit.conditions.map(({ key, version }) => ({ key: Uint8Array.from(key), version })),
    writes: commit.writes.map((write) => {
      if (write.kind === "put") return { kind: "put", row: copyOf(write.row) };
      if (write.kind === "delete") return { kind: "delete", key: Uint8Array.from(write.key) };
      return { kind: "add", key: Uint8Array.from(write.key), amounts: [...write.amounts] };
    }),
  };
}
