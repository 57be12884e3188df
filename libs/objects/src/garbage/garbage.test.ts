// Garbage collection: late enough, never what is named, never forgotten (OGD10, OG12).
import assert from "node:assert/strict";
import { test } from "node:test";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, toHex } from "@concord/runtime";
import { putGarbage } from "../commit-rows.ts";
import { OBJECT_LIMITS } from "../limits.ts";
import { decodeRow, referencesOf } from "../row-codec.ts";
import { SYSTEM_PARTITION } from "../row-keys.ts";
import {
  abort,
  begin,
  bytes,
  codeOf,
  complete,
  faults,
  get,
  openGateway,
  openWorld,
  part,
  put,
  remove,
  restart,
  turns,
  World,
  type Gateway,
} from "../test/gateway.ts";
import { bodyOf, collect, NO_ATTRIBUTES } from "../test/fixture.ts";
import { BUCKET_STUCK_AFTER_MS, GARBAGE_BATCH_ROWS, GARBAGE_INTERVAL_MS, PARTS_PER_COMMIT_MAX } from "./limits.ts";

const PARTITION = "photos/0";
const GRACE_MS = OBJECT_LIMITS.garbageGraceMs;
const A_DAY_MS = 24 * 3600_000;

const gcEntries = ({ world }: Gateway): number => world.metadata.contents().filter((row) => decodeRow(row.value).kind === "garbage").length;

async function putBlobGarbage(gateway: Gateway, key: string, oids: readonly Oid[], partition = PARTITION): Promise<void> {
  const bucket = partition === SYSTEM_PARTITION ? "" : "photos";
  const guid = await gateway.context.guids.next();
  const writes = [putGarbage(gateway.context, guid, { bucket, key, what: { kind: "blobs", oids } })];
  await gateway.world.metadata.commit({ partition, conditions: [], writes });
}

test("[OGD10] grace: before, at and after: kept, removed; the row goes with the blob", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("old"));
  await put(gateway, "k", bytes("new"));
  await world.clock.advance(GRACE_MS - 1);
  assert.deepEqual((await gateway.collector.runOnce()).rows, 0);
  assert.equal(world.data.contents().length, 2);
  await world.clock.advance(1);
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.rows, report.blobs, report.bytes, report.kept], [1, 1, 24, 0]);
  assert.equal(world.data.contents().length, 1);
  assert.equal(gcEntries(gateway), 0);
  assert.equal(await get(gateway, "k"), bytes("new"));
});

test("[OGD11] an upload is garbage beside an open one of its key: the parts of the open one stay", async () => {
  const { world, gateway } = await openWorld();
  const [aborted, open] = [await begin(gateway, "k"), await begin(gateway, "k")];
  await part(gateway, "k", aborted, 1, bytes("aborted"));
  await part(gateway, "k", open, 1, bytes("open"));
  await abort(gateway, "k", aborted);
  assert.equal((await gateway.collector.runOnce()).blobs, 1);
  assert.equal(world.data.contents().length, 1);
  await complete(gateway, "k", open, [{ number: 1, content: bytes("open") }]);
  assert.equal(await get(gateway, "k"), bytes("open"));
});

test("an entry that cannot be read: passed over and counted, all others are collected, and listings show the rest", async () => {
  const { world, gateway } = await openWorld();
  for (const key of ["a", "b", "c"]) {
    await put(gateway, key, bytes("old"));
    await put(gateway, key, bytes("new"));
  }
  await world.clock.advance(GRACE_MS);
  const [entry] = world.metadata.contents().filter((row) => decodeRow(row.value).kind === "garbage");
  const [head] = world.metadata.contents().filter((row) => decodeRow(row.value).kind === "object");
  for (const row of [entry!, head!]) world.metadata.unreadable.add(toHex(row.key));
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.rows, report.kept], [2, 1]);
  const listing = await gateway.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(
    listing.objects.map(({ key }) => key),
    ["b", "c"],
  );
});

test("[OGD10] a reader that began before the overwrite: reads to its end within the grace, old bytes, never mixed", async () => {
  const { world, gateway } = await openWorld();
  const old = bytes("old").repeat(20_000);
  await put(gateway, "k", old);
  const found = await gateway.store.getObject({ bucket: "photos", key: "k", range: undefined, precondition: {}, part: undefined });
  await put(gateway, "k", bytes("new"));
  await world.clock.advance(GRACE_MS - 1);
  await gateway.collector.runOnce();
  assert.equal(Buffer.from(await collect(found.bytes)).toString(), old);
});

test("[OGD10] longest request: a grace below it: refused at start", async () => {
  await assert.rejects(openWorld({ limits: { garbageGraceMs: 1000, longestRequestMs: 1001 } }), /at least as long/);
});

test("[OGD10] a damaged blob that a row names and that says nothing of itself: never removed", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("live"));
  const [live] = world.data.contents();
  await putBlobGarbage(gateway, "k", [live!.oid]);
  world.data.inspect = () => Promise.resolve({ kind: "open", description: undefined });
  await world.clock.advance(GRACE_MS);
  assert.equal((await gateway.collector.runOnce()).referenced, 1);
  assert.equal(await get(gateway, "k"), bytes("live"));
});

test("[OGD10] a blob that a row names: never removed, reported, looked at again after another grace", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("live"));
  const uploadId = await begin(gateway, "p");
  await part(gateway, "p", uploadId, 1, bytes("part"));
  const live = world.data.contents().map(({ oid }) => oid);
  const gone = oidOf(1, 900);
  await putBlobGarbage(gateway, "k", [...live, gone]);
  await putBlobGarbage(gateway, "", live, SYSTEM_PARTITION);
  for (let round = 0; round < 2; round += 1) {
    await world.clock.advance(GRACE_MS);
    const report = await gateway.collector.runOnce();
    assert.deepEqual([report.referenced, report.blobs, report.kept], [4, 0, 0]);
    assert.deepEqual(
      world.data.contents().map(({ oid }) => oid),
      live,
    );
    assert.equal(gcEntries(gateway), 2, "not forgotten");
  }
});

test("[OGD10] an upload that the head points at, or that is open: kept and reported", async () => {
  const { world, gateway } = await openWorld();
  const done = await begin(gateway, "done");
  await part(gateway, "done", done, 1, bytes("1"));
  await complete(gateway, "done", done, [{ number: 1, content: bytes("1") }]);
  const open = await begin(gateway, "open");
  await part(gateway, "open", open, 1, bytes("2"));
  for (const [key, uploadId] of [
    ["done", done],
    ["open", open],
  ] as const) {
    const guid = await gateway.context.guids.next();
    const writes = [putGarbage(gateway.context, guid, { bucket: "photos", key, what: { kind: "upload", uploadId } })];
    await world.metadata.commit({ partition: PARTITION, conditions: [], writes });
  }
  await world.clock.advance(GRACE_MS);
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.referenced, report.blobs], [2, 0]);
  assert.equal(await get(gateway, "done"), bytes("1"));
});

test("[OGD10] the data store fails for a blob: its row stays, the others go; later it is removed", async () => {
  const { world, gateway } = await openWorld();
  for (const key of ["a", "b", "c"]) {
    await put(gateway, key, bytes(key));
    await remove(gateway, key);
  }
  await world.clock.advance(GRACE_MS);
  const [, failing] = world.data.contents();
  world.data.before = (operation, name) => {
    if (operation === "remove" && name === failing!.oid) throw new ConcordError("STORE_FAILED", "timed out");
  };
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.rows, report.blobs, report.kept], [2, 2, 1]);
  assert.deepEqual([world.data.contents().length, gcEntries(gateway)], [1, 1]);
  world.data.before = () => undefined;
  assert.equal((await gateway.collector.runOnce()).blobs, 1);
  assert.equal(gcEntries(gateway), 0);
});

for (const fate of ["lost", "applied", "late"] as const) {
  test(`[OGD10] the answer of forgetting is lost (${fate}): what is still there is collected again`, async () => {
    const { world, gateway } = await openWorld();
    await put(gateway, "k", bytes("v"));
    await remove(gateway, "k");
    await world.clock.advance(GRACE_MS);
    world.metadata.nextFates(fate);
    assert.equal((await gateway.collector.runOnce()).kept, 1);
    await gateway.collector.runOnce();
    world.metadata.applyLate();
    assert.deepEqual([world.data.contents().length, gcEntries(gateway)], [0, 0]);
  });
}

test("a GC entry that cannot be read: stays, the others go", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("v"));
  await remove(gateway, "k");
  const [row] = world.metadata.contents(PARTITION).filter(({ value }) => decodeRow(value).kind === "garbage");
  const broken = { ...row!, key: row!.key.with(-1, 1), value: new Uint8Array([9, 9]) };
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes: [{ kind: "put", row: broken }] });
  await world.clock.advance(GRACE_MS);
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.blobs, report.kept], [1, 1]);
});

test("[OGD10] more rows than a batch, also when some stay: all the others in one run", async () => {
  const { world, gateway } = await openWorld();
  const count = 2 * GARBAGE_BATCH_ROWS + 5;
  for (let at = 0; at < count; at += 1) await put(gateway, "k", bytes(`${at}`));
  await world.clock.advance(GRACE_MS);
  const [first] = world.data.contents();
  world.data.before = (operation, name) => {
    if (operation === "remove" && name === first!.oid) throw new ConcordError("STORE_FAILED", "no");
  };
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.blobs, report.kept], [count - 2, 1]);
});

test("[OGD11] an upload with more parts than one commit takes, aborted: all go, data before rows", async () => {
  const { world, gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  const count = PARTS_PER_COMMIT_MAX + 5;
  for (let number = 1; number <= count; number += 1) await part(gateway, "k", uploadId, number, `${number}`);
  await abort(gateway, "k", uploadId);
  world.metadata.before = async (operation) => {
    if (operation !== "commit") return;
    const references = world.metadata
      .contents(PARTITION)
      .map((row) => decodeRow(row.value))
      .flatMap((row) => (row.kind === "part" ? referencesOf(row).oids : []));
    const stored = new Set(world.data.contents().map(({ oid }) => oid));
    assert.ok(
      [...stored].every((oid) => references.includes(oid)),
      "no blob without a row",
    );
  };
  assert.equal((await gateway.collector.runOnce()).blobs, count);
  world.metadata.before = () => undefined;
  assert.deepEqual(world.data.contents(), []);
  assert.equal(world.metadata.contents(PARTITION).length, 1);
});

test("[OGD17] a removed bucket: its garbage is collected, then its last rows go", async () => {
  const { world, gateway } = await openWorld({ shards: 2 });
  for (const key of ["a", "b", "c"]) {
    await put(gateway, key, bytes(key));
    await remove(gateway, key);
  }
  await gateway.store.deleteBucket("photos");
  assert.equal((await gateway.collector.runOnce()).bucketsForgotten, 0, "garbage is left");
  await world.clock.advance(GRACE_MS);
  const report = await gateway.collector.runOnce();
  assert.deepEqual([report.blobs, report.bucketsForgotten], [3, 1]);
  assert.deepEqual([world.data.contents(), world.metadata.contents("photos/0"), world.metadata.contents("photos/1")], [[], [], []]);
});

test("[OGD17] a bucket with open uploads, in every shard and more than a page: removed as by S3, the uploads unknown, their parts collected", async () => {
  const { world, gateway } = await openWorld({ shards: 2 });
  const uploads: { readonly key: string; readonly uploadId: bigint }[] = [];
  for (let at = 0; at < 205; at += 1) uploads.push({ key: `k${at}`, uploadId: await begin(gateway, `k${at}`) });
  for (const { key, uploadId } of uploads.slice(0, 6)) await part(gateway, key, uploadId, 1, bytes(key));
  await gateway.store.deleteBucket("photos");
  const [{ key, uploadId }] = uploads as [(typeof uploads)[0]];
  assert.equal(await codeOf(part(gateway, key, uploadId, 2, bytes("late"))), "BUCKET_UNKNOWN");
  await gateway.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  assert.equal(await codeOf(part(gateway, key, uploadId, 2, bytes("late"))), "UPLOAD_UNKNOWN");
  await world.clock.advance(GRACE_MS);
  await gateway.collector.runOnce();
  assert.deepEqual([world.data.contents(), gcEntries(gateway)], [[], 0]);
});

for (const point of ["bucket:after-close", "bucket:upload-ended"]) {
  test(`[OGD17] a bucket with open uploads: a crash at ${point}: the next removal ends what is left`, async () => {
    const { world, gateway } = await openWorld({ shards: 2 });
    for (const key of ["a", "b", "c"]) await part(gateway, key, await begin(gateway, key), 1, bytes(key));
    const failpoint = (name: string): void => {
      if (name === point) throw new ConcordError("STORE_FAILED", "no answer", { applied: "unknown" });
    };
    const dying = await openGateway(world, { instance: "two", failpoint });
    assert.equal(await codeOf(dying.store.deleteBucket("photos")), "STORE_FAILED");
    await gateway.store.deleteBucket("photos");
    await world.clock.advance(GRACE_MS);
    await gateway.collector.runOnce();
    assert.deepEqual([world.data.contents(), gcEntries(gateway)], [[], 0]);
  });
}

test("two collectors at once: every blob is removed once, no row is left", async () => {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  for (let at = 0; at < 150; at += 1) await put(gateway, `k${at % 3}`, bytes(`${at}`));
  await world.clock.advance(GRACE_MS);
  const reports = await Promise.all([gateway.collector.runOnce(), other.collector.runOnce()]);
  assert.equal(reports[0].blobs + reports[1].blobs, 147);
  await gateway.collector.runOnce();
  assert.deepEqual([world.data.contents().length, gcEntries(gateway)], [3, 0]);
});

const POINTS = ["garbage:after-remove", "garbage:after-part-data", "garbage:after-parts", "garbage:before-forget", "garbage:after-forget"];

for (const point of POINTS) {
  test(`[OGD10] collection dies at ${point}: run again: the same result`, async () => {
    let armed = false;
    const { world, gateway } = await openWorld({ failpoint: (name, { die }) => (armed && name === point ? die() : undefined) });
    for (let at = 0; at < 10; at += 1) await put(gateway, "k", bytes(`${at}`));
    for (const key of ["done", "aborted"]) {
      const uploadId = await begin(gateway, key);
      await part(gateway, key, uploadId, 1, bytes("1"));
      if (key === "aborted") await abort(gateway, key, uploadId);
      else await complete(gateway, key, uploadId, [{ number: 1, content: bytes("1") }]);
    }
    await remove(gateway, "done");
    await world.clock.advance(A_DAY_MS);
    armed = true;
    await Promise.race([gateway.collector.runOnce().catch(() => undefined), gateway.killed]);
    assert.ok(gateway.isDead(), "the point is on the way");
    const next = await restart(gateway);
    await world.clock.advance(A_DAY_MS);
    await next.collector.runOnce();
    assert.deepEqual([world.data.contents().length, gcEntries(next)], [1, 0]);
    assert.equal(await get(next, "k"), bytes("9"));
    assert.deepEqual(await faults(next), []);
  });
}

test("[OG12] background: runs at its interval until it is stopped; a run that fails is followed by the next", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("v"));
  await remove(gateway, "k");
  world.metadata.before = (operation) => {
    if (operation === "range") throw new ConcordError("STORE_FAILED", "away", { applied: "no" });
  };
  gateway.collector.start();
  await turns();
  world.metadata.before = () => undefined;
  await world.clock.advance(GRACE_MS + GARBAGE_INTERVAL_MS);
  await turns();
  assert.deepEqual(world.data.contents(), []);
  await put(gateway, "k", bytes("v"));
  await remove(gateway, "k");
  await gateway.collector.stop();
  await world.clock.advance(2 * GRACE_MS);
  await turns();
  assert.equal(world.data.contents().length, 1);
});

test("run ahead: tells what is pending; 0 keeps to the grace", async () => {
  const { gateway } = await openWorld();
  await put(gateway, "k", bytes("v"));
  await remove(gateway, "k");
  assert.deepEqual([(await gateway.collector.runAhead(0)).blobs, (await gateway.collector.runAhead(0)).pending], [0, 1]);
  const report = await gateway.collector.runAhead(GRACE_MS);
  assert.deepEqual([report.blobs, report.bytes, report.pending], [1, 24, 0]);
});

for (const [what, point, act] of [
  ["removal", "bucket:after-close", (gateway: Gateway) => gateway.store.deleteBucket("photos")],
  ["making", "bucket:after-making", (gateway: Gateway) => gateway.store.createBucket({ bucket: "films", tenant: "t", region: "r" })],
] as const) {
  test(`collector: the ${what} of a bucket broke off in a gateway that lives: left alone below the time, gone on with at it`, async () => {
    let broken = true;
    const failpoint = (name: string): void => {
      if (broken && name === point) throw new ConcordError("STORE_FAILED", "no answer", { applied: "unknown" });
    };
    const world = new World();
    const gateway = await openGateway(world, { failpoint });
    broken = false;
    await gateway.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
    await put(gateway, "k", "v");
    broken = true;
    assert.equal(await codeOf(act(gateway)), "STORE_FAILED");
    broken = false;
    const bucket = what === "making" ? "films" : "photos";
    const request = { bucket, key: "l", attributes: NO_ATTRIBUTES, precondition: {} };
    const write = () => codeOf(gateway.store.putObject({ ...request, body: bodyOf("w") }));
    await gateway.collector.runOnce();
    await world.clock.advance(BUCKET_STUCK_AFTER_MS - 1);
    await gateway.collector.runOnce();
    assert.notEqual(await write(), "done");
    await world.clock.advance(1);
    await gateway.collector.runOnce();
    assert.equal(await write(), "done");
    assert.equal(await get(gateway, "k"), "v");
  });
}
