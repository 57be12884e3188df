import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "@concord/client";
import { startConcord } from "./index.ts";

const TABLES = ["CREATE TABLE notes (owner text PRIMARY KEY, body text) WITH kind = 'plain'"];

test("startConcord: two at once: apart, each on ports and in a folder of its own; disposed: both gone", async () => {
  const folders: string[] = [];
  {
    await using one = await startConcord();
    await using other = await startConcord({ config: { groupCount: 1 } });
    for (const { address, dataFolder, adminAddress } of [one, other]) {
      folders.push(dataFolder);
      const db = await connect({ coordinators: [address] });
      await db.createTables(TABLES);
      db.close();
      assert.equal((await fetch(`http://${adminAddress}/readyz`)).status, 200);
      const metrics = await (await fetch(`http://${adminAddress}/metrics`)).text();
      for (const metric of ["txn_", "quorum_", "s3_requests_total", "dedup_partition_running"]) assert.ok(metrics.includes(metric), metric);
    }
    const db = await connect({ coordinators: [one.address] });
    await db.createTables(["CREATE TABLE albums (id bigint PRIMARY KEY)"]);
    const open = await db.start({ table: "albums", key: { id: 1n } });
    const page = (await (await fetch(`http://${one.adminAddress}/transactions`)).json()) as {
      transactions: { id: string; locks: number }[];
    };
    assert.deepEqual(
      page.transactions.map(({ id, locks }) => [id, locks]),
      [[open.id, 1]],
    );
    await open.rollback();
    const { tasks } = (await (await fetch(`http://${one.adminAddress}/tasks`)).json()) as { tasks: { name: string; state: string }[] };
    const names = tasks.map(({ name }) => name);
    for (const part of ["storage", "transactions", "objects"])
      assert.ok(
        names.some((name) => name.startsWith(`${part}: `)),
        `/tasks of ${part}: ${names.join(", ")}`,
      );
    assert.equal(new Set(names).size, names.length, "each has a name of its own");
    assert.ok(tasks.every(({ state }) => state === "running" || state === "waiting"));
    db.close();
    assert.notEqual(one.address, other.address);
    assert.deepEqual(folders.map(existsSync), [true, true]);
  }
  assert.deepEqual(folders.map(existsSync), [false, false]);
});

test("startConcord: a folder that is given: kept, found again; refused while another one has it", async () => {
  const dataFolder = await mkdtemp(join(tmpdir(), "concord-given-"));
  try {
    {
      await using concord = await startConcord({ dataFolder });
      const db = await connect({ coordinators: [concord.address] });
      await db.createTables(TABLES);
      await db.query("INSERT INTO notes (owner, body) VALUES ('ann', 'kept')");
      db.close();
      await assert.rejects(startConcord({ dataFolder }), { code: "STORE_FAILED" });
    }
    await using concord = await startConcord({ dataFolder });
    const db = await connect({ coordinators: [concord.address] });
    const { rows } = await db.query("SELECT * FROM notes WHERE owner = 'ann'");
    assert.deepEqual(rows, [{ owner: "ann", body: "kept" }]);
    db.close();
  } finally {
    await rm(dataFolder, { recursive: true });
  }
});

test("startConcord: mistakes in the configuration: all of them, nothing is left", async () => {
  await assert.rejects(startConcord({ config: { shards: 0, nonsense: 1 } }), /shards[^]*nonsense/);
});
