// The ObjectData contract on a real cluster: `npm run test:engines ceph`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { crc32c } from "@concord/checksums";
import { objectDataContract } from "@concord/port-contracts";
import { oidOf } from "@concord/ports";
import { connectPool } from "../index.ts";
import { PART_BYTES, STRIPE_BYTES } from "../limits.ts";
import { damageStripe } from "./damage.ts";
import { poolSuite } from "./pool-suite.ts";
import { dataOn, folder, newNamespace, optionsFor, poolOn } from "./real-rados.ts";

const DESCRIPTION = { bucket: "b", key: "k", part: undefined, guid: 5n };

// Two clients: a writer, and the one that finds what it left. Each connection has threads of its own, so all cases share them.
const shared = new Map<string, Awaited<ReturnType<typeof poolOn>>>();

async function sharedPool(name: string): Promise<Awaited<ReturnType<typeof poolOn>>> {
  const found = shared.get(name) ?? (await poolOn(name));
  shared.set(name, found);
  return found;
}

const poolNamespace = newNamespace();
poolSuite(test, () => sharedPool(poolNamespace));

objectDataContract(
  (name, run) => test(name, run),
  async () => {
    const namespace = newNamespace();
    const pool = await poolOn(namespace);
    return {
      data: dataOn(pool),
      checksum: crc32c,
      crash: async () => dataOn(await poolOn(namespace)),
      damage: (oid, at) => damageStripe(pool, oid, at),
    };
  },
);

/** What the pool's own tool lists in the namespace. */
function objectsOf(namespace: string): string[] {
  const args = ["-c", join(folder, "ceph.conf"), "-p", "concord", "--namespace", namespace, "ls"];
  const { stdout, status } = spawnSync("rados", args, { encoding: "utf8", timeout: 30_000 });
  assert.equal(status, 0);
  return stdout.split("\n").filter((line) => line !== "");
}

test("stripes: 9 MiB: three objects; removed: none", async () => {
  const namespace = newNamespace();
  const data = dataOn(await poolOn(namespace));
  const oid = oidOf(1, 1);
  const writer = await data.create(oid, DESCRIPTION);
  const whole = Uint8Array.from({ length: 2 * STRIPE_BYTES + PART_BYTES }, (_, at) => (at * 7 + (at >> 12)) & 255);
  for (let at = 0; at < whole.length; at += 700_001) await writer.write(whole.subarray(at, at + 700_001));
  await writer.seal();
  assert.deepEqual(
    objectsOf(namespace)
      .filter((name) => name.startsWith("data."))
      .toSorted(),
    [0, 1, 2].map((at) => `data.${oid}.000${at}`),
  );
  const parts: Uint8Array[] = [];
  for await (const bytes of data.read(oid, 3, whole.length - 5)) parts.push(bytes.slice());
  assert.equal(Buffer.compare(Buffer.concat(parts), whole.subarray(3, whole.length - 2)), 0);
  assert.equal(await data.remove(oid), true);
  assert.deepEqual(
    objectsOf(namespace).filter((name) => name.startsWith("data.")),
    [],
  );
});

test("[OGD3] fence: a gateway's upload goes on after its epoch was recovered: EPOCH_FENCED, no stripe has bytes", async () => {
  const namespace = newNamespace();
  const [woken, other] = [dataOn(await poolOn(namespace)), dataOn(await poolOn(namespace))];
  const oid = oidOf(1, 1);
  const writer = await woken.create(oid, DESCRIPTION);
  await writer.write(new Uint8Array(PART_BYTES));
  await other.closeEpoch(1);
  assert.deepEqual(await other.list({ epoch: 1, fromSequence: 0, limit: 10 }), [oid]);
  assert.equal(await other.remove(oid), true);
  const goOn = async (): Promise<void> => {
    for (let part = 0; part < 20; part += 1) await writer.write(new Uint8Array(PART_BYTES));
    await writer.seal();
  };
  await assert.rejects(goOn(), { code: "EPOCH_FENCED", applied: "no" });
  await writer.abandon();
  const pool = await poolOn(namespace);
  for (const name of objectsOf(namespace).filter((object) => object.startsWith("data.")))
    assert.equal((await pool.read(name, 0, 10))?.bytes.length, 0, name);
});

test("connect: no such pool, no such file: STORE_FAILED that says so", async () => {
  await assert.rejects(connectPool({ ...optionsFor("x"), pool: "none" }), {
    code: "STORE_FAILED",
    applied: "no",
    message: /pool none: ENOENT/,
  });
  await assert.rejects(connectPool({ ...optionsFor("x"), conf: "/none/ceph.conf" }), {
    code: "STORE_FAILED",
    message: /ceph\.conf cannot be read/,
  });
});
