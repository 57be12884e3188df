import type { Mutation } from "@concord/ports";
import { ConcordError, toHex } from "@concord/runtime";
import { failureOf, writeError, type CassandraFailure } from "./failure.ts";
import { inFlight } from "./in-flight.ts";
import {
  BATCH_BYTES_STANDARD,
  BATCH_STATEMENTS_MAX,
  CALL_STATEMENTS_IN_FLIGHT,
  MUTATION_BYTES_MAX,
  PARTITION_BATCH_BYTES_MAX,
} from "./limits.ts";
import { statementsOf, type MutationStatements } from "./row-codec.ts";
import type { CassandraSession, Statement } from "./session.ts";

export interface RowTarget {
  readonly session: CassandraSession;
  readonly keyspace: string;
  /** Bytes of a batch over several partitions that every node takes. */
  readonly batchBytesMax: () => number;
}

/**
 * Writes mutations as unlogged batches, each below 50 KiB when it has several partitions: half of what single writes cost the
 * nodes (TXC3). WRITE_TIMEOUT (applied: unknown) as soon as one batch may have been written, REPLICAS_UNAVAILABLE when none was.
 */
export async function applyRows(target: RowTarget, mutations: readonly Mutation[], timeoutMs: number): Promise<void> {
  const written = mutations.map((mutation) => statementsOf(target.keyspace, mutation)).filter(({ statements }) => statements.length > 0);
  for (const { bytes } of written) refuseTooLarge(bytes);
  const batches = pack(written, Math.min(target.batchBytesMax(), BATCH_BYTES_STANDARD));
  let applied = 0;
  const failures: CassandraFailure[] = [];
  await inFlight(batches, CALL_STATEMENTS_IN_FLIGHT, async (batch) => {
    try {
      await target.session.write(batch, { timeoutMs });
      applied += 1;
    } catch (thrown) {
      failures.push(failureOf(thrown));
      throw thrown;
    }
  }).catch(() => undefined);
  const unknown = failures.find((failure) => !failure.isWithoutEffect);
  const worst = unknown ?? failures[0];
  if (worst === undefined) return;
  if (unknown === undefined && applied > 0)
    throw new ConcordError("WRITE_TIMEOUT", `Cassandra: a part was written, a part was not: ${worst.message}`, { cause: worst });
  throw writeError(worst);
}

export function refuseTooLarge(bytes: number): void {
  if (bytes <= MUTATION_BYTES_MAX) return;
  const metadata = { limit: "MUTATION_BYTES_MAX", largest: String(MUTATION_BYTES_MAX), value: String(bytes) };
  throw new ConcordError("LIMIT_EXCEEDED", `a row write has ${bytes} bytes, at most ${MUTATION_BYTES_MAX}`, { metadata });
}

/** The statements in batches. Those of one partition stand together: within a batch they are one mutation. */
function pack(written: readonly MutationStatements[], batchBytesMax: number): Statement[][] {
  const batches: Statement[][] = [];
  let open: { statements: Statement[]; bytes: number; partitions: number } = { statements: [], bytes: 0, partitions: 0 };
  const close = (): void => {
    if (open.statements.length > 0) batches.push(open.statements);
    open = { statements: [], bytes: 0, partitions: 0 };
  };
  for (const partition of byPartition(written)) {
    let isFirst = true;
    for (const { statements, bytes } of partition) {
      const partitions = open.partitions + (isFirst ? 1 : 0);
      const bytesMax = partitions > 1 ? batchBytesMax : PARTITION_BATCH_BYTES_MAX;
      const isFull = open.bytes + bytes > bytesMax || open.statements.length + statements.length > BATCH_STATEMENTS_MAX;
      if (isFull) close();
      if (isFirst || isFull) open.partitions += 1;
      isFirst = false;
      open.statements.push(...statements);
      open.bytes += bytes;
    }
    // What is above the limit of several partitions takes no second one.
    if (open.bytes > batchBytesMax) close();
  }
  close();
  return batches;
}

function byPartition(written: readonly MutationStatements[]): Iterable<MutationStatements[]> {
  const partitions = new Map<string, MutationStatements[]>();
  for (const each of written) {
    const name = `${each.key.table} ${toHex(each.key.partition)}`;
    const present = partitions.get(name);
    if (present === undefined) partitions.set(name, [each]);
    else present.push(each);
  }
  return partitions.values();
}
