import { groupLogContract, MemoryGroupLog, MemoryRowStore, rowStoreContract } from "@concord/port-contracts";
import type { RowKey } from "@concord/ports";
import { MemoryTransport } from "@concord/rpc";
import { ConcordError, timestampUsOf, type Clock, type Timer } from "@concord/runtime";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ProxyChannels, StorageProxyGroupLog, StorageProxyRows } from "./index.ts";
import { EXCHANGES_MAX, HOME_RETRY_MS } from "./limits.ts";
import { startMemoryProxy, TOKEN, type MemoryProxy, type Stores } from "./test/memory-proxy.ts";

class ManualClock implements Clock {
  #nowMs = 0;
  #timers: { atMs: number; action: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const next = this.#timers.filter((timer) => timer.atMs <= endMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.action();
    }
    this.#nowMs = endMs;
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

interface Fixture extends Stores {
  readonly clock: ManualClock;
  readonly proxies: readonly MemoryProxy[];
  readonly channels: ProxyChannels;
}

/** Three proxies of one ring; the coordinator stands in d2. */
async function fixture(): Promise<Fixture> {
  const clock = new ManualClock();
  const transport = new MemoryTransport({ clock });
  const stores = { rows: new MemoryRowStore(), log: new MemoryGroupLog() };
  const addresses = [1, 2, 3].map((at) => ({ name: `p${at}`, address: `p${at}:1`, datacenter: `d${at}` }));
  const proxies = await Promise.all(addresses.map(({ address }) => startMemoryProxy(address, stores, transport, clock)));
  const channels = new ProxyChannels({ proxies: addresses, datacenter: "d2", transport, clock, coordinatorToken: TOKEN });
  return { ...stores, clock, proxies, channels };
}

const key = (id: number): RowKey => ({ table: "albums", partition: [{ kind: "bigint", value: BigInt(id) }], clustering: [] });
const callsOf = ({ proxies }: Fixture): number[] => proxies.map((proxy) => proxy.calls.length);
const READ = { timeoutMs: 900 };

describe("storage-proxy as RowStore", () => {
  rowStoreContract(test, async () => new StorageProxyRows((await fixture()).channels));
});

describe("storage-proxy as GroupLog", () => {
  groupLogContract(test, async () => {
    const { channels } = await fixture();
    const log = new StorageProxyGroupLog(channels);
    return { log, restart: () => Promise.resolve(new StorageProxyGroupLog(channels)) };
  });
});

test("[TXC1] group log: how many exchanges a call may make is what the storage-proxy said last, within bounds", async () => {
  const { channels, log: stored } = await fixture();
  const log = new StorageProxyGroupLog(channels);
  assert.equal(log.exchangesMax, 1);
  for (const [said, known] of [
    [3, 3],
    [0, 1],
    [EXCHANGES_MAX + 1, EXCHANGES_MAX],
  ] as const) {
    stored.exchangesMax = said;
    await log.status("albums", 1_000);
    assert.equal(log.exchangesMax, known);
  }
});

test("proxies: the own datacenter's is asked, the others rest", async () => {
  const here = await fixture();
  const rows = new StorageProxyRows(here.channels);
  for (let at = 0; at < 3; at += 1) await rows.read([key(1)], READ);
  assert.deepEqual(callsOf(here), [0, 3, 0]);
});

test("proxies: own one starting, draining or gone: the identical call goes to the next, later calls stay there, the preferred one is probed", async () => {
  const here = await fixture();
  const rows = new StorageProxyRows(here.channels);
  const home = here.proxies[1]!;
  home.before = () => Promise.reject(new ConcordError("STARTING", "not yet"));
  await rows.apply([{ kind: "insert", key: key(1), columns: [], timestampUs: timestampUsOf(5n) }], READ);
  await rows.read([key(1)], READ);
  assert.deepEqual(callsOf(here), [2, 1, 0]);
  home.before = () => Promise.resolve();
  await here.clock.advance(HOME_RETRY_MS);
  await rows.read([key(1)], READ);
  await settle();
  assert.deepEqual(callsOf(here), [3, 2, 0], "a copy of the call found home back");
  await rows.read([key(1)], READ);
  assert.deepEqual(callsOf(here), [3, 3, 0]);
  await home.host!.drain(0);
  const [image] = await rows.read([key(1)], READ);
  assert.equal(image?.markerUs, 5n);
});

test("proxies: one that hangs has its share of the time only", async () => {
  const here = await fixture();
  const rows = new StorageProxyRows(here.channels);
  here.proxies[1]!.before = () => new Promise(() => undefined);
  const reading = rows.read([key(1)], READ);
  await here.clock.advance(320);
  assert.deepEqual(await reading, [undefined]);
  assert.deepEqual(callsOf(here), [1, 1, 0]);
});

test("proxies: the preferred one still hangs when it is probed: a copy of a call finds out, no call waits for it", async () => {
  const here = await fixture();
  const rows = new StorageProxyRows(here.channels);
  here.proxies[1]!.before = () => new Promise(() => undefined);
  const first = rows.read([key(1)], READ);
  await here.clock.advance(320);
  await first;
  await here.clock.advance(HOME_RETRY_MS);
  await Promise.all([1, 2, 3].map((id) => rows.read([key(id)], READ)));
  assert.deepEqual(callsOf(here), [4, 2, 0]);
  await here.clock.advance(320);
  await rows.read([key(1)], READ);
  assert.deepEqual(callsOf(here), [5, 2, 0]);
});

test("proxies: none answers: the last one's error", async () => {
  const here = await fixture();
  const log = new StorageProxyGroupLog(here.channels);
  for (const proxy of here.proxies) proxy.before = () => Promise.reject(new ConcordError("DRAINING", "going"));
  await assert.rejects(log.status("g0", 900), { code: "DRAINING" });
  assert.deepEqual(callsOf(here), [1, 1, 1]);
});

test("proxies: an error about the call itself: passed on at once", async () => {
  const here = await fixture();
  const rows = new StorageProxyRows(here.channels);
  here.proxies[1]!.before = () => Promise.reject(new ConcordError("WRITE_TIMEOUT", "one replica"));
  await assert.rejects(rows.apply([{ kind: "delete", key: key(1), timestampUs: timestampUsOf(5n) }], READ), {
    code: "WRITE_TIMEOUT",
    applied: "unknown",
  });
  assert.deepEqual(callsOf(here), [0, 1, 0]);
});
