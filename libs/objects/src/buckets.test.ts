import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { compareBytes } from "@concord/codec";
import { ConcordError, toHex } from "@concord/runtime";
import { findBucket } from "./bucket-row.ts";
import { forgetBucket, resolveBuckets } from "./buckets.ts";
import { putRow } from "./row-writes.ts";
import { TAGS_BUCKET_MAX } from "./limits.ts";
import { decodeRowAs } from "./row-codec.ts";
import { headKey, shardOf, uploadKey } from "./row-keys.ts";
import type { UploadRow } from "./rows.ts";
import { bodyOf, get, manyBytes, NO_ATTRIBUTES, openPhotos, openFixture, put, referencesIn, rowsOf, type Fixture } from "./test/fixture.ts";

const PHOTOS = { bucket: "photos", tenant: "t", region: "r" };
const headersOf = (fixture: Fixture): string[] => rowsOf(fixture).flatMap((row) => (row.kind === "header" ? [row.state] : []));
const stateOf = async (fixture: Fixture): Promise<string | undefined> => (await findBucket(fixture.context, "photos"))?.row.state;

function gate(): { readonly passed: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { passed: promise, open: resolve };
}

/** A gateway that dies at this point, the first time it gets there. */
function dyingAt(point: string, beside?: Fixture, shards = 2): Fixture {
  let alive = true;
  const failpoint = (name: string): void => {
    if (name !== point && alive) return;
    alive = false;
    throw new ConcordError("INTERNAL", `killed at ${point}`);
  };
  return openFixture({ failpoint, shards, epoch: 7, ...(beside === undefined ? {} : { beside }) });
}

test("buckets: made, seen, listed by tenant and name, tagged, removed", async () => {
  const fixture = openFixture({ shards: 3 });
  const createdMs = fixture.clock.nowMs();
  await fixture.store.createBucket({ bucket: "photos", tenant: "t", region: "eu" });
  await fixture.store.createBucket({ bucket: "abc", tenant: "t", region: "eu" });
  await fixture.store.createBucket({ bucket: "other", tenant: "u", region: "eu" });
  const settings = { number: 0n, documents: {} };
  assert.deepEqual(await fixture.store.headBucket("photos"), { name: "photos", tenant: "t", region: "eu", createdMs, settings });
  assert.deepEqual(
    (await fixture.store.listBuckets("t")).map(({ name }) => name),
    ["abc", "photos"],
  );
  await fixture.store.setBucketTags("photos", { a: "b" });
  assert.deepEqual(await fixture.store.bucketTags("photos"), { a: "b" });
  await fixture.store.deleteBucket("photos");
  await assert.rejects(fixture.store.headBucket("photos"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(fixture.store.deleteBucket("photos"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(put(fixture, "a", "1"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(get(fixture, "a"), { code: "BUCKET_UNKNOWN" });
  assert.equal((await fixture.store.listBuckets("t")).length, 1);
});

test("bucket tags: more than a bucket may have: LIMIT_EXCEEDED, the others stay", async () => {
  const { store } = await openPhotos();
  const tagsOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`t${at}`, ""]));
  await store.setBucketTags("photos", tagsOf(TAGS_BUCKET_MAX));
  await assert.rejects(store.setBucketTags("photos", tagsOf(TAGS_BUCKET_MAX + 1)), { code: "LIMIT_EXCEEDED" });
  assert.deepEqual(await store.bucketTags("photos"), tagsOf(TAGS_BUCKET_MAX));
});

test("create bucket: asked for again while it is made: made once, all answered", async () => {
  let makings = 0;
  const fixture = openFixture({ shards: 3, failpoint: (name) => (makings += name === "bucket:after-making" ? 1 : 0) });
  const first = fixture.store.createBucket(PHOTOS);
  const other = assert.rejects(fixture.store.createBucket({ ...PHOTOS, tenant: "u" }), { code: "BUCKET_EXISTS" });
  await Promise.all([first, other, ...Array.from({ length: 20 }, () => fixture.store.createBucket(PHOTOS))]);
  assert.equal(makings, 1);
});

test("create bucket: again by its tenant fine, by another BUCKET_EXISTS; an invalid name MALFORMED_REQUEST", async () => {
  const fixture = await openPhotos();
  await fixture.store.createBucket(PHOTOS);
  await assert.rejects(fixture.store.createBucket({ ...PHOTOS, tenant: "u" }), { code: "BUCKET_EXISTS" });
  await assert.rejects(fixture.store.createBucket({ ...PHOTOS, bucket: "No" }), { code: "MALFORMED_REQUEST" });
});

test("[OGD17] delete bucket: an object or an upload that is being completed in any shard: BUCKET_NOT_EMPTY, and everything goes on", async () => {
  const fixture = await openPhotos({ shards: 4 });
  const upload = (state: UploadRow["state"]): UploadRow => ({
    kind: "upload",
    state,
    initiatedMs: 1,
    attributes: NO_ATTRIBUTES,
    checksum: undefined,
  });
  await put(fixture, "a", "1");
  await assert.rejects(fixture.store.deleteBucket("photos"), { code: "BUCKET_NOT_EMPTY" });
  await put(fixture, "b", "2");
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  await fixture.store.deleteObject({ bucket: "photos", key: "b" });
  const partition = `photos/${shardOf("c", 4)}`;
  const key = uploadKey("c", 5n);
  const write = (state: UploadRow["state"]): Promise<unknown> =>
    fixture.metadata.commit({ partition, conditions: [], writes: [putRow(key, { commit: 1n, guid: 1n }, upload(state))] });
  await write({ kind: "open" });
  await put(fixture, "a", "3");
  const before = fixture.metadata.contents(partition).filter(({ key: row }) => toHex(row) === toHex(key));
  await assert.rejects(fixture.store.deleteBucket("photos"), { code: "BUCKET_NOT_EMPTY" });
  const after = fixture.metadata.contents(partition).filter(({ key: row }) => toHex(row) === toHex(key));
  assert.deepEqual(after, before, "a removal that is refused ends no upload");
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  await write({ kind: "completing", guid: 1n, sinceMs: fixture.clock.nowMs(), parts: [] });
  await assert.rejects(fixture.store.deleteBucket("photos"), { code: "BUCKET_NOT_EMPTY" });
  assert.deepEqual(headersOf(fixture), ["open", "open", "open", "open"]);
  await write({ kind: "done", guid: 1n, etag: "e", doneMs: 1, parts: [] });
  await fixture.store.deleteBucket("photos");
});

test("[OGD17] delete bucket: a put that saw it open comes late: refused, its blob is garbage", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  let raced = false;
  fixture.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition !== "photos/0" || raced) return;
    raced = true;
    await other.store.deleteBucket("photos");
  };
  await assert.rejects(put(fixture, "a", manyBytes(20_000)), { code: "BUCKET_UNKNOWN" });
  assert.deepEqual(referencesIn(fixture), { live: [], garbage: fixture.journal.taken });
  assert.deepEqual([...fixture.journal.resolved.values()], ["garbage"]);
});

test("[OGD17] delete bucket: a put gives its blob up while the removed bucket is being forgotten: its row stays, so does its garbage", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  const [reached, go] = [gate(), gate()];
  let forgetting: Promise<boolean> | undefined;
  const steps = [
    // The put's own commit; the one that closes the header comes inside.
    () => other.store.deleteBucket("photos"),
    () => Promise.resolve(),
    async () => {
      forgetting = findBucket(other.context, "photos").then((removed) => forgetBucket(other.context, removed!));
      await reached.passed;
    },
    async () => {
      reached.open();
      await go.passed;
    },
  ];
  fixture.metadata.before = async (operation, partition) => {
    if (operation === "commit" && partition === "photos/0") await steps.shift()?.();
  };
  await assert.rejects(put(fixture, "a", manyBytes(20_000)), { code: "BUCKET_UNKNOWN" });
  go.open();
  assert.equal(await forgetting, false);
  assert.equal(await stateOf(fixture), "removed");
  assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
});

test("[OGD17] delete bucket: garbage outlives it, and tells collection where; forgotten only when nothing is left", async () => {
  const fixture = await openPhotos({ shards: 2 });
  await put(fixture, "a", manyBytes(20_000));
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  await fixture.store.deleteBucket("photos");
  const removed = (await findBucket(fixture.context, "photos"))!;
  assert.equal(removed.row.state, "removed");
  assert.equal(await forgetBucket(fixture.context, removed), false);
  const garbage = fixture.metadata.contents().filter((row) => row.key[0] === 0x30);
  assert.equal(garbage.length, 1);
  const partition = `photos/${shardOf("a", 2)}`;
  await fixture.metadata.commit({ partition, conditions: [], writes: [{ kind: "delete", key: garbage[0]!.key }] });
  assert.equal(await forgetBucket(fixture.context, removed), true);
  assert.deepEqual(rowsOf(fixture), []);
});

test("[OGD17] buckets: forgotten by what it was before it was made again: refused, the new one can be written to", async () => {
  const fixture = await openPhotos({ shards: 2 });
  await fixture.store.deleteBucket("photos");
  const removed = (await findBucket(fixture.context, "photos"))!;
  await fixture.store.createBucket(PHOTOS);
  assert.equal(await forgetBucket(fixture.context, removed), false);
  assert.deepEqual(headersOf(fixture), ["open", "open"]);
  await put(fixture, "a", "1");
  assert.equal(String(await get(fixture, "a")), "49");
});

test("buckets: made again after its removal, by another tenant: empty, and the old shards stay known", async () => {
  const fixture = await openPhotos({ shards: 2 });
  const later = openFixture({ beside: fixture, shards: 5 });
  await put(fixture, "a", manyBytes(20_000));
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  await fixture.store.deleteBucket("photos");
  await later.store.createBucket({ ...PHOTOS, tenant: "u" });
  assert.equal((await findBucket(fixture.context, "photos"))?.row.shards, 2);
  assert.equal((await fixture.store.headBucket("photos")).tenant, "u");
  assert.equal(await get(later, "a"), undefined);
  await put(fixture, "b", "1");
  assert.deepEqual(await get(later, "b"), Uint8Array.of(49));
});

test("buckets: forgotten and made with other shards: a gateway that knew the old number finds its keys", async () => {
  const fixture = await openPhotos({ shards: 2 });
  const later = openFixture({ beside: fixture, shards: 7 });
  await put(fixture, "warm", "1");
  await later.store.deleteObject({ bucket: "photos", key: "warm" });
  await later.store.deleteBucket("photos");
  assert.equal(await forgetBucket(later.context, (await findBucket(later.context, "photos"))!), true);
  await later.store.createBucket(PHOTOS);
  for (let at = 0; at < 20; at += 1) {
    await put(fixture, `key-${at}`, `${at}`);
    assert.deepEqual(Buffer.from((await get(later, `key-${at}`))!).toString(), `${at}`);
  }
});

test("buckets: a gateway that remembers a removed one: BUCKET_UNKNOWN for reads and writes", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", "1");
  await fixture.store.deleteObject({ bucket: "photos", key: "a" });
  await other.store.deleteBucket("photos");
  await assert.rejects(get(fixture, "a"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(put(fixture, "a", "1"), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(fixture.store.deleteObject({ bucket: "photos", key: "a" }), { code: "BUCKET_UNKNOWN" });
  await assert.rejects(fixture.store.bucketUsage("photos"), { code: "BUCKET_UNKNOWN" });
});

for (const point of ["bucket:after-making", "bucket:after-headers"]) {
  test(`create bucket: a crash at ${point}: unknown until the next create, or a start, finishes it`, async () => {
    for (const next of ["create", "start"] as const) {
      const dying = dyingAt(point);
      await assert.rejects(dying.store.createBucket(PHOTOS), { code: "INTERNAL" });
      const fixture = openFixture({ beside: dying });
      await assert.rejects(fixture.store.headBucket("photos"), { code: "BUCKET_UNKNOWN" });
      await assert.rejects(put(fixture, "a", "1"), { code: "BUCKET_UNKNOWN" });
      if (next === "create") await fixture.store.createBucket(PHOTOS);
      else assert.equal(await resolveBuckets(fixture.context), 1);
      await put(fixture, "a", "1");
      assert.equal(await resolveBuckets(fixture.context), 0);
    }
  });
}

for (const point of ["bucket:after-removing", "bucket:after-close", "bucket:after-shards"]) {
  for (const content of ["empty", "full"] as const) {
    test(`[OGD17] delete bucket: ${content}, a crash at ${point}: finished or undone by the next delete, create or start`, async () => {
      for (const next of ["delete", "create", "start"] as const) {
        const first = await openPhotos({ shards: 2 });
        if (content === "full") await put(first, "a", "1");
        const dying = dyingAt(point, first);
        await assert.rejects(dying.store.deleteBucket("photos"), { code: "INTERNAL" });
        const fixture = openFixture({ beside: first, epoch: 3 });
        if (content === "full") assert.deepEqual(await get(fixture, "a"), Uint8Array.of(49));
        if (next === "create") await fixture.store.createBucket(PHOTOS);
        if (next === "start") assert.equal(await resolveBuckets(fixture.context), 1);
        if (next === "delete" && content === "empty") await fixture.store.deleteBucket("photos");
        if (next === "delete" && content === "full")
          await assert.rejects(fixture.store.deleteBucket("photos"), { code: "BUCKET_NOT_EMPTY" });
        const open = content === "full" || next === "create";
        assert.equal(await stateOf(fixture), open ? "open" : "removed");
        assert.deepEqual(new Set(headersOf(fixture)), new Set([open ? "open" : "closed"]));
        if (content === "full") await put(fixture, "a", "2");
      }
    });
  }
}

test("buckets: more than a page of them: all listed, by name; a start looks at all", async () => {
  const fixture = openFixture();
  const names = Array.from({ length: 230 }, (_, at) => `bucket-${String(at).padStart(3, "0")}`);
  for (const bucket of names.toReversed()) await fixture.store.createBucket({ ...PHOTOS, bucket });
  assert.deepEqual(
    (await fixture.store.listBuckets("t")).map(({ name }) => name),
    names,
  );
  assert.equal(await resolveBuckets(fixture.context), 0);
});

test("buckets: the store does not answer: OUTCOME_UNKNOWN, and the next attempt goes on", async () => {
  for (const answers of [0, 1, 2]) {
    const fixture = openFixture();
    let left = answers;
    fixture.metadata.fate = () => ((left -= 1) >= 0 ? "answered" : "lost");
    await assert.rejects(fixture.store.createBucket(PHOTOS), { code: "OUTCOME_UNKNOWN" });
    fixture.metadata.fate = () => "answered";
    await fixture.store.createBucket(PHOTOS);
    left = answers;
    fixture.metadata.fate = () => ((left -= 1) >= 0 ? "answered" : "lost");
    await assert.rejects(fixture.store.deleteBucket("photos"), { code: "OUTCOME_UNKNOWN" });
    fixture.metadata.fate = () => "answered";
    await fixture.store.deleteBucket("photos");
    assert.equal(await stateOf(fixture), "removed");
  }
});

test("buckets: a write while the bucket is being removed: WRITE_CONFLICT; a read goes on", async () => {
  const first = await openPhotos();
  await put(first, "a", "1");
  const dying = dyingAt("bucket:after-close", first);
  await assert.rejects(dying.store.deleteBucket("photos"), { code: "INTERNAL" });
  await assert.rejects(put(first, "b", "1"), { code: "WRITE_CONFLICT" });
  await assert.rejects(first.store.setBucketTags("photos", {}), { code: "WRITE_CONFLICT" });
  assert.deepEqual(await get(first, "a"), Uint8Array.of(49));
  const listing = await first.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 9 });
  assert.equal(listing.objects.length, 1);
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`buckets: every commit of a removal and a creation unresolved once, ${fate}: they succeed, or say that it is unknown`, async () => {
    const fixture = await openPhotos({ shards: 2 });
    for (const operation of ["delete", "create"] as const) {
      let odd = true;
      fixture.metadata.fate = () => {
        odd = !odd;
        return odd ? "answered" : fate;
      };
      if (operation === "delete") await fixture.store.deleteBucket("photos");
      else await fixture.store.createBucket(PHOTOS);
      fixture.metadata.fate = () => "answered";
      assert.equal(fixture.metadata.applyLate(), 0);
      assert.equal(await stateOf(fixture), operation === "delete" ? "removed" : "open");
    }
    await put(fixture, "a", "1");
  });
}

test("[OGD17] buckets: a creator that was overtaken wakes while the bucket is being removed: it opens nothing", async () => {
  const slow = openFixture({ shards: 2 });
  const other = openFixture({ beside: slow, epoch: 2 });
  const writer = openFixture({ beside: slow, epoch: 3 });
  const [paused, awake, written, removed] = [gate(), gate(), gate(), gate()];
  let stored = false;
  let systemCommits = -1;
  slow.metadata.before = async (operation, partition) => {
    if (operation === "read" && partition === "photos/0" && systemCommits === -1) {
      // The creator has its row, and is overtaken before it reads the headers.
      systemCommits = 0;
      paused.open();
      await awake.passed;
    }
    if (operation !== "commit" || partition !== "") return;
    systemCommits += systemCommits < 0 ? 0 : 1;
    const at = systemCommits;
    // The other's making and open, its removing; before its "removed" the creator wakes.
    if (at === 4) {
      awake.open();
      await written.passed;
    }
    // Whatever the creator did to the headers is done: an upload comes, then the removal ends, and the creator dies.
    if (at === 5) {
      stored = await put(writer, "a", "1").then(
        () => true,
        () => false,
      );
      written.open();
      await removed.passed;
      throw new ConcordError("INTERNAL", "killed");
    }
  };
  const creating = slow.store.createBucket(PHOTOS);
  await paused.passed;
  await other.store.createBucket(PHOTOS);
  await writer.store.headBucket("photos");
  await other.store.deleteBucket("photos");
  removed.open();
  await assert.rejects(creating, { message: "killed" });
  assert.deepEqual([stored, await stateOf(other), headersOf(other)], [false, "removed", ["closed", "closed"]]);
});

test("[OGD17] buckets: removals, creations and puts of several gateways in any order: no object in a bucket that is gone", async () => {
  const steps = fc.array(fc.tuple(fc.nat(2), fc.constantFrom("create", "delete", "put", "put", "unput", "start")), {
    minLength: 4,
    maxLength: 14,
  });
  await fc.assert(
    fc.asyncProperty(steps, fc.scheduler(), async (operations, scheduler) => {
      const first = await openPhotos({ shards: 2 });
      const fixtures = [first, openFixture({ beside: first, epoch: 2 }), openFixture({ beside: first, epoch: 3 })];
      first.metadata.before = () => scheduler.schedule(Promise.resolve());
      const stored = new Set<string>();
      const running = operations.map(async ([at, operation], index) => {
        const { store, context } = fixtures[at]!;
        const key = `k${index}`;
        try {
          if (operation === "create") await store.createBucket(PHOTOS);
          else if (operation === "delete") await store.deleteBucket("photos");
          else if (operation === "start") await resolveBuckets(context);
          else {
            await store.putObject({ bucket: "photos", key, body: bodyOf("x"), attributes: NO_ATTRIBUTES, precondition: {} });
            stored.add(key);
            if (operation === "unput") await store.deleteObject({ bucket: "photos", key });
            if (operation === "unput") stored.delete(key);
          }
        } catch (error) {
          assert.ok(
            error instanceof ConcordError && ["BUCKET_UNKNOWN", "BUCKET_NOT_EMPTY", "WRITE_CONFLICT"].includes(error.code),
            String(error),
          );
        }
      });
      await scheduler.waitFor(Promise.all(running));
      first.metadata.before = () => undefined;
      // An undone delete of an object leaves it there: what was acknowledged is there, and the bucket with it.
      for (const key of stored) {
        const row = first.metadata.contents(`photos/${shardOf(key, 2)}`).find((found) => compareBytes(found.key, headKey(key)) === 0);
        assert.ok(row !== undefined && decodeRowAs("object", row.value).sizeBytes === 1, `${key} is lost`);
      }
      await resolveBuckets(first.context);
      const bucket = await findBucket(first.context, "photos");
      if (stored.size > 0) assert.equal(bucket?.row.state, "open");
      assert.deepEqual(new Set(headersOf(first)), new Set([bucket?.row.state === "open" ? "open" : "closed"]));
    }),
    { numRuns: 60 },
  );
});
