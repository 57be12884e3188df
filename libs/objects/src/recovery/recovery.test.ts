// Recovery by its decision tables (README), one test per row; then zombies, two recoveries at once, crashes inside.
import assert from "node:assert/strict";
import { test } from "node:test";
import { oidOf, parseOid, type Oid } from "@concord/ports";
import { ConcordError, silentMetrics } from "@concord/runtime";
import {
  begin,
  bytes,
  codeOf,
  complete,
  faults,
  get,
  openGateway,
  openWorld,
  part,
  put,
  quiesce,
  remove,
  restart,
  turns,
  type Gateway,
  type World,
} from "../test/gateway.ts";
import { isRecovered, listEpochs, readEpoch } from "../reservation/epoch-row.ts";
import { EPOCH_HEARTBEAT_MS, EPOCH_ROW_ATTEMPTS } from "../reservation/limits.ts";
import { decodeRow, referencesOf } from "../row-codec.ts";
import { garbageKey, headerKey, headKey, SYSTEM_PARTITION } from "../row-keys.ts";
import { recoverEpoch } from "./recover-epoch.ts";
import { DECIDE_ATTEMPTS_MAX, EPOCH_DEAD_AFTER_MS, RECOVERED_EPOCHS_KEPT, RECOVERY_INTERVAL_MS } from "./limits.ts";

const PARTITION = "photos/0";
const A_DAY_MS = 24 * 3600_000;

/** A blob that some upload left, sealed or not. */
async function leave(
  world: World,
  oid: Oid,
  key: string,
  how: "sealed" | "open",
  part?: { uploadId: bigint; number: number },
): Promise<void> {
  const writer = await world.data.create(oid, { bucket: "photos", key, part, guid: 7n });
  await writer.write(new Uint8Array([1, 2, 3]));
  if (how === "sealed") await writer.seal();
}

/** The names of the dead gateway's epoch that no upload took. */
const NAME = 500;

/** A gateway that has died after it took some names, and one of another name that recovers it. */
async function afterDeath(): Promise<{ world: World; dead: Gateway; epoch: number; by: Gateway }> {
  const { world, gateway } = await openWorld();
  const by = await openGateway(world, { instance: "two" });
  return { world, dead: gateway, epoch: gateway.journal.epoch, by };
}

const garbageIn = (world: World, partition: string): readonly Oid[] =>
  world.metadata.contents(partition).flatMap((row) => {
    const decoded = decodeRow(row.value);
    return decoded.kind === "garbage" ? referencesOf(decoded).oids : [];
  });

const headerVersion = async (world: World): Promise<bigint> => (await world.metadata.read(PARTITION, [headerKey()]))[0]!.version.commit;

test("[OGD6] table, no blob: absent, whatever was reserved", async () => {
  const { dead, epoch, by } = await afterDeath();
  dead.kill();
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual(report, { epoch, referenced: 0, collected: 0, absent: 1024, undecided: 0, finished: true });
});

test("[OGD7] table, below the low-water mark: left alone; at and above it: decided", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await put(dead, "below", bytes("x".repeat(100)));
  await world.clock.advance(EPOCH_HEARTBEAT_MS);
  await put(dead, "at", bytes("y".repeat(100)));
  dead.kill();
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual(report, { epoch, referenced: 1, collected: 0, absent: 1022, undecided: 0, finished: true });
});

test("[OGD3] table, no whole description: garbage where it is always found, no fence", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "open");
  dead.kill();
  world.data = world.data.crash(() => "bare");
  const before = await headerVersion(world);
  assert.equal((await recoverEpoch(by.context, epoch)).collected, 1);
  assert.deepEqual(garbageIn(world, SYSTEM_PARTITION), [oidOf(epoch, NAME)]);
  assert.equal(await headerVersion(world), before);
  await quiesce(by);
  assert.deepEqual(world.data.contents(), []);
});

test("[OGD1] table, the head names it: nothing to do; also when its tags changed since, and under any other version", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await put(dead, "k", bytes("v"));
  await dead.store.setObjectTags({ bucket: "photos", key: "k", tags: { t: "1" } });
  dead.kill();
  await by.store.setObjectTags({ bucket: "photos", key: "k", tags: { t: "2" } });
  assert.equal((await recoverEpoch(by.context, epoch)).referenced, 1);
  await quiesce(by);
  assert.equal(await get(by, "k"), bytes("v"));
  assert.deepEqual(garbageIn(world, PARTITION), []);
});

test("[OGD1] table, a part row names it: nothing to do, completed or not: finished parts are never lost [OG15]", async () => {
  const { dead, epoch, by } = await afterDeath();
  const done = await begin(dead, "done");
  await part(dead, "done", done, 1, bytes("1"));
  await complete(dead, "done", done, [{ number: 1, content: bytes("1") }]);
  const open = await begin(dead, "open");
  await part(dead, "open", open, 1, bytes("2"));
  dead.kill();
  assert.equal((await recoverEpoch(by.context, epoch)).referenced, 2);
  await quiesce(by);
  assert.equal(await get(by, "done"), bytes("1"));
  await complete(by, "open", open, [{ number: 1, content: bytes("2") }]);
  assert.equal(await get(by, "open"), bytes("2"));
});

test("table, a GC entry names it: nothing is written", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  const first = put(dead, "first", bytes("0"));
  await put(dead, "k", bytes("1"));
  await first;
  await put(dead, "k", bytes("2"));
  await remove(dead, "k");
  dead.kill();
  const rows = world.metadata.contents(PARTITION);
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual([report.referenced, report.collected], [1, 2]);
  assert.deepEqual(world.metadata.contents(PARTITION), rows);
});

for (const how of ["sealed", "open"] as const) {
  test(`[OG4] table, nothing names it, ${how}: fence and garbage in one commit`, async () => {
    const { world, dead, epoch, by } = await afterDeath();
    await put(dead, "k", bytes("kept"));
    await leave(world, oidOf(epoch, NAME), "k", how);
    dead.kill();
    const before = await headerVersion(world);
    const commits: string[] = [];
    world.metadata.fate = ({ partition, writes }) => {
      commits.push(
        `${partition}: ${writes.map((write) => (write.kind === "put" ? decodeRow(write.row.value).kind : write.kind)).join("+")}`,
      );
      return "answered";
    };
    const report = await recoverEpoch(by.context, epoch);
    assert.deepEqual([report.referenced, report.collected, report.absent], [1, 1, 1022]);
    assert.deepEqual(commits, [": epoch", `${PARTITION}: garbage+header`, ": epoch"]);
    assert.ok((await headerVersion(world)) > before);
    await quiesce(by);
    assert.equal(world.data.contents().length, 1);
    assert.equal(await get(by, "k"), bytes("kept"));
  });
}

test("[OG8, OG16] table, an older or newer row is there: it names another blob: garbage, the row stays", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed", { uploadId: 9n, number: 1 });
  await leave(world, oidOf(epoch, NAME + 1), "k", "sealed");
  dead.kill();
  await put(by, "k", bytes("newer"));
  assert.equal((await recoverEpoch(by.context, epoch)).collected, 2);
  await quiesce(by);
  assert.equal(await get(by, "k"), bytes("newer"));
  assert.deepEqual(await faults(by), []);
});

test("table, the bucket is gone, or closed: garbage in the system partition, no fence", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed");
  dead.kill();
  await by.store.deleteBucket("photos");
  assert.equal((await recoverEpoch(by.context, epoch)).collected, 1);
  assert.deepEqual(garbageIn(world, SYSTEM_PARTITION), [oidOf(epoch, NAME)]);
  const report = await by.collector.runAhead(2 * A_DAY_MS);
  assert.deepEqual([report.blobs, report.bucketsForgotten], [1, 1]);
  await by.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  assert.deepEqual(await faults(by), []);
});

test("table, a row changes between read and commit: read again, and decided by what is there then", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed");
  dead.kill();
  let changed = 0;
  world.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition !== PARTITION || changed > 0) return;
    changed += 1;
    await put(by, "k", "small");
  };
  assert.equal((await recoverEpoch(by.context, epoch)).collected, 1);
  assert.equal(changed, 1);
  assert.equal(await get(by, "k"), "small");
});

for (const fate of ["applied", "lost", "late"] as const) {
  test(`table, the answer is lost (${fate}): looked at again; garbage once, and the epoch is done`, async () => {
    const { world, dead, epoch, by } = await afterDeath();
    await leave(world, oidOf(epoch, NAME), "k", "sealed");
    dead.kill();
    let times = 0;
    world.metadata.fate = ({ partition }) => (partition === PARTITION && (times += 1) <= 2 ? fate : "answered");
    const report = await recoverEpoch(by.context, epoch);
    assert.deepEqual([report.collected, report.undecided, report.finished], [1, 0, true]);
    world.metadata.applyLate();
    await quiesce(by);
    assert.deepEqual(world.data.contents(), []);
    assert.deepEqual(await faults(by), []);
  });
}

test("table, the answer stays lost: undecided; the epoch stays for the next run, and nothing was removed", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed");
  dead.kill();
  let times = 0;
  world.metadata.fate = ({ partition }) => {
    if (partition !== PARTITION) return "answered";
    times += 1;
    return "lost";
  };
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual([report.undecided, report.finished, times], [1, false, DECIDE_ATTEMPTS_MAX]);
  world.metadata.nextFates();
  assert.deepEqual(
    (await by.recovery.runOnce()).epochs.map(({ collected, finished }) => [collected, finished]),
    [[1, true]],
  );
});

test("table, the row cannot be read: undecided, reported, the blob stays; others of its partition are decided", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed");
  dead.kill();
  const version = { commit: 1n, guid: 1n };
  await world.metadata.commit({
    partition: PARTITION,
    conditions: [],
    writes: [{ kind: "put", row: { key: headKey("k"), version, value: new Uint8Array([250, 1, 2]) } }],
  });
  await leave(world, oidOf(epoch, NAME + 1), "another", "sealed");
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual([report.undecided, report.collected, report.finished], [1, 1, false]);
  assert.equal(world.data.contents().length, 2);
});

test("table, a GC entry cannot be read: blobs are decided all the same", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  await leave(world, oidOf(epoch, NAME), "k", "sealed");
  dead.kill();
  const row = { key: garbageKey(1, 1n), version: { commit: 1n, guid: 1n }, value: new Uint8Array([250, 1, 2]) };
  for (const partition of [PARTITION, SYSTEM_PARTITION])
    await world.metadata.commit({ partition, conditions: [], writes: [{ kind: "put", row }] });
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual([report.undecided, report.collected, report.finished], [0, 1, true]);
});

test("table, a damaged blob: undecided, reported, it stays; the others of its epoch and other epochs are recovered", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  const later = await openGateway(world, { instance: "three" });
  const damaged = oidOf(epoch, NAME);
  await leave(world, damaged, "k", "sealed");
  await leave(world, oidOf(epoch, NAME + 1), "k", "sealed");
  await leave(world, oidOf(later.journal.epoch, NAME), "k", "sealed");
  dead.kill();
  later.kill();
  const inspect = world.data.inspect.bind(world.data);
  world.data.inspect = (oid) => (oid === damaged ? Promise.reject(new ConcordError("CORRUPT_DATA", "its header")) : inspect(oid));
  const { epochs } = await by.recovery.recoverAll();
  assert.deepEqual(
    epochs.map(({ collected, undecided, finished }) => [collected, undecided, finished]),
    [
      [1, 1, false],
      [1, 0, true],
    ],
  );
  assert.ok(world.data.contents().some(({ oid }) => oid === damaged));
});

test("epochs: the data of one cannot be listed: the others are recovered, and the run says that something is left", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  const later = await openGateway(world, { instance: "three" });
  await leave(world, oidOf(later.journal.epoch, NAME), "k", "sealed");
  dead.kill();
  later.kill();
  world.data.before = (operation, name) => {
    if (operation === "list" && name === epoch) throw new ConcordError("STORE_FAILED", "no answer", { applied: "no" });
  };
  assert.equal(await codeOf(by.recovery.recoverAll()), "STORE_FAILED");
  assert.equal(isRecovered((await readEpoch(world.metadata, later.journal.epoch))!.row), true);
  assert.equal(isRecovered((await readEpoch(world.metadata, epoch))!.row), false);
});

test("epochs table: own: left alone; recovered: left alone; older of the same name and closed ones: at once", async () => {
  const { world, gateway: first } = await openWorld();
  const second = await restart(first);
  assert.deepEqual(
    (await second.recovery.runOnce()).epochs.map(({ epoch }) => epoch),
    [first.journal.epoch],
  );
  assert.deepEqual((await second.recovery.runOnce()).epochs, [], "it is recovered, and the own one stays open");
  const third = await openGateway(world, { instance: "two" });
  second.kill();
  const held = (await readEpoch(world.metadata, second.journal.epoch))!;
  assert.equal(held.row.closed, false);
  assert.deepEqual((await third.recovery.runOnce()).epochs, [], "another's, maybe alive");
});

test("epochs table: one of its own name above the current one: left alone, it may be being acquired", async () => {
  const { world, gateway } = await openWorld();
  const newer = await openGateway(world);
  assert.deepEqual((await gateway.recovery.runOnce()).epochs, []);
  assert.deepEqual(
    (await newer.recovery.runOnce()).epochs.map(({ epoch }) => epoch),
    [gateway.journal.epoch],
  );
});

test("epochs: many restarts: rows of recovered ones go, below and at the number that is kept none, and no number comes twice", async () => {
  const { world, gateway } = await openWorld();
  let last = gateway;
  const seen = new Set([last.journal.epoch]);
  for (let at = 0; at < RECOVERED_EPOCHS_KEPT + 5; at += 1) {
    await last.journal.stop();
    last = await restart(last);
    assert.ok(!seen.has(last.journal.epoch));
    seen.add(last.journal.epoch);
    await last.recovery.runOnce();
    assert.equal((await listEpochs(world.metadata)).length, Math.min(at + 2, RECOVERED_EPOCHS_KEPT + 1));
  }
});

test("epochs: what the data store keeps: released below the lowest epoch that is not recovered, at each run; a refusal ends no run", async () => {
  const { world, gateway } = await openWorld();
  const released: number[] = [];
  const releaseEpochs = world.data.releaseEpochs.bind(world.data);
  world.data.releaseEpochs = async (below) => {
    released.push(below);
    await releaseEpochs(below);
    if (released.length === 2) throw new ConcordError("STORE_FAILED", "EIO");
  };
  const other = await openGateway(world, { instance: "two" });
  await gateway.recovery.runOnce();
  gateway.kill();
  const third = await openGateway(world, { instance: "three" });
  await third.recovery.runOnce();
  await other.recovery.recoverAll();
  const [first, second] = [gateway.journal.epoch, other.journal.epoch];
  assert.deepEqual(released, [first, first, second]);
  await assert.rejects(world.data.create(oidOf(first, 900), { bucket: "b", key: "k", part: undefined, guid: 1n }), {
    code: "EPOCH_FENCED",
  });
});

test("[OGD3] epochs table: another's: left alone while its row changes, taken for dead when it does not", async () => {
  const { world, gateway } = await openWorld();
  const other = await openGateway(world, { instance: "two" });
  const runs = async (): Promise<number> => (await other.recovery.runOnce()).epochs.length;
  assert.equal(await runs(), 0);
  await world.clock.advance(EPOCH_DEAD_AFTER_MS);
  assert.equal(await runs(), 0, "it writes its row every ten seconds");
  gateway.kill();
  await world.clock.advance(EPOCH_DEAD_AFTER_MS - 1000);
  assert.equal(await runs(), 0);
  await world.clock.advance(1000);
  assert.equal(await runs(), 1);
});

test("[OGD3] epochs table: another's, gone by the verdict of a majority: recovered at once, by the one that is to; if it lives it is fenced", async () => {
  const { world, gateway } = await openWorld();
  const gone: { sinceMs?: number } = {};
  const other = await openGateway(world, { instance: "two", goneSinceMs: (name) => (name === "one" ? gone.sinceMs : undefined) });
  await put(gateway, "k", bytes("v"));
  assert.deepEqual((await other.recovery.runOnce()).epochs, [], "it works");
  gone.sinceMs = world.clock.monotonicMs();
  const [report] = (await other.recovery.runOnce()).epochs;
  assert.deepEqual([report!.epoch, report!.referenced, report!.finished], [1, 1, true]);
  await put(gateway, "k", bytes("w"));
  assert.notEqual(gateway.journal.epoch, 1, "the living one goes on under another epoch");
  assert.equal(await get(other, "k"), bytes("w"));
});

test("[OGD13] recovery: a verdict that ends while its epoch is recovered: the time of the takeover is reported all the same", async () => {
  const { world, gateway } = await openWorld();
  const gone: { sinceMs?: number | undefined } = { sinceMs: undefined };
  const seconds: number[] = [];
  const metrics = {
    ...silentMetrics,
    observe: (name: string, value: number) => void (name === "objects_takeover_seconds" && seconds.push(value)),
  };
  const other = await openGateway(world, { instance: "two", metrics, goneSinceMs: () => gone.sinceMs });
  await put(gateway, "k", bytes("v"));
  gateway.kill();
  gone.sinceMs = world.clock.monotonicMs();
  world.data.before = () => void (gone.sinceMs = undefined);
  assert.equal((await other.recovery.runOnce()).epochs.length, 1);
  assert.equal(gone.sinceMs, undefined, "the verdict ended");
  assert.deepEqual(seconds.length, 1);
});

test("[OGD13] recovery: a verdict wakes it between two runs; a run that fails is repeated soon, not at the next interval", async () => {
  const { world, gateway } = await openWorld();
  const gone: { sinceMs?: number } = {};
  const other = await openGateway(world, { instance: "two", goneSinceMs: () => gone.sinceMs });
  other.recovery.start();
  await turns(50);
  assert.equal(other.recovery.totals.runs, 1);
  gateway.kill();
  gone.sinceMs = world.clock.monotonicMs();
  // All answers of the first run are lost. The clock of these tests lets pauses below the interval pass.
  let commits = 0;
  world.metadata.fate = () => ((commits += 1) <= EPOCH_ROW_ATTEMPTS ? "lost" : "answered");
  other.recovery.wake();
  await turns(200);
  assert.ok(commits > EPOCH_ROW_ATTEMPTS);
  assert.ok(world.clock.monotonicMs() - gone.sinceMs < RECOVERY_INTERVAL_MS);
  assert.deepEqual([other.recovery.totals.runs, other.recovery.totals.epochs], [2, 1]);
  await other.recovery.stop();
});

test("epochs table: another's without reservation: only its own journal knows it", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction" });
  const other = await openGateway(world, { instance: "two" });
  gateway.kill();
  await other.recovery.runOnce();
  await world.clock.advance(2 * EPOCH_DEAD_AFTER_MS);
  assert.deepEqual((await other.recovery.runOnce()).epochs, []);
});

/** Holds the commits to the bucket's partition that this call makes first. */
function holdCommit(world: World): { readonly arrived: Promise<void>; readonly release: () => void } {
  const arrived = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let armed = true;
  world.metadata.before = async (operation, partition) => {
    if (!armed || operation !== "commit" || partition !== PARTITION) return;
    armed = false;
    arrived.resolve();
    await gate.promise;
  };
  return { arrived: arrived.promise, release: gate.resolve };
}

test("[OGD3] zombie: paused before its commit, recovered and collected by another, wakes: refused, nothing dangles, and it goes on", async () => {
  const { world, dead: paused, by } = await afterDeath();
  await put(paused, "k", bytes("old"));
  const { arrived, release } = holdCommit(world);
  const zombie = codeOf(put(paused, "k", bytes("zombie")));
  await arrived;
  await quiesce(by);
  assert.equal(world.data.contents().length, 1, "its blob is gone");
  release();
  assert.equal(await zombie, "EPOCH_FENCED");
  assert.equal(await get(by, "k"), bytes("old"));
  await put(paused, "k", bytes("again"));
  assert.equal(await get(by, "k"), bytes("again"));
  assert.deepEqual(await faults(by), []);
  assert.equal((await listEpochs(world.metadata)).length, 3, "it has a new epoch");
});

test("[OGD3] zombie: a part: refused the same way, and the upload goes on", async () => {
  const { world, dead: paused, by } = await afterDeath();
  const uploadId = await begin(paused, "k");
  const { arrived, release } = holdCommit(world);
  const zombie = codeOf(part(paused, "k", uploadId, 1, bytes("zombie")));
  await arrived;
  await quiesce(by);
  release();
  assert.equal(await zombie, "EPOCH_FENCED");
  await part(paused, "k", uploadId, 1, bytes("again"));
  await complete(by, "k", uploadId, [{ number: 1, content: bytes("again") }]);
  assert.deepEqual(await faults(by), []);
});

test("[OGD3] zombie: wakes while its epoch is being recovered, before the row is read: it is referenced, and stays", async () => {
  const { world, dead: paused, epoch, by } = await afterDeath();
  const { arrived, release } = holdCommit(world);
  const zombie = put(paused, "k", bytes("zombie"));
  await arrived;
  const listing = Promise.withResolvers<void>();
  world.data.before = async (operation) => {
    if (operation !== "inspect") return;
    release();
    await zombie.catch(() => undefined);
    listing.resolve();
  };
  const report = await recoverEpoch(by.context, epoch);
  await listing.promise;
  assert.equal(report.referenced, 1);
  await quiesce(by);
  assert.equal(await get(by, "k"), bytes("zombie"));
});

test("[OGD3] zombie: wakes after the row was read, before it is fenced: it is referenced, stays, and was never garbage", async () => {
  const { world, dead: paused, epoch, by } = await afterDeath();
  const { arrived, release } = holdCommit(world);
  const zombie = codeOf(put(paused, "k", bytes("zombie")));
  await arrived;
  let woken = false;
  world.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition !== PARTITION || woken) return;
    woken = true;
    release();
    assert.equal(await zombie, "done");
  };
  const report = await recoverEpoch(by.context, epoch);
  assert.deepEqual([woken, report.referenced, report.collected], [true, 1, 0]);
  assert.deepEqual(garbageIn(world, PARTITION), []);
  assert.equal(await get(by, "k"), bytes("zombie"));
});

test("[OGD3] zombie: writing data while its epoch is closed: the blob is garbage, the upload refused", async () => {
  const { world, dead: paused, epoch, by } = await afterDeath();
  const gate = Promise.withResolvers<void>();
  const writing = Promise.withResolvers<void>();
  world.data.before = async (operation) => {
    if (operation !== "write") return;
    writing.resolve();
    await gate.promise;
  };
  const zombie = codeOf(put(paused, "k", bytes("zombie")));
  await writing.promise;
  assert.equal((await recoverEpoch(by.context, epoch)).collected, 1);
  gate.resolve();
  assert.equal(await zombie, "EPOCH_FENCED");
  await quiesce(by);
  assert.deepEqual(world.data.contents(), []);
});

test("[OGD3] zombie: creates its blob after the recovery of its epoch: refused by the data store; it goes on under another name", async () => {
  const { world, dead: paused, epoch, by } = await afterDeath();
  const gate = Promise.withResolvers<void>();
  const creating = Promise.withResolvers<void>();
  world.data.before = async (operation) => {
    if (operation !== "create") return;
    creating.resolve();
    await gate.promise;
  };
  const zombie = put(paused, "k", bytes("late"));
  await creating.promise;
  assert.deepEqual((await recoverEpoch(by.context, epoch)).finished, true);
  gate.resolve();
  await zombie;
  assert.deepEqual(
    world.data.contents().map(({ oid }) => parseOid(oid).epoch),
    [paused.journal.epoch],
  );
  assert.notEqual(paused.journal.epoch, epoch);
  assert.deepEqual(await faults(by), []);
});

test("[OG9] two gateways recover the same epoch at once while others write: the same result as one", async () => {
  const { world, dead, epoch, by } = await afterDeath();
  const third = await openGateway(world, { instance: "three" });
  await put(dead, "kept", bytes("kept"));
  for (let at = 0; at < 250; at += 1) await leave(world, oidOf(epoch, NAME + at), `k${at % 7}`, "sealed");
  dead.kill();
  const writes = Array.from({ length: 20 }, (_, at) => put(third, `k${at % 7}`, bytes(`v${at}`)));
  const reports = await Promise.all([recoverEpoch(by.context, epoch), recoverEpoch(third.context, epoch)]);
  await Promise.all(writes);
  for (const report of reports) assert.deepEqual([report.undecided, report.finished], [0, true]);
  await by.collector.runAhead(A_DAY_MS);
  assert.equal(world.data.contents().length, 8);
  assert.deepEqual(await faults(by), []);
});

const RECOVERY_POINTS = [
  "recovery:after-close-row",
  "recovery:after-close-epoch",
  "recovery:before-garbage",
  "recovery:after-garbage",
  "recovery:after-page",
  "recovery:after-mark",
];

for (const point of RECOVERY_POINTS) {
  test(`[OG18] recovery dies at ${point}: run again: the same result`, async () => {
    const { world, dead, epoch } = await afterDeath();
    await put(dead, "kept", bytes("kept"));
    for (let at = 0; at < 150; at += 1) await leave(world, oidOf(epoch, NAME + at), "k", at % 2 === 0 ? "sealed" : "open");
    dead.kill();
    const dying = await openGateway(world, { failpoint: (name, { die }) => (name === point ? die() : undefined) });
    await Promise.race([dying.recovery.runOnce().catch(() => undefined), dying.killed]);
    assert.ok(dying.isDead(), "the point is on the way");
    const next = await restart(dying);
    await quiesce(next);
    assert.deepEqual(
      world.data.contents().map(({ oid }) => parseOid(oid).sequence < NAME),
      [true],
    );
    assert.equal(await get(next, "kept"), bytes("kept"));
    assert.ok((await listEpochs(world.metadata)).every(({ row }) => isRecovered(row) || next.journal.isOwn(row.epoch)));
  });
}
