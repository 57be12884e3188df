// Coordinators and storage-proxies as processes of their own on three Cassandra nodes (three racks of one datacenter), and one of each stopped
// or killed under load: nothing acknowledged is lost, list-append is clean. `npm run test:engines cassandra-racks`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@concord/client";
import { startConstellation, type Constellation } from "@concord/constellation";
import { RowSubject } from "../rows/row-subject.ts";

const ROOT = resolve(import.meta.dirname, "../../../..");
const keyspace = `fleet_${randomBytes(4).toString("hex")}`;
const contactPoints = (process.env["ENGINE_CASSANDRA"] ?? "").split(",");
const storage = {
  backend: "cassandra",
  cassandraContactPoints: contactPoints,
  cassandraDatacenter: "dc1",
  cassandraKeyspace: keyspace,
  // The nodes share this machine with everything else.
  readTimeoutMs: 5_000,
  writeTimeoutMs: 5_000,
};
/** Acknowledged transactions after which a fault is over, or has shown what it does. */
const PROGRESS = 40;

function node(...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
  assert.equal(status, 0, `${args.join(" ")}: ${stdout}${stderr}`);
}

const cassandra = (command: "kill" | "start" | "pause" | "resume", name: string): void =>
  node("tools/engines/main.ts", command, "cassandra", "--node", name, "--data", process.env["ENGINE_CASSANDRA_FOLDER"] ?? "");

function schema(): void {
  const where = `--cassandra-keyspace ${keyspace} --cassandra-contact-points ${contactPoints.join(",")} --cassandra-datacenter dc1`;
  const command = "apps/storage-proxy/src/main.ts schema apply --backend cassandra";
  node(...`${command} ${where}`.split(" "), "--cassandra-replicas", '{"dc1": 3}');
}

async function underLoad(constellation: Constellation, faults: (progress: () => Promise<void>) => Promise<void>): Promise<RowSubject> {
  const subject = new RowSubject("txn-coordinator", constellation, { client: { connect }, random: Math.random });
  await subject.prepare();
  const stopping = new AbortController();
  const work = subject.work(stopping.signal);
  try {
    await faults(async () => {
      const enough = subject.acknowledged + PROGRESS;
      while (subject.acknowledged < enough) await Promise.race([sleep(50), work]);
    });
  } finally {
    stopping.abort();
    await work;
  }
  await subject.judge();
  subject.close();
  return subject;
}

test("[TXC2] [TX16] fleet on Cassandra: a node paused, a node killed, a coordinator and a storage-proxy killed under load: list-append clean", async () => {
  schema();
  const folder = await mkdtemp(join(tmpdir(), "concord-fleet-"));
  const constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { "storage-proxy": 2, "txn-coordinator": 3 },
    config: { "storage-proxy": storage, "txn-coordinator": { storageTimeoutMs: 6_000, groupCount: 3 } },
    readyTimeoutMs: 120_000,
  });
  try {
    const subject = await underLoad(constellation, async (progress) => {
      await progress();
      cassandra("pause", "3");
      await progress();
      cassandra("resume", "3");
      await progress();
      cassandra("kill", "2");
      await progress();
      cassandra("start", "2");
      await progress();
      await constellation.kill("storage-proxy-1");
      await progress();
      await constellation.restart("storage-proxy-1");
      await constellation.kill("txn-coordinator-1");
      await progress();
      await constellation.restart("txn-coordinator-1");
      await progress();
    });
    console.log(`acknowledged ${subject.acknowledged}`);
    assert.deepEqual(subject.notes, []);
  } finally {
    await constellation.stop();
    await rm(folder, { recursive: true });
  }
});
