// Executes whose ids are older than outcomes are kept when they come again.
import { TransactionService } from "@concord/protos-txn";
import { callUnary } from "@concord/rpc";
import { ERRORS, newTimeIdBytes, sleep, toConcordError, type Channel, type ConcordError, type Environment } from "@concord/runtime";
import type { Client, Cluster } from "../cluster.ts";

export const OLD_IDS_TABLE = "CREATE TABLE old_ids (id bigint PRIMARY KEY, n int)";
/** Share of the seeds in which ids grow old. */
export const OLD_IDS = 0.07;

const ROWS: readonly bigint[] = [0n, 1n, 2n];
/** A step of the clocks of all: more than retention, the margin of the purge, and the span of time that is removed as a whole. */
const LATER_MS = 20 * 60_000;
/** Until each replica has purged once. */
const PURGED_WITHIN_MS = 35_000;
const RETRY_MS = 100;
const CALL_MS = 2_000;
const TRIES_MAX = 60;

interface OldId {
  readonly row: bigint;
  readonly transactionId: Uint8Array;
}

/**
 * One Execute writes each row, a transaction changes it, the clocks of all go on, outcomes are purged, and all coordinators begin anew: no node
 * remembers the Execute. It comes again with its id, and changes nothing: what was written since stays (TXD7).
 */
export async function repeatOldIds(cluster: Cluster, { db, env }: Client, deadlineMs: number): Promise<void> {
  const { world } = cluster;
  const channels = cluster.coordinatorAddresses.map((address) => env.transport.connect(address));
  const old: OldId[] = ROWS.map((row) => ({ row, transactionId: newTimeIdBytes(env.clock, env.random) }));
  for (const one of old) {
    const refusal = await execute(env, channels, one);
    if (refusal !== undefined) throw refusal;
  }
  for (const { row } of old) {
    await db.runTransaction({ table: "old_ids", key: { id: row } }, async (txn) => txn.update("old_ids", { id: row, n: 2 }), {
      deadlineMs,
    });
  }
  for (const node of cluster.targets([]).all) world.stepClock(node, LATER_MS);
  await sleep(env.clock, PURGED_WITHIN_MS);
  for (const node of cluster.coordinators) world.crash(node, "kill");
  world.heal();
  for (const one of old) {
    const refusal = await execute(env, channels, one);
    world.count(`sim:op-old-id-${refusal === undefined ? "known" : refusal.code}`);
    const read = await db.runTransaction(
      { table: "old_ids", key: { id: one.row } },
      (txn) => txn.lock<{ n: number }>("old_ids", { id: one.row }),
      { deadlineMs },
    );
    if (read?.n !== 2) world.violation("old id", `row ${one.row}: ${read?.n}, and 2 was committed after the Execute`);
  }
}

/** A call by the bare contract, which repeats nothing by itself: undefined is done, otherwise the refusal that trying again does not change. */
async function execute(env: Environment, channels: readonly Channel[], { row, transactionId }: OldId): Promise<ConcordError | undefined> {
  const request = { transactionId, statement: { text: `INSERT INTO old_ids (id, n) VALUES (${row}, 1)`, binds: [] } };
  for (let tries = 1; ; tries += 1) {
    try {
      await callUnary(channels[tries % channels.length]!, TransactionService.methods.Execute, request, { timeoutMs: CALL_MS });
      return undefined;
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (!ERRORS[error.code].retryable || tries === TRIES_MAX) return error;
      await sleep(env.clock, RETRY_MS);
    }
  }
}
