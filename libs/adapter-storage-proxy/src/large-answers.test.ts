// What does not fit into one message or one page of a storage-proxy.
import { MemoryGroupLog, MemoryRowStore } from "@concord/port-contracts";
import type { Mutation, RowImage, RowKey, RowRange } from "@concord/ports";
import { MemoryTransport } from "@concord/rpc";
import { timestampUsOf, type Clock } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellValue } from "@concord/values";
import { ProxyChannels, StorageProxyRows } from "./index.ts";
import { startMemoryProxy, TOKEN } from "./test/memory-proxy.ts";

/** Time stands still. */
const clock: Clock = {
  nowMs: () => 0,
  nowUs: () => 0n,
  monotonicMs: () => 0,
  setTimer: () => ({ cancel: () => undefined }),
  defer: (action) => void setImmediate(action),
};
const OPTIONS = { timeoutMs: 900 };

async function fixture(): Promise<{ readonly rows: MemoryRowStore; readonly remote: StorageProxyRows }> {
  const transport = new MemoryTransport({ clock });
  const rows = new MemoryRowStore();
  const address = { name: "p1", address: "p1:1", datacenter: "d1" };
  await startMemoryProxy(address.address, { rows, log: new MemoryGroupLog() }, transport, clock);
  const channels = new ProxyChannels({ proxies: [address], datacenter: "d1", transport, clock, coordinatorToken: TOKEN });
  return { rows, remote: new StorageProxyRows(channels) };
}

const text = (value: string): CellValue => ({ kind: "text", value });
const key = (at: number): RowKey => ({ table: "photos", partition: [text("album")], clustering: [{ kind: "int", value: at }] });

test("[TXD2] apply: a takeover's mutations are larger than one message: all of them arrive", async () => {
  const { rows, remote } = await fixture();
  const mutations = Array.from({ length: 6 }, (_, at): Mutation => {
    return {
      kind: "insert",
      key: key(at),
      columns: [{ column: "body", value: text("x".repeat(900_000)) }],
      timestampUs: timestampUsOf(5n),
    };
  });
  await remote.apply(mutations, OPTIONS);
  const images = await rows.read(mutations.map((mutation) => mutation.key));
  assert.deepEqual(
    images.map((image: RowImage | undefined) => image?.markerUs),
    mutations.map(() => 5n),
  );
});

test("[TX28] range: the proxy saw deleted rows only and says where it goes on: the rows behind them are found", async () => {
  const { rows, remote } = await fixture();
  await rows.apply([{ kind: "insert", key: key(7), columns: [], timestampUs: timestampUsOf(5n) }]);
  const readRange = rows.readRange.bind(rows);
  let pages = 0;
  rows.readRange = async (range: RowRange) => {
    pages += 1;
    return pages === 1 ? { rows: [], next: key(5).clustering } : readRange(range);
  };
  const page = await remote.readRange({ table: "photos", partition: [text("album")], reverse: false, limit: 10 }, OPTIONS);
  assert.deepEqual(
    page.rows.map((row) => row.key.clustering),
    [key(7).clustering],
  );
  assert.equal(page.next, undefined);
});
