// Logged batches while a node is killed, on three nodes of one datacenter: Cassandra logs each at two other nodes than its coordinator.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { BatchRequest, Mutation, RowKey, StorageBackend } from "@concord/ports";
import { ConcordError, timeIdFromBytes, timestampUsOf } from "@concord/runtime";
import { backendOn, changeNode, newKeyspace } from "./real-cassandra.ts";

const ROWS = 3;
const WORKERS = 6;
const OPTIONS = { timeoutMs: 10_000 };
/** Cassandra looks through its batchlog every 10 s. */
const REPLAY_POLL_MS = 1_000;

/** Each row in a partition of its own. */
const keysOf = (batch: number): RowKey[] =>
  Array.from({ length: ROWS }, (_, row) => ({
    table: "notes",
    partition: [{ kind: "text", value: `${batch}/${row}` }],
    clustering: [{ kind: "bigint", value: BigInt(row) }],
  }));

function batchOf(at: number): BatchRequest {
  const id = Uint8Array.of(1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 0, 0, 0, 0, 0, at >> 8, at & 255);
  const mutationsAt: BatchRequest["mutationsAt"] = (timestampUs) =>
    keysOf(at).map((key): Mutation => ({
      kind: "insert",
      key,
      columns: [{ column: "v", value: { kind: "bigint", value: BigInt(at) } }],
      timestampUs,
    }));
  return { id: timeIdFromBytes(id), timestampUs: timestampUsOf(BigInt(at + 1)), unlogged: false, mutationsAt };
}

/** APPLIED, or how far a batch that failed came. */
async function outcomeOf(backend: StorageBackend, at: number): Promise<string> {
  try {
    const { holders } = await backend.batches.execute(batchOf(at));
    // While a node is known to be down there is one other node to log at.
    holdersSeen.add(holders.length);
    return "APPLIED";
  } catch (thrown) {
    assert.ok(thrown instanceof ConcordError && thrown.metadata["outcome"] !== undefined, String(thrown));
    return thrown.metadata["outcome"];
  }
}

/** Numbers of holders that answers named. */
const holdersSeen = new Set<number>();

async function rowsOf(backend: StorageBackend, at: number): Promise<number> {
  for (;;) {
    try {
      const images = await backend.rows.read(keysOf(at), OPTIONS);
      return images.filter((image) => image !== undefined).length;
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.applied === "no", String(thrown));
      await sleep(REPLAY_POLL_MS);
    }
  }
}

/** Waits until the batch is not torn, and if it must be there until it is: replay completes what was logged. */
async function settledRows(backend: StorageBackend, at: number, isLogged: boolean): Promise<number> {
  for (;;) {
    const rows = await rowsOf(backend, at);
    if (rows === ROWS || (rows === 0 && !isLogged)) return rows;
    await sleep(REPLAY_POLL_MS);
  }
}

test("[LBC1] [LB11] a node is killed under logged batches: logged at other nodes first, each batch is whole in the end, what was acknowledged is there", async () => {
  const keyspace = await newKeyspace(3);
  const backend = backendOn(keyspace);
  await backend.start(new AbortController().signal);
  const outcomes = new Map<number, string>();
  let [next, isStopping] = [0, false];
  const applied = (): number => [...outcomes.values()].filter((outcome) => outcome === "APPLIED").length;
  const worker = async (): Promise<void> => {
    while (!isStopping) {
      const at = next++;
      outcomes.set(at, await outcomeOf(backend, at));
    }
  };
  const working = Promise.all(Array.from({ length: WORKERS }, worker));
  // A worker that fails ends the wait.
  const more = async (count: number): Promise<void> => {
    const enough = applied() + count;
    while (applied() < enough) await Promise.race([sleep(20), working]);
  };
  await more(30);
  assert.deepEqual([...holdersSeen], [2], "three nodes of one datacenter");
  changeNode("kill", "2");
  await more(60);
  changeNode("start", "2");
  await more(30);
  isStopping = true;
  await working;
  const counts = new Map<string, number>();
  for (const [at, outcome] of outcomes) {
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    if (outcome === "APPLIED") assert.equal(await rowsOf(backend, at), ROWS, `batch ${at}`);
    else if (outcome === "NOT_LOGGED") assert.equal(await rowsOf(backend, at), 0, `batch ${at}`);
    else await settledRows(backend, at, outcome === "LOGGED_PENDING");
  }
  console.log(`outcomes: ${JSON.stringify(Object.fromEntries(counts))}`);
  await backend.stop();
});
