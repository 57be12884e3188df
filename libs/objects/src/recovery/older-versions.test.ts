// Every part that decides by reference knows the rows of versions that are not current (OGD1): recovery, collection, scrub, check.
import assert from "node:assert/strict";
import { test } from "node:test";
import { oidOf } from "@concord/ports";
import { toHex } from "@concord/runtime";
import { putGarbage } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import { checkConsistency } from "../consistency/check.ts";
import { leakedOf } from "../consistency/leaks.ts";
import { objectOf } from "../head-row.ts";
import { decodeRow, referencesOf } from "../row-codec.ts";
import { headerKey, headKey, versionKey } from "../row-keys.ts";
import { headerOf } from "../shard-view.ts";
import { begin, bytes, complete, openGateway, openWorld, part, put, quiesce, type Gateway, type World } from "../test/gateway.ts";
import { recoverEpoch } from "./recover-epoch.ts";

const PARTITION = "photos/0";

/** As a delete in a versioned bucket does: a delete marker is the head, and what it was is an earlier version. */
async function displace({ world, context }: Gateway, key: string, isNull: boolean): Promise<void> {
  const [headerRow, headRow] = await world.metadata.read(PARTITION, [headerKey(), headKey(key)]);
  const header = headerOf(headerRow)!;
  const head = objectOf(headRow)!;
  const guid = await context.guids.next();
  const next = nextVersion(head.version, context.clock, guid);
  const version = { ...head.version, isNull };
  const outcome = await world.metadata.commit({
    partition: PARTITION,
    conditions: [{ key: headerKey(), version: header.version }],
    writes: [
      putRow(headerKey(), nextVersion(header.version, context.clock, guid), { ...header.row, versioning: "enabled" }),
      putRow(headKey(key), next, { kind: "marker", version: { ...next, isNull: false }, modifiedMs: 1 }),
      putRow(versionKey(key, version), next, { ...head.row, version }),
    ],
  });
  assert.equal(outcome.kind, "committed");
}

const garbageOf = (world: World): number => world.metadata.contents().filter((row) => decodeRow(row.value).kind === "garbage").length;
const blobOf = (world: World): ReturnType<typeof oidOf> => world.data.contents()[0]!.oid;

for (const isNull of [false, true]) {
  const name = isNull ? "a null version" : "an earlier version";

  test(`[OGD1] recovery: a blob that only ${name} names: referenced`, async () => {
    const { world, gateway } = await openWorld();
    const by = await openGateway(world, { instance: "two" });
    const { epoch } = gateway.journal;
    await put(gateway, "k", bytes("v"));
    await displace(gateway, "k", isNull);
    gateway.kill();
    const report = await recoverEpoch(by.context, epoch);
    assert.deepEqual([report.referenced, report.collected, report.undecided], [1, 0, 0]);
    assert.equal(garbageOf(world), 0);
  });

  test(`[OGD10] collection: a GC entry of a blob that ${name} names: kept, reported`, async () => {
    const { world, gateway } = await openWorld();
    await put(gateway, "k", bytes("v"));
    await displace(gateway, "k", isNull);
    const what = { kind: "blobs", oids: [blobOf(world)] } as const;
    const entry = putGarbage(gateway.context, await gateway.context.guids.next(), { bucket: "photos", key: "k", what });
    await world.metadata.commit({ partition: PARTITION, conditions: [], writes: [entry] });
    await world.clock.advance(gateway.context.limits.garbageGraceMs);
    assert.equal((await gateway.collector.runOnce()).referenced, 1);
    assert.equal(world.data.contents().length, 1);
  });

  test(`[OGD9] scrub and check: a blob that ${name} names is no leak, an absent one dangles`, async () => {
    const { world, gateway } = await openWorld();
    await put(gateway, "k", bytes("v"));
    await displace(gateway, "k", isNull);
    const oid = blobOf(world);
    await gateway.journal.stop();
    const next = await openGateway(world);
    await quiesce(next);
    assert.deepEqual(await leakedOf(next.context, [oid]), []);
    const report = await checkConsistency(next.context);
    assert.deepEqual([report.referenced, report.leaked, report.dangling], [1, [], []]);
    await world.data.remove(oid);
    assert.deepEqual(
      (await checkConsistency(next.context)).dangling.map(({ reason }) => reason),
      ["absent"],
    );
  });
}

test("[OGD9] scrub: an earlier version cannot be read: it may name the blob, so nothing leaks", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("v"));
  await displace(gateway, "k", false);
  const oid = blobOf(world);
  await gateway.journal.stop();
  const next = await openGateway(world);
  await quiesce(next);
  const row = world.metadata.contents(PARTITION).find(({ value }) => referencesOf(decodeRow(value)).oids.includes(oid))!;
  world.metadata.unreadable.add(toHex(row.key));
  assert.deepEqual(await leakedOf(next.context, [oid]), []);
});

test("[OGD11] collection: a GC entry of an upload whose object is an earlier version: its parts are kept", async () => {
  const { world, gateway } = await openWorld();
  const uploadId = await begin(gateway, "k");
  await part(gateway, "k", uploadId, 1, bytes("p"));
  await complete(gateway, "k", uploadId, [{ number: 1, content: bytes("p") }]);
  await displace(gateway, "k", true);
  const entry = putGarbage(gateway.context, await gateway.context.guids.next(), {
    bucket: "photos",
    key: "k",
    what: { kind: "upload", uploadId },
  });
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes: [entry] });
  await world.clock.advance(gateway.context.limits.garbageGraceMs);
  assert.equal((await gateway.collector.runOnce()).referenced, 1);
  assert.equal(world.data.contents().length, 1);
});
