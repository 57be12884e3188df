import { ConcordError, silentLog, silentMetrics, type Clock, type Environment } from "@concord/runtime";
import { catalogueOf, type SchemaCache } from "@concord/schema";
import type { TransactionGroup } from "@concord/transactions";
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTables } from "./create-tables.ts";

const clock = { nowMs: () => 5, nowUs: () => 5000n, monotonicMs: () => 0 } as unknown as Clock;
const random = { bytes: (length: number) => new Uint8Array(length), below: () => 0, float: () => 0 };
const environment = { clock, random, log: silentLog, metrics: silentMetrics } as unknown as Environment;

test("[TXD7] create tables: the commit's outcome is unknown: that is the answer, not that it cannot be rolled back", async () => {
  const master = {
    start: () => Promise.resolve({ row: undefined, group: "system", epoch: 1n }),
    operate: () => Promise.resolve(catalogueOf(0n, [])),
    commit: () => Promise.reject(new ConcordError("OUTCOME_UNKNOWN", "the commit may have happened")),
    rollback: () => {
      throw new ConcordError("TRANSACTION_STATE", "the transaction is committing");
    },
  };
  const group = { state: { kind: "serving" }, knows: () => true, serving: () => master } as unknown as TransactionGroup;
  const schema = { catalogue: catalogueOf(0n, []) } as unknown as SchemaCache;
  const creating = createTables(["CREATE TABLE albums (id bigint PRIMARY KEY)"], group, { environment, schema }, 1000);
  await assert.rejects(creating, { code: "OUTCOME_UNKNOWN", applied: "unknown" });
});
