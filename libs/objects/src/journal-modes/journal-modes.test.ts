// The journal's modes: records, checkpoints, what each mode writes, and what recovery makes of it after a crash.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { openJournal, type Journal } from "@concord/journal";
import { MemoryDisk } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, toHex } from "@concord/runtime";
import {
  bytes,
  codeOf,
  faults,
  get,
  openGateway,
  openWorld,
  put,
  quiesce,
  remove,
  restart,
  turns,
  type Gateway,
  World,
} from "../test/gateway.ts";
import type { JournalMode } from "../upload-journal.ts";
import { openUploadJournal } from "./open-upload-journal.ts";
import { TRANSACTIONS_BYTES_MAX, TRANSACTIONS_UNRESOLVED_MAX } from "./limits.ts";
import { decodeCheckpoint, decodeRecord, encodeCheckpoint, encodeRecord, type BegunUpload, type UploadRecord } from "./records.ts";
import { scanJournal, UnresolvedTransactions } from "./unresolved.ts";

const description = { bucket: "b", key: "k", part: undefined, guid: 5n };
const upload = (sequence: number): BegunUpload => ({ kind: "begun", oid: oidOf(1, sequence), description, form: { kind: "optimised" } });

const RECORDS: readonly (readonly [UploadRecord, string])[] = [
  [{ kind: "reserved", epoch: 2, block: { from: 1024, to: 2048 } }, "0101000000020000000000000400" + "0000000000000800"],
  [upload(3), "0102" + "00000001" + "0000000000000003" + "0162" + "016b" + "0000000000000005" + "00" + "00"],
  [
    {
      kind: "begun",
      oid: oidOf(1, 3),
      description: { ...description, part: { uploadId: 9n, number: 7 } },
      form: { kind: "basic", old: { version: { commit: 1n, guid: 2n }, value: new Uint8Array([8]) } },
    },
    "0102" +
      "00000001" +
      "0000000000000003" +
      "0162" +
      "016b" +
      "0000000000000005" +
      "01" +
      "0000000000000009" +
      "00000007" +
      "02" +
      "0000000000000001" +
      "0000000000000002" +
      "0108",
  ],
  [
    { kind: "begun", oid: oidOf(1, 3), description, form: { kind: "basic", old: undefined } },
    "0102" + "00000001" + "0000000000000003" + "0162" + "016b" + "0000000000000005" + "00" + "01",
  ],
  [{ kind: "committed", oid: oidOf(1, 3) }, "0103000000010000000000000003"],
  [{ kind: "aborted", oid: oidOf(1, 3) }, "0104000000010000000000000003"],
  [
    { kind: "deleting", bucket: "b", key: "k", guid: 5n, version: { commit: 1n, guid: 2n } },
    "0105" + "0162" + "016b" + "0000000000000005" + "0000000000000001" + "0000000000000002",
  ],
  [
    { kind: "deleting", bucket: "b", key: "k", guid: 5n, version: { commit: 1n, guid: 2n }, versionId: "null" },
    "0107" + "0162" + "016b" + "0000000000000005" + "0000000000000001" + "0000000000000002" + "046e756c6c",
  ],
  [{ kind: "deleted", guid: 5n }, "01060000000000000005"],
];

test("records: golden bytes of version 1, read back", () => {
  for (const [record, golden] of RECORDS) {
    assert.equal(toHex(encodeRecord(record)), golden);
    assert.deepEqual(decodeRecord(encodeRecord(record)), record);
  }
  const checkpoint = { reserved: [], uploads: [upload(3)], deletes: [] };
  assert.equal(toHex(encodeCheckpoint(checkpoint)), "0101" + RECORDS[1]![1].slice(2));
  assert.deepEqual(decodeCheckpoint(encodeCheckpoint(checkpoint)), checkpoint);
});

test("records: of another version, of another kind, cut, longer: CORRUPT_DATA", () => {
  for (const [record] of RECORDS) {
    const whole = encodeRecord(record);
    const broken = [whole.with(0, 2), whole.with(1, 99), whole.subarray(0, -1), new Uint8Array([...whole, 0])];
    for (const one of broken)
      assert.throws(
        () => decodeRecord(one),
        (error) => error instanceof ConcordError && error.code === "CORRUPT_DATA",
      );
  }
});

async function newJournal(disk = new MemoryDisk()): Promise<Journal> {
  const random = { bytes: (length: number) => new Uint8Array(length).fill(3), below: () => 0, float: () => 0 };
  return (await openJournal({ disk, folder: "journal", checksum: crc32, random })).journal;
}

test("[OG8] scan: backwards to the newest checkpoint, and its list; what ended is left out", async () => {
  const journal = await newJournal();
  const append = (record: UploadRecord): Promise<bigint> => journal.append(encodeRecord(record));
  await append(upload(1));
  await journal.checkpoint(() => encodeCheckpoint({ reserved: [], uploads: [upload(1), upload(2)], deletes: [] }));
  await append(upload(2));
  await journal.checkpoint(() => encodeCheckpoint({ reserved: [], uploads: [upload(3), upload(4)], deletes: [] }));
  await append(upload(5));
  await append({ kind: "aborted", oid: oidOf(1, 4) });
  await append(upload(6));
  await append({ kind: "committed", oid: oidOf(1, 6) });
  const left = await scanJournal(journal);
  assert.deepEqual(left.uploads.map(({ oid }) => oid).sort(), [oidOf(1, 3), oidOf(1, 5)]);
});

test("[OGD7] property: starts, ends and checkpoints in any order and at once: after a power cut every unresolved one is found", async () => {
  const action = fc.record({ kind: fc.constantFrom("begin", "resolve", "checkpoint"), wait: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 40, size: "max" }), async (actions) => {
      const disk = new MemoryDisk();
      const journal = await newJournal(disk);
      const transactions = new UnresolvedTransactions();
      const durable = new Set<number>();
      const resolved = new Set<number>();
      let next = 0;
      for (const { kind, wait } of actions) {
        let done: Promise<unknown>;
        if (kind === "begin") {
          const sequence = (next += 1);
          done = journal.append(transactions.add(upload(sequence))).then(() => durable.add(sequence));
        } else if (kind === "resolve") {
          const [sequence] = [...durable].filter((one) => !resolved.has(one));
          if (sequence === undefined) continue;
          resolved.add(sequence);
          transactions.resolveUpload(oidOf(1, sequence));
          done = journal.append(encodeRecord({ kind: "aborted", oid: oidOf(1, sequence) }));
        } else {
          done = journal.checkpoint(() => encodeCheckpoint(transactions.snapshot())).then((sequence) => journal.trim(sequence));
        }
        done.catch(() => undefined);
        if (wait) await done;
      }
      disk.crash();
      const open = [...durable].filter((one) => !resolved.has(one));
      const found = new Set((await scanJournal(await newJournal(disk))).uploads.map(({ oid }) => oid));
      for (const sequence of open) assert.ok(found.has(oidOf(1, sequence)), `${sequence} is found`);
    }),
    { numRuns: 100 },
  );
});

/** Opens a gateway that dies at the point, runs `act` in it, and opens the next one. */
async function dieAt(
  mode: JournalMode,
  point: string,
  prepare: (gateway: Gateway) => Promise<unknown>,
  act: (gateway: Gateway) => Promise<unknown>,
) {
  let armed = false;
  const { world, gateway } = await openWorld({ mode, failpoint: (name, { die }) => (armed && name === point ? die() : undefined) });
  await prepare(gateway);
  armed = true;
  await Promise.race([act(gateway).catch(() => undefined), gateway.killed]);
  assert.ok(gateway.isDead(), `${point} is on the way`);
  world.diskOf("one").crash();
  const next = await restart(gateway, { mode });
  return { world, next };
}

const PUT_POINTS = [
  "object:after-begin-record",
  "object:before-create",
  "object:after-create",
  "object:after-first-write",
  "object:before-seal",
  "object:after-seal",
];

for (const mode of ["per-transaction", "per-transaction-basic"] as const) {
  for (const point of PUT_POINTS) {
    test(`[OG7] ${mode}: dies at ${point}: the blob is collected, the old object stays`, async () => {
      const prepare = (gateway: Gateway): Promise<unknown> => put(gateway, "k", bytes("old"));
      const { world, next } = await dieAt(mode, point, prepare, (gateway) => put(gateway, "k", bytes("new")));
      const report = await next.recovery.runOnce();
      assert.equal(report.transactions!.undecided, 0);
      await quiesce(next);
      assert.equal(await get(next, "k"), bytes("old"));
      assert.equal(world.data.contents().length, 1);
      assert.deepEqual(await faults(next), []);
      assert.equal((await restart(next, { mode })).journal.left.uploads.length <= 1, true, "what was recovered is not left again");
    });
  }
}

test("[OG7] per-transaction: dies after the commit: referenced, so it stays: no commit record is needed", async () => {
  const { next } = await dieAt(
    "per-transaction",
    "object:after-commit",
    async () => undefined,
    (gateway) => put(gateway, "k", bytes("new")),
  );
  assert.deepEqual((await next.recovery.runOnce()).transactions, {
    referenced: 1,
    collected: 0,
    absent: 0,
    restored: 0,
    deletesRedone: 0,
    undecided: 0,
  });
  assert.equal(await get(next, "k"), bytes("new"));
});

for (const [old, restored] of [
  [undefined, true],
  ["small", true],
  [bytes("large"), false],
] as const) {
  test(`[OG19] basic: dies between row and commit record over ${old?.trim() ?? "nothing"}: ${restored ? "the old row is back" : "it stays, since the old blob is garbage"}`, async () => {
    const prepare = async (gateway: Gateway): Promise<unknown> => (old === undefined ? undefined : await put(gateway, "k", old));
    const { next } = await dieAt("per-transaction-basic", "object:after-commit", prepare, (gateway) => put(gateway, "k", bytes("new")));
    const report = (await next.recovery.runOnce()).transactions!;
    assert.deepEqual([report.restored, report.undecided], [restored ? 1 : 0, 0]);
    assert.equal(await get(next, "k"), restored ? old : bytes("new"));
    const usage = await next.store.bucketUsage("photos");
    const size = (restored ? old : bytes("new"))?.length ?? 0;
    assert.deepEqual(usage, { objects: size === 0 ? 0n : 1n, bytes: BigInt(size) });
    await quiesce(next);
    assert.deepEqual(await faults(next), []);
  });
}

test("[OG6] basic: the commit record is durable before the answer: after a power cut the object stays", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction-basic" });
  await put(gateway, "k", "small");
  await put(gateway, "k", bytes("new"));
  gateway.kill();
  world.diskOf("one").crash();
  const next = await restart(gateway, { mode: "per-transaction-basic" });
  assert.deepEqual(next.journal.left.uploads, []);
  await quiesce(next);
  assert.equal(await get(next, "k"), bytes("new"));
});

test("[OG6] basic: the commit record cannot be written: answered as unknown, and the object is whole or gone", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction-basic" });
  world.metadata.before = (operation, partition) => {
    if (operation === "commit" && partition !== "") world.diskOf("one").files.failNextSync();
  };
  assert.equal(await codeOf(put(gateway, "k", bytes("v"))), "OUTCOME_UNKNOWN");
  world.metadata.before = () => undefined;
  world.diskOf("one").crash();
  const next = await restart(gateway, { mode: "per-transaction-basic" });
  await quiesce(next);
  assert.ok([undefined, bytes("v")].includes(await get(next, "k")));
  assert.deepEqual(await faults(next), []);
});

test("[OG19] basic: another request wrote the row since: left as it is", async () => {
  const { world, next } = await dieAt(
    "per-transaction-basic",
    "object:after-commit",
    async () => undefined,
    (gateway) => put(gateway, "k", bytes("new")),
  );
  const other = await openGateway(world, { instance: "two" });
  await other.store.setObjectTags({ bucket: "photos", key: "k", tags: { seen: "1" } });
  assert.equal((await next.recovery.runOnce()).transactions!.restored, 0);
  assert.equal(await get(next, "k"), bytes("new"));
});

for (const mode of ["per-transaction", "reservation"] as const) {
  test(`[OG11] ${mode}: dies before the delete's commit: ${mode === "reservation" ? "nothing happened" : "it is redone"}`, async () => {
    const { world, next } = await dieAt(
      mode,
      "object:before-delete",
      (gateway) => put(gateway, "k", bytes("v")),
      (gateway) => remove(gateway, "k"),
    );
    const report = await next.recovery.runOnce();
    assert.equal(await get(next, "k"), mode === "reservation" ? bytes("v") : undefined);
    assert.equal(report.transactions?.deletesRedone, mode === "reservation" ? undefined : 1);
    await quiesce(next);
    assert.equal(world.data.contents().length, mode === "reservation" ? 1 : 0);
    assert.deepEqual((await next.store.bucketUsage("photos")).objects, mode === "reservation" ? 1n : 0n);
  });
}

const enable = (gateway: Gateway): Promise<void> => gateway.store.setBucketVersioning("photos", "enabled");
const removeVersion = (gateway: Gateway, versionId: string | undefined): Promise<unknown> =>
  gateway.store.deleteObject({ bucket: "photos", key: "k", versionId });
const versionsOf = async (gateway: Gateway): Promise<readonly (string | undefined)[]> => {
  const page = { bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 100 };
  return (await gateway.store.listVersions(page)).versions.map(({ versionId, isLatest }) => (isLatest ? `${versionId} latest` : versionId));
};

/** Versions oldest first: the null one, two more, a delete marker; and which of them goes. */
const REMOVED = { "the null version": 0, "an earlier version": 1, "a delete marker that is current": 3 } as const;

for (const mode of ["per-transaction", "per-transaction-basic", "reservation"] as const) {
  for (const [what, at] of Object.entries(REMOVED)) {
    test(`[OG11] ${mode}: dies before the commit that removes ${what}: ${mode === "reservation" ? "it stays" : "that one goes"}`, async () => {
      const ids: (string | undefined)[] = ["null"];
      const prepare = async (gateway: Gateway): Promise<void> => {
        await put(gateway, "k", bytes("null"));
        await enable(gateway);
        for (const content of ["one", "two"]) ids.push((await put(gateway, "k", bytes(content))).versionId);
        ids.push((await remove(gateway, "k")).versionId);
      };
      const { world, next } = await dieAt(mode, "object:before-delete", prepare, (gateway) => removeVersion(gateway, ids[at]));
      const report = await next.recovery.runOnce();
      const redone = mode === "reservation" ? 0 : 1;
      assert.equal(report.transactions?.deletesRedone ?? 0, redone);
      const left = ids.filter((_, each) => redone === 0 || each !== at).toReversed();
      assert.deepEqual(await versionsOf(next), [`${left[0]} latest`, ...left.slice(1)]);
      await quiesce(next);
      assert.deepEqual(await faults(next), []);
      assert.equal(world.data.contents().length, redone === 0 || at === 3 ? 3 : 2);
      assert.equal((await restart(next, { mode })).journal.left.deletes.length, 0, "its end is in the journal");
    });
  }
}

test("[OG11] [OG22] removal of a version: it became current, or went, before the redo: nothing changes, twice", async () => {
  for (const meanwhile of ["promoted", "removed"] as const) {
    let [older, newer]: (string | undefined)[] = [];
    const prepare = async (gateway: Gateway): Promise<void> => {
      await enable(gateway);
      older = (await put(gateway, "k", bytes("older"))).versionId;
      newer = (await put(gateway, "k", bytes("newer"))).versionId;
    };
    const { world, next } = await dieAt("per-transaction", "object:before-delete", prepare, (gateway) => removeVersion(gateway, older));
    const beside = await openGateway(world, { instance: "two" });
    await removeVersion(beside, meanwhile === "promoted" ? newer : older);
    const contents = (): string => JSON.stringify(world.metadata.contents("photos/0"), (_, value: unknown) => String(value));
    const before = contents();
    assert.equal((await next.recovery.runOnce()).transactions!.deletesRedone, 0, meanwhile);
    assert.equal((await next.recovery.runOnce()).transactions?.deletesRedone ?? 0, 0, meanwhile);
    assert.equal(contents(), before, meanwhile);
    assert.equal(await get(next, "k"), bytes(meanwhile === "promoted" ? "older" : "newer"));
    await quiesce(next);
    assert.deepEqual(await faults(next), []);
  }
});

test("[OG22] delete: redone again, or over a newer object: changes nothing; a checkpoint in between carries it", async () => {
  const { next } = await dieAt(
    "per-transaction",
    "object:before-delete",
    (gateway) => put(gateway, "k", bytes("v")),
    (gateway) => remove(gateway, "k"),
  );
  await next.journal.checkpoint();
  const again = await restart(next, { mode: "per-transaction" });
  assert.equal(again.journal.left.deletes.length, 1);
  await put(again, "k", bytes("newer"));
  assert.equal((await again.recovery.runOnce()).transactions!.deletesRedone, 0);
  assert.equal(await get(again, "k"), bytes("newer"));
  await turns();
  const last = await restart(again, { mode: "per-transaction" });
  assert.deepEqual(last.journal.left.deletes, [], "its end is in the journal");
});

test("[OGD7] checkpoint: an upload in flight is in its list: found after the older journal is dropped", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction" });
  const gate = Promise.withResolvers<void>();
  const committing = Promise.withResolvers<void>();
  world.metadata.before = async (operation, partition) => {
    if (operation !== "commit" || partition === "") return;
    committing.resolve();
    await gate.promise;
  };
  put(gateway, "k", bytes("v")).catch(() => undefined);
  await committing.promise;
  await gateway.journal.checkpoint();
  await gateway.journal.checkpoint();
  gateway.kill();
  world.metadata.before = () => undefined;
  const next = await restart(gateway, { mode: "per-transaction" });
  assert.equal(next.journal.left.uploads.length, 1);
  assert.equal((await next.recovery.runOnce()).transactions!.collected, 1);
  gate.resolve();
  await quiesce(next);
  assert.deepEqual(world.data.contents(), []);
});

test("[OG10] checkpoint: at an interval; the journal does not grow with what is resolved", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction" });
  for (let at = 0; at < 20; at += 1) await put(gateway, `k${at}`, bytes("v"));
  await world.clock.advance(600_000);
  const next = await restart(gateway, { mode: "per-transaction" });
  assert.deepEqual(next.journal.left.uploads, []);
});

test("[OGD13] checkpoint: before its time when the journal has grown: it stays bounded", async () => {
  const world = new World();
  const { clock, metadata, data } = world;
  let guid = 0n;
  const random = { bytes: (length: number) => new Uint8Array(length).fill(3), below: () => 0, float: () => 0 };
  const limits = { segmentBytes: 1000, journalBytes: 8000 };
  const { journal } = await openJournal({ disk: new MemoryDisk(), folder: "journal", checksum: crc32, random, limits });
  const uploads = await openUploadJournal({
    clock,
    metadata,
    data,
    journal,
    mode: "per-transaction",
    instance: "one",
    checkpointAtBytes: 3000,
    guids: { next: () => Promise.resolve((guid += 1n)) },
    log: silentLog,
    metrics: silentMetrics,
    failpoint: () => undefined,
  });
  for (let at = 0; at < 1000; at += 1) {
    const name = await uploads.begin({ ...description, replaces: undefined });
    await name.resolve("referenced");
    assert.ok(journal.sizeBytes < 6000, `${journal.sizeBytes} bytes after ${at}`);
  }
});

for (const mode of ["per-transaction", "per-transaction-basic"] as const) {
  test(`${mode}: the journal's disk fails: the upload is refused, applied: no, and leaves nothing`, async () => {
    const { world, gateway } = await openWorld({ mode });
    world.diskOf("one").files.failNextSync();
    const refused = await put(gateway, "k", bytes("v")).catch((error: unknown) => error as ConcordError);
    assert.ok(refused instanceof ConcordError);
    assert.deepEqual([refused.code, refused.applied], ["STORE_FAILED", "no"]);
    assert.deepEqual(world.data.contents(), []);
  });
}

for (const mode of ["reservation", "per-transaction", "per-transaction-basic"] as const) {
  test(`[OG17] ${mode}: no byte of a blob is in the journal, only what undoes it`, async () => {
    const { world, gateway } = await openWorld({ mode });
    const content = "not for the journal ".repeat(40);
    await put(gateway, "k", content);
    await put(gateway, "k", content.toUpperCase());
    await remove(gateway, "k");
    const disk = world.diskOf("one");
    const written: string[] = [];
    for (const { name } of await disk.list("journal")) {
      const file = (await disk.open(`journal/${name}`))!;
      written.push(Buffer.from(await file.read(0, file.size)).toString("latin1"));
      await file.close();
    }
    const journal = written.join("");
    assert.ok(journal.length > 0);
    assert.doesNotMatch(journal, /for the journal/i);
  });
}

test("[OG21] off: works without a journal, writes no record and reserves nothing", async () => {
  const { world, gateway } = await openWorld({ mode: "off" });
  await put(gateway, "k", bytes("v"));
  const next = await restart(gateway, { mode: "off" });
  assert.equal(await get(next, "k"), bytes("v"));
  await next.recovery.runOnce();
  assert.equal(world.data.contents().length, 1);
});

test("limits: unresolved transactions below, at and above: taken, taken, OVERLOADED; in bytes too", async () => {
  const { gateway } = await openWorld({ mode: "per-transaction" });
  const blob = (key: string) => ({ ...description, key, replaces: undefined });
  const begun = await Promise.all(Array.from({ length: TRANSACTIONS_UNRESOLVED_MAX }, () => gateway.journal.begin(blob("k"))));
  assert.equal(await codeOf(gateway.journal.begin(blob("k"))), "OVERLOADED");
  await begun[0]!.resolve("absent");
  assert.equal(await codeOf(gateway.journal.begin(blob("k"))), "done");
  const { gateway: large } = await openWorld({ mode: "per-transaction-basic" });
  const replaces = { key: new Uint8Array([1]), version: { commit: 1n, guid: 1n }, value: new Uint8Array(TRANSACTIONS_BYTES_MAX / 2) };
  const codes: string[] = [];
  for (let at = 0; at < 3; at += 1) codes.push(await codeOf(large.journal.begin({ ...blob("k"), replaces })));
  assert.deepEqual(codes, ["done", "done", "OVERLOADED"]);
});

test("modes: another one after a restart: what the one before left is recovered", async () => {
  const modes = ["reservation", "per-transaction", "per-transaction-basic", "reservation"] as const;
  let world: World | undefined;
  let previous: Gateway | undefined;
  for (const mode of modes) {
    let armed = false;
    const options = {
      mode,
      failpoint: (name: string, { die }: { die: () => never }) => (armed && name === "object:after-seal" ? die() : undefined),
    };
    const gateway: Gateway = previous === undefined ? (await openWorld(options)).gateway : await restart(previous, options);
    world = gateway.world;
    await put(gateway, mode, bytes("kept"));
    armed = true;
    await Promise.race([put(gateway, "k", bytes("lost")).catch(() => undefined), gateway.killed]);
    previous = gateway;
  }
  const last = await restart(previous!);
  await quiesce(last);
  assert.equal(world!.data.contents().length, 3);
  assert.deepEqual(await faults(last), []);
});

test("[OG8] per-transaction: a blob is damaged: decided by what the journal says of it, and so are the others", async () => {
  const { world, gateway } = await openWorld({ mode: "per-transaction" });
  const left: Oid[] = [];
  for (const key of ["a", "b"]) {
    const blob = { ...description, bucket: "photos", key, replaces: undefined };
    const { oid } = await gateway.journal.begin(blob);
    await (await world.data.create(oid, blob)).seal();
    left.push(oid);
  }
  const next = await restart(gateway, { mode: "per-transaction" });
  const inspect = world.data.inspect.bind(world.data);
  world.data.inspect = (oid) => (oid === left[0] ? Promise.reject(new ConcordError("CORRUPT_DATA", "its header")) : inspect(oid));
  const { transactions } = await next.recovery.runOnce();
  assert.deepEqual([transactions?.collected, transactions?.undecided], [2, 0]);
});
