// The scrub finds each seeded fault and nothing else, repairs what is safe, and goes on where it was.
import assert from "node:assert/strict";
import { test } from "node:test";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { encodeRow } from "../row-codec.ts";
import { bucketPartition, epochKey, headKey, shardOf, SYSTEM_PARTITION } from "../row-keys.ts";
import { readEpoch } from "../reservation/epoch-row.ts";
import {
  begin,
  bytes,
  complete,
  get,
  openGateway,
  openWorld,
  part,
  put,
  quiesce,
  remove,
  turns,
  type Gateway,
  type World,
} from "../test/gateway.ts";
import { NO_ATTRIBUTES } from "../test/fixture.ts";
import { SCRUB_DEAD_AFTER_MS, SCRUB_LOOK_MS, SCRUB_PAGE_TRIES } from "./limits.ts";
import { Scrubber } from "./scrubber.ts";

const PARTITION = "photos/0";
const DAY_MS = 86_400_000;

/** A blob that no row names, sealed, in an epoch that was recovered. */
async function leave(world: World, epoch: number, sequence: number, key = "k", size = 7): Promise<Oid> {
  const oid = oidOf(epoch, sequence);
  const writer = await world.data.create(oid, { bucket: "photos", key, part: undefined, guid: 1n });
  await writer.write(new Uint8Array(size));
  await writer.seal();
  return oid;
}

async function breakRow(world: World, key: string): Promise<void> {
  const row = { key: headKey(key), version: { commit: 9n, guid: 9n }, value: new Uint8Array([200]) };
  await world.metadata.commit({ partition: PARTITION, conditions: [], writes: [{ kind: "put", row }] });
}

/** Objects with a sealed blob each, as puts leave them. */
async function store(world: World, count: number): Promise<readonly Oid[]> {
  const oids: Oid[] = [];
  for (let n = 0; n < count; n += 1) {
    const key = `k${n}`;
    const oid = await leave(world, 1, n, key, 24);
    oids.push(oid);
    const content = { kind: "blob", oid, lengthBytes: 24 } as const;
    const object = {
      kind: "object",
      content,
      sizeBytes: 24,
      etag: "e",
      modifiedMs: 1,
      attributes: NO_ATTRIBUTES,
      checksum: undefined,
    } as const;
    const row = { key: headKey(key), version: { commit: 1n, guid: BigInt(n + 1) }, value: encodeRow(object) };
    const partition = bucketPartition("photos", shardOf(key, 3));
    await world.metadata.commit({ partition, conditions: [], writes: [{ kind: "put", row }] });
  }
  return oids;
}

test("[OGD9] scrub: 1000 leaks, 1000 rows without data, 1000 flipped bytes among 1000 sound objects: each found, nothing else; leaks are collected", async () => {
  const { world, gateway } = await openWorld({ shards: 3 });
  const leaks: Oid[] = [];
  for (let n = 0; n < 1000; n += 1) leaks.push(await leave(world, 1, 100_000 + n, `leak ${n}`));
  const named = await store(world, 3000);
  for (const oid of named.slice(0, 1000)) await world.data.remove(oid);
  for (const [at, oid] of named.slice(1000, 2000).entries()) world.data.damage(oid, at % 24);
  await gateway.journal.stop();
  const next = await openGateway(world);
  const scrubber = new Scrubber({ context: next.context });
  const first = await scrubber.pass();
  const { leaked, dangling, damaged, leakedBytes, unreadableRows, rows } = first.counts;
  assert.deepEqual([rows, leaked, leakedBytes, dangling, damaged, unreadableRows], [3000, 1000, 7000, 1000, 1000, 0]);
  // Garbage now, and named by nothing: gone after the grace; the other findings stay.
  const again = await scrubber.pass();
  assert.deepEqual([again.counts.leaked, again.counts.dangling, again.counts.damaged], [0, 1000, 1000]);
  await next.collector.runAhead(365 * DAY_MS);
  for (const oid of leaks) assert.equal((await world.data.inspect(oid)).kind, "absent");
  assert.equal(world.data.contents().length, 2000);
});

test("[OGD9] scrub: blobs in flight, garbage, parts of open uploads, blobs whose row cannot be read: no leaks", async () => {
  const { world, gateway } = await openWorld();
  await leave(world, 1, 900);
  await put(gateway, "a", bytes("1"));
  await put(gateway, "a", bytes("2"));
  const open = await begin(gateway, "c");
  await part(gateway, "c", open, 1, bytes("4"));
  await put(gateway, "broken", bytes("5"));
  await breakRow(world, "broken");
  const inFlight = await new Scrubber({ context: gateway.context }).pass();
  assert.deepEqual([inFlight.counts.leaked, inFlight.counts.unreadableRows], [0, 1]);
  await gateway.journal.stop();
  const next = await openGateway(world);
  const { counts, findings } = await new Scrubber({ context: next.context }).pass();
  assert.deepEqual([counts.leaked, counts.unreadableRows, counts.dangling, counts.damaged], [1, 1, 0, 0]);
  assert.deepEqual(
    findings.map(({ kind }) => kind),
    ["unreadable", "leaked"],
  );
});

test("[OGD9] scrub: a leak in the epoch of a row that was forgotten is found; its key has a newer object, which stays", async () => {
  const { world, gateway } = await openWorld();
  const leak = await leave(world, 1, 900, "k");
  await put(gateway, "k", bytes("new"));
  await gateway.journal.stop();
  const held = (await readEpoch(world.metadata, 1))!;
  const forget = {
    partition: SYSTEM_PARTITION,
    conditions: [{ key: epochKey(1), version: held.version }],
    writes: [{ kind: "delete", key: epochKey(1) }],
  } as const;
  await world.metadata.commit(forget);
  const next = await openGateway(world);
  const { counts } = await new Scrubber({ context: next.context }).pass();
  assert.equal(counts.leaked, 1);
  await quiesce(next);
  assert.equal((await world.data.inspect(leak)).kind, "absent");
  assert.equal(await get(next, "k"), bytes("new"));
});

test("scrub: while others write, overwrite, delete, complete and collect: nothing is found", async () => {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  let busy = true;
  const writing = (async () => {
    for (let at = 0; at < 60; at += 1) {
      await put(other, `k${at % 5}`, bytes(`${at}`));
      if (at % 7 === 0) await remove(other, `k${at % 5}`);
      if (at % 9 === 0) {
        const id = await begin(other, "m");
        await part(other, "m", id, 1, bytes("p"));
        await part(other, "m", id, 2, bytes("q"));
        await complete(other, "m", id, [{ number: 1, content: bytes("p") }]);
      }
      if (at % 10 === 0) await other.collector.runAhead(365 * DAY_MS);
      await turns(1);
    }
    busy = false;
  })();
  const scrubber = new Scrubber({ context: gateway.context });
  let passes = 0;
  while (busy) {
    const { findings } = await scrubber.pass();
    assert.deepEqual(findings, []);
    passes += 1;
    await turns(1);
  }
  await writing;
  assert.ok(passes > 3);
});

/** Time passes in looks of a scrub, until `done`. */
async function until(gateway: Gateway, done: () => Promise<boolean>): Promise<void> {
  for (let at = 0; at < 200; at += 1) {
    if (await done()) return;
    await gateway.world.clock.advance(SCRUB_LOOK_MS);
  }
  assert.fail("the scrub does not get there");
}

test("[OGD9] scrub in the background: begins an interval after the first start, keeps its rate, stops in a page; another gateway goes on at its place", async () => {
  const { world, gateway } = await openWorld();
  for (let n = 0; n < 250; n += 1) await put(gateway, `k${String(n).padStart(3, "0")}`, bytes(`${n}`));
  const first = new Scrubber({ context: gateway.context, bytesPerSecond: 4096 });
  first.start();
  await turns();
  assert.equal((await first.status()).scrub?.place.kind, "ended");
  await world.clock.advance(DAY_MS);
  await until(gateway, async () => {
    const place = (await first.status()).scrub?.place;
    return place?.kind === "rows" && place.bucket === "photos" && place.from.length > 1;
  });
  await first.stop();
  const half = (await first.status()).scrub!;
  assert.deepEqual([half.place.kind, half.counts.rows], ["rows", 100]);
  const other = await openGateway(world, { instance: "two" });
  const second = new Scrubber({ context: other.context });
  second.start();
  await turns();
  assert.deepEqual((await second.status()).scrub, half);
  await world.clock.advance(SCRUB_DEAD_AFTER_MS);
  await until(other, async () => (await second.status()).scrub?.place.kind === "ended");
  const { counts } = (await second.status()).scrub!;
  await second.stop();
  assert.deepEqual([counts.rows, counts.bytes, counts.leaked, counts.dangling], [250, 250 * 24, 0, 0]);
});

/** A pass that ended its first page of rows, and its gateway is gone. */
async function passOfGoneGateway(): Promise<World> {
  const { world, gateway } = await openWorld();
  for (let n = 0; n < 250; n += 1) await put(gateway, `k${String(n).padStart(3, "0")}`, bytes(`${n}`));
  const scrubber = new Scrubber({ context: gateway.context, bytesPerSecond: 4096 });
  scrubber.start();
  await turns();
  await world.clock.advance(DAY_MS);
  await until(gateway, async () => {
    const place = (await scrubber.status()).scrub?.place;
    return place?.kind === "rows" && place.bucket === "photos" && place.from.length > 1;
  });
  await scrubber.stop();
  return world;
}

for (const [life, instance, isAlone] of [
  ["restarted", "one", false],
  ["alone, and restarted with another worker id as its clock was set back", "two", true],
] as const)
  test(`[OGD9] scrub in the background: the gateway is ${life} within a pass: it goes on at once, not after an hour`, async () => {
    const world = await passOfGoneGateway();
    const startedMs = world.clock.nowMs();
    const next = await openGateway(world, { instance });
    const scrubber = new Scrubber({ context: next.context, isAlone });
    scrubber.start();
    await until(next, async () => (await scrubber.status()).scrub?.place.kind === "ended");
    assert.equal((await scrubber.status()).scrub!.counts.rows, 250);
    await scrubber.stop();
    assert.ok(world.clock.nowMs() - startedMs < SCRUB_DEAD_AFTER_MS / 2);
  });

const readError = (): ConcordError => new ConcordError("STORE_FAILED", "read: EIO");

/** Reads of this blob fail from now on; tells how many did. */
function failReads(world: World, bad: Oid, isLasting = (): boolean => true): { count: number } {
  const failed = { count: 0 };
  const read = world.data.read.bind(world.data);
  world.data.read = (oid, offset, lengthBytes) => {
    if (oid !== bad || !isLasting()) return read(oid, offset, lengthBytes);
    failed.count += 1;
    throw readError();
  };
  return failed;
}

/** A pass in the background, from its beginning to its end. */
async function backgroundPass(gateway: Gateway): Promise<Scrubber> {
  const scrubber = new Scrubber({ context: gateway.context });
  scrubber.start();
  await turns();
  await gateway.world.clock.advance(DAY_MS);
  await until(gateway, async () => ((await scrubber.status()).scrub?.counts.rows ?? 0) > 0);
  await until(gateway, async () => (await scrubber.status()).scrub?.place.kind === "ended");
  await scrubber.stop();
  return scrubber;
}

test("[OGD9] scrub: a blob that the disk can never read: its page is tried a few times, the blob is named, the pass goes on to its end", async () => {
  const { world, gateway } = await openWorld({ shards: 3 });
  const oids = await store(world, 20);
  const failed = failReads(world, oids[7]!);
  const { scrub, findings } = await (await backgroundPass(gateway)).status();
  assert.deepEqual([scrub?.counts.rows, scrub?.counts.damaged, scrub?.counts.dangling], [20, 1, 0]);
  assert.deepEqual(
    findings.map((finding) => [finding.kind, "oid" in finding && finding.oid, "reason" in finding && finding.reason]),
    [["damaged", oids[7], "unreadable"]],
  );
  assert.equal(failed.count, SCRUB_PAGE_TRIES);
});

test("[OGD9] scrub: a disk that fails for fewer tries: nothing is found", async () => {
  const { world, gateway } = await openWorld({ shards: 3 });
  const oids = await store(world, 20);
  const failed: { count: number } = failReads(world, oids[7]!, () => failed.count < SCRUB_PAGE_TRIES - 1);
  const { scrub, findings } = await (await backgroundPass(gateway)).status();
  assert.deepEqual([scrub?.counts.rows, scrub?.counts.damaged, findings.length], [20, 0, 0]);
  assert.equal(failed.count, SCRUB_PAGE_TRIES - 1);
});

test("[OGD9] scrub: a blob without a row that cannot be read: named, and no leak", async () => {
  const { world, gateway } = await openWorld();
  const bad = await leave(world, 1, 900);
  const leak = await leave(world, 1, 901);
  await gateway.journal.stop();
  const inspect = world.data.inspect.bind(world.data);
  const next = await openGateway(world);
  world.data.inspect = (oid) => (oid === bad ? Promise.reject(readError()) : inspect(oid));
  const { counts, findings } = await new Scrubber({ context: next.context }).pass();
  assert.equal(counts.leaked, 1);
  assert.deepEqual(
    findings.map((finding) => [finding.kind, "oid" in finding && finding.oid]),
    [
      ["leaked", leak],
      ["unreadable", bad],
    ],
  );
});
