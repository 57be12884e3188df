// The OSD stopped and killed under load: `npm run test:engines ceph`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "@concord/runtime";
import { oidOf, type ObjectData, type Oid } from "@concord/ports";
import { PART_BYTES } from "../limits.ts";
import { dataOn, newNamespace, poolOn } from "./real-rados.ts";
import { engine } from "./engine-command.ts";

const LENGTHS = [0, 1, 30_000, PART_BYTES + 5, 5 * PART_BYTES];
const bytesOf = (sequence: number): Uint8Array => new Uint8Array(LENGTHS[sequence % LENGTHS.length]!).fill((sequence % 255) + 1);

interface Load {
  readonly sealed: Set<Oid>;
  readonly failed: Map<Oid, ConcordError>;
  stop: boolean;
}

async function writeOn(data: ObjectData, load: Load, next: () => number): Promise<void> {
  while (!load.stop) {
    const sequence = next();
    const oid = oidOf(1, sequence);
    try {
      const writer = await data.create(oid, { bucket: "b", key: `${sequence}`, part: undefined, guid: BigInt(sequence) });
      const bytes = bytesOf(sequence);
      if (bytes.length > 0) await writer.write(bytes);
      await writer.seal();
      load.sealed.add(oid);
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError, String(thrown));
      load.failed.set(oid, thrown);
    }
  }
}

async function expectWhole(data: ObjectData, oid: Oid): Promise<void> {
  const expected = bytesOf(Number.parseInt(oid.slice(9), 16));
  const parts: Uint8Array[] = [];
  for await (const bytes of data.read(oid, 0, expected.length)) parts.push(bytes);
  assert.equal(Buffer.compare(Buffer.concat(parts), expected), 0, oid);
}

/** Uploads while `fault` happens, then looks whether everything acknowledged is whole and the rest can be removed. */
async function underLoad(fault: (load: Load) => Promise<void>, operationTimeoutS: number): Promise<Load> {
  const namespace = newNamespace();
  const data = dataOn(await poolOn(namespace, { operationTimeoutS }));
  const load: Load = { sealed: new Set(), failed: new Map(), stop: false };
  let sequence = 0;
  const writers = Array.from({ length: 8 }, () => writeOn(data, load, () => sequence++));
  await until(() => load.sealed.size >= 20);
  await fault(load);
  const before = load.sealed.size;
  await until(() => load.sealed.size >= before + 20);
  load.stop = true;
  await Promise.all(writers);
  const other = dataOn(await poolOn(namespace));
  for (const oid of load.sealed) await expectWhole(other, oid);
  await other.closeEpoch(1);
  for (const oid of load.failed.keys()) await other.remove(oid);
  const listed = await other.list({ epoch: 1, fromSequence: 0, limit: 100_000 });
  assert.deepEqual([...listed], [...load.sealed].toSorted());
  return load;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
}

test("OSD paused beyond the time-out: writes are unknown, none acknowledged is lost, uploads go on", async () => {
  const load = await underLoad(async ({ failed }) => {
    engine("pause", "osd");
    await until(() => failed.size > 0);
    engine("resume", "osd");
  }, 1);
  for (const { code, applied } of load.failed.values()) assert.deepEqual([code, applied], ["WRITE_TIMEOUT", "unknown"]);
});

test("OSD killed and started again: what was acknowledged is whole, uploads wait and go on", async () => {
  const load = await underLoad(async () => {
    engine("kill", "osd");
    engine("start", "osd");
  }, 60);
  assert.deepEqual([...load.failed.values()].map(String), []);
});
