import { ByteReader } from "@concord/codec";
import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE } from "@concord/ports";
import { encodePartition } from "@concord/rows";
import { type Clock } from "@concord/runtime";
import { readKeyValue } from "@concord/values";
import { failureOf, readError, writeError } from "./failure.ts";
import { inFlight } from "./in-flight.ts";
import { CALL_STATEMENTS_IN_FLIGHT, PURGE_PAGE_PARTITIONS } from "./limits.ts";
import { bytesOf } from "./row-codec.ts";
import type { Answer, CassandraSession } from "./session.ts";

export interface PurgeOptions {
  readonly session: CassandraSession;
  readonly keyspace: string;
  readonly clock: Clock;
  readonly beforeMs: number;
  readonly timeoutMs: number;
}

/**
 * Deletes the partitions of outcomes whose bucket ended by then; answers how many rows they had. Deleted at the wall clock, which is past
 * every timestamp of transactions whose ids are so old.
 */
export async function purgeOutcomes({ session, keyspace, clock, beforeMs, timeoutMs }: PurgeOptions): Promise<number> {
  const table = `${keyspace}.outcomes`;
  const firstKept = BigInt(Math.floor(beforeMs / OUTCOME_BUCKET_MS));
  const purge = async (partition: Uint8Array): Promise<number> => {
    const count = await session
      .read(
        { query: `SELECT COUNT(*) AS rows FROM ${table} WHERE partition = ?`, parameters: [partition] },
        { consistency: "quorum", timeoutMs },
      )
      .catch(rethrowRead);
    const query = `DELETE FROM ${table} USING TIMESTAMP ? WHERE partition = ?`;
    await session.write([{ query, parameters: [clock.nowUs(), partition] }], { timeoutMs }).catch(rethrowWrite);
    return Number(count.rows[0]?.["rows"] ?? 0);
  };
  let [removed, pageState]: [number, string | undefined] = [0, undefined];
  do {
    const settings = {
      consistency: "quorum",
      timeoutMs,
      pageRows: PURGE_PAGE_PARTITIONS,
      ...(pageState === undefined ? {} : { pageState }),
    } as const;
    const page: Answer = await session
      .read({ query: `SELECT DISTINCT partition FROM ${table}`, parameters: [] }, settings)
      .catch(rethrowRead);
    const old = page.rows.map((row) => bytesOf(row["partition"])).filter((partition) => bucketOf(partition) < firstKept);
    const counts = await inFlight(old, CALL_STATEMENTS_IN_FLIGHT, purge);
    removed += counts.reduce((sum, count) => sum + count, 0);
    pageState = page.pageState;
  } while (pageState !== undefined);
  return removed;
}

const TABLE_BYTES = encodePartition(OUTCOMES_TABLE, []).length - 1;

/** The bucket in a partition (text: group, bigint: bucket). */
function bucketOf(partition: Uint8Array): bigint {
  const reader = new ByteReader(partition);
  reader.raw(TABLE_BYTES);
  readKeyValue(reader);
  const bucket = readKeyValue(reader);
  return bucket.kind === "bigint" ? bucket.value : BigInt(Number.MAX_SAFE_INTEGER);
}

function rethrowRead(thrown: unknown): never {
  throw readError(failureOf(thrown));
}

function rethrowWrite(thrown: unknown): never {
  throw writeError(failureOf(thrown));
}
