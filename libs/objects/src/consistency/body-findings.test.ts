// Bodies against the versions that name them: what is missing is reported, what nothing names is removed, and nothing else is touched.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetadataRow, MetadataWrite } from "@concord/ports";
import { findBucket } from "../bucket-row.ts";
import { forgetBucket } from "../buckets.ts";
import { encodeRow } from "../row-codec.ts";
import { bodyKey, headKey, isBodyKey, keyOfBody } from "../row-keys.ts";
import { get, openWorld, put, remove, type Gateway, type World } from "../test/gateway.ts";
import { strayBodies } from "./body-findings.ts";
import { checkConsistency } from "./check.ts";
import { Scrubber } from "./scrubber.ts";

const PARTITION = "photos/0";

const bodiesOf = (world: World): readonly MetadataRow[] => world.metadata.contents(PARTITION).filter(({ key }) => isBodyKey(key));

const write = async (world: World, ...writes: readonly MetadataWrite[]): Promise<void> =>
  void (await world.metadata.commit({ partition: PARTITION, conditions: [], writes }));

/** As a commit would leave it that forgot the body of what it replaced. */
async function leaveBody(world: World, key: string, guid: bigint, content = "left!"): Promise<void> {
  const value = encodeRow({ kind: "body", bytes: Buffer.from(content) });
  await write(world, { kind: "put", row: { key: bodyKey(key, guid), version: { commit: 7n, guid }, value } });
}

const scrub = (gateway: Gateway): ReturnType<Scrubber["pass"]> => new Scrubber({ context: gateway.context }).pass();

test("[OGD9] bodies: of heads, of versions and null versions behind heads and markers: named, nothing is found", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", "null body");
  await put(gateway, "gone", "null body");
  await gateway.store.setBucketVersioning("photos", "enabled");
  for (const key of ["k", "k", "gone"]) await put(gateway, key, "a version");
  await remove(gateway, "gone");
  assert.equal(bodiesOf(world).length, 5);
  const { strayBodies: strays, dangling } = await checkConsistency(gateway.context);
  const { counts, findings } = await scrub(gateway);
  assert.deepEqual([strays, dangling, findings, counts.leaked], [[], [], [], 0]);
  assert.equal(bodiesOf(world).length, 5);
});

test("[OGD9] bodies: one that no version names: the check reports it, the scrub removes it and nothing else", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", "the body");
  await leaveBody(world, "k", 1n);
  await leaveBody(world, "other", 2n, "more");
  const report = await checkConsistency(gateway.context);
  assert.deepEqual(
    report.strayBodies.map(({ key, lengthBytes }) => [key, lengthBytes]),
    [
      ["k", 5],
      ["other", 4],
    ],
  );
  assert.equal(bodiesOf(world).length, 3, "a check changes nothing");
  const { counts, findings } = await scrub(gateway);
  assert.deepEqual([counts.leaked, counts.leakedBytes, findings.map(({ kind }) => kind)], [2, 9, ["leaked", "leaked"]]);
  assert.deepEqual(
    bodiesOf(world).map(({ key }) => keyOfBody(key)),
    ["k"],
  );
  assert.equal(await get(gateway, "k"), "the body");
  assert.deepEqual((await scrub(gateway)).findings, []);
});

test("[OGD9] bodies: of a version that is put or goes while it is looked at: no finding", async () => {
  const { world, gateway } = await openWorld();
  await gateway.store.setBucketVersioning("photos", "enabled");
  await put(gateway, "k", "a version");
  const page = bodiesOf(world);
  let [reads, isWriting] = [0, false];
  world.metadata.before = async (operation) => {
    if (operation !== "read" || isWriting) return;
    reads += 1;
    if (reads !== 1 && reads !== 2) return;
    isWriting = true;
    await put(gateway, "k", `again ${reads}`);
    isWriting = false;
  };
  assert.deepEqual(await strayBodies(gateway.context, PARTITION, page), []);
  assert.ok(reads >= 1);
  world.metadata.before = () => undefined;
  const unversioned = await openWorld();
  await put(unversioned.gateway, "k", "a body");
  const old = bodiesOf(unversioned.world);
  await put(unversioned.gateway, "k", "another");
  assert.deepEqual(await strayBodies(unversioned.gateway.context, PARTITION, old), [], "it is gone with its version");
});

test("[OGD9] bodies: one whose head cannot be read: it may be named, so it stays", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", "the body");
  await write(world, { kind: "put", row: { key: headKey("k"), version: { commit: 9n, guid: 9n }, value: new Uint8Array([200]) } });
  const { counts } = await scrub(gateway);
  assert.deepEqual([counts.leaked, counts.unreadableRows, bodiesOf(world).length], [0, 1, 1]);
});

test("[OGD9] bodies: a head without its body, with a shorter one, with another row in its place: dangling; the row stays", async () => {
  const { world, gateway } = await openWorld();
  for (const key of ["absent", "short", "strange", "whole"]) await put(gateway, key, "the body");
  const [absent, short, strange] = bodiesOf(world);
  const { version } = short!;
  await write(
    world,
    { kind: "delete", key: absent!.key },
    { kind: "put", row: { key: short!.key, version, value: encodeRow({ kind: "body", bytes: new Uint8Array(3) }) } },
    { kind: "put", row: { key: strange!.key, version, value: encodeRow({ kind: "last number" }) } },
  );
  const { dangling } = await checkConsistency(gateway.context);
  assert.deepEqual(
    dangling.map(({ rowKey, reason, oid }) => [Buffer.from(rowKey.subarray(1)).toString(), reason, oid]),
    [
      ["absent", "no body row", undefined],
      ["short", "another length", undefined],
      ["strange", "damaged", undefined],
    ],
  );
  const { counts } = await scrub(gateway);
  assert.deepEqual([counts.dangling, counts.damaged, counts.leaked], [2, 1, 0]);
});

test("[OGD17] bodies: a bucket is forgotten only when no body is left; the scrub removes one that was left", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", "the body");
  await remove(gateway, "k");
  await leaveBody(world, "k", 1n);
  await gateway.store.deleteBucket("photos");
  const removed = async (): Promise<NonNullable<Awaited<ReturnType<typeof findBucket>>>> => (await findBucket(gateway.context, "photos"))!;
  assert.equal(await forgetBucket(gateway.context, await removed()), false);
  assert.equal((await scrub(gateway)).counts.leaked, 1);
  assert.equal(await forgetBucket(gateway.context, await removed()), true);
  assert.deepEqual(world.metadata.contents(PARTITION), []);
});
