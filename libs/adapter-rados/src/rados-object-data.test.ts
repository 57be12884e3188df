import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32c } from "@concord/checksums";
import { objectDataContract } from "@concord/port-contracts";
import { oidOf, parseOid, type BlobDescription, type Oid } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { BLOCK_BYTES, PART_BYTES, STRIPE_BYTES, STRIPES_RESERVED_FIRST } from "./limits.ts";
import { stripeObject } from "./names.ts";
import type { WriteAnswer } from "./pool.ts";
import { RadosObjectData } from "./rados-object-data.ts";
import { MemoryCluster, MemoryPool } from "./test/memory-pool.ts";
import { damageStripe } from "./test/damage.ts";
import { poolSuite } from "./test/pool-suite.ts";

const EPOCH = 3;
const OID = oidOf(EPOCH, 17);
const DESCRIPTION: BlobDescription = { bucket: "b", key: "k", part: undefined, guid: 5n };

function openOn(cluster: MemoryCluster): { readonly data: RadosObjectData; readonly pool: MemoryPool } {
  const pool = new MemoryPool(cluster);
  return { data: new RadosObjectData({ pool, checksum: crc32c, failpoint: () => undefined }), pool };
}

poolSuite(test, async () => new MemoryPool(new MemoryCluster()));

objectDataContract(test, async () => {
  const cluster = new MemoryCluster();
  const { data, pool } = openOn(cluster);
  return { data, checksum: crc32c, crash: async () => openOn(cluster).data, damage: (oid, at) => damageStripe(pool, oid, at) };
});

/** Objects with bytes, or stripes that are not burnt: what a blob leaves that is no blob any more. */
function leftOver(cluster: MemoryCluster): string[] {
  return [...cluster.objects].flatMap(([name, { bytes, attributes }]) =>
    name.startsWith("data.") && (bytes.length > 0 || Buffer.from(attributes.get("owner") ?? []).toString() !== "burnt") ? [name] : [],
  );
}

const codeOf = (thrown: unknown): string => (thrown instanceof ConcordError ? thrown.code : String(thrown));

async function upload(data: RadosObjectData, oid: Oid, lengthBytes: number): Promise<string> {
  try {
    const writer = await data.create(oid, DESCRIPTION);
    for (let at = 0; at < lengthBytes; at += PART_BYTES)
      await writer.write(new Uint8Array(Math.min(PART_BYTES, lengthBytes - at)).fill(at));
    await writer.seal();
    return "sealed";
  } catch (thrown) {
    return codeOf(thrown);
  }
}

/** What another gateway does to an epoch that it takes for dead. */
async function recover(data: RadosObjectData): Promise<void> {
  await data.closeEpoch(EPOCH);
  for (const oid of await data.list({ epoch: EPOCH, fromSequence: 0, limit: 1000 }))
    if ((await data.inspect(oid)).kind === "open") await data.remove(oid);
}

async function assertNothingLeft(cluster: MemoryCluster, data: RadosObjectData, situation: string): Promise<void> {
  assert.deepEqual(leftOver(cluster), [], situation);
  assert.deepEqual(await data.list({ epoch: EPOCH, fromSequence: 0, limit: 10 }), [], situation);
  assert.equal((await data.inspect(OID)).kind, "absent", situation);
}

/** The writer stops at its write number `stopAt`; true when it got there. `late`: its write had been sent and comes after the recovery. */
async function fencedAt(stopAt: number, lengthBytes: number, late: boolean): Promise<boolean> {
  const cluster = new MemoryCluster();
  const [paused, other] = [openOn(cluster), openOn(cluster)];
  let writes = 0;
  let recovered: Promise<void> | undefined;
  paused.pool.send = async (apply) => {
    writes += 1;
    if (writes !== stopAt) return apply();
    recovered = recover(other.data);
    await recovered;
    await recover(other.data);
    const answer = apply();
    if (late) throw new ConcordError("WRITE_TIMEOUT", "no answer");
    return answer;
  };
  const outcome = await upload(paused.data, OID, lengthBytes);
  if (recovered === undefined) {
    assert.equal(outcome, "sealed");
    return false;
  }
  await recovered;
  const situation = `stopped at write ${stopAt}, ${late ? "late" : "awake"}: ${outcome}`;
  assert.notEqual(outcome, "sealed", situation);
  await assertNothingLeft(cluster, other.data, situation);
  return true;
}

for (const late of [false, true]) {
  test(`[OGD3] fence: a gateway ${late ? "whose write arrives late" : "stopped"} at each of its writes, its epoch recovered: no stripe is left`, async () => {
    for (const stripes of [0.1, 1, 2.5, STRIPES_RESERVED_FIRST + 1]) {
      let stops = 0;
      while (await fencedAt(stops + 1, Math.ceil(stripes * STRIPE_BYTES), late)) stops += 1;
      assert.ok(stops > 6, `${stops}`);
    }
  });
}

test("[OGD3] fence: first parts of several stripes on their way when the epoch is recovered, in any order: no stripe is left", async () => {
  const cluster = new MemoryCluster();
  const [dead, other] = [openOn(cluster), openOn(cluster)];
  const onTheirWay: (() => WriteAnswer)[] = [];
  dead.pool.send = (apply, object) => {
    if (!object.startsWith("data.") || object === stripeObject(OID, 0)) return apply();
    onTheirWay.push(apply);
    return new Promise<WriteAnswer>(() => undefined);
  };
  const writer = await dead.data.create(OID, DESCRIPTION);
  const stripe = new Uint8Array(STRIPE_BYTES);
  await writer.write(stripe);
  void writer.write(stripe);
  void (await dead.data.create(oidOf(EPOCH, 18), DESCRIPTION)).write(stripe);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(onTheirWay.length, 2);
  await recover(other.data);
  for (const apply of onTheirWay.toReversed()) apply();
  await assertNothingLeft(cluster, other.data, "stripes on their way");
});

test("remove: a crash at each of its writes: the next removal leaves nothing", async () => {
  for (const sealed of [false, true]) {
    for (let stopAt = 1, crashed = true; crashed; stopAt += 1) {
      const cluster = new MemoryCluster();
      const [writing, removing, next] = [openOn(cluster), openOn(cluster), openOn(cluster)];
      const writer = await writing.data.create(OID, DESCRIPTION);
      await writer.write(new Uint8Array(STRIPE_BYTES + PART_BYTES));
      if (sealed) await writer.seal();
      let writes = 0;
      crashed = false;
      removing.pool.send = (apply) => {
        writes += 1;
        crashed ||= writes >= stopAt;
        return crashed ? new Promise<WriteAnswer>(() => undefined) : apply();
      };
      const removal = removing.data.remove(OID);
      for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
      if (!crashed) assert.equal(await removal, true);
      else assert.equal((await next.data.inspect(OID)).kind, sealed && stopAt === 1 ? "sealed" : "open", `${stopAt}`);
      assert.equal(await next.data.remove(OID), crashed, `${stopAt}`);
      await assertNothingLeft(cluster, next.data, `sealed ${sealed}, crash at ${stopAt}`);
    }
  }
});

test("remove: an upload of this process that broke off: no burnt name stays", async () => {
  const cluster = new MemoryCluster();
  const { data } = openOn(cluster);
  const writer = await data.create(OID, DESCRIPTION);
  await writer.write(new Uint8Array(3 * PART_BYTES));
  await writer.abandon();
  assert.equal(await data.remove(OID), true);
  assert.deepEqual(
    [...cluster.objects.keys()].filter((name) => name.startsWith("data.")),
    [],
  );
  assert.equal(await data.inspect(OID).then(({ kind }) => kind), "absent");
});

test("remove: the entry's own write was not answered and comes later: the name stays unusable, nothing is listed", async () => {
  const cluster = new MemoryCluster();
  const { data, pool } = openOn(cluster);
  await upload(data, oidOf(EPOCH, 1), 10);
  let late: (() => WriteAnswer) | undefined;
  pool.send = (apply) => {
    late = apply;
    throw new ConcordError("WRITE_TIMEOUT", "no answer");
  };
  await assert.rejects(data.create(OID, DESCRIPTION), { code: "WRITE_TIMEOUT", applied: "unknown" });
  pool.send = (apply) => apply();
  assert.equal(await data.remove(OID), false);
  assert.equal(late!(), "mismatch");
  assert.equal((await data.inspect(OID)).kind, "absent");
});

test("seal: a part was not answered: unknown, not sealed; its removal burns the names", async () => {
  const cluster = new MemoryCluster();
  const { data, pool } = openOn(cluster);
  let late: (() => WriteAnswer) | undefined;
  pool.send = (apply, object) => {
    if (!object.startsWith("data.")) return apply();
    late = apply;
    throw new ConcordError("WRITE_TIMEOUT", "no answer");
  };
  const writer = await data.create(OID, DESCRIPTION);
  await writer.write(new Uint8Array(100));
  await assert.rejects(writer.seal(), { code: "WRITE_TIMEOUT", applied: "unknown" });
  pool.send = (apply) => apply();
  await writer.abandon();
  assert.equal(await data.remove(OID), true);
  assert.equal(late!(), "exists");
  await assertNothingLeft(cluster, data, "late part");
});

test("read: a stripe is missing in the middle: the bytes before it, then CORRUPT_DATA", async () => {
  const cluster = new MemoryCluster();
  const { data } = openOn(cluster);
  assert.equal(await upload(data, OID, 3 * STRIPE_BYTES), "sealed");
  cluster.objects.delete(stripeObject(OID, 1));
  let read = 0;
  const reading = async (): Promise<void> => {
    for await (const bytes of data.read(OID, 0, 3 * STRIPE_BYTES)) read += bytes.length;
  };
  await assert.rejects(reading(), { code: "CORRUPT_DATA" });
  assert.equal(read, STRIPE_BYTES);
  assert.equal(await data.remove(OID), true);
  assert.deepEqual(leftOver(cluster), []);
});

test("read: a range in the middle of a part: its blocks only", async () => {
  const cluster = new MemoryCluster();
  const { data, pool } = openOn(cluster);
  assert.equal(await upload(data, OID, STRIPE_BYTES), "sealed");
  const spans: [number, number][] = [];
  const read = pool.read.bind(pool);
  pool.read = (object, at, lengthBytes) => {
    spans.push([at, lengthBytes]);
    return read(object, at, lengthBytes);
  };
  for await (const _ of data.read(OID, PART_BYTES + BLOCK_BYTES + 5, BLOCK_BYTES)) void _;
  assert.deepEqual(spans, [[PART_BYTES + BLOCK_BYTES, 2 * BLOCK_BYTES]]);
});

test("list: thousands of blobs in several shards: by the index only", async () => {
  const cluster = new MemoryCluster();
  const { data } = openOn(cluster);
  const oids = Array.from({ length: 1500 }, (_, at) => oidOf(EPOCH, at * 1009));
  for (const oid of oids) await upload(data, oid, 0);
  const listed: Oid[] = [];
  for (let from = 0; ;) {
    const page = await data.list({ epoch: EPOCH, fromSequence: from, limit: 400 });
    listed.push(...page);
    if (page.length < 400) break;
    from = parseOid(page.at(-1)!).sequence + 1;
  }
  assert.deepEqual(listed, oids);
});

test("epochs: a closed one without blobs is forgotten; another gateway's open one is not", async () => {
  const cluster = new MemoryCluster();
  const { data } = openOn(cluster);
  await upload(data, OID, 10);
  await upload(data, oidOf(9, 0), 10);
  await data.remove(OID);
  await data.remove(oidOf(9, 0));
  await data.closeEpoch(EPOCH);
  assert.deepEqual(await data.epochs(), []);
  assert.deepEqual([...cluster.objects.get("epochs")!.keys.keys()], ["00000009"]);
  assert.equal(await upload(openOn(cluster).data, oidOf(EPOCH, 5), 10), "EPOCH_FENCED");
  assert.equal(await upload(data, oidOf(9, 1), 10), "sealed");
});
