import assert from "node:assert/strict";
import { test } from "node:test";
import { COORDINATORS, FakeCluster } from "./testing/fake-cluster.ts";

test("tables: by name, with keys, types and indexes; one that another client made meanwhile is there", async () => {
  const cluster = new FakeCluster();
  const db = await cluster.connect({ coordinators: COORDINATORS });
  const names = (await cluster.clock.until(db.tables())).map(({ name }) => name);
  assert.deepEqual(names, names.toSorted());
  cluster.tables.push({
    formatVersion: 1,
    name: "jobs",
    kind: "transactional",
    columns: [
      { name: "queue", type: "text" },
      { name: "id", type: "bigint" },
    ],
    partitionKey: ["queue"],
    clusteringKey: ["id"],
    indexes: [{ name: "jobs_by_id", columns: ["id"] }],
  });
  const jobs = (await cluster.clock.until(db.tables())).find(({ name }) => name === "jobs");
  db.close();
  assert.deepEqual(jobs, {
    name: "jobs",
    kind: "transactional",
    columns: [
      { name: "queue", type: "text" },
      { name: "id", type: "bigint" },
    ],
    partitionKey: ["queue"],
    clusteringKey: ["id"],
    indexes: [{ name: "jobs_by_id", columns: ["id"] }],
  });
});
