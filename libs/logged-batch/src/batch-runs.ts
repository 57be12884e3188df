import { keyText } from "@concord/codec";
import { BATCH_BYTES_MAX, BATCH_ROWS_MAX, type BatchRequest, type BatchResult, type Mutation } from "@concord/ports";
import { encodeMutation, encodePartition, encodeRowKey } from "@concord/rows";
import {
  assert,
  ConcordError,
  toConcordError,
  type Checksum,
  type Clock,
  type Log,
  type Metrics,
  type TimeId,
  type TimestampUs,
} from "@concord/runtime";
import { digestOf } from "./batch-entry.ts";
import { batchError } from "./batch-error.ts";
import type { PreparedBatch } from "./execute-batch.ts";
import { BATCH_BYTES_WARN, BATCH_ROWS_WARN, EXECUTING_BATCHES_MAX, LARGE_BATCH_LOG_EVERY_MS } from "./limits.ts";
import { OutcomeWindow, type KnownBatch } from "./outcome-window.ts";

export interface BatchRunsOptions {
  readonly clock: Clock;
  readonly checksum: Checksum;
  /** This node's write clock. */
  readonly drawTimestampUs: () => TimestampUs;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Carries one batch out, whatever the engine. */
  readonly run: (batch: PreparedBatch) => Promise<BatchResult>;
}

/** What every engine asks of a batch before it runs, and of a repeated one (LBD8). */
export class BatchRuns {
  readonly #options: BatchRunsOptions;
  readonly #window: OutcomeWindow;
  #executing = 0;
  #largeSaidAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: BatchRunsOptions) {
    this.#options = options;
    this.#window = new OutcomeWindow(options.clock);
  }

  /** Batches running now. */
  get executing(): number {
    return this.#executing;
  }

  /**
   * As `run`; BATCH_INVALID, LIMIT_EXCEEDED and OVERLOADED before anything is written. A repeated id joins the run or is given its result;
   * after a failure it runs again with the first one's timestamp (LB4). IDEMPOTENCY_MISMATCH: another payload.
   */
  async execute(request: BatchRequest): Promise<BatchResult> {
    const { checksum, drawTimestampUs } = this.#options;
    const known = this.#window.find(request.id);
    const timestampUs = known?.timestampUs ?? request.timestampUs ?? drawTimestampUs();
    const batch = prepare(request, timestampUs);
    const digest = `${digestOf(timestampUs, batch.mutations, checksum)}-${batch.logged}`;
    if (known !== undefined) {
      const sameTimestamp = request.timestampUs === undefined || request.timestampUs === timestampUs;
      if (!sameTimestamp || known.digest !== digest) throw mismatch(request.id);
      if (known.state.kind !== "failed") return known.state.result;
    }
    return this.#run(batch, digest);
  }

  #run(batch: PreparedBatch, digest: string): Promise<BatchResult> {
    if (this.#executing >= EXECUTING_BATCHES_MAX) {
      const { id, timestampUs, logged } = batch;
      const failure = { id, timestampUs, writeType: logged ? "BATCH_LOG" : "UNLOGGED_BATCH", outcome: "NOT_LOGGED" } as const;
      throw batchError("OVERLOADED", `${EXECUTING_BATCHES_MAX} batches are being executed`, failure);
    }
    if (batch.rowCount > BATCH_ROWS_WARN || batch.bytes > BATCH_BYTES_WARN) this.#warn(batch);
    this.#executing += 1;
    const result = this.#options.run(batch);
    const record: KnownBatch = { timestampUs: batch.timestampUs, digest, state: { kind: "running", result } };
    this.#window.add(batch.id, record);
    const settled = (code: string): void => {
      assert(this.#executing > 0 && record.state.kind !== "running", "a run ends once");
      this.#executing -= 1;
      this.#options.metrics.count("batch_executions_total", 1, { code, logged: String(batch.logged) });
    };
    return result.then(
      (value) => {
        assert(value.id === batch.id && value.timestampUs === batch.timestampUs, "LB4: a result is of its batch");
        record.state = { kind: "applied", result: value };
        settled("OK");
        return value;
      },
      (thrown: unknown) => {
        record.state = { kind: "failed" };
        settled(toConcordError(thrown).code);
        throw thrown;
      },
    );
  }

  /** A large batch costs memory and time on every holder, and soon is one that is refused (LBD11). */
  #warn({ id, rowCount, bytes }: PreparedBatch): void {
    const { clock, log, metrics } = this.#options;
    metrics.count("batch_large_total", 1);
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#largeSaidAtMs < LARGE_BATCH_LOG_EVERY_MS) return;
    this.#largeSaidAtMs = nowMs;
    log.warn("a large batch: one of several times its size is refused", {
      batchId: id,
      rows: rowCount,
      rowsMax: BATCH_ROWS_MAX,
      bytes,
      bytesMax: BATCH_BYTES_MAX,
    });
  }
}

/** Refuses what no batch may be: empty, too large, or two images of one row at one timestamp (LBD14). */
function prepare(request: BatchRequest, timestampUs: TimestampUs): PreparedBatch {
  const mutations = request.mutationsAt(timestampUs);
  if (mutations.length === 0) throw invalid(request.id, "the batch writes nothing");
  const rows = new Set<string>();
  const partitions = new Set<string>();
  for (const mutation of mutations) {
    refuseTimestamp(request.id, mutation, timestampUs);
    const row = `${keyText(encodeRowKey(mutation.key))}@${mutation.timestampUs}`;
    if (rows.has(row)) throw invalid(request.id, "the batch has two images of one row (LBD14)");
    rows.add(row);
    partitions.add(keyText(encodePartition(mutation.key.table, mutation.key.partition)));
  }
  const rowCount = mutations.filter((mutation) => mutation.timestampUs === timestampUs).length;
  if (rowCount > BATCH_ROWS_MAX) throw tooLarge("BATCH_ROWS_MAX", BATCH_ROWS_MAX, rowCount);
  const encoded = mutations.map(encodeMutation);
  const bytes = encoded.reduce((sum, mutation) => sum + mutation.length, 0);
  if (bytes > BATCH_BYTES_MAX) throw tooLarge("BATCH_BYTES_MAX", BATCH_BYTES_MAX, bytes);
  return {
    id: request.id,
    timestampUs,
    rowCount,
    mutations: encoded,
    bytes,
    logged: !request.unlogged && partitions.size > 1,
    span: request.span,
  };
}

/** One timestamp for all (LB1); only the delete under a net insert stands one tick before. */
function refuseTimestamp(id: TimeId, mutation: Mutation, timestampUs: TimestampUs): void {
  const before = mutation.kind === "delete" && mutation.timestampUs === timestampUs - 1n;
  if (mutation.timestampUs !== timestampUs && !before) throw invalid(id, "all writes of a batch have one timestamp (LB1)");
}

function mismatch(id: TimeId): ConcordError {
  return new ConcordError("IDEMPOTENCY_MISMATCH", `batch ${id} came before with another payload`, { metadata: { batchId: id } });
}

function invalid(id: TimeId, message: string): ConcordError {
  return new ConcordError("BATCH_INVALID", message, { metadata: { batchId: id } });
}

function tooLarge(limit: string, largest: number, value: number): ConcordError {
  const metadata = { limit, largest: String(largest), value: String(value) };
  return new ConcordError("LIMIT_EXCEEDED", `the batch has ${value}, ${limit} is ${largest}`, { metadata });
}
