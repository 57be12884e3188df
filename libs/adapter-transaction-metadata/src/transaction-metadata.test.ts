// What a commit's end becomes. The contract itself runs on composed coordinators: testing/simulate/src/object-metadata.test.ts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordClientError, type ConcordClient, type ConcordErrorCode, type Fields, type Transaction } from "@concord/client";
import { ConcordError, type Clock } from "@concord/runtime";
import { COUNTER_SLOTS, NAME_BYTES } from "./limits.ts";
import { metadataRow, nameOf, TABLES } from "./tables.ts";
import { TransactionMetadata } from "./transaction-metadata.ts";

const COMMIT = { partition: "b/0", conditions: [], writes: [{ kind: "delete", key: Uint8Array.of(1) }] } as const;

/** A client of which only the named calls work. */
const clientWith = (calls: Partial<ConcordClient>): TransactionMetadata => new TransactionMetadata({ client: calls as ConcordClient });
const failing = (code: ConcordErrorCode, applied: "no" | "unknown"): TransactionMetadata =>
  clientWith({ runTransaction: () => Promise.reject(new ConcordClientError(code, "said so", { applied, metadata: { a: "b" } })) });

/** Records locks and writes; every row is absent. */
function recorder(seen: string[], modes: string[] = []): TransactionMetadata {
  const txn: Partial<Transaction> = {
    lockMany: async (table, keys, options) => {
      for (const key of keys) {
        const slot = JSON.stringify(key["slot"]) ?? "";
        seen.push(`lock ${table} ${options?.mode} ${slot}`);
        modes.push(slot);
      }
      return keys.map(() => undefined);
    },
    insert: (table) => void seen.push(`insert ${table}`),
    delete: (table) => void seen.push(`delete ${table}`),
  };
  return clientWith({ runTransaction: (_, work) => work(txn as Transaction) });
}

test("[OGD16] commit: its outcome stays unknown after the client asked: unknown (OGD2)", async () => {
  const outcome = await failing("OUTCOME_UNKNOWN", "unknown").commit(COMMIT);
  assert.equal(outcome.kind, "unknown");
  assert.ok(outcome.kind === "unknown" && outcome.cause instanceof ConcordError && outcome.cause.code === "OUTCOME_UNKNOWN");
});

test("[OGD16] commit: certainly not applied: rejected with the code, the facts and applied: no", async () => {
  await assert.rejects(failing("DEADLOCK", "no").commit(COMMIT), (thrown: unknown) => {
    assert.ok(thrown instanceof ConcordError);
    assert.deepEqual([thrown.code, thrown.applied, thrown.metadata], ["DEADLOCK", "no", { a: "b" }]);
    return true;
  });
});

test("read: a lost answer: applied is no, it changed nothing", async () => {
  await assert.rejects(
    failing("CONNECTION_LOST", "unknown").read("b/0", [Uint8Array.of(1)]),
    (thrown: unknown) => thrown instanceof ConcordError && thrown.applied === "no",
  );
});

test("[OGD17] locks: a row that is only compared is locked shared, a written one exclusively, counters last", async () => {
  const seen: string[] = [];
  const outcome = await recorder(seen).commit({
    partition: "b/0",
    conditions: [
      { key: Uint8Array.of(9), version: undefined },
      { key: Uint8Array.of(1), version: undefined },
    ],
    writes: [
      { kind: "add", key: Uint8Array.of(2), amounts: [1n] },
      { kind: "delete", key: Uint8Array.of(1) },
    ],
  });
  assert.equal(outcome.kind, "committed");
  assert.deepEqual(seen.slice(0, 3), ["lock object_rows shared ", "lock object_rows exclusive ", "delete object_rows"]);
  assert.match(seen[3]!, /^lock object_counters exclusive \d+$/);
  assert.equal(seen[4], "insert object_counters");
});

test("[OGD16] counters: commits on different rows: spread over the slots", async () => {
  const slots: string[] = [];
  const metadata = recorder([], slots);
  for (let at = 0; at < 64; at += 1) {
    const writes = [
      { kind: "delete", key: Uint8Array.of(0x10, at) } as const,
      { kind: "add", key: Uint8Array.of(2), amounts: [1n] } as const,
    ];
    await metadata.commit({ partition: "b/0", conditions: [], writes });
  }
  assert.ok(new Set(slots).size > COUNTER_SLOTS / 2);
});

test("tables: no coordinator can make them yet: tried again until one can", async () => {
  let tries = 0;
  const metadata = clientWith({
    createTables: async (statements) => {
      assert.deepEqual(statements, TABLES);
      tries += 1;
      if (tries < 3) throw new ConcordClientError("STARTING", "not yet", { applied: "no", retryAfterMs: 1 });
      return 1n;
    },
  });
  const clock: Partial<Clock> = {
    setTimer: (_, action) => {
      queueMicrotask(action);
      return { cancel: () => undefined };
    },
  };
  await metadata.createTables(clock as Clock);
  assert.equal(tries, 3);
  await assert.rejects(failing("PERMISSION_DENIED", "no").createTables(clock as Clock));
});

test("names: longer than a key column: cut in two, whole again, in the same order", () => {
  const long = new Uint8Array(NAME_BYTES + 30).fill(7);
  const row = { ...nameOf(long), commit_number: 1n, guid: 2n, content: new Uint8Array() };
  assert.equal(row.name.length, NAME_BYTES);
  assert.deepEqual(metadataRow(row)?.key, long);
  const texts = (key: Uint8Array): Fields => nameOf(key);
  assert.deepEqual(texts(long.subarray(0, NAME_BYTES))["name_rest"], new Uint8Array());
});
