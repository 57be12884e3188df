// Events: each committed change is announced once, in its own commit, by the rules of that commit; nothing else is.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Clock } from "@concord/runtime";
import { GarbageCollector } from "../garbage/garbage-collector.ts";
import { LifecycleEngine } from "../lifecycle/lifecycle-engine.ts";
import {
  bodyOf,
  bytesOf,
  faultsOf,
  get,
  manyBytes,
  md5,
  NO_ATTRIBUTES,
  openFixture,
  openPhotos,
  put,
  rowsOf,
  type Fixture,
} from "../test/fixture.ts";
import { codeOf } from "../test/gateway.ts";
import { RecordingSink } from "../test/recording-sink.ts";
import { EventDelivery, type EventDeliveryOptions, type WaitingEvent } from "./event-delivery.ts";
import { EVENT_PAGE } from "./limits.ts";
import { EVENTS_DOCUMENT, type EventRule } from "./rules.ts";

const LIMITS = { inlineBytesMax: 8, resolveWaitMs: 100, partBytesMin: 1, eventCountMs: 0 };
const ALL = ["ObjectCreated:*", "ObjectRemoved:*", "LifecycleExpiration:*", "ObjectTagging:*", "ObjectAcl:Put"];
const rule = (more: Partial<EventRule> = {}): EventRule => ({ id: "r", kind: "queue", arn: "arn", target: "q", events: ALL, ...more });

const setRules = (fixture: Fixture, rules: readonly EventRule[], bucket = "photos"): Promise<void> =>
  fixture.store.setBucketDocument({ bucket, name: EVENTS_DOCUMENT, text: JSON.stringify(rules) });

async function openTold(options: Parameters<typeof openPhotos>[0] = {}, ...rules: readonly EventRule[]): Promise<Fixture> {
  const fixture = await openPhotos({ ...options, limits: { ...LIMITS, ...options.limits } });
  await setRules(fixture, rules.length === 0 ? [rule()] : rules);
  return fixture;
}

const textOf = ({ name, key, object, versionId }: WaitingEvent): string =>
  [
    name,
    key,
    ...(object === undefined ? [] : [object.sizeBytes]),
    ...(versionId === undefined ? [] : [versionId === "null" ? "null" : "v"]),
  ].join(" ");

interface World {
  readonly sink: RecordingSink;
  readonly delivery: EventDelivery;
  readonly events: WaitingEvent[];
}

function deliveryOf(fixture: Fixture, options: Partial<EventDeliveryOptions> = {}, sink = new RecordingSink()): World {
  const events: WaitingEvent[] = [];
  const encode = (event: WaitingEvent): { key: Uint8Array; value: Uint8Array } => {
    events.push(event);
    return { key: bytesOf(event.key), value: bytesOf(textOf(event)) };
  };
  const known = ({ tenant, target }: { tenant: string; target: string }): RecordingSink | undefined =>
    tenant === "t" && target === "q" ? sink : undefined;
  return { sink, events, delivery: new EventDelivery({ context: fixture.context, encode, sink: known, ...options }) };
}

/** Everything that waits is delivered: what came out. */
async function told(fixture: Fixture): Promise<readonly string[]> {
  const { delivery, sink } = deliveryOf(fixture);
  await delivery.pass();
  return sink.texts;
}

const waiting = (fixture: Fixture): number => rowsOf(fixture).filter(({ kind }) => kind === "event").length;
const counted = async ({ context }: Fixture): Promise<readonly bigint[]> =>
  (await context.metadata.readCounters("photos/0", Uint8Array.of(2))).slice(2);

async function completeUpload(fixture: Fixture, key: string, content: string): Promise<void> {
  const { store } = fixture;
  const uploadId = await store.createUpload({ bucket: "photos", key, attributes: NO_ATTRIBUTES, checksum: undefined });
  const { etag } = await store.putPart({ bucket: "photos", key, uploadId, number: 1, body: bodyOf(content) });
  const parts = [{ number: 1, etag, checksum: undefined }];
  const combine = () => ({ etag: "combined-1", checksum: undefined });
  await store.completeUpload({ bucket: "photos", key, uploadId, parts, checksum: undefined, precondition: {}, combine });
}

const digest = () => {
  const seen: Uint8Array[] = [];
  return {
    update: (bytes: Uint8Array) => void seen.push(Uint8Array.from(bytes)),
    finish: () => ({ md5Hex: md5(Buffer.concat(seen)), checksum: undefined }),
  };
};

const copyOf = (from: string) => ({ bucket: "photos", key: from, range: undefined, precondition: {} });

test("[OGD19] a bucket without versions: one event per change, named as S3 does; none for what changes nothing", async () => {
  const fixture = await openTold();
  const { store } = fixture;
  await put(fixture, "k", "inline");
  await put(fixture, "k", manyBytes(100));
  await store.putObject({ bucket: "photos", key: "form", body: bodyOf("x"), attributes: NO_ATTRIBUTES, precondition: {}, by: "form" });
  await store.copyObject({
    source: copyOf("k"),
    bucket: "photos",
    key: "copy",
    attributes: undefined,
    tags: undefined,
    precondition: {},
    digest,
  });
  await completeUpload(fixture, "big", "a part");
  await store.setObjectTags({ bucket: "photos", key: "k", tags: { a: "b" } });
  await store.setObjectTags({ bucket: "photos", key: "k", tags: {} });
  await store.setObjectAcl({ bucket: "photos", key: "k", change: () => ({ owner: "t", grants: "[]" }) });
  await store.deleteObject({ bucket: "photos", key: "k" });
  await store.deleteObject({ bucket: "photos", key: "k" });
  await assert.rejects(
    store.putObject({ bucket: "photos", key: "no", body: bodyOf("x"), attributes: NO_ATTRIBUTES, precondition: { ifMatch: ["*"] } }),
  );
  await assert.rejects(put(fixture, "broken", manyBytes(100), { badDigest: true }));
  assert.equal(waiting(fixture), 9);
  assert.deepEqual([...(await told(fixture))].sort(), [
    "ObjectAcl:Put k 100",
    "ObjectCreated:CompleteMultipartUpload big 6",
    "ObjectCreated:Copy copy 100",
    "ObjectCreated:Post form 1",
    "ObjectCreated:Put k 100",
    "ObjectCreated:Put k 6",
    "ObjectRemoved:Delete k",
    "ObjectTagging:Delete k 100",
    "ObjectTagging:Put k 100",
  ]);
  assert.deepEqual([waiting(fixture), await counted(fixture)], [0, [0n, 0n]]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD19] a bucket with versions: markers, removals of versions and promotions are announced, with version ids", async () => {
  const fixture = await openTold();
  const { store } = fixture;
  await put(fixture, "k", "null");
  await store.setBucketVersioning("photos", "enabled");
  await put(fixture, "k", "first");
  await store.deleteObject({ bucket: "photos", key: "k" });
  const { versions } = await store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  for (const { versionId } of versions) await store.deleteObject({ bucket: "photos", key: "k", versionId });
  await store.setBucketVersioning("photos", "suspended");
  await put(fixture, "k", "again");
  assert.deepEqual(await told(fixture), [
    "ObjectCreated:Put k 4",
    "ObjectCreated:Put k 5 v",
    "ObjectRemoved:DeleteMarkerCreated k v",
    "ObjectRemoved:Delete k v",
    "ObjectRemoved:Delete k v",
    "ObjectRemoved:Delete k null",
    "ObjectCreated:Put k 5 null",
  ]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("[OGD19] a bucket with versions: the removal of an earlier one is announced, what is current stays", async () => {
  const fixture = await openTold();
  const { store } = fixture;
  await store.setBucketVersioning("photos", "enabled");
  for (const content of ["first", "second"]) await put(fixture, "k", content);
  const { versions } = await store.listVersions({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 10 });
  await store.deleteObject({ bucket: "photos", key: "k", versionId: versions[1]!.versionId });
  assert.deepEqual(await told(fixture), ["ObjectCreated:Put k 5 v", "ObjectCreated:Put k 6 v", "ObjectRemoved:Delete k v"]);
  assert.deepEqual(await get(fixture, "k"), bytesOf("second"));
});

test("[OGD19] lifecycle rules: what they remove is announced as theirs", async () => {
  const fixture = await openTold();
  await put(fixture, "k", "x");
  const text = JSON.stringify([{ id: "l", isEnabled: true, form: "filter", tags: {}, expiration: { kind: "days", days: 1 } }]);
  await fixture.store.setBucketDocument({ bucket: "photos", name: "lifecycle", text });
  const engine = new LifecycleEngine({ context: fixture.context });
  await engine.pass();
  fixture.clock.advance(3 * 86_400_000);
  await engine.pass();
  await fixture.store.setBucketVersioning("photos", "enabled");
  await put(fixture, "v", "x");
  fixture.clock.advance(3 * 86_400_000);
  await engine.pass();
  const events = (await told(fixture)).filter((event) => event.startsWith("Lifecycle"));
  assert.deepEqual(events, ["LifecycleExpiration:Delete k", "LifecycleExpiration:DeleteMarkerCreated v v"]);
});

test("[OGD19] rules: kinds, prefixes and suffixes choose; a bucket without rules writes what it always wrote", async () => {
  const fixture = await openTold({}, rule({ prefix: "a/", suffix: ".jpg", events: ["ObjectCreated:Put"] }));
  for (const key of ["a/1.jpg", "a/1.png", "b/1.jpg"]) await put(fixture, key, "x");
  await fixture.store.deleteObject({ bucket: "photos", key: "a/1.jpg" });
  assert.deepEqual(await told(fixture), ["ObjectCreated:Put a/1.jpg 1"]);
  await setRules(fixture, []);
  const before = fixture.metadata.contents("photos/0").map(({ key }) => key[0]);
  await put(fixture, "a/2.jpg", "x");
  await fixture.store.deleteObject({ bucket: "photos", key: "a/2.jpg" });
  assert.deepEqual(
    fixture.metadata.contents("photos/0").map(({ key }) => key[0]),
    before,
  );
});

describe("the rules are those of the commit", () => {
  test("[OGD19] a put whose rules are set while its body arrives: it is announced; one whose rules are removed: it is not", async () => {
    const fixture = await openTold({}, rule({ prefix: "other" }));
    const slowPut = async (change: () => Promise<void>): Promise<void> => {
      const body = bodyOf(manyBytes(100));
      async function* slow(): AsyncGenerator<Uint8Array, void, undefined> {
        yield* body.chunks;
        await change();
      }
      await fixture.store.putObject({
        bucket: "photos",
        key: "k",
        body: { ...body, chunks: slow() },
        attributes: NO_ATTRIBUTES,
        precondition: {},
      });
    };
    await slowPut(() => setRules(fixture, [rule()]));
    assert.equal(waiting(fixture), 1);
    await slowPut(() => setRules(fixture, []));
    assert.equal(waiting(fixture), 1);
  });

  test("[OGD19] a commit that arrives late: the event is there exactly when the change is", async () => {
    const fixture = await openTold();
    fixture.metadata.nextFates("late");
    assert.equal(await codeOf(put(fixture, "k", manyBytes(100))), "OUTCOME_UNKNOWN");
    fixture.metadata.applyLate();
    const object = rowsOf(fixture).filter(({ kind }) => kind === "object").length;
    assert.equal(waiting(fixture), object);
  });

  test("a commit without an answer that was done: one event, as the put was", async () => {
    const fixture = await openTold();
    fixture.metadata.nextFates("applied");
    await put(fixture, "k", "inline");
    fixture.metadata.nextFates("applied", "applied");
    await fixture.store.deleteObject({ bucket: "photos", key: "k" });
    assert.deepEqual(await told(fixture), ["ObjectCreated:Put k 6", "ObjectRemoved:Delete k"]);
  });
});

test("[OGD22] sequencers: grow with every change of a key, also over its removal, and when the clock of another gateway is behind", async () => {
  const fixture = await openTold();
  const behind = openFixture({ beside: fixture, limits: LIMITS });
  const { clock } = fixture;
  const late: Clock = {
    nowMs: () => clock.nowMs() - 60_000,
    nowUs: () => clock.nowUs() - 60_000_000n,
    monotonicMs: () => clock.monotonicMs(),
    setTimer: (delayMs, action) => clock.setTimer(delayMs, action),
    defer: (action) => clock.defer(action),
  };
  Object.assign(behind.context, { clock: late });
  for (let n = 0; n < 3; n += 1) {
    await put(fixture, "k", "x");
    await put(behind, "k", "y");
    await fixture.store.deleteObject({ bucket: "photos", key: "k" });
    await put(behind, "k", "z");
    await behind.store.deleteObject({ bucket: "photos", key: "k" });
  }
  const { delivery, events } = deliveryOf(fixture);
  await delivery.pass();
  assert.deepEqual(
    events.map(({ name }) => name.slice(6, 13)),
    Array.from({ length: 3 }, () => ["Created", "Created", "Removed", "Created", "Removed"]).flat(),
  );
  const sequencers = events.map(({ sequencer }) => sequencer);
  assert.deepEqual(sequencers, [...new Set(sequencers)].sort());
  // What a removed key leaves is garbage.
  fixture.clock.advance(2 * 3_600_000);
  await new GarbageCollector({ context: fixture.context }).runOnce();
  assert.deepEqual(
    fixture.metadata.contents("photos/0").map(({ key }) => key[0]),
    [1],
  );
});

describe("delivery", () => {
  test("[OGD19] [OGD22] an answer that is lost: sent again, a duplicate, removed; the message comes out once", async () => {
    const fixture = await openTold();
    await put(fixture, "k", "x");
    const { delivery, sink } = deliveryOf(fixture);
    sink.nextFates("lost");
    assert.deepEqual([(await delivery.pass()).kept, waiting(fixture)], [1, 1]);
    assert.deepEqual(await delivery.pass(), { accepted: 0, duplicate: 1, dropped: 0, kept: 0 });
    assert.deepEqual([sink.texts, waiting(fixture)], [["ObjectCreated:Put k 1"], 0]);
  });

  test("neither accepted nor duplicate: it stays, and is sent again", async () => {
    const fixture = await openTold();
    await put(fixture, "k", "x");
    const { delivery, sink } = deliveryOf(fixture);
    for (const fate of ["open", "refused", "away"] as const) {
      sink.nextFates(fate);
      assert.deepEqual([(await delivery.pass()).kept, waiting(fixture)], [1, 1]);
    }
    assert.equal((await delivery.pass()).accepted, 1);
  });

  for (const [name, fates] of Object.entries({ "was done": ["applied"], "was not done": ["lost"] } as const)) {
    test(`the removal has no answer and ${name}: the message comes out once`, async () => {
      const fixture = await openTold();
      await put(fixture, "k", "x");
      const { delivery, sink } = deliveryOf(fixture);
      fixture.metadata.nextFates(...fates);
      await delivery.pass();
      await delivery.pass();
      assert.deepEqual([sink.texts.length, waiting(fixture), await counted(fixture)], [1, 0, [0n, 0n]]);
    });
  }

  test("[OGD19] a gateway that dies between the commit and the delivery, or between the delivery and the removal: another one delivers", async () => {
    for (const failpoint of ["events:before-send", "events:after-send", "events:after-removal"]) {
      const sink = new RecordingSink();
      const dying = await openTold({ failpoint: (name) => assert.notEqual(name, failpoint) });
      await put(dying, "k", failpoint);
      await assert.rejects(deliveryOf(dying, {}, sink).delivery.pass());
      const other = openFixture({ beside: dying, limits: LIMITS });
      await deliveryOf(other, {}, sink).delivery.pass();
      assert.deepEqual([waiting(dying), sink.out.length], [0, 1]);
    }
  });

  test("two gateways at once, more than a page: each event comes out once, all go", async () => {
    const fixture = await openTold();
    const other = openFixture({ beside: fixture, limits: LIMITS });
    const count = 2 * EVENT_PAGE + 5;
    for (let n = 0; n < count; n += 1) await put(fixture, `k${n}`, "x");
    const sink = new RecordingSink();
    await Promise.all([deliveryOf(fixture, {}, sink).delivery.pass(), deliveryOf(other, {}, sink).delivery.pass()]);
    await deliveryOf(other, {}, sink).delivery.pass();
    assert.deepEqual([sink.out.length, waiting(fixture), await counted(fixture)], [count, 0, [0n, 0n]]);
  });

  test("a target that is away: the events of another target go; a target of another tenant gets nothing", async () => {
    const fixture = await openTold({}, rule({ prefix: "q" }), rule({ prefix: "p", target: "p" }), rule({ prefix: "z", target: "foreign" }));
    for (const key of ["p", "q", "z"]) await put(fixture, key, "x");
    const [away, there] = [new RecordingSink(), new RecordingSink()];
    away.isAway = true;
    const sink = ({ target }: { target: string }) => (target === "p" ? away : target === "q" ? there : undefined);
    const { delivery } = deliveryOf(fixture, { sink });
    assert.equal((await delivery.pass()).kept, 2);
    assert.deepEqual(there.texts, ["ObjectCreated:Put q 1"]);
    away.isAway = false;
    assert.equal((await delivery.pass()).kept, 1);
    assert.deepEqual(away.texts, ["ObjectCreated:Put p 1"]);
  });

  test("in the background: own events at once, those of a gateway that is gone by a scan, and a target that returns", async () => {
    const fixture = await openTold();
    await put(openFixture({ beside: fixture, limits: LIMITS, epoch: 7 }), "left", "x");
    const { delivery, sink } = deliveryOf(fixture);
    sink.isAway = true;
    delivery.start();
    await until(fixture, () => sink.calls >= 2);
    sink.isAway = false;
    await until(fixture, () => sink.out.length === 1);
    await put(fixture, "own", "x");
    await until(fixture, () => waiting(fixture) === 0);
    await delivery.stop();
    assert.deepEqual(sink.texts, ["ObjectCreated:Put left 1", "ObjectCreated:Put own 1"]);
  });
});

/** Turns pass, and with them the time of the hurried clock. */
async function until({ clock }: Fixture, holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 10_000; turn += 1) {
    if (holds()) return;
    await new Promise<void>((resolve) => void clock.setTimer(1, resolve));
  }
  assert.fail("it did not come about");
}

describe("an event that is too old", () => {
  const DAY = 86_400_000;

  for (const overdue of ["keep", "send", "drop"] as const) {
    test(`[OGD20] ${overdue}: visible, and never sent in silence`, async () => {
      const fixture = await openTold();
      await put(fixture, "old", "x");
      const { delivery, sink } = deliveryOf(fixture, { maxAgeMs: DAY, overdue });
      fixture.clock.advance(DAY - 1);
      sink.nextFates("away");
      await delivery.pass();
      fixture.clock.advance(1);
      await put(fixture, "new", "x");
      const report = await delivery.pass();
      const expected = { keep: [1, 0, 1], send: [2, 0, 0], drop: [1, 1, 0] }[overdue];
      assert.deepEqual([report.accepted, report.dropped, report.kept], expected);
      assert.deepEqual([sink.out.length, waiting(fixture)], [overdue === "send" ? 2 : 1, overdue === "keep" ? 1 : 0]);
    });
  }
});

test("events that are too old and stay: each is counted once", async () => {
  const fixture = await openTold();
  const gauges = new Map<string, number>();
  const metrics = { ...fixture.context.metrics, gauge: (name: string, value: number) => void gauges.set(name, value) };
  const { delivery } = deliveryOf({ ...fixture, context: { ...fixture.context, metrics } }, { maxAgeMs: 1000 });
  for (const key of ["a", "b", "c"]) await put(fixture, key, "x");
  fixture.clock.advance(1000);
  await delivery.pass();
  assert.equal(gauges.get("objects_events_overdue"), 3);
});

describe("bounds", () => {
  test("[OGD20] more bytes than may wait: every change that makes an event is refused (OVERLOADED), nothing is left of it; then they go on", async () => {
    const fixture = await openTold({ limits: { eventBytesMax: 200 } }, rule({ prefix: "k" }));
    await put(fixture, "k1", "x");
    await put(fixture, "k2", "x");
    const { store, metadata } = fixture;
    const before = metadata.contents();
    const refused: Readonly<Record<string, () => Promise<unknown>>> = {
      put: () => put(fixture, "k1", "y"),
      "large put": () => put(fixture, "k3", manyBytes(100)),
      delete: () => store.deleteObject({ bucket: "photos", key: "k1" }),
      tags: () => store.setObjectTags({ bucket: "photos", key: "k1", tags: { a: "b" } }),
    };
    for (const [name, act] of Object.entries(refused)) assert.equal(await codeOf(act()), "OVERLOADED", name);
    assert.deepEqual(metadata.contents(), before);
    assert.deepEqual(faultsOf(fixture), []);
    await put(fixture, "other", "y");
    await told(fixture);
    await put(fixture, "k1", "y");
    assert.equal(waiting(fixture), 1);
  });

  test("[OGD20] of all buckets together: as the last scan found them", async () => {
    const fixture = await openTold({ limits: { eventBytesTotalMax: 100 } });
    await put(fixture, "k1", "x");
    const { delivery, sink } = deliveryOf(fixture);
    sink.isAway = true;
    await delivery.pass();
    assert.equal(await codeOf(put(fixture, "k2", "x")), "OVERLOADED");
    sink.isAway = false;
    await delivery.pass();
    await delivery.pass();
    await put(fixture, "k2", "x");
  });
});

test("[OGD20] a bucket that is removed while events wait, and made again by another tenant: they are delivered, then it is forgotten", async () => {
  const fixture = await openTold();
  const { store } = fixture;
  await put(fixture, "k", "x");
  await store.deleteObject({ bucket: "photos", key: "k" });
  await store.deleteBucket("photos");
  fixture.clock.advance(2 * 3_600_000);
  const collector = new GarbageCollector({ context: fixture.context });
  assert.equal((await collector.runOnce()).bucketsForgotten, 0);
  await store.createBucket({ bucket: "photos", tenant: "other", region: "r" });
  await put(fixture, "theirs", "x");
  assert.deepEqual(await told(fixture), ["ObjectCreated:Put k 1", "ObjectRemoved:Delete k"]);
  await store.deleteObject({ bucket: "photos", key: "theirs" });
  await store.deleteBucket("photos");
  assert.equal((await collector.runOnce()).bucketsForgotten, 1);
});

test("[OGD19] ids: two buckets of one name, two commits and two rules: never the same; every try: the same", async () => {
  const fixture = await openTold({}, rule({ id: "a", prefix: "a" }), rule({ id: "b", prefix: "b" }));
  for (const key of ["a", "a", "b"]) await put(fixture, key, "x");
  const { delivery, sink } = deliveryOf(fixture);
  sink.nextFates("lost", "lost");
  for (let pass = 0; pass < 3; pass += 1) await delivery.pass();
  const ids = sink.out.map(({ id }) => id);
  assert.equal(new Set(ids).size, 3);
  for (const id of ids) assert.match(id, /^s3:photos:\d+:[0-9a-f]{32}:[01]$/);
});

test("events: a damaged event: passed over and counted, others go", async () => {
  const fixture = await openTold();
  await put(fixture, "k1", "x");
  await put(fixture, "k2", "x");
  const [first] = fixture.metadata.contents("photos/0").filter(({ key }) => key[0] === 0x28);
  fixture.metadata.unreadable.add(Buffer.from(first!.key).toString("hex"));
  assert.deepEqual(await told(fixture), ["ObjectCreated:Put k2 1"]);
  assert.equal(fixture.counts.get("objects_rows_unreadable_total"), 1);
});
