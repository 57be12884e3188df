import { compareBytes } from "@concord/codec";
import {
  addCounters,
  sameVersion,
  type MetadataCommit,
  type MetadataCondition,
  type MetadataOutcome,
  type MetadataRange,
  type MetadataRow,
  type ObjectMetadata,
} from "@concord/ports";
import { ConcordError, sleep, toHex, type Clock, type Random } from "@concord/runtime";
import { refuseTooLarge } from "./apply-rows.ts";
import { failureOf, readError } from "./failure.ts";
import { Lanes } from "./lanes.ts";
import {
  LANE_RETRY_MS,
  LWT_RETRY_MS,
  LWT_TIMEOUT_MS,
  METADATA_PAGE_ROWS,
  METADATA_PARTITIONS_MAX,
  METADATA_READ_KEYS,
  METADATA_ROWS_MAX,
  METADATA_SLOTS,
  METADATA_TIMEOUT_MS,
  STATEMENT_OVERHEAD_BYTES,
} from "./limits.ts";
import {
  amountsOf,
  decodeAmounts,
  metadataRowOf,
  MetadataStatements,
  parameterBytes,
  slotOf,
  type RowChange,
} from "./metadata-statements.ts";
import type { CassandraSession, ResultRow, Statement } from "./session.ts";

export interface CassandraMetadataOptions {
  readonly session: CassandraSession;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly random: Random;
}

/** A commit with bytes of its own: its lightweight transaction may be sent several times. */
interface PreparedCommit {
  readonly partition: string;
  readonly conditions: readonly MetadataCondition[];
  /** By row: its statement without the slot's and the counters'. */
  readonly statements: readonly Statement[];
  readonly sums: readonly { readonly key: Uint8Array; readonly amounts: readonly bigint[] }[];
}

/** One commit on its way. */
interface Attempt {
  readonly commit: PreparedCommit;
  readonly id: Uint8Array;
  readonly deadline: number;
  /** The slot's number that this commit claims; undefined: the slot must be read. */
  seq: bigint | undefined;
  /** What was sent under `seq` may still be carried out. */
  isPending: boolean;
}

const COMMITTED: MetadataOutcome = { kind: "committed" };
const COMMIT_ID_BYTES = 16;

/**
 * Rows of objects in one partition each (OGD15): a commit is one lightweight transaction with its conditions inside. Each claims the next number of
 * this process's slot of the partition, so it takes effect at most once however often it is sent, and a serial read of the slot says whether it
 * did; before another answer than "committed" the number is claimed for nothing, so that no try can follow (I9).
 */
export class CassandraMetadata implements ObjectMetadata {
  readonly #session: CassandraSession;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #statements: MetadataStatements;
  /** Of one partition one lightweight transaction at a time: two at once time each other out. */
  readonly #lanes = new Lanes();
  readonly #slot: Uint8Array;
  /** Numbers claimed last, by partition; the partition used last stays longest. */
  readonly #claimed = new Map<string, bigint>();

  constructor({ session, keyspace, clock, random }: CassandraMetadataOptions) {
    this.#session = session;
    this.#clock = clock;
    this.#random = random;
    this.#statements = new MetadataStatements(keyspace);
    this.#slot = Uint8Array.of(random.bytes(1)[0]! % METADATA_SLOTS);
  }

  async read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const deadline = this.#deadline();
    const found = new Map<string, MetadataRow>();
    const wanted = [...new Map(keys.map((key) => [toHex(key), Uint8Array.from(key)])).values()];
    for (let at = 0; at < wanted.length; at += METADATA_READ_KEYS) {
      const rows = await this.#rows(this.#statements.readRows(partition, wanted.slice(at, at + METADATA_READ_KEYS)), deadline);
      for (const row of rows.flatMap((each) => metadataRowOf(each) ?? [])) found.set(toHex(row.key), row);
    }
    return keys.map((key) => found.get(toHex(key)));
  }

  async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    const deadline = this.#deadline();
    const found: MetadataRow[] = [];
    let bounds: MetadataRange = { ...range, from: Uint8Array.from(range.from), to: Uint8Array.from(range.to) };
    while (found.length < range.limit && compareBytes(bounds.from, bounds.to) < 0) {
      const limit = Math.min(METADATA_PAGE_ROWS, range.limit - found.length);
      const rows = await this.#rows(this.#statements.readRange(partition, bounds, limit), deadline);
      found.push(...rows.flatMap((row) => metadataRowOf(row) ?? []));
      const last = rows.at(-1)?.["key"];
      if (rows.length < limit || !(last instanceof Uint8Array)) break;
      bounds = range.reverse === true ? { ...bounds, to: Uint8Array.from(last) } : { ...bounds, from: Uint8Array.from([...last, 0]) };
    }
    return found;
  }

  async readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    return decodeAmounts(await this.#amounts(partition, Uint8Array.from(key), this.#deadline()));
  }

  async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const prepared = prepare(this.#statements, commit);
    const { partition, conditions, statements, sums } = prepared;
    if (statements.length === 0 && sums.length === 0) return COMMITTED;
    const deadline = this.#deadline();
    if (contradicts(conditions)) return { kind: "conflict", rows: await this.#current(prepared) };
    return await this.#lanes.run(partition, async () => {
      if (this.#clock.monotonicMs() >= deadline) throw late();
      return await this.#untilKnown({ ...this.#newAttempt(prepared), deadline });
    });
  }

  #newAttempt(commit: PreparedCommit): Omit<Attempt, "deadline"> {
    const claimed = this.#claimed.get(commit.partition);
    const seq = claimed === undefined ? undefined : claimed + 1n;
    return { commit, id: this.#random.bytes(COMMIT_ID_BYTES), seq, isPending: false };
  }

  async #untilKnown(attempt: Attempt): Promise<MetadataOutcome> {
    let cause: unknown = new ConcordError("REPLICAS_UNAVAILABLE", "other commits of the partition came first each time", { applied: "no" });
    do {
      try {
        const outcome = await this.#tryOnce(attempt);
        if (outcome !== undefined) return outcome;
      } catch (thrown) {
        cause = thrown;
        if (!(thrown instanceof ConcordError && UNREADABLE.has(thrown.code))) break;
      }
    } while (await this.#pause(attempt.deadline));
    // The next commit of the partition reads the slot: whatever is still on its way meets its claim.
    this.#claimed.delete(attempt.commit.partition);
    if (attempt.isPending) return { kind: "unknown", cause };
    throw cause;
  }

  /** Undefined: once more. */
  async #tryOnce(attempt: Attempt): Promise<MetadataOutcome | undefined> {
    const { commit, id, deadline } = attempt;
    const { partition, statements, sums } = commit;
    attempt.seq ??= slotOf((await this.#rows(this.#statements.readSlot(partition, this.#slot), deadline))[0]).seq + 1n;
    const counters: Statement[] = [];
    for (const { key, amounts } of sums) {
      const read = await this.#amounts(partition, key, deadline);
      counters.push(this.#statements.changeCounter(partition, key, read, amounts));
    }
    const claim = this.#statements.claimSlot(partition, this.#slot, attempt.seq, id);
    const swap = await this.#swap([claim, ...statements, ...counters], deadline);
    if (swap === "applied") return this.#committed(partition, attempt.seq);
    if (swap === "unknown") attempt.isPending = true;
    return this.#judge(attempt, swap);
  }

  /** What the slot says of this commit; undefined: not there, and it may be sent again. */
  async #judge(attempt: Attempt, swap: "refused" | "unknown" | "not-sent"): Promise<MetadataOutcome | undefined> {
    const { commit, id, deadline } = attempt;
    const { partition } = commit;
    const seq = attempt.seq!;
    const slot = slotOf((await this.#rows(this.#statements.readSlot(partition, this.#slot), deadline))[0]);
    if (slot.commitId !== undefined && compareBytes(slot.commitId, id) === 0) return this.#committed(partition, slot.seq);
    if (slot.seq >= seq) {
      // Another process of this slot came after: what was written down of this commit is gone.
      if (attempt.isPending && slot.seq > seq)
        throw new ConcordError("INTERNAL", "the slot of the partition moved on", { applied: "unknown" });
      attempt.isPending = false;
      attempt.seq = slot.seq + 1n;
      return undefined;
    }
    if (swap !== "refused") return undefined;
    const rows = await this.#current(commit);
    // Only a counter was behind.
    if (commit.conditions.every(({ version }, at) => sameVersion(rows[at]?.version, version))) return undefined;
    if (attempt.isPending && !(await this.#fence(attempt))) return undefined;
    return { kind: "conflict", rows };
  }

  /** Claims the number for nothing: no earlier try can be carried out then. */
  async #fence({ commit, seq, deadline }: Attempt): Promise<boolean> {
    const nothing = this.#random.bytes(COMMIT_ID_BYTES);
    const swap = await this.#swap([this.#statements.claimSlot(commit.partition, this.#slot, seq!, nothing)], deadline);
    if (swap === "applied") this.#remember(commit.partition, seq!);
    return swap === "applied";
  }

  #committed(partition: string, seq: bigint): MetadataOutcome {
    this.#remember(partition, seq);
    return COMMITTED;
  }

  #remember(partition: string, seq: bigint): void {
    this.#claimed.delete(partition);
    this.#claimed.set(partition, seq);
    if (this.#claimed.size > METADATA_PARTITIONS_MAX) this.#claimed.delete(this.#claimed.keys().next().value!);
  }

  #current({ partition, conditions }: PreparedCommit): Promise<readonly (MetadataRow | undefined)[]> {
    return this.read(
      partition,
      conditions.map(({ key }) => key),
    );
  }

  async #amounts(partition: string, key: Uint8Array, deadline: number): Promise<Uint8Array | undefined> {
    return amountsOf((await this.#rows(this.#statements.readCounter(partition, key), deadline))[0]);
  }

  async #swap(statements: readonly Statement[], deadline: number): Promise<"applied" | "refused" | "unknown" | "not-sent"> {
    try {
      const answer = await this.#session.compareAndSet(statements, { timeoutMs: Math.min(LWT_TIMEOUT_MS, this.#leftMs(deadline)) });
      return answer.isApplied ? "applied" : "refused";
    } catch (thrown) {
      const failure = failureOf(thrown);
      if (failure.kind === "refused" || failure.kind === "too-large") throw readError(failure);
      return failure.isWithoutEffect ? "not-sent" : "unknown";
    }
  }

  async #rows(statement: Statement, deadline: number): Promise<readonly ResultRow[]> {
    for (;;) {
      try {
        return (await this.#session.read(statement, { consistency: "serial", timeoutMs: this.#leftMs(deadline) })).rows;
      } catch (thrown) {
        const error = readError(failureOf(thrown));
        // Under load a serial read fails as a write does; it may be asked again (TXC2).
        if (!UNREADABLE.has(error.code) || !(await this.#pause(deadline))) throw error;
      }
    }
  }

  /** False: the time is up. Of different lengths, for processes that meet in a partition. */
  async #pause(deadline: number): Promise<boolean> {
    const pauseMs = LWT_RETRY_MS * (1 + this.#random.float());
    if (this.#leftMs(deadline) <= pauseMs) return false;
    await sleep(this.#clock, pauseMs);
    return true;
  }

  #deadline(): number {
    return this.#clock.monotonicMs() + METADATA_TIMEOUT_MS;
  }

  /** At least 1. */
  #leftMs(deadline: number): number {
    return Math.max(1, Math.floor(deadline - this.#clock.monotonicMs()));
  }
}

/** Codes of serial reads that may be asked again. */
const UNREADABLE: ReadonlySet<string> = new Set(["READ_TIMEOUT", "REPLICAS_UNAVAILABLE"]);

/** Its caller waits no longer: work that is not sent is time for those behind it. */
function late(): ConcordError {
  return new ConcordError("OVERLOADED", "earlier commits of the partition took all of this one's time; try again later", {
    applied: "no",
    retryAfterMs: LANE_RETRY_MS,
    metadata: { limit: "METADATA_TIMEOUT_MS" },
  });
}

function prepare(statements: MetadataStatements, { partition, conditions, writes }: MetadataCommit): PreparedCommit {
  const own = conditions.map(({ key, version }): MetadataCondition => ({ key: Uint8Array.from(key), version }));
  const rows = new Map<string, { key: Uint8Array; change: RowChange | undefined; condition: MetadataCondition | undefined }>();
  const sums = new Map<string, { key: Uint8Array; amounts: readonly bigint[] }>();
  for (const condition of own) rows.set(toHex(condition.key), { key: condition.key, change: undefined, condition });
  for (const write of writes) {
    const key = Uint8Array.from(write.kind === "put" ? write.row.key : write.key);
    const name = toHex(key);
    if (write.kind === "add") sums.set(name, { key, amounts: addCounters(sums.get(name)?.amounts ?? [], write.amounts) });
    // Of one row there is one statement in a batch: the last change, and the condition.
    else rows.set(name, { key, change: changeOf(write), condition: rows.get(name)?.condition });
  }
  const all = [...rows.values()].map(({ key, change, condition }) => statements.changeRow(partition, key, change, condition));
  refuseTooManyRows(all.length + sums.size);
  refuseTooLarge(all.reduce((bytes, { parameters }) => bytes + STATEMENT_OVERHEAD_BYTES + parameterBytes(parameters), 0));
  return { partition, conditions: own, statements: all, sums: [...sums.values()] };
}

function changeOf(write: Exclude<MetadataCommit["writes"][number], { kind: "add" }>): RowChange {
  return write.kind === "delete" ? { kind: "delete" } : { kind: "put", row: { ...write.row, value: Uint8Array.from(write.row.value) } };
}

function refuseTooManyRows(rows: number): void {
  if (rows <= METADATA_ROWS_MAX) return;
  const metadata = { limit: "METADATA_ROWS_MAX", largest: String(METADATA_ROWS_MAX), value: String(rows) };
  throw new ConcordError("LIMIT_EXCEEDED", `a commit has ${rows} rows, at most ${METADATA_ROWS_MAX}`, { applied: "no", metadata });
}

/** Two conditions on one row that cannot hold both. */
function contradicts(conditions: readonly MetadataCondition[]): boolean {
  const versions = new Map(conditions.map(({ key, version }) => [toHex(key), version]));
  return conditions.some(({ key, version }) => !sameVersion(versions.get(toHex(key)), version));
}
