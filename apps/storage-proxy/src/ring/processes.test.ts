// Three real processes, stores on disk, heartbeats by UDP: what is left behind by one that is killed, and how it catches up. More kills:
// KILLS=30.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { nodeChecksum, nodeClock, nodeRandom } from "@concord/adapter-node-runtime";
import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { encodeEntry } from "@concord/logged-batch";
import type { RowKey } from "@concord/ports";
import { BatchService, ReplicaService } from "@concord/protos-storage";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { encodeMutation } from "@concord/rows";
import { newTimeId, silentLog, silentMetrics, sleep, timestampUsOf } from "@concord/runtime";
import { PATIENCE_MS, PEER_TOKEN, query, RingProcess, storedNotes, threeMembers } from "../test/ring-process.ts";

const KILLS = Number(process.env["KILLS"] ?? 3);
const ROWS = 60;
const TIMEOUT_MS = 10_000;
/** Far above PATIENCE_MS: a batch of another node is completed on the verdict, or not within this test (LBD3). */
const GRACE_MS = 3_600_000;

const folder = await mkdtemp(join(tmpdir(), "concord-ring-"));
const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
const ring = await threeMembers();
const processes = ring.map((member) => new RingProcess(member, ring, folder, ["--batch-grace-ms", String(GRACE_MS)]));
const channels = ring.map(({ address }) => transport.connect(address));

before(async () => {
  await Promise.all(processes.map((node) => node.start()));
  await query(channels, "CREATE TABLE notes (owner text, at bigint, body text, PRIMARY KEY ((owner), at)) WITH kind = 'plain'");
});

after(async () => {
  for (const channel of channels) channel.close();
  await Promise.all(processes.map((node) => node.kill()));
  await rm(folder, { recursive: true });
});

const insert = (owner: string, at: number, body: string): string =>
  `INSERT INTO notes (owner, at, body) VALUES ('${owner}', ${at}, '${body}')`;

test("[LB9] processes: one is killed, rows are written and deleted, it returns: all three replicas are equal again, without a read", async (t) => {
  const owners = ["ann", "bob", "cid"];
  const writeAll = async (nodes: readonly number[], body: string): Promise<void> => {
    for (let n = 0; n < ROWS; n += 10) {
      await Promise.all(
        Array.from({ length: 10 }, (_, each) =>
          query(
            nodes.map((at) => channels[at]!),
            insert(owners[(n + each) % 3]!, n + each, body),
          ),
        ),
      );
    }
  };
  await writeAll([0, 1], "first");
  await processes[2]!.kill();
  await writeAll([0, 1], "second");
  await query([channels[1]!], "DELETE FROM notes WHERE owner = 'ann' AND at = 0");
  await processes[2]!.start();
  const returnedAt = performance.now();
  for (;;) {
    const replicas = await Promise.all(channels.map((channel) => storedNotes(channel, owners)));
    if (new Set(replicas).size === 1) break;
    assert.ok(performance.now() - returnedAt < PATIENCE_MS, `rows: ${replicas.map((rows) => rows.split(":")[0]).join()}`);
    await sleep(nodeClock, 50);
  }
  t.diagnostic(`equal ${Math.round(performance.now() - returnedAt)} ms after it served again`);
});

test("[LBD3] processes: the coordinator of batches is killed, the grace period is an hour: the others have completed them on the verdict", async (t) => {
  const took: number[] = [];
  for (let each = 0; each < KILLS; each += 1) {
    const victim = each % 3;
    const survivors = [0, 1, 2].filter((at) => at !== victim);
    await leaveBatch(victim, survivors, each);
    const stopWriting = new AbortController();
    const writers = Array.from({ length: 4 }, (_, writer) => writeBatches(victim, `k${each}w${writer}`, stopWriting.signal));
    await sleep(nodeClock, 700);
    for (const survivor of survivors) assert.ok((await pendingAt(survivor)) > 0n, "its coordinator lives");
    const killedAt = performance.now();
    const killed = processes[victim]!.kill();
    while ((await Promise.all(survivors.map(pendingAt))).some((pending) => pending > 0n)) {
      assert.ok(performance.now() - killedAt < PATIENCE_MS, "batches stay pending");
      await sleep(nodeClock, 5);
    }
    took.push(performance.now() - killedAt);
    stopWriting.abort();
    await Promise.all(writers);
    await killed;
    await processes[victim]!.start();
    await sleep(nodeClock, 1000);
  }
  took.sort((left, right) => left - right);
  const at = (share: number): number => Math.round(took[Math.min(took.length - 1, Math.floor(share * took.length))]!);
  t.diagnostic(
    `${KILLS} kills: no batch pending after p50 ${at(0.5)} ms, p99 ${at(0.99)} ms; the slowest ${took.slice(-5).map(Math.round).join(", ")} ms`,
  );
});

/** Puts a batch into the logs of `holders` under the victim's name, which knows nothing of it: it stays there until the victim is lost. */
async function leaveBatch(victim: number, holders: readonly number[], each: number): Promise<void> {
  const timestampUs = timestampUsOf(7n);
  const mutations = ["left x", "left y"].map((owner) => {
    const key: RowKey = {
      table: "notes",
      partition: [{ kind: "text", value: owner }],
      clustering: [{ kind: "bigint", value: BigInt(each) }],
    };
    return encodeMutation({ kind: "insert", key, columns: [{ column: "body", value: { kind: "text", value: "left" } }], timestampUs });
  });
  const entry = encodeEntry(
    {
      id: newTimeId(nodeClock, nodeRandom),
      coordinator: ring[victim]!.name,
      createdMs: nodeClock.nowMs(),
      timestampUs,
      holders: holders.map((at) => ring[at]!.name),
      rowCount: mutations.length,
      mutations,
    },
    nodeChecksum,
  );
  const metadata = { ...bearer(PEER_TOKEN), [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) };
  for (const at of holders)
    await callUnary(channels[at]!, ReplicaService.methods.BatchLogPut, { entries: [entry] }, { timeoutMs: TIMEOUT_MS, metadata });
}

async function writeBatches(victim: number, owner: string, signal: AbortSignal): Promise<void> {
  for (let n = 0; !signal.aborted; n += 1) {
    const writes = ["x", "y"].map((part): object => ({
      kind: "WRITE_KIND_INSERT",
      key: { table: "notes", partition: [{ textValue: `${owner}${part}${n}` }], clustering: [{ bigintValue: BigInt(n) }] },
      columns: [{ name: "body", value: { textValue: "batch" } }],
    }));
    const request = { writes } as never;
    await callUnary(channels[victim]!, BatchService.methods.ExecuteBatch, request, { timeoutMs: 1000 }).catch(() => sleep(nodeClock, 20));
  }
}

async function pendingAt(node: number): Promise<bigint> {
  return (
    await callUnary(channels[node]!, BatchService.methods.ListPendingBatches, {}, { timeoutMs: TIMEOUT_MS, metadata: bearer(PEER_TOKEN) })
  ).total;
}
