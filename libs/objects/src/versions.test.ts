// Versions of keys: what each request leaves, whatever came before; a model decides random histories. Races and crash points below.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ConcordError } from "@concord/runtime";
import type { ListedVersion, Precondition } from "./api.ts";
import { decodeRow } from "./row-codec.ts";
import { bodyOf, collect, faultsOf, NO_ATTRIBUTES, openFixture, openPhotos, put, type Fixture } from "./test/fixture.ts";
import { codeOf } from "./test/gateway.ts";

const KEY = "k";
const LIMITS = { inlineBytesMax: 4, listPageRows: 3, resolveWaitMs: 200 };
const enabled = async (): Promise<Fixture> => {
  const fixture = await openPhotos({ limits: LIMITS });
  await fixture.store.setBucketVersioning("photos", "enabled");
  return fixture;
};

const putAs = async ({ store }: Fixture, content: string, precondition: Precondition = {}, key = KEY): Promise<string | undefined> =>
  (await store.putObject({ bucket: "photos", key, body: bodyOf(content), attributes: NO_ATTRIBUTES, precondition })).versionId;

async function read({ store }: Fixture, versionId?: string, key = KEY): Promise<string> {
  const found = await store.getObject({ bucket: "photos", key, range: undefined, precondition: {}, part: undefined, versionId });
  return Buffer.from(await collect(found.bytes)).toString();
}

const remove = ({ store }: Fixture, versionId?: string, key = KEY): ReturnType<typeof store.deleteObject> =>
  store.deleteObject({ bucket: "photos", key, versionId });

/** All pages of so many. */
async function list({ store }: Fixture, limit = 1000): Promise<readonly ListedVersion[]> {
  const all: ListedVersion[] = [];
  let after: Awaited<ReturnType<typeof store.listVersions>>["next"];
  do {
    const page = await store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, limit, after });
    all.push(...page.versions);
    after = page.next;
  } while (after !== undefined);
  return all;
}

const brief = (versions: readonly ListedVersion[]): readonly string[] =>
  versions.map(({ key, versionId, isLatest, object }) => `${key} ${versionId} ${isLatest ? "latest " : ""}${object?.etag ?? "marker"}`);

test("enabled: puts keep what they replace; each version is read by its id, newest first in the list", async () => {
  const fixture = await enabled();
  const ids = [await putAs(fixture, "one"), await putAs(fixture, "number two"), await putAs(fixture, "three")];
  assert.equal(new Set(ids).size, 3);
  assert.deepEqual([await read(fixture), await read(fixture, ids[0]), await read(fixture, ids[1])], ["three", "one", "number two"]);
  const listed = await list(fixture);
  assert.deepEqual(
    listed.map(({ versionId, isLatest }) => [versionId, isLatest]),
    [
      [ids[2], true],
      [ids[1], false],
      [ids[0], false],
    ],
  );
  assert.deepEqual(faultsOf(fixture), []);
});

test("a version id that is none: MALFORMED_REQUEST; of no version: OBJECT_UNKNOWN (version); deleting it changes nothing", async () => {
  const fixture = await enabled();
  await putAs(fixture, "one");
  const before = fixture.metadata.contents();
  assert.equal(await codeOf(read(fixture, "x")), "MALFORMED_REQUEST");
  assert.equal(await codeOf(remove(fixture, "x")), "MALFORMED_REQUEST");
  const unknown = "0".repeat(32);
  await assert.rejects(read(fixture, unknown), { code: "OBJECT_UNKNOWN", metadata: { key: KEY, field: "version", versionId: unknown } });
  assert.deepEqual(await remove(fixture, unknown), { isMarker: false, versionId: unknown });
  assert.deepEqual(fixture.metadata.contents(), before);
});

test("delete: a marker hides the object from GET and listings, keeps it by id; its own removal brings the object back", async () => {
  const fixture = await enabled();
  const id = await putAs(fixture, "one is long");
  const marker = await remove(fixture);
  assert.deepEqual(marker.isMarker, true);
  await assert.rejects(read(fixture), (error: { code: string; metadata: Record<string, string> }) => {
    assert.deepEqual([error.code, error.metadata["marker"], error.metadata["field"]], ["OBJECT_UNKNOWN", marker.versionId, undefined]);
    return true;
  });
  await assert.rejects(
    read(fixture, marker.versionId),
    (error: { metadata: Record<string, string> }) => error.metadata["field"] === "marker",
  );
  const listing = await fixture.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(listing, { objects: [], commonPrefixes: [], next: undefined });
  assert.equal(await read(fixture, id), "one is long");
  assert.deepEqual(await remove(fixture, marker.versionId), { isMarker: true, versionId: marker.versionId });
  assert.equal(await read(fixture), "one is long");
  assert.deepEqual(faultsOf(fixture), []);
});

test("a prefix of delete markers alone is no common prefix of objects, but one of versions", async () => {
  const fixture = await enabled();
  await remove(fixture, undefined, "a/gone");
  await putAs(fixture, "x", {}, "b/there");
  const request = { bucket: "photos", prefix: "", delimiter: "/", after: undefined, limit: 10 };
  assert.deepEqual((await fixture.store.listObjects(request)).commonPrefixes, ["b/"]);
  assert.deepEqual((await fixture.store.listVersions(request)).commonPrefixes, ["a/", "b/"]);
});

test("[OGD5] removing the newest: the next one is current in the same commit; removing the last: the key is gone", async () => {
  const fixture = await enabled();
  const ids = [await putAs(fixture, "one is long"), await putAs(fixture, "two is long")];
  await remove(fixture, ids[1]);
  assert.equal(await read(fixture), "one is long");
  const next = await putAs(fixture, "three");
  assert.ok(next! > ids[1]!, "ids follow the key's commit numbers");
  await remove(fixture, next);
  await remove(fixture, ids[0]);
  assert.deepEqual(await list(fixture), []);
  assert.equal(await codeOf(read(fixture)), "OBJECT_UNKNOWN");
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
  assert.deepEqual(faultsOf(fixture), []);
  await fixture.store.deleteBucket("photos");
});

test("[OGD5] removing the newest while a put replaces it, between the look at it and the one at those below: it goes, the new one stays current", async () => {
  for (const [operation, nth] of [
    ["range", 1],
    ["read", 2],
  ] as const) {
    const fixture = await enabled();
    const other = openFixture({ beside: fixture, limits: LIMITS });
    const ids = [await putAs(fixture, "one is long"), await putAs(fixture, "two is long")];
    let calls = 0;
    fixture.metadata.before = async (name) => {
      if (name !== operation || (calls += 1) !== nth) return;
      ids.push(await putAs(other, "three is long"));
    };
    await remove(fixture, ids[1]);
    fixture.metadata.before = () => undefined;
    assert.equal(await read(fixture), "three is long");
    assert.deepEqual(
      (await list(fixture)).map(({ versionId, isLatest }) => [versionId, isLatest]),
      [
        [ids[2], true],
        [ids[0], false],
      ],
    );
    assert.deepEqual([faultsOf(fixture), faultsOf(other), fixture.journal.openDeletes], [[], [], 0]);
  }
});

test("null versions: one of before is kept; suspended puts and deletes replace it wherever it is, and nothing else", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await putAs(fixture, "before it all");
  await fixture.store.setBucketVersioning("photos", "enabled");
  const id = await putAs(fixture, "a version");
  assert.equal(await read(fixture, "null"), "before it all");
  await fixture.store.setBucketVersioning("photos", "suspended");
  assert.equal(await putAs(fixture, "null again"), "null");
  assert.deepEqual([await read(fixture), await read(fixture, id), await read(fixture, "null")], ["null again", "a version", "null again"]);
  assert.deepEqual(await remove(fixture), { isMarker: true, versionId: "null" });
  assert.deepEqual(
    (await list(fixture)).map(({ versionId, object }) => [versionId, object === undefined]),
    [
      ["null", true],
      [id, false],
    ],
  );
  await remove(fixture, "null");
  assert.equal(await read(fixture), "a version");
  assert.deepEqual(faultsOf(fixture), []);
});

test("conditions: a delete marker counts as absent, for If-None-Match: * and for If-Match", async () => {
  const fixture = await enabled();
  await putAs(fixture, "one");
  assert.equal(await codeOf(putAs(fixture, "x", { ifNoneMatch: ["*"] })), "PRECONDITION_FAILED");
  await remove(fixture);
  assert.equal(await codeOf(putAs(fixture, "x", { ifMatch: ["*"] })), "OBJECT_UNKNOWN");
  await putAs(fixture, "two", { ifNoneMatch: ["*"] });
  assert.equal(await read(fixture), "two");
});

test("tags and copies by version", async () => {
  const fixture = await enabled();
  const { store } = fixture;
  const [first, second] = [await putAs(fixture, "one"), await putAs(fixture, "two")];
  await store.setObjectTags({ bucket: "photos", key: KEY, tags: { t: "1" }, versionId: first });
  await store.setObjectTags({ bucket: "photos", key: KEY, tags: { t: "2" } });
  assert.deepEqual(await store.objectTags({ bucket: "photos", key: KEY, versionId: first }), { t: "1" });
  assert.deepEqual(await store.objectTags({ bucket: "photos", key: KEY, versionId: second }), { t: "2" });
  const source = { bucket: "photos", key: KEY, range: undefined, precondition: {}, versionId: first };
  const digest = () => ({ update: () => undefined, finish: () => ({ md5Hex: "m", checksum: undefined }) });
  const copy = { source, bucket: "photos", key: "copy", attributes: undefined, tags: undefined, precondition: {}, digest };
  assert.equal((await store.copyObject(copy)).sourceVersionId, first);
  assert.equal(await read(fixture, undefined, "copy"), "one");
  assert.deepEqual(await store.objectTags({ bucket: "photos", key: "copy" }), { t: "1" });
});

test("a bucket with delete markers or earlier versions is not empty; afterwards it is versioned as before", async () => {
  const fixture = await enabled();
  const marker = await remove(fixture);
  assert.equal(await codeOf(fixture.store.deleteBucket("photos")), "BUCKET_NOT_EMPTY");
  assert.equal(await fixture.store.bucketVersioning("photos"), "enabled");
  await remove(fixture, marker.versionId);
  await fixture.store.deleteBucket("photos");
  await fixture.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  assert.equal(await fixture.store.bucketVersioning("photos"), undefined);
  assert.equal(await putAs(fixture, "x"), undefined);
});

test("a put that saw 'off' before 'on': it conflicts, looks again, and keeps what it found", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await putAs(fixture, "the only one");
  const body = bodyOf("and another");
  async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
    yield* body.chunks;
    await fixture.store.setBucketVersioning("photos", "enabled");
  }
  const upload = { ...body, chunks: slow() };
  await fixture.store.putObject({ bucket: "photos", key: KEY, body: upload, attributes: NO_ATTRIBUTES, precondition: {} });
  assert.deepEqual([await read(fixture), await read(fixture, "null")], ["and another", "the only one"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("an upload is completed while versioning is turned on and its key put: both versions are kept", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  let isAcquired = false;
  const completes = openFixture({
    beside: fixture,
    limits: LIMITS,
    failpoint: (name) => {
      isAcquired ||= name === "multipart:after-completing";
    },
  });
  const uploadId = await completes.store.createUpload({ bucket: "photos", key: KEY, attributes: NO_ATTRIBUTES, checksum: undefined });
  const stored = await completes.store.putPart({ bucket: "photos", key: KEY, uploadId, number: 1, body: bodyOf("completed") });
  fixture.metadata.before = async (operation) => {
    if (!isAcquired || operation !== "read") return;
    fixture.metadata.before = () => undefined;
    await fixture.store.setBucketVersioning("photos", "enabled");
    await putAs(fixture, "put meanwhile");
  };
  await completes.store.completeUpload({
    bucket: "photos",
    key: KEY,
    uploadId,
    parts: [{ number: 1, etag: stored.etag, checksum: undefined }],
    checksum: undefined,
    precondition: {},
    combine: () => ({ etag: "e-1", checksum: undefined }),
  });
  assert.equal(await read(fixture), "completed");
  assert.equal((await list(fixture)).length, 2);
  assert.deepEqual(faultsOf(fixture), []);
});

for (const point of ["bucket:after-changing", "bucket:after-changed-headers"]) {
  test(`versioning turned on, the gateway dies at ${point}: the next one finishes it, before it says so`, async () => {
    const fixture = await openPhotos({ limits: LIMITS, shards: 3 });
    const dies = openFixture({
      beside: fixture,
      failpoint: (name) => {
        if (name === point) throw new Error("died");
      },
    });
    await assert.rejects(dies.store.setBucketVersioning("photos", "enabled"), /died/);
    assert.deepEqual(
      (await fixture.store.listBuckets("t")).map(({ name }) => name),
      ["photos"],
    );
    assert.equal(await fixture.store.bucketVersioning("photos"), "enabled");
    const headers = fixture.metadata
      .contents()
      .map(({ value }) => decodeRow(value))
      .filter((row) => row.kind === "header");
    assert.deepEqual(
      headers.map(({ versioning }) => versioning),
      ["enabled", "enabled", "enabled"],
    );
  });
}

test("versioning turned on by many requests at two gateways at once: they do not overtake each other for ever", async () => {
  const fixture = await openPhotos({ limits: LIMITS, shards: 3 });
  const beside = openFixture({ beside: fixture, limits: LIMITS });
  fixture.metadata.before = () => new Promise((resolve) => setImmediate(resolve));
  let commits = 0;
  const commit = fixture.metadata.commit.bind(fixture.metadata);
  fixture.metadata.commit = (request) => {
    commits += 1;
    return commit(request);
  };
  const requests = [fixture, beside].flatMap(({ store }) =>
    Array.from({ length: 10 }, () => store.setBucketVersioning("photos", "enabled")),
  );
  await Promise.all(requests);
  assert.equal(await beside.store.bucketVersioning("photos"), "enabled");
  // Begun by one of them, perhaps taken over once by the other gateway: a row, three headers, the row.
  assert.ok(commits <= 20, String(commits));
});

test("[OGD2] a put whose answer is lost became an earlier version meanwhile: committed, its blob is no garbage", async () => {
  for (const content of ["a blob, not inline", "tiny"]) {
    const fixture = await enabled();
    const beside = openFixture({ beside: fixture, limits: LIMITS });
    await putAs(fixture, "first");
    fixture.metadata.nextFates("applied");
    let reads = 0;
    fixture.metadata.before = async (operation) => {
      // The read that decides comes first after the commit: another put is faster.
      if (operation !== "read" || fixture.metadata.lateCommits.length > 0 || (reads += 1) !== 2) return;
      fixture.metadata.before = () => undefined;
      await putAs(beside, "another one");
    };
    const id = await putAs(fixture, content);
    assert.deepEqual([await read(fixture, id), await read(fixture)], [content, "another one"]);
    assert.equal((await list(fixture)).length, 3);
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("[OGD2] a delete whose answer is lost, and that never arrives, or late: one marker at most, and the answer is true", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const fixture = await enabled();
    await putAs(fixture, "a blob, not inline");
    fixture.metadata.nextFates(fate);
    const { isMarker, versionId } = await remove(fixture);
    fixture.metadata.applyLate();
    const listed = await list(fixture);
    assert.deepEqual([isMarker, listed.map((one) => one.versionId)[0], listed.length], [true, versionId, 2], fate);
    assert.deepEqual(faultsOf(fixture), [], fate);
  }
});

test("[OGD4] a version's delete whose answer is lost: it went once, what followed it stays current", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const fixture = await enabled();
    await putAs(fixture, "first, not inline");
    const id = await putAs(fixture, "second, not inline");
    fixture.metadata.nextFates(fate);
    await remove(fixture, id);
    fixture.metadata.applyLate();
    assert.equal(await read(fixture), "first, not inline", fate);
    assert.equal((await list(fixture)).length, 1, fate);
    assert.deepEqual(faultsOf(fixture), [], fate);
  }
});

test("[OGD2] a version's delete without an answer: OUTCOME_UNKNOWN, its record stays open, the resolver goes on; late and again: once", async () => {
  const fixture = await enabled();
  const first = await putAs(fixture, "first, not inline");
  const id = await putAs(fixture, "second, not inline");
  fixture.metadata.fate = () => "late";
  await assert.rejects(remove(fixture, id), { code: "OUTCOME_UNKNOWN" });
  assert.equal(fixture.journal.openDeletes, 1);
  const [held] = fixture.unresolved;
  assert.equal(await held!.attempt(), false);
  assert.deepEqual([await read(fixture), fixture.journal.openDeletes], ["second, not inline", 1]);
  fixture.metadata.fate = () => "answered";
  assert.equal(await held!.attempt(), true);
  assert.equal(fixture.journal.openDeletes, 0);
  assert.equal(fixture.metadata.applyLate(), 0, "late ones change nothing more");
  assert.equal(await read(fixture), "first, not inline");
  assert.deepEqual(
    (await list(fixture)).map(({ versionId }) => versionId),
    [first],
  );
  assert.deepEqual(faultsOf(fixture), []);
});

test("a version's delete that the store refuses: its own error, no record stays open, everything is there", async () => {
  const fixture = await enabled();
  const id = await putAs(fixture, "first, not inline");
  const before = await list(fixture);
  fixture.metadata.fate = () => {
    throw new ConcordError("OVERLOADED", "later");
  };
  await assert.rejects(remove(fixture, id), { code: "OVERLOADED" });
  fixture.metadata.fate = () => "answered";
  assert.deepEqual([await list(fixture), fixture.journal.openDeletes, fixture.unresolved], [before, 0, []]);
  assert.deepEqual(faultsOf(fixture), []);
});

for (const [keys, each] of [
  [1, 1200],
  [20, 150],
  [400, 5],
] as const) {
  test(`list: ${keys} keys with ${each} versions each: a page of 1000 reads a bounded number of rows, at once and in all, and keeps no content`, async () => {
    const fixture = await openPhotos();
    await fixture.store.setBucketVersioning("photos", "enabled");
    for (let key = 0; key < keys; key += 1)
      for (let at = 0; at < each; at += 1) await putAs(fixture, `content ${at}`, {}, `k${String(key).padStart(3, "0")}`);
    const { metadata } = fixture;
    const [range, read] = [metadata.range.bind(metadata), metadata.read.bind(metadata)];
    const rows = { atOnce: 0, most: 0, inAll: 0 };
    const counted = async <Row>(count: number, reading: Promise<readonly Row[]>): Promise<readonly Row[]> => {
      rows.atOnce += count;
      rows.most = Math.max(rows.most, rows.atOnce);
      const found = await reading.finally(() => (rows.atOnce -= count));
      rows.inAll += found.length;
      return found;
    };
    metadata.range = (partition, asked) => counted(asked.limit, range(partition, asked));
    metadata.read = (partition, names) => counted(names.length, read(partition, names));
    const page = await fixture.store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, limit: 1000, after: undefined });
    assert.equal(page.versions.length, 1000);
    assert.ok(rows.most <= 16 * 50, `${rows.most} at once`);
    assert.ok(rows.inAll <= 2200, `${rows.inAll} in all`);
    assert.deepEqual(Object.keys(page.versions[0]!.object!).toSorted(), ["checksum", "etag", "owner", "sizeBytes"]);
  });
}

test("races: puts, deletes and removals of the newest at once: every answer holds, nothing leaks, the list is whole", async () => {
  const fixture = await enabled();
  const beside = openFixture({ beside: fixture, limits: LIMITS });
  const first = await putAs(fixture, "first, not inline");
  const made = await Promise.all([
    ...["two", "three, which is long", "four"].map((content) => putAs(fixture, content)),
    ...["five", "six, which is long"].map((content) => putAs(beside, content)),
    remove(beside).then(({ versionId }) => versionId),
    remove(fixture, first).then(() => undefined),
  ]);
  const wanted = made.filter((id) => id !== undefined);
  const listed = await list(fixture);
  assert.deepEqual(
    listed.map(({ versionId }) => versionId),
    wanted.toSorted().toReversed(),
  );
  assert.deepEqual(faultsOf(fixture), []);
  await Promise.all(wanted.map((id) => remove(beside, id)));
  assert.deepEqual(await list(fixture), []);
  assert.deepEqual(faultsOf(fixture), []);
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
});

type Step =
  | { readonly kind: "put"; readonly key: string; readonly size: number }
  | { readonly kind: "delete"; readonly key: string }
  | { readonly kind: "remove"; readonly at: number }
  | { readonly kind: "tags"; readonly at: number }
  | { readonly kind: "versioning"; readonly to: "enabled" | "suspended" };

interface Known {
  readonly key: string;
  readonly id: string;
  readonly content: string | undefined;
}

const someKey = fc.constantFrom("a", "a\u0000", "b");
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("put" as const), key: someKey, size: fc.constantFrom(1, 30) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), key: someKey }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), at: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("tags" as const), at: fc.nat(20) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("versioning" as const), to: fc.constantFrom("enabled" as const, "suspended" as const) }),
  },
);

/** What S3 says there is: per key newest first. */
class Model {
  known: Known[] = [];
  versioning: "enabled" | "suspended" | undefined;

  write(key: string, id: string, content: string | undefined): void {
    if (this.versioning !== "enabled") this.known = this.known.filter((one) => one.key !== key || one.id !== "null");
    if (this.versioning !== undefined || content !== undefined) this.known.unshift({ key, id, content });
  }

  of(key: string): readonly Known[] {
    return this.known.filter((one) => one.key === key);
  }
}

async function run(fixture: Fixture, model: Model, one: Step, name: number): Promise<void> {
  const { store } = fixture;
  switch (one.kind) {
    case "put": {
      const content = String(name).padEnd(one.size, "x");
      model.write(one.key, (await putAs(fixture, content, {}, one.key)) ?? "null", content);
      return;
    }
    case "delete":
      model.write(one.key, (await remove(fixture, undefined, one.key)).versionId ?? "null", undefined);
      return;
    case "remove": {
      const gone = model.known[one.at % Math.max(1, model.known.length)];
      if (gone === undefined) return;
      assert.equal((await remove(fixture, gone.id, gone.key)).isMarker, gone.content === undefined);
      model.known = model.known.filter((other) => other !== gone);
      return;
    }
    case "tags": {
      const tagged = model.known[one.at % Math.max(1, model.known.length)];
      if (tagged?.content !== undefined)
        await store.setObjectTags({ bucket: "photos", key: tagged.key, tags: { t: String(name) }, versionId: tagged.id });
      return;
    }
    case "versioning":
      await store.setBucketVersioning("photos", one.to);
      model.versioning = one.to;
  }
}

test("[OGD4] any history: lists, reads by id, current objects, usage and blobs are the model's", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 25, size: "max" }),
      fc.integer({ min: 1, max: 4 }),
      async (steps, pageSize) => {
        const fixture = await openPhotos({ limits: LIMITS, shards: 2 });
        const model = new Model();
        for (const [name, one] of steps.entries()) {
          await run(fixture, model, one, name);
          assert.deepEqual(faultsOf(fixture), []);
        }
        const wanted = ["a", "a\u0000", "b"].flatMap((key) => model.of(key).map(({ id }, at) => `${key} ${id} ${String(at === 0)}`));
        const listed = await list(fixture, pageSize);
        assert.deepEqual(
          listed.map(({ key, versionId, isLatest }) => `${key} ${versionId} ${String(isLatest)}`),
          wanted,
        );
        for (const { key, id, content } of model.known) if (content !== undefined) assert.equal(await read(fixture, id, key), content);
        const current = ["a", "a\u0000", "b"].filter((key) => model.of(key)[0]?.content !== undefined);
        const objects = await fixture.store.listObjects({
          bucket: "photos",
          prefix: "",
          delimiter: undefined,
          after: undefined,
          limit: 10,
        });
        assert.deepEqual(
          objects.objects.map(({ key }) => key),
          current,
        );
        const contents = model.known.flatMap(({ content }) => (content === undefined ? [] : [content]));
        const bytes = contents.reduce((sum, content) => sum + BigInt(content.length), 0n);
        assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: BigInt(contents.length), bytes });
      },
    ),
    { numRuns: 60 },
  );
});

test("listing objects reads as many rows with 1 version of each as with 100", async () => {
  const reads = async (versions: number): Promise<number> => {
    const fixture = await enabled();
    for (const key of ["a", "b", "c"]) for (let at = 0; at < versions; at += 1) await putAs(fixture, "v", {}, key);
    let rows = 0;
    const { metadata } = fixture.context;
    const range = metadata.range.bind(metadata);
    metadata.range = async (partition, asked) => {
      const page = await range(partition, asked);
      rows += page.length;
      return page;
    };
    await fixture.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 100 });
    return rows;
  };
  assert.equal(await reads(100), await reads(1));
});

test("a page ends and begins between versions of a key, also with ids of null versions as markers", async () => {
  const fixture = await openPhotos({ limits: LIMITS });
  await put(fixture, KEY, "null");
  await fixture.store.setBucketVersioning("photos", "enabled");
  for (let at = 0; at < 7; at += 1) await putAs(fixture, `v${at}`);
  await putAs(fixture, "next", {}, "l");
  const all = await list(fixture);
  for (const size of [1, 2, 3, 5, 8, 9]) assert.deepEqual(brief(await list(fixture, size)), brief(all));
  const after = { key: KEY, versionId: "null" };
  const rest = await fixture.store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, limit: 5, after });
  assert.deepEqual(
    rest.versions.map(({ key }) => key),
    ["l"],
  );
});
