// Locks of versions: what they keep from whom, until when by which clock, and that no path leads around them.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectMetadata } from "@concord/ports";
import type { Clock } from "@concord/runtime";
import type { ObjectStore } from "./api.ts";
import { resolveBuckets } from "./buckets.ts";
import { LifecycleEngine } from "./lifecycle/lifecycle-engine.ts";
import { LIFECYCLE_DOCUMENT, type LifecycleRule } from "./lifecycle/rules.ts";
import { LOCK_TIME_RATE_MAX, LOCK_TIME_RENEW_MS, LOCK_UNTIL_MS_MAX } from "./limits.ts";
import { LockTime } from "./lock-time.ts";
import type { Bypass } from "./locks.ts";
import { createObjectStore } from "./object-store.ts";
import type { DefaultRetention, ObjectLock, Retention, RetentionMode } from "./rows.ts";
import {
  bodyOf,
  faultsOf,
  NO_ATTRIBUTES,
  openFixture,
  rowsOf,
  type Fixture,
  type FixtureOptions,
  type HurriedClock,
} from "./test/fixture.ts";
import { codeOf, faults, openWorld, quiesce } from "./test/gateway.ts";

const DAY = 86_400_000;
const LIMITS = { inlineBytesMax: 4, partBytesMin: 1 };
const BLOB = "longer than inline";
const AT = { bucket: "photos", key: "k" };

/** With the bucket "photos", whose versions can be locked. */
async function openLocked(options: FixtureOptions = {}): Promise<Fixture> {
  const fixture = openFixture({ limits: LIMITS, ...options });
  await fixture.store.createBucket({ bucket: "photos", tenant: "t", region: "r", withLocks: true });
  return fixture;
}

const until = ({ clock }: Fixture, mode: RetentionMode, days: number): Retention => ({ mode, untilMs: clock.nowMs() + days * DAY });

async function putWith(store: ObjectStore, lock?: ObjectLock, key = "k", content = BLOB): Promise<string> {
  const stored = await store.putObject({ bucket: "photos", key, body: bodyOf(content), attributes: NO_ATTRIBUTES, lock, precondition: {} });
  assert.ok(stored.versionId !== undefined);
  return stored.versionId;
}

const lockOf = ({ store }: Fixture, versionId?: string): Promise<ObjectLock | undefined> => store.objectLock({ ...AT, versionId });
const remove = ({ store }: Fixture, versionId: string, bypass?: Bypass): Promise<string> =>
  codeOf(store.deleteObject({ ...AT, versionId, bypass }));

/** Refused with this code; not a byte of the stores is another afterwards. */
async function refused(fixture: Fixture, code: string, attempt: () => Promise<unknown>): Promise<void> {
  const before = [fixture.metadata.contents(), fixture.data.contents()];
  assert.equal(await codeOf(attempt()), code);
  assert.deepEqual([fixture.metadata.contents(), fixture.data.contents()], before);
}

/** A wall clock that is ahead, over time that goes on as it should. */
function stepped(clock: HurriedClock, aheadMs: () => number): Clock {
  return {
    nowMs: () => clock.nowMs() + aheadMs(),
    nowUs: () => clock.nowUs() + BigInt(aheadMs()) * 1000n,
    monotonicMs: () => clock.monotonicMs(),
    setTimer: clock.setTimer.bind(clock),
    defer: clock.defer.bind(clock),
  };
}

/** Another process over the same stores whose wall clock is ahead. */
function besideAhead(fixture: Fixture, aheadMs: () => number): ObjectStore {
  const context = { ...openFixture({ beside: fixture, limits: LIMITS }).context, clock: stepped(fixture.clock, aheadMs) };
  return createObjectStore({ ...context, lockTime: new LockTime(context) });
}

test("[OGD21] locks: compliance: removed by no request before its time, with or without bypass; then it goes with its blob", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store, { retention: until(fixture, "COMPLIANCE", 10) });
  for (const days of [0, 9]) {
    fixture.clock.advance(days * DAY);
    for (const bypass of [undefined, "governance"] as const)
      await refused(fixture, "PERMISSION_DENIED", () => fixture.store.deleteObject({ ...AT, versionId, bypass }));
  }
  fixture.clock.advance(DAY);
  assert.equal(await remove(fixture, versionId), "done");
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 0n, bytes: 0n });
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD21] locks: governance: removed by who bypasses it, and by no other request before its time", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store, { retention: until(fixture, "GOVERNANCE", 10) });
  await refused(fixture, "PERMISSION_DENIED", () => fixture.store.deleteObject({ ...AT, versionId }));
  assert.equal(await remove(fixture, versionId, "governance"), "done");
  const second = await putWith(fixture.store, { retention: until(fixture, "GOVERNANCE", 10) });
  fixture.clock.advance(10 * DAY);
  assert.equal(await remove(fixture, second), "done");
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD21] locks: legal hold: keeps its version whatever the retention and the bypass, until it is turned off", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store, { legalHold: "ON" });
  fixture.clock.advance(1000 * DAY);
  for (const bypass of [undefined, "governance"] as const)
    await refused(fixture, "PERMISSION_DENIED", () => fixture.store.deleteObject({ ...AT, versionId, bypass }));
  await fixture.store.setObjectLegalHold({ ...AT, versionId, legalHold: "OFF" });
  assert.deepEqual(await lockOf(fixture, versionId), { legalHold: "OFF" });
  assert.equal(await remove(fixture, versionId), "done");
});

test("[OGD21] locks: a retention and a legal hold of one version: a change of each leaves the other", async () => {
  const fixture = await openLocked();
  const { store } = fixture;
  await putWith(store);
  const [retention, longer] = [until(fixture, "GOVERNANCE", 1), until(fixture, "GOVERNANCE", 2)];
  await store.setObjectRetention({ ...AT, retention });
  await store.setObjectLegalHold({ ...AT, legalHold: "ON" });
  assert.deepEqual(await lockOf(fixture), { retention, legalHold: "ON" });
  await store.setObjectRetention({ ...AT, retention: longer });
  assert.deepEqual(await lockOf(fixture), { retention: longer, legalHold: "ON" });
});

test("locks: a delete without a version: a marker, the version stays behind it, and is current again when the marker goes", async () => {
  const fixture = await openLocked();
  const lock = { retention: until(fixture, "COMPLIANCE", 10), legalHold: "ON" } as const;
  const versionId = await putWith(fixture.store, lock);
  const marker = await fixture.store.deleteObject(AT);
  assert.ok(marker.isMarker);
  await refused(fixture, "PERMISSION_DENIED", () => fixture.store.deleteObject({ ...AT, versionId }));
  await fixture.store.deleteObject({ ...AT, versionId: marker.versionId });
  assert.deepEqual(await lockOf(fixture), lock);
  // Behind a newer version, too: it keeps its lock when it moves, and when its tags and its ACL change.
  await putWith(fixture.store);
  await fixture.store.setObjectTags({ bucket: "photos", key: "k", tags: { a: "b" }, versionId });
  await fixture.store.setObjectAcl({ ...AT, versionId, change: () => ({ owner: "o", grants: "[]" }) });
  assert.deepEqual([await lockOf(fixture, versionId), await lockOf(fixture)], [lock, undefined]);
  await refused(fixture, "PERMISSION_DENIED", () => fixture.store.deleteObject({ ...AT, versionId, bypass: "governance" }));
});

interface RetentionCase {
  readonly now: RetentionMode | "ended" | "none";
  /** Undefined: the retention is to go. */
  readonly next: RetentionMode | undefined;
  /** Of ten days that are in force. */
  readonly days?: number;
  readonly allowed: "always" | "bypass" | "never";
}

/** As the table in the README. */
const RETENTION_CHANGES: readonly RetentionCase[] = [
  { now: "none", next: "GOVERNANCE", days: 5, allowed: "always" },
  { now: "none", next: "COMPLIANCE", days: 5, allowed: "always" },
  { now: "ended", next: "GOVERNANCE", days: 1, allowed: "always" },
  { now: "ended", next: undefined, allowed: "always" },
  { now: "GOVERNANCE", next: "GOVERNANCE", days: 10, allowed: "always" },
  { now: "GOVERNANCE", next: "GOVERNANCE", days: 11, allowed: "always" },
  { now: "GOVERNANCE", next: "GOVERNANCE", days: 9, allowed: "bypass" },
  { now: "GOVERNANCE", next: "COMPLIANCE", days: 11, allowed: "bypass" },
  { now: "GOVERNANCE", next: undefined, allowed: "bypass" },
  { now: "COMPLIANCE", next: "COMPLIANCE", days: 10, allowed: "always" },
  { now: "COMPLIANCE", next: "COMPLIANCE", days: 11, allowed: "always" },
  { now: "COMPLIANCE", next: "COMPLIANCE", days: 9, allowed: "never" },
  { now: "COMPLIANCE", next: "GOVERNANCE", days: 11, allowed: "never" },
  { now: "COMPLIANCE", next: undefined, allowed: "never" },
];

for (const { now, next, days = 0, allowed } of RETENTION_CHANGES) {
  test(`[OGD21] retention: ${now} now, ${next ?? "none"} of ${days} days next: allowed ${allowed}`, async () => {
    const fixture = await openLocked();
    const mode = now === "ended" ? "COMPLIANCE" : now;
    const versionId = await putWith(
      fixture.store,
      mode === "none" ? undefined : { retention: until(fixture, mode, now === "ended" ? 1 : 10) },
    );
    if (now === "ended") fixture.clock.advance(DAY);
    const retention = next === undefined ? undefined : until(fixture, next, days);
    const change = (bypass: Bypass): Promise<void> => fixture.store.setObjectRetention({ ...AT, versionId, retention, bypass });
    if (allowed === "always") await change(undefined);
    else {
      await refused(fixture, "PERMISSION_DENIED", () => change(undefined));
      if (allowed === "never") return await refused(fixture, "PERMISSION_DENIED", () => change("governance"));
      await change("governance");
    }
    assert.deepEqual(await lockOf(fixture, versionId), retention === undefined ? undefined : { retention });
  });
}

test("retention: a time that is not in the future, or behind the year 9999: MALFORMED_REQUEST; the last one is fine", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store);
  const nowMs = fixture.clock.nowMs();
  for (const untilMs of [nowMs - 1, nowMs, LOCK_UNTIL_MS_MAX + 1]) {
    const retention = { mode: "GOVERNANCE", untilMs } as const;
    await refused(fixture, "MALFORMED_REQUEST", () => fixture.store.setObjectRetention({ ...AT, versionId, retention }));
    await refused(fixture, "MALFORMED_REQUEST", () => putWith(fixture.store, { retention }));
    const upload = { ...AT, attributes: NO_ATTRIBUTES, checksum: undefined, lock: { retention } };
    await refused(fixture, "MALFORMED_REQUEST", () => fixture.store.createUpload(upload));
  }
  await fixture.store.setObjectRetention({ ...AT, versionId, retention: { mode: "GOVERNANCE", untilMs: LOCK_UNTIL_MS_MAX } });
});

test("[OGD21] locks: the wall clock steps years ahead, also before the process starts: frees nothing; real time does", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store, { retention: until(fixture, "COMPLIANCE", 30) });
  let aheadMs = 0;
  const running = besideAhead(fixture, () => aheadMs);
  await running.objectLock({ ...AT, versionId });
  aheadMs = 20 * 365 * DAY;
  const started = besideAhead(fixture, () => aheadMs);
  for (const store of [running, started])
    for (const bypass of [undefined, "governance"] as const) {
      await refused(fixture, "PERMISSION_DENIED", () => store.deleteObject({ ...AT, versionId, bypass }));
      const shorter = { mode: "COMPLIANCE", untilMs: fixture.clock.nowMs() + DAY } as const;
      await refused(fixture, "PERMISSION_DENIED", () => store.setObjectRetention({ ...AT, versionId, retention: shorter, bypass }));
      await refused(fixture, "PERMISSION_DENIED", () => store.setObjectRetention({ ...AT, versionId, retention: undefined, bypass }));
    }
  aheadMs = 0;
  fixture.clock.advance(30 * DAY);
  assert.equal(await remove(fixture, versionId), "done");
});

test("[OGD21] locks: a clock that stays years ahead: time runs no faster than its bound, also over restarts", async () => {
  const fixture = await openLocked();
  const days = 110;
  const versionId = await putWith(fixture.store, { retention: until(fixture, "COMPLIANCE", days) });
  const ahead = (): number => 20 * 365 * DAY;
  // A process each day, which writes down how far it came.
  for (let day = 0; day < Math.floor(days / LOCK_TIME_RATE_MAX) - 1; day += 1) {
    const context = { ...fixture.context, clock: stepped(fixture.clock, ahead) };
    const time = new LockTime(context);
    await time.renew();
    fixture.clock.advance(DAY);
    await time.renew();
    const store = createObjectStore({ ...context, lockTime: time });
    assert.equal(await codeOf(store.deleteObject({ ...AT, versionId })), "PERMISSION_DENIED");
  }
  fixture.clock.advance(3 * DAY);
  const late = besideAhead(fixture, ahead);
  assert.equal(await codeOf(late.deleteObject({ ...AT, versionId })), "PERMISSION_DENIED");
});

test("[OGD21] locks: a clock that is behind: a default retention counts from the time that was believed before", async () => {
  const fixture = await openLocked();
  await fixture.store.setBucketLocking("photos", { defaultRetention: { mode: "COMPLIANCE", unit: "days", count: 10 } });
  const believedMs = fixture.clock.nowMs();
  const behind = besideAhead(fixture, () => -365 * DAY);
  const versionId = await putWith(behind);
  const untilMs = (await lockOf(fixture, versionId))?.retention?.untilMs ?? 0;
  assert.ok(untilMs >= believedMs + 10 * DAY);
});

test("the time of locks: written once a minute from the first bucket with locks on, never back", async () => {
  const fixture = openFixture();
  const timesOf = (): readonly number[] => rowsOf(fixture).flatMap((row) => (row.kind === "lock-time" ? [row.timeMs] : []));
  const { lockTime } = fixture.context;
  await lockTime.renew();
  assert.deepEqual(timesOf(), []);
  await fixture.store.createBucket({ bucket: "photos", tenant: "t", region: "r", withLocks: true });
  const [first] = timesOf();
  assert.equal(first, fixture.clock.nowMs());
  lockTime.start();
  for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  await lockTime.stop();
  assert.ok(timesOf()[0]! >= first! + LOCK_TIME_RENEW_MS);
  const back = new LockTime({ ...fixture.context, clock: stepped(fixture.clock, () => -DAY) });
  const before = timesOf();
  await back.renew();
  assert.deepEqual(timesOf(), before);
});

/** The store, whose first commit comes after `write`. */
function overtakenBy(fixture: Fixture, write: () => Promise<unknown>): ObjectStore {
  const { metadata } = fixture.context;
  let pending: typeof write | undefined = write;
  const late: ObjectMetadata = {
    read: (partition, keys) => metadata.read(partition, keys),
    range: (partition, request) => metadata.range(partition, request),
    readCounters: (partition, key) => metadata.readCounters(partition, key),
    commit: async (commit) => {
      const first = pending;
      pending = undefined;
      await first?.();
      return await metadata.commit(commit);
    },
  };
  return createObjectStore({ ...fixture.context, metadata: late });
}

test("[OGD21] locks: set between the look and the commit of a removal: the removal is refused", async () => {
  const fixture = await openLocked();
  for (const lock of ["hold", "retention"] as const) {
    const versionId = await putWith(fixture.store);
    const store = overtakenBy(fixture, () =>
      lock === "hold"
        ? fixture.store.setObjectLegalHold({ ...AT, versionId, legalHold: "ON" })
        : fixture.store.setObjectRetention({ ...AT, versionId, retention: until(fixture, "COMPLIANCE", 1) }),
    );
    assert.equal(await codeOf(store.deleteObject({ ...AT, versionId })), "PERMISSION_DENIED");
    assert.notEqual(await lockOf(fixture, versionId), undefined);
  }
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD21] retention: made longer between the look and the commit of a shorter one: refused", async () => {
  const fixture = await openLocked();
  const versionId = await putWith(fixture.store, { retention: until(fixture, "COMPLIANCE", 1) });
  const longer = until(fixture, "COMPLIANCE", 100);
  const store = overtakenBy(fixture, () => fixture.store.setObjectRetention({ ...AT, versionId, retention: longer }));
  const retention = until(fixture, "COMPLIANCE", 2);
  assert.equal(await codeOf(store.setObjectRetention({ ...AT, versionId, retention })), "PERMISSION_DENIED");
  assert.deepEqual(await lockOf(fixture, versionId), { retention: longer });
});

const digest = () => ({ update: () => undefined, finish: () => ({ md5Hex: "m", checksum: undefined }) });

async function uploaded(store: ObjectStore, lock?: ObjectLock, before: () => Promise<unknown> = () => Promise.resolve()): Promise<string> {
  const uploadId = await store.createUpload({ ...AT, attributes: NO_ATTRIBUTES, checksum: undefined, lock });
  const { etag } = await store.putPart({ ...AT, uploadId, number: 1, body: bodyOf(BLOB) });
  await before();
  const parts = [{ number: 1, etag, checksum: undefined }];
  const combine = () => ({ etag: "e-1", checksum: undefined });
  const { versionId } = await store.completeUpload({ ...AT, uploadId, parts, checksum: undefined, precondition: {}, combine });
  assert.ok(versionId !== undefined);
  return versionId;
}

test("[OGD21] a default retention: of puts, copies and uploads in parts that have none of their own; also one that is set meanwhile", async () => {
  const fixture = await openLocked();
  const { store } = fixture;
  const rule: DefaultRetention = { mode: "GOVERNANCE", unit: "days", count: 3 };
  const hold = await putWith(store, { legalHold: "ON" });
  assert.deepEqual(await lockOf(fixture, hold), { legalHold: "ON" });
  // Set while the body of a put arrives, and while an upload is open.
  const body = bodyOf(BLOB);
  async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
    yield* body.chunks;
    await store.setBucketLocking("photos", { defaultRetention: rule });
  }
  const late = await store.putObject({ ...AT, body: { ...body, chunks: slow() }, attributes: NO_ATTRIBUTES, precondition: {} });
  const inForce = { retention: until(fixture, "GOVERNANCE", 3) };
  assert.deepEqual(await lockOf(fixture, late.versionId), inForce);
  assert.deepEqual(await lockOf(fixture, await uploaded(store)), { retention: until(fixture, "GOVERNANCE", 3) });
  const years: DefaultRetention = { mode: "COMPLIANCE", unit: "years", count: 1 };
  const opened = await uploaded(store, undefined, () => store.setBucketLocking("photos", { defaultRetention: years }));
  // 2026 has 365 days.
  assert.deepEqual(await lockOf(fixture, opened), { retention: until(fixture, "COMPLIANCE", 365) });
  const copy = {
    source: { ...AT, range: undefined, precondition: {} },
    ...AT,
    attributes: undefined,
    tags: undefined,
    precondition: {},
    digest,
  };
  const copied = await store.copyObject({ ...copy, lock: { legalHold: "ON" } });
  assert.deepEqual(await lockOf(fixture, copied.versionId), { retention: until(fixture, "COMPLIANCE", 365), legalHold: "ON" });
  const own = { retention: until(fixture, "GOVERNANCE", 1) };
  assert.deepEqual(await lockOf(fixture, await putWith(store, own)), own);
  assert.deepEqual(await lockOf(fixture, await uploaded(store, own)), own);
  assert.deepEqual(await lockOf(fixture, (await store.copyObject({ ...copy, lock: own })).versionId), own);
  await store.setBucketLocking("photos", {});
  assert.equal(await lockOf(fixture, await putWith(store)), undefined);
  assert.deepEqual(faultsOf(fixture), []);
});

test("locks: a bucket without them: every lock is refused, MALFORMED_REQUEST, and nothing is stored", async () => {
  const fixture = openFixture({ limits: LIMITS });
  const { store } = fixture;
  await store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  await refused(fixture, "MALFORMED_REQUEST", () => store.setBucketLocking("photos", {}));
  await store.setBucketVersioning("photos", "enabled");
  await putWith(store);
  const lock = { legalHold: "ON" } as const;
  const retention = until(fixture, "GOVERNANCE", 1);
  for (const attempt of [
    () => putWith(store, lock),
    () => store.createUpload({ ...AT, attributes: NO_ATTRIBUTES, checksum: undefined, lock }),
    () => store.setObjectLegalHold({ ...AT, legalHold: "ON" }),
    () => store.setObjectRetention({ ...AT, retention }),
    () => store.objectLock(AT),
  ])
    await refused(fixture, "MALFORMED_REQUEST", attempt);
  assert.equal(await store.bucketLocking("photos"), undefined);
  // Versions that are there are not locked by a default that comes later.
  await store.setBucketLocking("photos", { defaultRetention: { mode: "COMPLIANCE", unit: "days", count: 1 } });
  assert.equal(await lockOf(fixture), undefined);
});

test("[OGD21] locks: the bucket is made again without them while a body arrives: a put that asks for one is refused, nothing of it is left", async () => {
  const fixture = await openLocked();
  const { store } = fixture;
  const lock = { retention: until(fixture, "COMPLIANCE", 1) };
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    await store.deleteBucket("photos");
    await store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
    yield* bodyOf(BLOB).chunks;
  }
  const body = { ...bodyOf(BLOB), chunks: chunks() };
  const putting = store.putObject({ ...AT, body, attributes: NO_ATTRIBUTES, lock, precondition: {} });
  assert.equal(await codeOf(putting), "MALFORMED_REQUEST");
  assert.deepEqual([faultsOf(fixture), fixture.journal.unresolved], [[], []]);
  assert.equal(await codeOf(store.headObject({ ...AT, precondition: {} })), "OBJECT_UNKNOWN");
});

test("[OGD21] a bucket with locks: keeps versions for ever, and is not removed while a version is there", async () => {
  const fixture = await openLocked();
  const { store } = fixture;
  assert.equal(await store.bucketVersioning("photos"), "enabled");
  await refused(fixture, "MALFORMED_REQUEST", () => store.setBucketVersioning("photos", "suspended"));
  const versionId = await putWith(store, { retention: until(fixture, "GOVERNANCE", 1) });
  const { versionId: marker } = await store.deleteObject(AT);
  assert.equal(await codeOf(store.deleteBucket("photos")), "BUCKET_NOT_EMPTY");
  assert.deepEqual(await lockOf(fixture, versionId), { retention: until(fixture, "GOVERNANCE", 1) });
  await store.deleteObject({ ...AT, versionId: marker });
  await store.deleteObject({ ...AT, versionId, bypass: "governance" });
  await store.deleteBucket("photos");
  // Made again without locks: it is another bucket.
  await store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  assert.equal(await store.bucketLocking("photos"), undefined);
  assert.equal(await codeOf(store.createBucket({ bucket: "photos", tenant: "t", region: "r", withLocks: true })), "BUCKET_EXISTS");
});

test("a bucket with locks: its making, or a change of its default, broke off: finished with its locks", async () => {
  let died = true;
  const dieAt = new Set(["bucket:after-making", "bucket:after-changing"]);
  const failpoint = (name: string): void => {
    if (died && dieAt.has(name)) throw new Error(name);
  };
  const fixture = openFixture({ limits: LIMITS, failpoint });
  const asked = { bucket: "photos", tenant: "t", region: "r", withLocks: true };
  await assert.rejects(fixture.store.createBucket(asked), /after-making/);
  died = false;
  assert.equal(await resolveBuckets(fixture.context), 1);
  assert.deepEqual(await fixture.store.bucketLocking("photos"), {});
  const defaultRetention = { mode: "COMPLIANCE", unit: "days", count: 2 } as const;
  died = true;
  await assert.rejects(fixture.store.setBucketLocking("photos", { defaultRetention }), /after-changing/);
  died = false;
  assert.equal(await resolveBuckets(fixture.context), 1);
  assert.deepEqual(await lockOf(fixture, await putWith(fixture.store)), { retention: until(fixture, "COMPLIANCE", 2) });
});

test("[OGD21] locks and lifecycle: what is due stays while it is locked, and goes after that; a current object gets its marker", async () => {
  const fixture = await openLocked();
  const rules: readonly LifecycleRule[] = [
    { id: "r", isEnabled: true, form: "filter", tags: {}, expiration: { kind: "days", days: 1 }, nonCurrent: { days: 1 } },
  ];
  await fixture.store.setBucketDocument({ bucket: "photos", name: LIFECYCLE_DOCUMENT, text: JSON.stringify(rules) });
  const versionId = await putWith(fixture.store, { retention: until(fixture, "GOVERNANCE", 30) });
  const held = await putWith(fixture.store, { legalHold: "ON" });
  const free = await putWith(fixture.store);
  const engine = new LifecycleEngine({ context: fixture.context });
  fixture.clock.advance(3 * DAY);
  assert.deepEqual([(await engine.pass()).current, fixture.counts.get("objects_lifecycle_locked_total")], [1, 2]);
  fixture.clock.advance(3 * DAY);
  assert.deepEqual([(await engine.pass()).nonCurrent, await codeOf(lockOf(fixture, free))], [1, "OBJECT_UNKNOWN"]);
  assert.notEqual(await lockOf(fixture, versionId), undefined);
  fixture.clock.advance(30 * DAY);
  const counts = await engine.pass();
  assert.deepEqual([counts.nonCurrent, counts.kept, await codeOf(lockOf(fixture, versionId))], [1, 0, "OBJECT_UNKNOWN"]);
  assert.deepEqual(await lockOf(fixture, held), { legalHold: "ON" });
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD21] locks: recovery, collection and a consistency check: a locked version keeps its blob, behind others too", async () => {
  const { gateway } = await openWorld();
  const { store } = gateway;
  await store.createBucket({ bucket: "locked", tenant: "t", region: "r", withLocks: true });
  const lock = { retention: { mode: "COMPLIANCE", untilMs: gateway.context.clock.nowMs() + 9 * DAY } } as const;
  const put = async (): Promise<string | undefined> =>
    (await store.putObject({ bucket: "locked", key: "k", body: bodyOf(BLOB), attributes: NO_ATTRIBUTES, lock, precondition: {} }))
      .versionId;
  const [first, second] = [await put(), await put()];
  await store.deleteObject({ bucket: "locked", key: "k" });
  await quiesce(gateway);
  assert.deepEqual(await faults(gateway), []);
  for (const versionId of [first, second]) {
    const object = { bucket: "locked", key: "k", versionId };
    assert.equal(await codeOf(store.deleteObject(object)), "PERMISSION_DENIED");
    const found = await store.getObject({ ...object, range: undefined, precondition: {}, part: undefined });
    let sizeBytes = 0;
    for await (const chunk of found.bytes) sizeBytes += chunk.length;
    assert.equal(sizeBytes, BLOB.length);
  }
});
