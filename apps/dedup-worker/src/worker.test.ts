// The whole worker with its real partitions over a log and stores in memory: starts, stops, crashes.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IngestResult } from "@concord/protos-dedup";
import { ConcordError, type ConcordError as Failure } from "@concord/runtime";
import { crc32 } from "node:zlib";
import { GAUGE_INTERVAL_MS } from "./limits.ts";
import { checkLayout, decodeLayout, encodeLayout, LAYOUT_KEY } from "./store/layout.ts";
import { dedupWorkerSchema } from "./index.ts";
import { fails, Folder, settle, WorkerFixture, type FixtureOptions } from "./test/worker-fixture.ts";

const REAL: FixtureOptions = { scripted: false, config: { windowIdsMax: 4096 } };
const statuses = (results: readonly IngestResult[]): string[] => results.map((result) => result.verdict.replace("VERDICT_", ""));
const message = (id: string): object => ({ id, value: Buffer.from(`value of ${id}`) });
const messages = (count: number, name = "m"): object[] => Array.from({ length: count }, (_, at) => message(`${name}${at}`));

async function outputIds(folder: Folder): Promise<string[]> {
  const both = [...(await folder.messages("output", 0)), ...(await folder.messages("output", 1))];
  return both.map(({ value }) => Buffer.from(value!).toString().slice("value of ".length)).sort();
}

test("[DD1] [DD4] worker: copies in one call, in the next and after a restart: each id once in the output", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  const client = fixture.connect();
  assert.deepEqual(statuses(await client.ingest([message("a"), message("b"), message("a")])), ["ACCEPTED", "ACCEPTED", "DUPLICATE"]);
  assert.deepEqual(statuses(await client.ingest([message("b"), message("c")])), ["DUPLICATE", "ACCEPTED"]);
  await fixture.service.stop();
  const again = await new WorkerFixture(REAL, folder.restart()).start();
  assert.deepEqual(statuses(await again.connect().ingest([message("a"), message("c"), message("d")])), [
    "DUPLICATE",
    "DUPLICATE",
    "ACCEPTED",
  ]);
  assert.deepEqual((await again.connect().call("unary", "Seen", { ids: ["a", "d", "e"] })).seen, [true, true, false]);
  await again.service.stop();
  assert.deepEqual(await outputIds(folder), ["a", "b", "c", "d"]);
});

test("[DD9] worker: the stores are gone but the output is there: rebuilt from it before any answer", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  await fixture.connect().ingest(messages(300));
  await fixture.service.stop();
  const bare = new Folder();
  bare.log = folder.log.restart();
  const again = new WorkerFixture(REAL, bare);
  await again.start();
  assert.deepEqual(new Set(statuses(await again.connect().ingest(messages(300)))), new Set(["DUPLICATE"]));
  await again.service.stop();
});

test("[DD10] worker: crashed with messages in the input and others published: none lost, none twice", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  const client = fixture.connect();
  await client.ingest(messages(50));
  await client.ingest(messages(100), { acknowledge: "ACKNOWLEDGE_INPUT" });
  // No stop: the process is gone, another one finds its log and what its stores had.
  const again = await new WorkerFixture(REAL, folder.restart()).start();
  await again.connect().ingest(messages(120));
  assert.deepEqual(
    await outputIds(folder),
    messages(120)
      .map((each) => (each as { id: string }).id)
      .sort(),
  );
  await again.service.stop();
});

test("[DDD5] worker: the outcome of a publish is unknown: opened again, the waiting calls get true results", async () => {
  for (const fault of ["unknown-applied", "unknown-not-applied", "unknown-applied-later"] as const) {
    const folder = new Folder();
    const fixture = await new WorkerFixture(REAL, folder).start();
    folder.log.failNext(0, fault);
    folder.log.failNext(1, fault);
    const answer = fixture.connect().ingest(messages(20));
    await fixture.clock.advance(1_000);
    assert.deepEqual(new Set(statuses(await answer)), new Set(["ACCEPTED"]), fault);
    assert.equal((await outputIds(folder)).length, 20);
    await fixture.service.stop();
  }
});

test("worker: stop with batches in flight: their calls are answered, later ones hear DRAINING, then all is closed", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  const client = fixture.connect();
  await client.ingest(messages(1));
  const inFlight = client.ingest(messages(500));
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  const stopping = fixture.service.stop();
  const late = client.ingest([message("late")]);
  assert.equal((await inFlight).length, 500);
  await late.then(
    () => assert.fail("a message was taken while draining"),
    (error: Failure) => assert.ok(["DRAINING", "CONNECTION_LOST"].includes(error.code) && error.applied === "no", error.code),
  );
  await stopping;
  assert.equal(fixture.service.ready, false);
  assert.equal((await outputIds(folder)).length, 500);
  await assert.rejects(folder.stores.get("meta")!.get(LAYOUT_KEY));
});

test("worker: stopped while it starts: the start gives up, nothing stays open", async () => {
  const folder = new Folder();
  for (const turns of [0, 1, 3, 8]) {
    const fixture = new WorkerFixture(REAL, folder.restart());
    const starting = fixture.start();
    starting.catch(() => undefined);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    await Promise.all([fixture.service.stop(), fixture.service.stop()]);
    for (const [name, store] of folder.stores) await assert.rejects(store.get(LAYOUT_KEY), `${name} is still open`);
    await starting.then(
      () => undefined,
      (error: Failure) => assert.equal(error.code, "DRAINING"),
    );
    assert.equal(fixture.service.ready, false);
  }
});

test("worker: before it serves: STARTING", async () => {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const folder = new Folder();
  const openMessages = (): Promise<Folder["log"]> => held.then(() => folder.log);
  const fixture: WorkerFixture = new WorkerFixture(
    { ...REAL, config: { ...REAL.config, listenAddress: "w:7" }, host: { openMessages } },
    folder,
  );
  const starting = fixture.start();
  await settle();
  fixture.address = "w:7";
  const error = await fails("STARTING", fixture.connect().ingest([message("a")]));
  assert.equal(error.applied, "no");
  release();
  await starting;
  await fixture.service.stop();
});

test("worker: what fails while it opens: the start fails with it, nothing stays open", async () => {
  for (const failing of ["meta", "log", "window"]) {
    const folder = new Folder();
    const broken = new ConcordError("STORE_FAILED", `${failing} is broken`);
    const openKeyValue = (name: string): ReturnType<Folder["open"]> =>
      name.startsWith(failing) ? Promise.reject(broken) : folder.open(name);
    const openMessages = (): Promise<Folder["log"]> => (failing === "log" ? Promise.reject(broken) : Promise.resolve(folder.log));
    const fixture = new WorkerFixture({ ...REAL, host: { openKeyValue, openMessages } }, folder);
    const starting = fixture.start();
    starting.catch(() => undefined);
    await fixture.clock.advance(120_000);
    await fails(failing === "window" ? "PARTITION_STOPPED" : "STORE_FAILED", starting, failing);
    for (const [name, store] of folder.stores) await assert.rejects(store.get(LAYOUT_KEY), `${name} is still open`);
  }
});

test("[DDD3] [OPS22] worker: another number of partitions than the folder has: refuses to start and says what to do", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  await fixture.service.stop();
  folder.restart();
  const other = new WorkerFixture({ ...REAL, config: { ...REAL.config, partitions: 3 } }, folder);
  const error = await fails("SCHEMA_INVALID", other.start());
  assert.match(error.message, /made with 2 partitions.*says 3: set partitions to 2; another number needs new logs too/);
  await assert.rejects(folder.stores.get("meta")!.get(LAYOUT_KEY), "the lock is given back");
});

test("layout: golden: the format of version 1; damaged: CORRUPT_DATA", async () => {
  const folder = new Folder();
  const checksum = (bytes: Uint8Array): number => crc32(bytes);
  const stored = encodeLayout(4, checksum);
  assert.equal(Buffer.from(stored).toString("hex"), "0126291b0500000004");
  assert.equal(decodeLayout(stored, checksum), 4);
  const meta = await folder.open("meta");
  for (const bad of [stored.slice(0, -1), stored.with(8, 5), stored.with(0, 2), new Uint8Array(0)]) {
    await meta.batch([{ kind: "put", key: LAYOUT_KEY, value: bad }], { sync: true });
    await assert.rejects(checkLayout(meta, 4, checksum), { code: "CORRUPT_DATA" });
  }
});

test("[DDD10] config: output kept for less time than the window: refused", () => {
  const parses = (windowMaxAgeMs: number, outputRetentionMs: number): boolean =>
    dedupWorkerSchema.safeParse({ windowMaxAgeMs, outputRetentionMs }).success;
  assert.deepEqual([parses(1_000, 999), parses(1_000, 1_000), parses(1_000, 1_001), parses(0, 2 ** 50)], [false, true, true, false]);
});

test("[DDD10] worker: output removed that the window is not rebuilt without: the metric says so", async () => {
  const folder = new Folder();
  const fixture = await new WorkerFixture(REAL, folder).start();
  await fixture.connect().ingest(messages(100));
  await fixture.clock.advance(GAUGE_INTERVAL_MS);
  assert.deepEqual([fixture.gauges.get("dedup_rebuildable 0"), fixture.gauges.get("dedup_rebuildable 1")], [1, 1]);
  folder.log.trim("output", 1, 10n);
  await fixture.clock.advance(GAUGE_INTERVAL_MS);
  assert.deepEqual([fixture.gauges.get("dedup_rebuildable 0"), fixture.gauges.get("dedup_rebuildable 1")], [1, 0]);
  await fixture.service.stop();
});

test("config: Kafka, ids made here and no source of the ids of other producers: refused, and says what to set", () => {
  const kafka = { log: "kafka", kafkaBrokers: ["k:1"] };
  const refused = dedupWorkerSchema.safeParse(kafka);
  assert.deepEqual(
    refused.error?.issues.map(({ path }) => path),
    [["idSource"]],
  );
  for (const more of [{ idSource: "key" }, { idSource: "header:concord-id" }, { missingId: "pass" }, { missingId: "dead-letter" }])
    assert.ok(dedupWorkerSchema.safeParse({ ...kafka, ...more }).success, JSON.stringify(more));
});

test("config: settings: limits at and beyond, sources of ids", () => {
  const parses = (key: string, value: unknown): boolean => dedupWorkerSchema.safeParse({ [key]: value }).success;
  for (const [key, good, bad] of [
    ["partitions", [1, 256], [0, 257, 1.5]],
    ["windowIdsMax", [256, 256 * 1024 * 1024], [255, 256 * 1024 * 1024 + 1]],
    ["windowMaxAgeMs", [0, 1], [-1]],
    [
      "idSource",
      ["none", "key", "content", "header:x-id", "json:a", "json:a.b.c"],
      ["", "headers:x", "header:", "json:", "json:a..b", "json:a.", "key:x"],
    ],
    ["missingId", ["make", "pass", "hash", "dead-letter"], ["drop"]],
    ["snowflakeWorkerId", [0, 1023], [-1, 1024]],
    ["outputRetentionBytes", [64 * 1024 * 1024], [64 * 1024 * 1024 - 1]],
  ] as const) {
    for (const value of good) assert.ok(parses(key, value), `${key} ${value}`);
    for (const value of bad) assert.ok(!parses(key, value), `${key} ${value}`);
  }
});

test("[OPS10] worker: the disk is full: ingest gets STORAGE_FULL with applied no, reads go on; freed room is used at once", async () => {
  const folder = new Folder();
  folder.disk.files.capacityBytes = 0;
  const fixture = await new WorkerFixture(REAL, folder).start();
  const client = fixture.connect();
  const error = await fails("STORAGE_FULL", client.ingest([message("a")]));
  assert.equal(error.applied, "no");
  assert.deepEqual((await client.call("unary", "Seen", { ids: ["a"] })).seen, [false]);
  folder.disk.files.clearFaults();
  assert.deepEqual(statuses(await client.ingest([message("a")])), ["ACCEPTED"]);
  await fixture.service.stop();
});
