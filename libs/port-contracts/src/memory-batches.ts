import {
  BATCH_BYTES_MAX,
  BATCH_ROWS_MAX,
  type Batches,
  type BatchRequest,
  type BatchResult,
  type DeadLetter,
  type Mutation,
  type PendingBatches,
  type ReplayCount,
  type RowKey,
  type RowStore,
} from "@concord/ports";
import { encodeMutation, encodePartition, encodeRowKey } from "@concord/rows";
import { ConcordError, plusUs, timestampUsOf, toHex, type TimeId, type TimestampUs } from "@concord/runtime";

const OPTIONS = { timeoutMs: 5000 };
const HOLDER = "memory";

interface Logged {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly mutations: readonly Mutation[];
}

interface Executed {
  /** Everything that two equal payloads share. */
  readonly payload: string;
  readonly result: BatchResult;
  /** Resolves when its rows are written. */
  readonly applied: Promise<unknown>;
}

/** The reference of the Batches port over any RowStore: one node whose log is memory. */
export class MemoryBatches implements Batches {
  readonly #rows: RowStore;
  readonly #executed = new Map<TimeId, Executed>();
  readonly #pending = new Map<TimeId, Logged>();
  readonly #letters = new Map<TimeId, Logged>();
  #lastUs = timestampUsOf(1_000_000n);

  constructor(rows: RowStore) {
    this.#rows = rows;
  }

  async execute(request: BatchRequest): Promise<BatchResult> {
    const known = this.#executed.get(request.id);
    const timestampUs = known?.result.timestampUs ?? request.timestampUs ?? (this.#lastUs = plusUs(this.#lastUs, 1n));
    const mutations = request.mutationsAt(timestampUs);
    const isLogged = checked(request.id, mutations, timestampUs) > 1 && !request.unlogged;
    const payload = `${timestampUs} ${isLogged} ${mutations.map((mutation) => toHex(encodeMutation(mutation))).join(" ")}`;
    if (known !== undefined) {
      if ((request.timestampUs ?? timestampUs) !== timestampUs || known.payload !== payload) throw mismatch(request.id);
      await known.applied;
      return known.result;
    }
    const result: BatchResult = { id: request.id, timestampUs, holders: isLogged ? [HOLDER] : [] };
    const applied = this.#rows.apply(mutations, OPTIONS);
    this.#executed.set(request.id, { payload, result, applied });
    await applied;
    return result;
  }

  async pending(limit: number): Promise<PendingBatches> {
    const batches = [...this.#pending.values()].slice(0, limit).map(({ id, timestampUs, mutations }) => {
      return { id, coordinator: HOLDER, createdMs: 0, timestampUs, rowCount: mutations.length };
    });
    return { batches, total: this.#pending.size };
  }

  async replay(): Promise<ReplayCount> {
    const batches = [...this.#pending.values()];
    for (const batch of batches) await this.#complete(batch);
    return { completed: batches.length, kept: 0, deadLettered: 0 };
  }

  async deadLetters(limit: number): Promise<readonly DeadLetter[]> {
    return [...this.#letters.values()].slice(0, limit).map(({ id, mutations }) => {
      return {
        id,
        reason: "EXPIRED",
        setAsideMs: 0,
        entry: Uint8Array.from(mutations.flatMap((mutation) => [...encodeMutation(mutation)])),
      };
    });
  }

  async redrive(id: TimeId, force: boolean): Promise<readonly RowKey[]> {
    const letter = this.#letters.get(id);
    if (letter === undefined) throw new ConcordError("NOT_FOUND", `no dead letter ${id}`);
    if (!force) throw invalid(id, "the batch is older than gc_grace");
    this.#letters.delete(id);
    await this.#complete(letter);
    return letter.mutations.map(({ key }) => key);
  }

  /** The batch is logged, and its coordinator stopped before the first row. */
  leaveBehind(batch: Logged): void {
    this.#pending.set(batch.id, batch);
  }

  /** The batch was left behind so long ago that replay moved it to the dead letters. */
  leaveExpired(batch: Logged): void {
    this.#letters.set(batch.id, batch);
  }

  async #complete({ id, mutations }: Logged): Promise<void> {
    await this.#rows.apply(mutations, OPTIONS);
    this.#pending.delete(id);
  }
}

/** How many partitions the batch writes to. Refuses what no batch may be. */
function checked(id: TimeId, mutations: readonly Mutation[], timestampUs: TimestampUs): number {
  if (mutations.length === 0) throw invalid(id, "the batch writes nothing");
  for (const mutation of mutations) {
    const isBefore = mutation.kind === "delete" && mutation.timestampUs === timestampUs - 1n;
    if (mutation.timestampUs !== timestampUs && !isBefore) throw invalid(id, "all writes of a batch have one timestamp (LB1)");
  }
  const images = new Set(mutations.map((mutation) => `${toHex(encodeRowKey(mutation.key))}@${mutation.timestampUs}`));
  if (images.size < mutations.length) throw invalid(id, "the batch has two images of one row (LBD14)");
  const rows = mutations.filter((mutation) => mutation.timestampUs === timestampUs).length;
  if (rows > BATCH_ROWS_MAX) throw tooLarge("BATCH_ROWS_MAX", BATCH_ROWS_MAX);
  const bytes = mutations.reduce((sum, mutation) => sum + encodeMutation(mutation).length, 0);
  if (bytes > BATCH_BYTES_MAX) throw tooLarge("BATCH_BYTES_MAX", BATCH_BYTES_MAX);
  return new Set(mutations.map(({ key }) => toHex(encodePartition(key.table, key.partition)))).size;
}

function mismatch(id: TimeId): ConcordError {
  return new ConcordError("IDEMPOTENCY_MISMATCH", `batch ${id} came before with another payload`);
}

function invalid(id: TimeId, message: string): ConcordError {
  return new ConcordError("BATCH_INVALID", message, { metadata: { batchId: id } });
}

function tooLarge(limit: string, largest: number): ConcordError {
  return new ConcordError("LIMIT_EXCEEDED", `the batch is above ${limit}`, { metadata: { limit, largest: String(largest) } });
}
