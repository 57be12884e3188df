// Namespaces of a test's own in the pool of the cluster whose folder is in ENGINE_CEPH.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after } from "node:test";
import { crc32c } from "@concord/checksums";
import type { Clock } from "@concord/runtime";
import { connectPool, RadosObjectData, type RadosOptions } from "../index.ts";
import type { RadosPool } from "../pool.ts";

export const folder = process.env["ENGINE_CEPH"] ?? "";
const pools: RadosPool[] = [];

after(() => Promise.all(pools.map((pool) => pool.close())));

export const newNamespace = (): string => `test-${randomBytes(6).toString("hex")}`;

const clock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1000n,
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, action) => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (action) => void setImmediate(action),
};

export const optionsFor = (namespace: string): RadosOptions => ({
  conf: join(folder, "ceph.conf"),
  user: "admin",
  pool: "concord",
  namespace,
  clock,
});

export async function poolOn(namespace: string, more: Partial<RadosOptions> = {}): Promise<RadosPool> {
  const pool = await connectPool({ ...optionsFor(namespace), ...more });
  pools.push(pool);
  return pool;
}

export const dataOn = (pool: RadosPool): RadosObjectData => new RadosObjectData({ pool, checksum: crc32c, failpoint: () => undefined });
