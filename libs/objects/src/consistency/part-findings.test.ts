// Parts against uploads, objects and GC entries: what nothing counts on is reported and collected, and nothing else is touched.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetadataRow } from "@concord/ports";
import { decodeRow } from "../row-codec.ts";
import { headKey, isPartKey, uploadKey } from "../row-keys.ts";
import {
  abort,
  begin,
  bytes,
  complete,
  openGateway,
  openWorld,
  part,
  put,
  remove,
  turns,
  type Gateway,
  type World,
} from "../test/gateway.ts";
import { checkConsistency } from "./check.ts";
import { strayParts } from "./part-findings.ts";
import { Scrubber } from "./scrubber.ts";

const PARTITION = "photos/0";
const A_DAY_MS = 24 * 3600_000;

const partsOf = (world: World): readonly MetadataRow[] => world.metadata.contents(PARTITION).filter(({ key }) => isPartKey(key));

async function upload(gateway: Gateway, key: string, contents: readonly string[]): Promise<bigint> {
  const id = await begin(gateway, key);
  for (const [at, content] of contents.entries()) await part(gateway, key, id, at + 1, bytes(content));
  return id;
}

async function store(gateway: Gateway, key: string, contents: readonly string[]): Promise<void> {
  const id = await upload(gateway, key, contents);
  await complete(
    gateway,
    key,
    id,
    contents.map((content, at) => ({ number: at + 1, content: bytes(content) })),
  );
}

/** As a commit would leave them that forgot their GC entry. */
async function forgetGarbage(world: World): Promise<void> {
  const entries = world.metadata.contents(PARTITION).filter(({ value }) => decodeRow(value).kind === "garbage");
  assert.ok(entries.length > 0, "there was something to forget");
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes: entries.map(({ key }) => ({ kind: "delete", key })) });
}

const scrub = (gateway: Gateway): ReturnType<Scrubber["pass"]> => new Scrubber({ context: gateway.context }).pass();

test("[OGD9] parts: of open uploads, of objects current and not, of what waits for collection: nothing is found", async () => {
  const { world, gateway } = await openWorld();
  await store(gateway, "k", ["null 1", "null 2"]);
  await gateway.store.setBucketVersioning("photos", "enabled");
  for (const name of ["a", "b"]) await store(gateway, "k", [`${name} 1`, `${name} 2`]);
  await put(gateway, "k", bytes("newest"));
  await remove(gateway, "k");
  await upload(gateway, "open", ["1", "2"]);
  await abort(gateway, "gone", await upload(gateway, "gone", ["1"]));
  assert.equal(partsOf(world).length, 9);
  const { leaked, dangling } = await checkConsistency(gateway.context);
  const { counts, findings } = await scrub(gateway);
  assert.deepEqual([leaked, dangling, findings, counts.leaked], [[], [], [], 0]);
  assert.equal(partsOf(world).length, 9);
});

test("[OGD9, OGD11] parts: an abort and a replaced object without a GC entry: the check reports their blobs, the scrub lets them be collected", async () => {
  const { world, gateway } = await openWorld();
  await store(gateway, "kept", ["1", "2"]);
  await store(gateway, "k", ["3", "4"]);
  await put(gateway, "k", bytes("new"));
  await abort(gateway, "gone", await upload(gateway, "gone", ["5"]));
  await forgetGarbage(world);
  const { leaked, leakedBytes } = await checkConsistency(gateway.context);
  assert.deepEqual([leaked.length, leakedBytes], [3, 3 * bytes("").length]);
  assert.equal(partsOf(world).length, 5, "a check changes nothing");
  const { counts, findings } = await scrub(gateway);
  assert.deepEqual(
    [counts.leaked, findings.flatMap((one) => (one.kind === "leaked" ? [one.key] : [])).toSorted()],
    [3, ["gone", "k", "k"]],
  );
  assert.equal((await scrub(gateway)).counts.leaked, 0, "they have a GC entry");
  await gateway.collector.runAhead(A_DAY_MS);
  assert.deepEqual(
    partsOf(world).map(({ value }) => decodeRow(value).kind),
    ["part", "part"],
  );
  const after = await checkConsistency(gateway.context);
  assert.deepEqual([after.leaked, after.dangling, after.referenced], [[], [], 3]);
});

test("[OGD9] parts: whose upload or head cannot be read: not known, so nothing is found", async () => {
  const { world, gateway } = await openWorld();
  const id = await upload(gateway, "k", ["1"]);
  const other = await upload(gateway, "l", ["2"]);
  await abort(gateway, "l", other);
  await forgetGarbage(world);
  const unreadable = (key: Uint8Array) =>
    ({ kind: "put", row: { key, version: { commit: 9n, guid: 9n }, value: new Uint8Array([200]) } }) as const;
  const writes = [unreadable(uploadKey("k", id)), unreadable(headKey("l"))];
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes });
  const { leaked, corruptRows } = await checkConsistency(gateway.context);
  assert.deepEqual([leaked, corruptRows], [[], 2]);
});

test("[OGD9] parts: of a version that becomes current between the looks at head and version: looked at again, nothing is found", async () => {
  const { world, gateway } = await openWorld();
  await gateway.store.setBucketVersioning("photos", "enabled");
  await store(gateway, "k", ["1", "2"]);
  const { versionId } = await put(gateway, "k", bytes("newest"));
  const { read } = world.metadata;
  let reads = 0;
  world.metadata.read = async (partition, keys) => {
    reads += 1;
    // The first look has seen the head; the version that the upload made is read next.
    if (reads === 2) {
      world.metadata.read = read;
      await gateway.store.deleteObject({ bucket: "photos", key: "k", versionId });
    }
    return read.call(world.metadata, partition, keys);
  };
  assert.deepEqual(await strayParts(gateway.context, PARTITION, partsOf(world)), []);
  assert.equal(reads, 2);
});

test("parts: while uploads are made, completed, replaced, aborted and collected: nothing is reported", async () => {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  let busy = true;
  const writing = (async () => {
    for (let at = 0; at < 40; at += 1) {
      const key = `k${at % 3}`;
      if (at % 4 === 0) await abort(other, key, await upload(other, key, ["a"]));
      else await store(other, key, [`${at}`, "b"]);
      if (at % 5 === 0) await remove(other, key);
      if (at % 10 === 0) await other.collector.runAhead(A_DAY_MS);
      await turns(1);
    }
    busy = false;
  })();
  let checks = 0;
  while (busy) {
    const { leaked, dangling } = await checkConsistency(gateway.context);
    const { counts } = await scrub(gateway);
    assert.deepEqual([leaked, dangling, counts.leaked, counts.dangling], [[], [], 0, 0]);
    checks += 1;
    await turns(1);
  }
  await writing;
  assert.ok(checks > 3);
});
