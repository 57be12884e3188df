import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "@concord/port-contracts";
import { Forgotten, rowsOfEntry } from "@concord/quorum";
import { encodeRowsPart, imageOf, joinRows } from "@concord/rows";
import { seqOf, silentLog, silentMetrics, timestampUsOf } from "@concord/runtime";
import { RowHealer } from "./row-healer.ts";
import { checksum, ManualClock, PlainRunner, rowKey } from "./test/fixture.ts";

test("healing: a damaged row of a group: both peers hold its entry and have not applied it yet: it is not deleted", async () => {
  const rows = joinRows([encodeRowsPart([imageOf({ kind: "insert", key: rowKey("g"), columns: [], timestampUs: timestampUsOf(5n) })])]);
  const [put] = rowsOfEntry("group", { seq: seqOf(1n), rows }, checksum);
  assert.ok(put?.kind === "put");
  const { key, value } = put;
  const store = new MemoryKeyValue();
  const damaged = value.slice();
  damaged[damaged.length - 1]! ^= 1;
  await store.batch([{ kind: "put", key, value: damaged }], { sync: true });
  const clock = new ManualClock();
  const peer = (name: string) => ({
    name,
    readRows: async (_k: unknown, _t: number, after: readonly unknown[]) => [after.length > 0 ? value : new Uint8Array()],
  });
  const healer = new RowHealer({
    peers: [peer("b"), peer("c")],
    runner: new PlainRunner(store),
    forgotten: new Forgotten("a", checksum),
    gcGraceMs: 1000,
    catchUp: async () => {},
    applied: () => [{ group: "group", seq: seqOf(1n) }],
    checksum,
    clock,
    timeoutMs: 1000,
    log: silentLog,
    metrics: silentMetrics,
  });
  healer.noticed(key);
  await clock.pass(3000);
  assert.deepEqual(await store.get(key), value);
});
