// The check finds what is seeded, and nothing else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { oidOf } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { readEpoch } from "../reservation/epoch-row.ts";
import { headKey, partKey } from "../row-keys.ts";
import { begin, bytes, complete, openGateway, openWorld, part, put, quiesce, remove, turns } from "../test/gateway.ts";
import { checkConsistency } from "./check.ts";

const PARTITION = "photos/0";

test("check: objects, parts of open uploads, garbage: all counted, nothing wrong", async () => {
  const { gateway } = await openWorld({ shards: 2 });
  await put(gateway, "a", bytes("1"));
  await put(gateway, "a", bytes("2"));
  const done = await begin(gateway, "b");
  await part(gateway, "b", done, 1, bytes("3"));
  await complete(gateway, "b", done, [{ number: 1, content: bytes("3") }]);
  const open = await begin(gateway, "c");
  await part(gateway, "c", open, 1, bytes("4"));
  const { blobs, referenced, inGarbage, inFlight, leaked, dangling } = await checkConsistency(gateway.context);
  assert.deepEqual([blobs, referenced, inGarbage, inFlight, leaked, dangling], [4, 3, 1, 0, [], []]);
});

test("[OGD9] check: a blob that nothing names: in flight above low water of a live epoch; leaked below it, or when its epoch is recovered", async () => {
  const { world, gateway } = await openWorld();
  const leave = async (sequence: number): Promise<void> => {
    const writer = await world.data.create(oidOf(1, sequence), { bucket: "photos", key: "k", part: undefined, guid: 1n });
    await writer.write(new Uint8Array(7));
    await writer.seal();
  };
  await leave(900);
  await put(gateway, "a", bytes("1"));
  const before = await checkConsistency(gateway.context);
  assert.deepEqual([before.inFlight, before.leaked.length], [1, 0]);
  await gateway.journal.stop();
  const next = await openGateway(world);
  await quiesce(next);
  const after = await checkConsistency(next.context);
  assert.deepEqual([after.inFlight, after.leaked, after.leakedBytes], [0, [{ oid: oidOf(1, 900), lengthBytes: 7 }], 7]);
});

test("[OGD9] check: rows whose data is absent, not sealed or shorter, an object without a part's row: dangling", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "absent", bytes("1"));
  await put(gateway, "short", bytes("2"));
  const uploadId = await begin(gateway, "parts");
  for (const number of [1, 2]) await part(gateway, "parts", uploadId, number, bytes(`p${number}`));
  await complete(
    gateway,
    "parts",
    uploadId,
    [1, 2].map((number) => ({ number, content: bytes(`p${number}`) })),
  );
  const blobs = world.data.contents();
  await world.data.remove(blobs[0]!.oid);
  await world.data.remove(blobs[1]!.oid);
  const writer = await world.data.create(blobs[1]!.oid, { bucket: "photos", key: "short", part: undefined, guid: 1n });
  await writer.write(new Uint8Array(3));
  const reasons = async (): Promise<string[]> => {
    const { dangling } = await checkConsistency(gateway.context);
    return dangling.map(({ reason, oid }) => `${reason} ${blobs.findIndex((blob) => blob.oid === oid)}`);
  };
  assert.deepEqual(await reasons(), ["absent 0", "not sealed 1"]);
  await writer.seal();
  assert.deepEqual(await reasons(), ["absent 0", "another length 1"]);
  const writes = [{ kind: "delete", key: partKey("parts", uploadId, 2) }] as const;
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes });
  assert.deepEqual((await reasons()).includes("no part row -1"), true);
});

test("check: a row that cannot be read: counted, and the blob it may name is not called leaked", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("1"));
  const version = { commit: 9n, guid: 9n };
  const row = { key: headKey("k"), version, value: new Uint8Array([200]) };
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes: [{ kind: "put", row }] });
  const report = await checkConsistency(gateway.context);
  assert.deepEqual([report.corruptRows, report.leaked.length], [1, 0]);
});

test("[OGD9] check: damaged blobs, one with a row and one without: both reported, the check goes on", async () => {
  const { world, gateway } = await openWorld();
  await put(gateway, "k", bytes("1"));
  const [named] = world.data.contents();
  const left = oidOf(1, 900);
  await (await world.data.create(left, { bucket: "photos", key: "l", part: undefined, guid: 1n })).seal();
  await gateway.journal.stop();
  const held = (await readEpoch(world.metadata, 1))!;
  assert.equal(held.row.closed, true);
  const damaged = new ConcordError("CORRUPT_DATA", "its header");
  world.data.inspect = () => Promise.reject(damaged);
  const { leaked, dangling } = await checkConsistency(gateway.context);
  assert.deepEqual(
    dangling.map(({ oid, reason }) => [oid, reason]),
    [[named!.oid, "damaged"]],
  );
  assert.deepEqual(leaked, [{ oid: left, lengthBytes: 0 }]);
});

test("check: while others write, overwrite, delete and collect: nothing is reported", async () => {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  let busy = true;
  const writing = (async () => {
    for (let at = 0; at < 60; at += 1) {
      await put(other, `k${at % 5}`, bytes(`${at}`));
      if (at % 7 === 0) await remove(other, `k${at % 5}`);
      if (at % 10 === 0) await other.collector.runAhead(24 * 3600_000);
      await turns(1);
    }
    busy = false;
  })();
  let checks = 0;
  while (busy) {
    const { leaked, dangling } = await checkConsistency(gateway.context);
    assert.deepEqual([leaked, dangling], [[], []]);
    checks += 1;
    await turns(1);
  }
  await writing;
  assert.ok(checks > 3);
});
