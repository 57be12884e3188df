import type { Batches, BatchOutcome, BatchResult, BatchWriteType, RowKey } from "@concord/ports";
import { BatchRuns, batchError, type PreparedBatch } from "@concord/logged-batch";
import { decodeMutation } from "@concord/rows";
import { ConcordError, type Checksum, type Clock, type ErrorCode, type Log, type Metrics, type TimestampUs } from "@concord/runtime";
import { applyRows, refuseTooLarge, type RowTarget } from "./apply-rows.ts";
import { failureOf, writeError, type CassandraFailure } from "./failure.ts";
import { MUTATION_BYTES_MAX } from "./limits.ts";
import { statementsOf } from "./row-codec.ts";

export interface CassandraBatchesOptions extends RowTarget {
  readonly clock: Clock;
  readonly checksum: Checksum;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly drawTimestampUs: () => TimestampUs;
  readonly writeTimeoutMs: number;
  readonly failpoint: (name: string) => void;
  /** Where Cassandra logs a batch besides its coordinator; for `BatchResult.holders`. */
  readonly holders: () => readonly string[];
}

/**
 * A batch is Cassandra's own logged batch at QUORUM (LBC1): log, holders, replay and hints are Cassandra's; the typed outcome, the repeated id
 * and the limits are ours. What is left in its log cannot be listed from here.
 */
export function cassandraBatches(options: CassandraBatchesOptions): Batches {
  const { clock, checksum, drawTimestampUs, metrics, log } = options;
  const runs = new BatchRuns({ clock, checksum, drawTimestampUs, metrics, log, run: (batch) => runBatch(options, batch) });
  return {
    execute: (request) => runs.execute(request),
    pending: async () => ({ batches: [], total: 0 }),
    replay: async () => ({ completed: 0, kept: 0, deadLettered: 0 }),
    deadLetters: async () => [],
    redrive: async (id): Promise<readonly RowKey[]> => {
      throw new ConcordError("NOT_FOUND", `no dead letter ${id}: Cassandra replays its batches itself`);
    },
  };
}

async function runBatch(options: CassandraBatchesOptions, batch: PreparedBatch): Promise<BatchResult> {
  const { id, timestampUs } = batch;
  if (batch.logged) return runLogged(options, batch);
  try {
    await applyRows(options, batch.mutations.map(decodeMutation), options.writeTimeoutMs);
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    const outcome = thrown.applied === "no" ? "NOT_LOGGED" : undefined;
    throw batchError(thrown.code, thrown.message, {
      id,
      timestampUs,
      writeType: "UNLOGGED_BATCH",
      outcome,
      applied: thrown.applied,
      cause: thrown,
    });
  }
  return { id, timestampUs, holders: [] };
}

async function runLogged(options: CassandraBatchesOptions, { id, timestampUs, mutations }: PreparedBatch): Promise<BatchResult> {
  const { session, keyspace, writeTimeoutMs } = options;
  const batchBytesMax = options.batchBytesMax();
  const written = mutations.map((mutation) => statementsOf(keyspace, decodeMutation(mutation)));
  const bytes = written.reduce((sum, each) => sum + each.bytes, 0);
  if (bytes > batchBytesMax) throw tooLarge(bytes, batchBytesMax);
  refuseTooLarge(bytes);
  try {
    await session.writeLogged(
      written.flatMap(({ statements }) => statements),
      { timeoutMs: writeTimeoutMs },
    );
  } catch (thrown) {
    const failure = failureOf(thrown);
    const { code, writeType, outcome } = loggedOutcome(failure);
    const message = `Cassandra: ${failure.message}`;
    const applied = failure.isWithoutEffect ? "no" : "unknown";
    throw batchError(code, message, { id, timestampUs, writeType, outcome, applied, cause: failure });
  }
  options.failpoint("batch:after-log");
  return { id, timestampUs, holders: options.holders() };
}

export interface LoggedOutcome {
  readonly code: ErrorCode;
  readonly writeType: BatchWriteType;
  readonly outcome: BatchOutcome;
}

/** How far a logged batch came, by what it failed with (LB4, LB6, LBD8). */
export function loggedOutcome(failure: CassandraFailure): LoggedOutcome {
  if (failure.isWithoutEffect) return { code: writeError(failure).code, writeType: "BATCH_LOG", outcome: "NOT_LOGGED" };
  // Cassandra writes rows only once two holders have the log.
  if (failure.kind === "write-unacknowledged" && failure.writeType === "BATCH")
    return { code: "BATCH_TIMEOUT", writeType: "BATCH", outcome: "LOGGED_PENDING" };
  return { code: "BATCH_LOG_TIMEOUT", writeType: "BATCH_LOG", outcome: "LOG_UNKNOWN" };
}

function tooLarge(bytes: number, largest: number): ConcordError {
  const metadata = { limit: "batch_size_fail_threshold", largest: String(largest), value: String(bytes) };
  const raise = largest < MUTATION_BYTES_MAX ? "; raise batch_size_fail_threshold on every Cassandra node, or send less" : "";
  return new ConcordError("LIMIT_EXCEEDED", `the batch has ${bytes} bytes, Cassandra takes ${largest}${raise}`, { metadata });
}
