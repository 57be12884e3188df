// Passes over memory stores: what expires and what stays, against writers, other engines, lost answers and clocks that step.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ObjectMetadata } from "@concord/ports";
import { makeGuid } from "@concord/snowflake";
import { bodyOf, faultsOf, NO_ATTRIBUTES, openFixture, openPhotos, put, rowsOf, type Fixture } from "../test/fixture.ts";
import { LifecycleEngine } from "./lifecycle-engine.ts";
import { LIFECYCLE_DEAD_AFTER_MS, LIFECYCLE_INTERVAL_MS, LIFECYCLE_PAGE } from "./limits.ts";
import { LIFECYCLE_DOCUMENT, type LifecycleRule } from "./rules.ts";

const DAY = 86_400_000;
const GUID_TIME_MS = Date.UTC(2026, 0, 1);
const rule = (more: Partial<LifecycleRule>): LifecycleRule => ({ id: "r", isEnabled: true, form: "filter", tags: {}, ...more });
const days = (count: number): Partial<LifecycleRule> => ({ expiration: { kind: "days", days: count } });

const setRules = (fixture: Fixture, ...rules: readonly LifecycleRule[]): Promise<void> =>
  fixture.store.setBucketDocument({ bucket: "photos", name: LIFECYCLE_DOCUMENT, text: JSON.stringify(rules) });

const versionsOf = async (fixture: Fixture, prefix = ""): Promise<readonly string[]> => {
  const { versions } = await fixture.store.listVersions({ bucket: "photos", prefix, delimiter: undefined, after: undefined, limit: 1000 });
  return versions.map(({ key, object, isLatest }) => `${key} ${object === undefined ? "marker" : object.sizeBytes}${isLatest ? " *" : ""}`);
};

const engineOf = (fixture: Fixture): LifecycleEngine => new LifecycleEngine({ context: fixture.context });

/** Of a gateway with another name, and so another worker id. */
function engineOfOther({ context }: Fixture, isAlone = false): LifecycleEngine {
  let sequence = 0;
  const next = (): Promise<bigint> => Promise.resolve(makeGuid({ timeMs: GUID_TIME_MS, workerId: 7, sequence: (sequence += 1) }));
  return new LifecycleEngine({ context: { ...context, guids: { next } }, isAlone });
}

/** A page of two has expired, and its engine is gone. */
async function passOfGoneEngine(fixture: Fixture): Promise<void> {
  await setRules(fixture, rule(days(1)));
  for (let n = 0; n < LIFECYCLE_PAGE + 5; n += 1) await put(fixture, `k${String(n).padStart(4, "0")}`, "x");
  fixture.clock.advance(2 * DAY);
  const engine = engineOf(fixture);
  engine.start();
  await until(async () => ((await engine.status())?.counts.current ?? 0) > 0);
  await engine.stop();
  const { place, counts } = (await engine.status())!;
  assert.deepEqual([place.kind, counts.current], ["rows", LIFECYCLE_PAGE]);
}

/** Before the engine's first commit `write` is done. */
function overtakenBy(fixture: Fixture, write: () => Promise<unknown>): LifecycleEngine {
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
  return new LifecycleEngine({ context: { ...fixture.context, metadata: late } });
}

async function putTagged(fixture: Fixture, key: string, tags: Readonly<Record<string, string>>): Promise<void> {
  const attributes = { ...NO_ATTRIBUTES, tags };
  await fixture.store.putObject({ bucket: "photos", key, body: bodyOf("x"), attributes, precondition: {} });
}

test("lifecycle: a bucket without versions: what is due by prefix, tag and size goes with its blob and its usage, nothing else", async () => {
  const fixture = await openPhotos({ shards: 3 });
  const engine = engineOf(fixture);
  await setRules(
    fixture,
    rule({ ...days(1), prefix: "logs/" }),
    rule({ ...days(1), tags: { temporary: "yes" } }),
    rule({ ...days(1), sizeAboveBytes: 20_000 }),
  );
  for (const key of ["logs/1", "logs/2", "kept/1"]) await put(fixture, key, "small");
  await putTagged(fixture, "tagged", { temporary: "yes", other: "x" });
  await putTagged(fixture, "kept/2", { temporary: "no" });
  await put(fixture, "large", "l".repeat(30_000));
  assert.equal((await engine.pass()).current, 0);
  fixture.clock.advance(2 * DAY);
  const counts = await engine.pass();
  assert.deepEqual([counts.looked, counts.current, counts.bytes, counts.kept], [6, 4, 30_011, 0]);
  assert.deepEqual(await versionsOf(fixture), ["kept/1 5 *", "kept/2 1 *"]);
  assert.deepEqual(await fixture.store.bucketUsage("photos"), { objects: 2n, bytes: 6n });
  assert.deepEqual(faultsOf(fixture), []);
  assert.equal((await engine.pass()).current, 0);
});

test("lifecycle: more keys than a page, in several shards and buckets: each is looked at once", async () => {
  const fixture = await openPhotos({ shards: 2 });
  await fixture.store.createBucket({ bucket: "other", tenant: "t", region: "r" });
  await fixture.store.createBucket({ bucket: "without", tenant: "t", region: "r" });
  await setRules(fixture, rule(days(1)));
  await fixture.store.setBucketDocument({ bucket: "other", name: LIFECYCLE_DOCUMENT, text: JSON.stringify([rule(days(1))]) });
  const count = 2 * LIFECYCLE_PAGE + 3;
  for (let n = 0; n < count; n += 1) await put(fixture, `k${n}`, "x");
  for (const bucket of ["other", "without"])
    await fixture.store.putObject({ bucket, key: "k", body: bodyOf("x"), attributes: NO_ATTRIBUTES, precondition: {} });
  const engine = engineOf(fixture);
  fixture.clock.advance(2 * DAY);
  const { looked, current } = await engine.pass();
  assert.deepEqual([looked, current], [count + 1, count + 1]);
  assert.equal((await fixture.store.bucketUsage("without")).objects, 1n);
});

test("lifecycle: a versioned bucket: a marker is put, earlier versions go by their age and number, the marker goes when it is alone", async () => {
  const fixture = await openPhotos();
  await put(fixture, "k", "null");
  await fixture.store.setBucketVersioning("photos", "enabled");
  const engine = engineOf(fixture);
  await setRules(fixture, rule({ ...days(10), nonCurrent: { days: 2, newerKept: 1 } }), rule({ expiration: { kind: "markers" } }));
  for (const content of ["1", "22", "333"]) {
    fixture.clock.advance(DAY);
    await put(fixture, "k", content);
  }
  // Day 3: "22" became non-current today, "1" a day ago, the null version two days ago.
  assert.deepEqual([(await engine.pass()).nonCurrent, await versionsOf(fixture)], [1, ["k 3 *", "k 2", "k 1"]]);
  fixture.clock.advance(DAY);
  assert.equal((await engine.pass()).nonCurrent, 1);
  fixture.clock.advance(30 * DAY);
  // One earlier version is kept whatever its age; the current one gets a marker, and is the one that is kept then.
  assert.deepEqual([(await engine.pass()).current, await versionsOf(fixture)], [1, ["k marker *", "k 3", "k 2"]]);
  assert.deepEqual([(await engine.pass()).nonCurrent, await versionsOf(fixture)], [1, ["k marker *", "k 3"]]);
  fixture.clock.advance(3 * DAY);
  assert.deepEqual([(await engine.pass()).nonCurrent, await versionsOf(fixture)], [0, ["k marker *", "k 3"]]);
  await setRules(fixture, rule({ ...days(10), nonCurrent: { days: 2 } }), rule({ expiration: { kind: "markers" } }));
  assert.deepEqual([(await engine.pass()).nonCurrent, await versionsOf(fixture)], [1, ["k marker *"]]);
  assert.deepEqual([(await engine.pass()).markers, await versionsOf(fixture)], [1, []]);
  assert.deepEqual(
    rowsOf(fixture).filter(({ kind }) => kind === "object" || kind === "marker"),
    [],
  );
  assert.deepEqual(faultsOf(fixture), []);
});

test("lifecycle: a suspended bucket: the null version is replaced by a null marker, others stay", async () => {
  const fixture = await openPhotos();
  await fixture.store.setBucketVersioning("photos", "enabled");
  await put(fixture, "k", "1");
  await fixture.store.setBucketVersioning("photos", "suspended");
  await put(fixture, "k", "22");
  await setRules(fixture, rule(days(1)));
  const engine = engineOf(fixture);
  fixture.clock.advance(2 * DAY);
  assert.equal((await engine.pass()).current, 1);
  assert.deepEqual(await versionsOf(fixture), ["k marker *", "k 1"]);
  assert.equal((await engine.pass()).markers, 0);
});

test("lifecycle: uploads that are not completed: aborted by age and prefix", async () => {
  const fixture = await openPhotos();
  const engine = engineOf(fixture);
  await setRules(fixture, rule({ abortDays: 1, prefix: "u/" }));
  const begin = (key: string): Promise<bigint> =>
    fixture.store.createUpload({ bucket: "photos", key, attributes: NO_ATTRIBUTES, checksum: undefined });
  const [first] = [await begin("u/1"), await begin("kept/1")];
  await fixture.store.putPart({ bucket: "photos", key: "u/1", uploadId: first, number: 1, body: bodyOf("p".repeat(30)) });
  fixture.clock.advance(2 * DAY);
  await begin("u/2");
  assert.equal((await engine.pass()).uploads, 1);
  const { uploads } = await fixture.store.listUploads({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  assert.deepEqual(
    uploads.map(({ key }) => key),
    ["kept/1", "u/2"],
  );
});

test("[OGD11] lifecycle: an upload is completed between judgement and abort: the object is there, nothing is aborted", async () => {
  const fixture = await openPhotos();
  await setRules(fixture, rule({ abortDays: 1 }));
  const name = { bucket: "photos", key: "k" };
  const uploadId = await fixture.store.createUpload({ ...name, attributes: NO_ATTRIBUTES, checksum: undefined });
  const { etag } = await fixture.store.putPart({ ...name, uploadId, number: 1, body: bodyOf("part") });
  fixture.clock.advance(2 * DAY);
  const engine = overtakenBy(fixture, () =>
    fixture.store.completeUpload({
      ...name,
      uploadId,
      parts: [{ number: 1, etag, checksum: undefined }],
      checksum: undefined,
      precondition: {},
      combine: () => ({ etag: "of one part", checksum: undefined }),
    }),
  );
  const { uploads, overtaken } = await engine.pass();
  assert.deepEqual([uploads, overtaken, await versionsOf(fixture)], [0, 1, ["k 4 *"]]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD18] lifecycle: a write between judgement and removal: the write wins", async () => {
  const writes: readonly (readonly [string, (fixture: Fixture) => Promise<unknown>])[] = [
    ["an overwrite", (fixture) => put(fixture, "k", "newer")],
    ["other tags", (fixture) => fixture.store.setObjectTags({ bucket: "photos", key: "k", tags: { keep: "yes" } })],
  ];
  for (const versioned of [false, true]) {
    for (const [name, write] of writes) {
      const fixture = await openPhotos();
      if (versioned) await fixture.store.setBucketVersioning("photos", "enabled");
      await put(fixture, "k", "old");
      await setRules(fixture, rule(days(1)));
      const engine = overtakenBy(fixture, () => write(fixture));
      fixture.clock.advance(2 * DAY);
      const counts = await engine.pass();
      assert.deepEqual([counts.overtaken, counts.current], [1, 0], name);
      assert.equal((await versionsOf(fixture))[0], name === "an overwrite" ? "k 5 *" : "k 3 *");
      assert.deepEqual(faultsOf(fixture), []);
    }
  }
});

test("[OGD18] lifecycle: the version behind the current one becomes current between judgement and removal: it stays", async () => {
  const fixture = await openPhotos();
  await fixture.store.setBucketVersioning("photos", "enabled");
  await put(fixture, "k", "1");
  await put(fixture, "k", "22");
  const { versions } = await fixture.store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 9 });
  const versionId = versions[0]!.versionId;
  await setRules(fixture, rule({ nonCurrent: { days: 1 } }));
  fixture.clock.advance(2 * DAY);
  const engine = overtakenBy(fixture, () => fixture.store.deleteObject({ bucket: "photos", key: "k", versionId }));
  assert.equal((await engine.pass()).overtaken, 1);
  assert.deepEqual(await versionsOf(fixture), ["k 1 *"]);
});

test("[OGD18] lifecycle: a put behind a delete marker that is alone: the marker stays behind the object", async () => {
  const fixture = await openPhotos();
  await fixture.store.setBucketVersioning("photos", "enabled");
  await fixture.store.deleteObject({ bucket: "photos", key: "k" });
  await setRules(fixture, rule({ expiration: { kind: "markers" } }));
  const engine = overtakenBy(fixture, () => put(fixture, "k", "new"));
  assert.deepEqual([(await engine.pass()).overtaken, await versionsOf(fixture)], [1, ["k 3 *", "k marker"]]);
});

test("[OGD18] lifecycle: rules are removed while a page is worked on: nothing expires after the answer", async () => {
  let armed = false;
  const waiting: Promise<unknown>[] = [];
  const fixture: Fixture = await openPhotos({
    failpoint: (point) => {
      if (point !== "lifecycle:before-removal" || !armed) return;
      armed = false;
      waiting.push(fixture.store.setBucketDocument({ bucket: "photos", name: LIFECYCLE_DOCUMENT, text: undefined }));
    },
  });
  await setRules(fixture, rule(days(1)));
  for (let n = 0; n < 20; n += 1) await put(fixture, `k${n}`, "x");
  const engine = engineOf(fixture);
  fixture.clock.advance(2 * DAY);
  armed = true;
  const { current, overtaken } = await engine.pass();
  await Promise.all(waiting);
  assert.equal(current + overtaken, 20);
  assert.ok(overtaken >= 12, `${overtaken} of later steps were refused`);
  assert.equal((await engine.pass()).looked, 0);
});

test("[OGD18] lifecycle: two engines at once: each object expires once, nothing leaks", async () => {
  const first = await openPhotos({ shards: 2 });
  const second = openFixture({ beside: first, shards: 2 });
  await first.store.setBucketVersioning("photos", "enabled");
  await setRules(first, rule({ ...days(1), nonCurrent: { days: 1 } }));
  for (let n = 0; n < 50; n += 1) for (const content of ["a", "l".repeat(20_000)]) await put(first, `k${n}`, content);
  const engines = [engineOf(first), engineOf(second)];
  first.clock.advance(2 * DAY);
  const counts = await Promise.all(engines.map((engine) => engine.pass()));
  const sum = (name: "current" | "nonCurrent"): number => counts.reduce((total, one) => total + one[name], 0);
  assert.equal(sum("current"), 50);
  assert.ok(sum("nonCurrent") >= 50);
  assert.deepEqual(
    (await versionsOf(first)).filter((text) => text.includes(" 1")),
    [],
  );
  assert.deepEqual(faultsOf(first), []);
});

test("[OGD18] lifecycle: the wall clock steps years ahead: nothing expires; the passes say so", async () => {
  const fixture = await openPhotos();
  let aheadMs = 0;
  const { clock } = fixture;
  const stepped = {
    nowMs: () => clock.nowMs() + aheadMs,
    nowUs: () => clock.nowUs() + BigInt(aheadMs) * 1000n,
    monotonicMs: () => clock.monotonicMs(),
    setTimer: clock.setTimer.bind(clock),
    defer: clock.defer.bind(clock),
  };
  await setRules(fixture, rule(days(30)));
  await put(fixture, "k", "x");
  const engine = new LifecycleEngine({ context: { ...fixture.context, clock: stepped } });
  aheadMs = 10 * 365 * DAY;
  assert.equal((await engine.pass()).current, 0);
  aheadMs = 0;
  clock.advance(31 * DAY);
  assert.equal((await engine.pass()).current, 1);
});

test("lifecycle: in the background: each page moves the place; the gateway dies within a pass: another one continues when it stood still", async () => {
  const first = await openPhotos();
  await passOfGoneEngine(first);
  const other = engineOfOther(openFixture({ beside: first }));
  const startedMs = first.clock.nowMs();
  other.start();
  await until(async () => (await other.status())?.place.kind === "ended");
  await other.stop();
  assert.ok(first.clock.nowMs() - startedMs >= LIFECYCLE_DEAD_AFTER_MS);
  assert.ok((await other.status())!.counts.current > LIFECYCLE_PAGE);
  assert.equal((await first.store.bucketUsage("photos")).objects, 0n);
});

for (const [life, engineOfLife] of [
  ["restarted", engineOf],
  ["alone, and restarted with another worker id as its clock was set back", (fixture: Fixture) => engineOfOther(fixture, true)],
] as const)
  test(`lifecycle: in the background: the gateway is ${life} within a pass: it goes on at once, not after ten minutes`, async () => {
    const fixture = await openPhotos();
    await passOfGoneEngine(fixture);
    const startedMs = fixture.clock.nowMs();
    const restarted = engineOfLife(fixture);
    restarted.start();
    await until(async () => (await restarted.status())?.place.kind === "ended");
    await restarted.stop();
    assert.ok(fixture.clock.nowMs() - startedMs < LIFECYCLE_DEAD_AFTER_MS / 2);
    assert.equal((await fixture.store.bucketUsage("photos")).objects, 0n);
  });

test("lifecycle: a restart after hours, monotonic time with fractions of milliseconds: passes go on while time catches up", async () => {
  const fixture = await openPhotos();
  await passOfGoneEngine(fixture);
  const { clock } = fixture;
  let fraction = 0;
  const later = {
    nowMs: () => clock.nowMs() + DAY,
    nowUs: () => clock.nowUs() + BigInt(DAY) * 1000n,
    monotonicMs: () => clock.monotonicMs() + (fraction += 0.001),
    setTimer: clock.setTimer.bind(clock),
    defer: clock.defer.bind(clock),
  };
  const engine = new LifecycleEngine({ context: { ...fixture.context, clock: later } });
  const startedMs = clock.nowMs();
  engine.start();
  await until(async () => (await engine.status())?.place.kind === "ended" || clock.nowMs() - startedMs > DAY / 2);
  await engine.stop();
  assert.ok(clock.nowMs() - startedMs < LIFECYCLE_INTERVAL_MS);
  assert.equal((await fixture.store.bucketUsage("photos")).objects, 0n);
});

test("lifecycle: in the background: the clock goes back by days: the next pass begins, not only when it has come to where it was", async () => {
  const fixture = await openPhotos();
  await setRules(fixture, rule(days(1)));
  const { clock } = fixture;
  let aheadMs = 3 * DAY;
  const engine = new LifecycleEngine({
    context: {
      ...fixture.context,
      clock: {
        nowMs: () => clock.nowMs() + aheadMs,
        nowUs: () => clock.nowUs(),
        monotonicMs: () => clock.monotonicMs(),
        setTimer: clock.setTimer.bind(clock),
        defer: clock.defer.bind(clock),
      },
    },
  });
  engine.start();
  await until(async () => (await engine.status())?.place.kind === "ended");
  const aheadOfUs = (await engine.status())!.startedMs;
  aheadMs = 0;
  const steppedMs = clock.nowMs();
  await until(async () => (await engine.status())!.startedMs < aheadOfUs || clock.nowMs() - steppedMs > DAY);
  await engine.stop();
  assert.ok(clock.nowMs() - steppedMs < LIFECYCLE_INTERVAL_MS);
});

test("lifecycle: in the background: no bucket has rules: no row is written; a pass begins an interval after the last one", async () => {
  const fixture = await openPhotos();
  const engine = engineOf(fixture);
  engine.start();
  await turns();
  assert.equal(await engine.status(), undefined);
  await setRules(fixture, rule(days(1)));
  await until(async () => (await engine.status())?.place.kind === "ended");
  const first = (await engine.status())!;
  await until(async () => (await engine.status())!.startedMs > first.startedMs);
  assert.ok((await engine.status())!.startedMs - first.startedMs >= LIFECYCLE_INTERVAL_MS);
  await engine.stop();
});

async function turns(count = 50): Promise<void> {
  for (let at = 0; at < count; at += 1) await new Promise(setImmediate);
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 100_000; attempt += 1) {
    if (await holds()) return;
    await turns(1);
  }
  assert.fail("it never came");
}
