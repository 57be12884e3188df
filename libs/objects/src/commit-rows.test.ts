import { test } from "node:test";
import assert from "node:assert/strict";
import { ConcordError } from "@concord/runtime";
import { commitRepeatable, raiseHeader } from "./commit-rows.ts";
import { nextVersion, raisedVersion } from "./row-writes.ts";
import { headerKey, isBodyKey } from "./row-keys.ts";
import { viewShard } from "./shard-view.ts";
import {
  bytesOf,
  faultsOf,
  get,
  HurriedClock,
  manyBytes,
  openPhotos,
  openFixture,
  put,
  referencesIn,
  rowsOf,
  type Fixture,
} from "./test/fixture.ts";

const BIG = 20_000;
const UNRESOLVED = { code: "OUTCOME_UNKNOWN" };

/** The next put's commit has this fate; `meanwhile` runs before its fence reads the rows. */
async function putUnresolved(
  fixture: Fixture,
  fate: "applied" | "lost" | "late",
  content: Uint8Array,
  meanwhile?: () => Promise<unknown>,
): Promise<string> {
  fixture.metadata.nextFates(fate);
  let waiting = meanwhile;
  let committed = false;
  fixture.metadata.before = async (operation) => {
    const act = waiting;
    if (operation === "commit") committed = true;
    if (operation !== "read" || !committed || act === undefined) return;
    waiting = undefined;
    await act();
  };
  try {
    return await put(fixture, "a", content);
  } finally {
    fixture.metadata.before = () => undefined;
  }
}

const versionOfHeader = (fixture: Fixture): bigint =>
  fixture.metadata.contents("photos/0").find(({ key }) => key[0] === 0x01)!.version.commit;

test("versions: grow by one or to the clock, whichever is more; a raise keeps the writer", () => {
  const clock = new HurriedClock(1000);
  assert.deepEqual(nextVersion(undefined, clock, 7n), { commit: 1_000_000n, guid: 7n });
  assert.deepEqual(nextVersion({ commit: 999_999n, guid: 1n }, clock, 7n), { commit: 1_000_000n, guid: 7n });
  assert.deepEqual(nextVersion({ commit: 1_000_000n, guid: 1n }, clock, 7n), { commit: 1_000_001n, guid: 7n });
  assert.deepEqual(nextVersion({ commit: 2_000_000n, guid: 1n }, clock, 7n), { commit: 2_000_001n, guid: 7n });
  assert.deepEqual(raisedVersion({ commit: 2_000_000n, guid: 1n }, clock), { commit: 2_000_001n, guid: 1n });
});

test("[OGD2] unresolved commit: the commit was applied: committed, nothing is fenced", async () => {
  const fixture = await openPhotos();
  const header = versionOfHeader(fixture);
  await putUnresolved(fixture, "applied", manyBytes(BIG));
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG));
  assert.equal(versionOfHeader(fixture), header);
  assert.deepEqual([...fixture.journal.resolved.values()], ["referenced"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD1] unresolved commit: applied, then its tags were set: committed, by what the row names", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await putUnresolved(fixture, "applied", manyBytes(BIG), () =>
    other.store.setObjectTags({ bucket: "photos", key: "a", tags: { t: "1" } }),
  );
  assert.deepEqual([...fixture.journal.resolved.values()], ["referenced"]);
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG));
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: never applied, over an object: the old one stays, ours is garbage, certainly not stored", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", manyBytes(BIG, 1));
  await assert.rejects(putUnresolved(fixture, "late", manyBytes(BIG, 2)), { code: "REPLICAS_UNAVAILABLE", applied: "no" });
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 1));
  assert.deepEqual(referencesIn(fixture).garbage, [fixture.journal.taken[1]]);
  assert.deepEqual([...fixture.journal.resolved.values()], ["referenced", "garbage"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: never applied, no object: it never will be, not even after another object came and went", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await assert.rejects(putUnresolved(fixture, "late", manyBytes(BIG, 1)), UNRESOLVED);
  assert.equal(await get(fixture, "a"), undefined);
  await put(other, "a", manyBytes(BIG, 2));
  await other.store.deleteObject({ bucket: "photos", key: "a" });
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.equal(await get(fixture, "a"), undefined);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: nothing is there after a fence: neither listed nor in the way of If-None-Match", async () => {
  const fixture = await openPhotos();
  await assert.rejects(putUnresolved(fixture, "lost", manyBytes(BIG, 1)), UNRESOLVED);
  const listing = await fixture.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(listing.objects, []);
  assert.deepEqual(
    rowsOf(fixture).filter((row) => row.kind === "object"),
    [],
  );
});

test("[OGD2] unresolved commit: another's object is there: ours is garbage, and stays out when that one is gone", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await assert.rejects(
    putUnresolved(fixture, "late", manyBytes(BIG, 1), () => put(other, "a", manyBytes(BIG, 2))),
    UNRESOLVED,
  );
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 2));
  await other.store.deleteObject({ bucket: "photos", key: "a" });
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.equal(await get(fixture, "a"), undefined);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: applied and overwritten at once: unknown, our blob is garbage", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await assert.rejects(
    putUnresolved(fixture, "applied", manyBytes(BIG, 1), () => put(other, "a", manyBytes(BIG, 2))),
    UNRESOLVED,
  );
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 2));
  assert.deepEqual(new Set(referencesIn(fixture).garbage), new Set(fixture.journal.taken));
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: it arrives between the fence's read and its commit: the fence fails, it is committed", async () => {
  const fixture = await openPhotos();
  fixture.metadata.nextFates("late");
  let commits = 0;
  fixture.metadata.before = (operation) => {
    if (operation === "commit" && (commits += 1) === 2) assert.equal(fixture.metadata.applyLate(), 1);
  };
  await put(fixture, "a", manyBytes(BIG));
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG));
  assert.deepEqual([...fixture.journal.resolved.values()], ["referenced"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: another fence has passed it: only garbage is written, the header stays", async () => {
  const fixture = await openPhotos();
  let raised = 0n;
  const raise = async (): Promise<void> => {
    const view = await viewShard(fixture.context, "write", "photos", "a", []);
    fixture.metadata.fate = () => "answered";
    await fixture.metadata.commit({ partition: "photos/0", conditions: [], writes: [raiseHeader(fixture.context, view.header)] });
    raised = versionOfHeader(fixture);
  };
  await assert.rejects(putUnresolved(fixture, "late", manyBytes(BIG), raise), UNRESOLVED);
  assert.equal(versionOfHeader(fixture), raised);
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD2] unresolved commit: the fence itself is unresolved: repeated until it is decided", async () => {
  for (const fate of ["applied", "lost", "late"] as const) {
    const fixture = await openPhotos();
    fixture.metadata.nextFates("late", fate, fate);
    await assert.rejects(put(fixture, "a", manyBytes(BIG)), UNRESOLVED);
    assert.equal(fixture.metadata.applyLate(), 0);
    assert.deepEqual([...fixture.journal.resolved.values()], ["garbage"]);
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("[OGD2] unresolved commit: the store is away longer than the request waits: unknown, no blob is touched, the resolver decides later", async () => {
  for (const fate of ["applied", "late"] as const) {
    const fixture = await openPhotos();
    fixture.metadata.nextFates(fate);
    let committed = false;
    fixture.metadata.before = (operation) => {
      if (committed) throw new ConcordError("REPLICAS_UNAVAILABLE", "away");
      if (operation === "commit") committed = true;
    };
    await assert.rejects(put(fixture, "a", manyBytes(BIG)), UNRESOLVED);
    assert.equal(fixture.data.contents().length, 1);
    assert.equal(fixture.journal.resolved.size, 0);
    const [held] = fixture.unresolved;
    assert.deepEqual([held?.bucket, held?.key, held?.oids], ["photos", "a", fixture.journal.taken]);
    await assert.rejects(held!.attempt());
    fixture.metadata.before = () => undefined;
    assert.equal(await held!.attempt(), true);
    assert.equal(fixture.metadata.applyLate(), 0);
    assert.deepEqual([...fixture.journal.resolved.values()], [fate === "applied" ? "referenced" : "garbage"]);
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("[OGD2] unresolved commit: a small object: the same, without blobs; over an object that is still there it is committed again", async () => {
  const fixture = await openPhotos();
  await assert.rejects(putUnresolved(fixture, "late", bytesOf("0")), UNRESOLVED);
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.equal(await get(fixture, "a"), undefined);
  await putUnresolved(fixture, "applied", bytesOf("1"));
  assert.deepEqual(await get(fixture, "a"), bytesOf("1"));
  await putUnresolved(fixture, "late", bytesOf("2"));
  assert.equal(fixture.metadata.applyLate(), 0);
  assert.deepEqual(await get(fixture, "a"), bytesOf("2"));
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 1n, bytes: 1n });
});

test("[OGD2] unresolved commit: after a fence others commit again without writing their data again", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  let creates = 0;
  fixture.data.before = (operation) => {
    if (operation === "create") creates += 1;
  };
  let fenced = false;
  other.metadata.before = async (operation) => {
    if (operation !== "commit" || fenced) return;
    fenced = true;
    const view = await viewShard(fixture.context, "write", "photos", "a", []);
    await fixture.metadata.commit({ partition: "photos/0", conditions: [], writes: [raiseHeader(fixture.context, view.header)] });
  };
  await put(other, "b", manyBytes(BIG));
  assert.equal(creates, 1);
  assert.deepEqual(await get(other, "b"), manyBytes(BIG));
});

test("[OGD17] unresolved commit: the bucket was closed meanwhile: garbage, and the header is raised so that the bucket is not forgotten", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  let closed = 0n;
  await assert.rejects(
    putUnresolved(fixture, "late", manyBytes(BIG), async () => {
      await other.store.deleteBucket("photos");
      closed = versionOfHeader(fixture);
    }),
    UNRESOLVED,
  );
  assert.ok(versionOfHeader(fixture) > closed);
  assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
  assert.equal(fixture.metadata.applyLate(), 0);
});

test("[OGD17] unresolved commit: the bucket is forgotten: the blob is removed, no GC entry is left where no collection looks", async () => {
  const fixture = await openPhotos();
  const drop = async (): Promise<void> => {
    await fixture.metadata.commit({ partition: "photos/0", conditions: [], writes: [{ kind: "delete", key: headerKey() }] });
  };
  await assert.rejects(putUnresolved(fixture, "late", manyBytes(BIG), drop), UNRESOLVED);
  assert.deepEqual(fixture.data.contents(), []);
  assert.deepEqual([...fixture.journal.resolved.values()], ["absent"]);
  assert.deepEqual(fixture.metadata.contents("photos/0"), []);
});

test("repeatable commits: unknown until decided, or until time is up", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "its body is beside it");
  const row = fixture.metadata.contents("photos/0").find(({ key }) => isBodyKey(key))!;
  const commit = {
    partition: "photos/0",
    conditions: [{ key: row.key, version: row.version }],
    writes: [{ kind: "delete", key: row.key }],
  } as const;
  fixture.metadata.fate = () => "lost";
  const before = fixture.clock.monotonicMs();
  assert.equal((await commitRepeatable(fixture.context, commit)).kind, "unknown");
  assert.ok(fixture.clock.monotonicMs() - before <= fixture.context.limits.resolveWaitMs);
  fixture.metadata.nextFates("lost", "late");
  assert.equal((await commitRepeatable(fixture.context, commit)).kind, "committed");
  assert.deepEqual(await commitRepeatable(fixture.context, commit), { kind: "conflict", rows: [undefined], uncertain: false });
  fixture.metadata.nextFates("lost");
  assert.deepEqual(await commitRepeatable(fixture.context, commit), { kind: "conflict", rows: [undefined], uncertain: true });
});
