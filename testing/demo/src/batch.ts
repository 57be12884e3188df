// Logged batches over several partitions while the storage-proxy that executes them dies: on the ring between log and apply, on Cassandra,
// whose own logged batches they are (LBC1), before its answer.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ConcordClient } from "@concord/client";
import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { imageOfStored } from "@concord/quorum";
import { decodeImage, encodeRowKey, liveRow } from "@concord/rows";
import { BatchService, ReplicaService } from "@concord/protos-storage";
import { type Client, type Constellation, type Engines, Latencies, type PlainGrpc } from "@concord/constellation";
import { settled, type ScenarioResult } from "./figures.ts";

const VICTIM = "storage-proxy-3";
/** The victim dies when the log of so many batches is written; on the ring before any of their rows is. */
const FAILPOINT = "batch:after-log:150";
const WORKERS = 24;
const PARTS = 5;
const PARTITIONS = 50;
const RUN_AFTER_KILL_MS = 1_500;
const KILL_WITHIN_MS = 60_000;
/** Replay waits for the grace period; the returned node is repaired by what is read. */
const CONVERGE_MS = 90_000;
const KEYS_PER_READ = 500;
const GRPC_UNAVAILABLE = 14;
const AS_PEER = { [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) };

interface Batch {
  readonly id: string;
  /** The partition of each part. */
  readonly accounts: readonly bigint[];
  acknowledged: boolean;
}

interface Run {
  readonly batches: Batch[];
  readonly latencies: Latencies;
  stop: boolean;
  lastError: unknown;
  /** Batches without an answer. */
  unanswered: number;
}

const TABLE = "CREATE TABLE postings (account bigint, id uuid, part int, PRIMARY KEY (account, id)) WITH kind = 'plain'";

export async function batchScenario(
  client: Client,
  constellation: Constellation,
  grpc: PlainGrpc,
  storage: Engines["storage"],
): Promise<ScenarioResult> {
  const { coordinators, storageProxies } = constellation;
  const victim = constellation.nodes.find((node) => node.name === VICTIM)!;
  await constellation.process(VICTIM).stop();
  await constellation.restart(VICTIM, { CONCORD_KILL_POINT: FAILPOINT });
  const [all, pinned] = [await client.connect({ coordinators }), await client.connect({ coordinators, storageProxies: [victim.address] })];
  try {
    await all.createTables([TABLE]);
    const run: Run = { batches: [], latencies: new Latencies(), stop: false, lastError: undefined, unanswered: 0 };
    const startedAt = performance.now();
    // Half of the workers know no other proxy: what they had in flight stays without an answer.
    const workers = Array.from({ length: WORKERS }, (_, at) => write(run, at % 2 === 0 ? pinned : all));
    const died = await Promise.race([
      constellation
        .process(VICTIM)
        .exited()
        .then(() => true),
      sleep(KILL_WITHIN_MS, false, { ref: false }),
    ]);
    const survivors = storageProxies.filter((address) => address !== victim.address);
    // Cassandra lists no batches: there those count whose calls were never answered.
    const pending = storage === "ring" && died ? await pendingOf(grpc, survivors, VICTIM, constellation.tokens.operator) : 0;
    await sleep(RUN_AFTER_KILL_MS);
    run.stop = true;
    await Promise.all(workers);
    const indeterminate = storage === "ring" ? pending : run.unanswered;
    const seconds = (performance.now() - startedAt) / 1000;
    if (!died)
      return {
        held: false,
        line: `batch: the failpoint ${FAILPOINT} was not reached in ${KILL_WITHIN_MS / 1000} s; ${String(run.lastError)}`,
      };
    await constellation.restart(VICTIM);
    return await judge(run, { seconds, indeterminate, db: all, grpc, constellation, storage });
  } finally {
    all.close();
    pinned.close();
  }
}

async function write(run: Run, db: ConcordClient): Promise<void> {
  while (!run.stop) {
    const first = run.batches.length;
    const batch: Batch = {
      id: randomUUID(),
      accounts: Array.from({ length: PARTS }, (_, part) => BigInt((first * 3 + part * 7) % PARTITIONS)),
      acknowledged: false,
    };
    run.batches.push(batch);
    const startedAt = performance.now();
    try {
      await db.batch(batch.accounts.map((account, part) => ({ insert: "postings", row: { account, id: batch.id, part } })));
      batch.acknowledged = true;
      run.latencies.add(performance.now() - startedAt);
    } catch (error) {
      // Not acknowledged: all or nothing of it must be there in the end.
      run.lastError = error;
      if ((error as { readonly applied?: string }).applied === "unknown") run.unanswered += 1;
      await sleep(20);
    }
  }
}

/** Batches the dead node had logged and not finished, as the survivors' batchlogs have them. */
async function pendingOf(grpc: PlainGrpc, addresses: readonly string[], coordinator: string, token: string): Promise<number> {
  const ids = new Set<string>();
  for (const address of addresses) {
    const service = grpc(address, BatchService);
    const { batches } = await service.call("ListPendingBatches", { pageSize: 1000 }, token);
    for (const batch of batches) if (batch.coordinator === coordinator) ids.add(Buffer.from(batch.batchId).toString("hex"));
    service.close();
  }
  return ids.size;
}

interface Trial {
  readonly seconds: number;
  readonly indeterminate: number;
  readonly db: ConcordClient;
  readonly grpc: PlainGrpc;
  readonly constellation: Constellation;
  readonly storage: Engines["storage"];
}

async function judge(run: Run, trial: Trial): Promise<ScenarioResult> {
  const acknowledged = run.batches.filter((batch) => batch.acknowledged);
  const complete = new Set<Batch>();
  // One full read pass at quorum; repeated only while a replay that is due has not run yet.
  const atQuorum = await settled(() => readPass(trial.db, run.batches, complete), CONVERGE_MS);
  const isRing = trial.storage === "ring";
  const onReplicas = atQuorum ?? (isRing ? await settled(() => replicaPass(trial, complete), CONVERGE_MS) : undefined);
  const unacknowledged = run.batches.length - acknowledged.length;
  const figures =
    `${acknowledged.length} batches of ${PARTS} partitions, ${Math.round(acknowledged.length / trial.seconds)} batches/s, ${run.latencies.text()}, ` +
    `${trial.indeterminate} indeterminate when ${VICTIM} was killed at ${FAILPOINT}, ${unacknowledged} unacknowledged`;
  const problem = onReplicas ?? (trial.indeterminate === 0 ? "no batch was indeterminate at the kill: the run does not count" : undefined);
  return {
    held: problem === undefined,
    line: `batch: ${figures}; ${problem ?? `every acknowledged one complete at quorum${isRing ? " and on all 3 replicas" : ""}, none torn`}`,
  };
}

/** Fills `complete`; says what is torn or lost. */
async function readPass(db: ConcordClient, batches: readonly Batch[], complete: Set<Batch>): Promise<string | undefined> {
  complete.clear();
  let problem: string | undefined;
  const perRead = Math.floor(KEYS_PER_READ / PARTS);
  for (let at = 0; at < batches.length; at += perRead) {
    const some = batches.slice(at, at + perRead);
    const rows = await db.readMany(
      "postings",
      some.flatMap((batch) => batch.accounts.map((account) => ({ account, id: batch.id }))),
    );
    some.forEach((batch, index) => {
      const found = rows.slice(index * PARTS, (index + 1) * PARTS).filter((row) => row !== undefined).length;
      if (found === PARTS) complete.add(batch);
      else if (batch.acknowledged) problem ??= `acknowledged batch ${batch.id} has ${found} of ${PARTS} rows`;
      else if (found > 0) problem ??= `unacknowledged batch ${batch.id} is torn: ${found} of ${PARTS} rows`;
    });
  }
  return problem;
}

/** Looks at every replica by itself, as its peers do. */
async function replicaPass({ grpc, constellation }: Trial, complete: ReadonlySet<Batch>): Promise<string | undefined> {
  const keys = [...complete].flatMap((batch) => batch.accounts.map((account) => keyOf(account, batch.id)));
  for (const node of constellation.nodes.filter((one) => one.service === "storage-proxy")) {
    const replica = grpc(node.address, ReplicaService);
    let missing = 0;
    for (let at = 0; at < keys.length; at += KEYS_PER_READ) {
      const request = { keys: keys.slice(at, at + KEYS_PER_READ) };
      let images: readonly Uint8Array[];
      try {
        ({ images } = await replica.call("ReadRows", request, constellation.tokens.peer, AS_PEER));
      } catch (error) {
        // A batch of these rows is being replayed: the read is to be repeated.
        if ((error as { readonly code?: number }).code !== GRPC_UNAVAILABLE) throw error;
        replica.close();
        return `replica ${node.name}: ${String(error)}`;
      }
      missing += images.filter((image) => image.length === 0 || liveRow(decodeImage(imageOfStored(image))) === undefined).length;
    }
    replica.close();
    if (missing > 0) return `replica ${node.name} lacks ${missing} of ${keys.length} rows after the read pass`;
  }
  return undefined;
}

function keyOf(account: bigint, id: string): Uint8Array {
  const clustering = [{ kind: "uuid" as const, value: id.replaceAll("-", "") }];
  return encodeRowKey({ table: "postings", partition: [{ kind: "bigint", value: account }], clustering });
}
