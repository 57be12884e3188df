import { test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { ConcordError } from "@concord/runtime";
import type { Precondition } from "./api.ts";
import {
  bodyOf,
  bytesOf,
  faultsOf,
  get,
  manyBytes,
  NO_ATTRIBUTES,
  openPhotos,
  openFixture,
  put,
  referencesIn,
  type Fixture,
} from "./test/fixture.ts";

const BIG = 20_000;

const putIf = (fixture: Fixture, content: Uint8Array | string, precondition: Precondition): Promise<{ readonly etag: string }> =>
  fixture.store.putObject({ bucket: "photos", key: "a", body: bodyOf(content), attributes: NO_ATTRIBUTES, precondition });

/** Runs `act` once, before the next commit of any gateway. */
function beforeCommit(fixture: Fixture, act: () => Promise<unknown>, times = 1): void {
  let left = times;
  fixture.metadata.before = async (operation) => {
    if (operation !== "commit" || left === 0) return;
    left -= 1;
    const kept = left;
    left = 0;
    await act();
    left = kept;
  };
}

test("[OGD4] put: two writers race: the loser replaces the winner's object without writing its data again", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  await put(fixture, "a", manyBytes(BIG, 1));
  const writes: string[] = [];
  fixture.data.before = (operation, oid) => {
    if (operation !== "read") writes.push(`${operation} ${oid}`);
  };
  beforeCommit(fixture, () => put(other, "a", manyBytes(BIG, 2)));
  await put(fixture, "a", manyBytes(BIG, 3));
  const mine = fixture.journal.taken[1]!;
  assert.deepEqual(
    writes.filter((line) => line.endsWith(mine)),
    [`create ${mine}`, `write ${mine}`, `seal ${mine}`],
  );
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 3));
  assert.deepEqual(referencesIn(fixture), { live: [mine], garbage: [fixture.journal.taken[0], other.journal.taken[0]] });
  assert.deepEqual(faultsOf(fixture), []);
  assert.equal(fixture.counts.get("objects_commit_conflicts_total"), 1);
});

test("[OGD4] put: If-None-Match, lost race: evaluated anew, PRECONDITION_FAILED, the loser's blob is garbage", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  beforeCommit(fixture, () => putIf(other, manyBytes(BIG, 2), { ifNoneMatch: ["*"] }));
  await assert.rejects(putIf(fixture, manyBytes(BIG, 1), { ifNoneMatch: ["*"] }), { code: "PRECONDITION_FAILED" });
  assert.deepEqual(await get(fixture, "a"), manyBytes(BIG, 2));
  assert.deepEqual(referencesIn(fixture), { live: other.journal.taken, garbage: fixture.journal.taken });
  assert.deepEqual([...fixture.journal.resolved.values()], ["garbage"]);
});

test("[OGD4] put: If-Match, the object is deleted meanwhile: OBJECT_UNKNOWN, the blob is garbage", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  const etag = await put(fixture, "a", "1");
  beforeCommit(fixture, () => other.store.deleteObject({ bucket: "photos", key: "a" }));
  await assert.rejects(putIf(fixture, manyBytes(BIG, 1), { ifMatch: [etag] }), { code: "OBJECT_UNKNOWN" });
  assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
});

test("[OGD4] put: it loses as often as it may: at the limit stored, above WRITE_CONFLICT and its blob is garbage", async () => {
  for (const [losses, stored] of [
    [2, true],
    [3, false],
  ] as const) {
    const fixture = await openPhotos({ limits: { commitAttemptsMax: 3 } });
    const other = openFixture({ beside: fixture });
    let round = 0;
    beforeCommit(fixture, () => put(other, "a", `${(round += 1)}`), losses);
    const putting = put(fixture, "a", manyBytes(BIG));
    if (stored) await putting;
    else await assert.rejects(putting, { code: "WRITE_CONFLICT" });
    assert.deepEqual(
      referencesIn(fixture),
      stored ? { live: fixture.journal.taken, garbage: [] } : { live: [], garbage: fixture.journal.taken },
    );
    assert.deepEqual(faultsOf(fixture), []);
  }
});

test("[OGD3] put: its epoch was closed while it lost a race: EPOCH_FENCED; nothing is committed, the blob is recovery's", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  beforeCommit(fixture, async () => {
    fixture.journal.live = false;
    await put(other, "a", "1");
  });
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "EPOCH_FENCED" });
  assert.deepEqual(await get(other, "a"), bytesOf("1"));
  assert.deepEqual([fixture.journal.resolved.size, fixture.journal.refused.length], [0, 1]);
  assert.deepEqual(referencesIn(fixture), { live: [], garbage: [] });
});

test("put: it lost a race and it is unknown whether its epoch is open: the error, the blob is garbage, its name is resolved", async () => {
  const fixture = await openPhotos();
  const other = openFixture({ beside: fixture });
  beforeCommit(fixture, async () => {
    fixture.journal.unsure = new ConcordError("STORE_FAILED", "no answer", { applied: "no" });
    await put(other, "a", "1");
  });
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "STORE_FAILED" });
  assert.deepEqual(await get(other, "a"), bytesOf("1"));
  assert.deepEqual([...fixture.journal.resolved.values()], ["garbage"]);
  assert.deepEqual(faultsOf(fixture), []);
});

test("put: the store refuses the commit: its error, the blob is garbage, the old object stays", async () => {
  const fixture = await openPhotos();
  await put(fixture, "a", "1");
  let refusals = 1;
  fixture.metadata.before = (operation) => {
    if (operation === "commit" && (refusals -= 1) === 0) throw new ConcordError("OVERLOADED", "later");
  };
  await assert.rejects(put(fixture, "a", manyBytes(BIG)), { code: "OVERLOADED" });
  assert.deepEqual(referencesIn(fixture).garbage, fixture.journal.taken);
  assert.deepEqual(await get(fixture, "a"), bytesOf("1"));
});

test("[OGD4] compare and swap by ETag: 24 increments of three gateways in any order: none is lost", async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), async (scheduler) => {
      const first = await openPhotos({ limits: { inlineBytesMax: 0 } });
      const fixtures = [
        first,
        openFixture({ beside: first, epoch: 2 }),
        openFixture({ beside: first, epoch: 3, limits: { inlineBytesMax: 0 } }),
      ];
      await put(first, "a", "0");
      first.metadata.before = () => scheduler.schedule(Promise.resolve());
      const increment = async (fixture: Fixture): Promise<void> => {
        for (;;) {
          const found = await fixture.store.getObject({ bucket: "photos", key: "a", range: undefined, precondition: {}, part: undefined });
          const parts: Uint8Array[] = [];
          for await (const chunk of found.bytes) parts.push(chunk.slice());
          const next = String(Number(Buffer.concat(parts)) + 1);
          try {
            await putIf(fixture, next, { ifMatch: [found.object.etag] });
            return;
          } catch (error) {
            assert.equal((error as ConcordError).code, "PRECONDITION_FAILED");
          }
        }
      };
      const all = fixtures.map(async (fixture) => {
        for (let round = 0; round < 4; round += 1) await Promise.all([increment(fixture), increment(fixture)]);
      });
      await scheduler.waitFor(Promise.all(all));
      first.metadata.before = () => undefined;
      assert.deepEqual(await get(first, "a"), bytesOf("24"));
      assert.deepEqual(faultsOf(first), []);
    }),
    { numRuns: 15 },
  );
});

test("[OG13, OG20] readers and writers of three gateways in any order: old or new, never a mixture; usage exact", async () => {
  const operations = fc.array(
    fc.record({ at: fc.nat(2), key: fc.nat(1), seed: fc.nat(50), what: fc.constantFrom("put", "small", "get", "delete", "tags") }),
    {
      minLength: 4,
      maxLength: 14,
    },
  );
  await fc.assert(
    fc.asyncProperty(operations, fc.scheduler(), async (steps, scheduler) => {
      const first = await openPhotos({ limits: { inlineBytesMax: 100, writeBytes: 512 } });
      const fixtures = [first, openFixture({ beside: first, epoch: 2 }), openFixture({ beside: first, epoch: 3 })];
      const turn = (): Promise<void> => scheduler.schedule(Promise.resolve());
      first.metadata.before = turn;
      first.data.before = turn;
      const written = new Set<string>();
      const fingerprint = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");
      const running = steps.map(async ({ at, key, seed, what }) => {
        const fixture = fixtures[at]!;
        const name = `k${key}`;
        if (what === "put" || what === "small") {
          const bytes = manyBytes(what === "put" ? 1500 + seed : seed, seed);
          written.add(fingerprint(bytes));
          await fixture.store.putObject({ bucket: "photos", key: name, body: bodyOf(bytes), attributes: NO_ATTRIBUTES, precondition: {} });
        } else if (what === "delete") await fixture.store.deleteObject({ bucket: "photos", key: name });
        else if (what === "tags") {
          await fixture.store
            .setObjectTags({ bucket: "photos", key: name, tags: { s: `${seed}` } })
            .catch((error: ConcordError) => assert.equal(error.code, "OBJECT_UNKNOWN"));
        } else {
          const bytes = await get(fixture, name);
          assert.ok(bytes === undefined || written.has(fingerprint(bytes)), "bytes that were never written");
        }
      });
      await scheduler.waitFor(Promise.all(running));
      first.metadata.before = () => undefined;
      first.data.before = () => undefined;
      await assertResolved(first, fixtures);
    }),
    { numRuns: 120 },
  );
});

test("[OGD2] random histories with lost answers and late commits: state is what was answered; nothing leaks, nothing dangles", async () => {
  const fate = fc.constantFrom("answered", "answered", "answered", "applied", "lost", "late");
  const step = fc.record({
    at: fc.nat(1),
    key: fc.constantFrom("k0", "k1"),
    seed: fc.nat(200),
    what: fc.constantFrom("put", "put", "small", "delete", "tags", "late", "resolve"),
    fates: fc.array(fate, { maxLength: 4 }),
    patient: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 20, size: "max" }), async (steps) => {
      const first = await openPhotos({ limits: { inlineBytesMax: 100, resolveWaitMs: 50 } });
      const hasty = openFixture({ beside: first, epoch: 2, limits: { inlineBytesMax: 100, resolveWaitMs: 0 } });
      const fixtures = [first, hasty];
      const model = new History();
      for (const { at, key, seed, what, fates, patient } of steps) {
        const fixture = fixtures[patient ? 0 : at]!;
        first.metadata.nextFates(...fates);
        if (what === "late") first.metadata.applyLate();
        else if (what === "resolve") await resolveAll(fixtures, model);
        else await model.run(fixture, key, what, seed);
        first.metadata.fate = () => "answered";
        for (const name of ["k0", "k1"]) model.see(name, await get(first, name));
      }
      first.metadata.applyLate();
      await resolveAll(fixtures, model);
      assert.equal(first.metadata.applyLate(), 0);
      for (const name of ["k0", "k1"]) model.see(name, await get(first, name));
      await assertResolved(first, fixtures);
    }),
    { numRuns: 400 },
  );
});

test("[OGD2] gateways in any order, with lost answers and late commits: every read is something written; blobs are the references", async () => {
  const fate = fc.constantFrom("answered", "answered", "applied", "lost", "late");
  const operation = fc.record({
    at: fc.nat(2),
    key: fc.nat(1),
    seed: fc.nat(50),
    what: fc.constantFrom("put", "put", "get", "delete", "tags", "late"),
  });
  const histories = fc.record({ steps: fc.array(operation, { minLength: 3, maxLength: 12 }), fates: fc.array(fate, { maxLength: 12 }) });
  await fc.assert(
    fc.asyncProperty(histories, fc.scheduler(), async ({ steps, fates }, scheduler) => {
      const limits = { inlineBytesMax: 100, resolveWaitMs: 20 };
      const first = await openPhotos({ limits });
      const fixtures = [first, openFixture({ beside: first, epoch: 2, limits }), openFixture({ beside: first, epoch: 3, limits })];
      const turn = (): Promise<void> => scheduler.schedule(Promise.resolve());
      first.metadata.nextFates(...fates);
      first.metadata.before = turn;
      first.data.before = turn;
      const written = new Set<string>();
      const running = steps.map(async ({ at, key, seed, what }, index) => {
        const { store } = fixtures[at]!;
        const name = `k${key}`;
        const bytes = manyBytes(1500 + seed, index);
        try {
          if (what === "put") {
            written.add(text(bytes));
            await store.putObject({ bucket: "photos", key: name, body: bodyOf(bytes), attributes: NO_ATTRIBUTES, precondition: {} });
          } else if (what === "delete") await store.deleteObject({ bucket: "photos", key: name });
          else if (what === "tags") await store.setObjectTags({ bucket: "photos", key: name, tags: { s: `${seed}` } });
          else if (what === "late") await turn().then(() => first.metadata.applyLate());
          else {
            const read = await get(fixtures[at]!, name);
            assert.ok(read === undefined || written.has(text(read)), "bytes that were never written");
          }
        } catch (error) {
          assert.ok(
            error instanceof ConcordError && ["OUTCOME_UNKNOWN", "REPLICAS_UNAVAILABLE", "OBJECT_UNKNOWN"].includes(error.code),
            String(error),
          );
        }
      });
      await scheduler.waitFor(Promise.all(running));
      first.metadata.before = () => undefined;
      first.data.before = () => undefined;
      await resolveAll(fixtures);
      first.metadata.applyLate();
      await assertResolved(first, fixtures);
    }),
    { numRuns: 200 },
  );
});

/** What each key may hold: one value, or several while a commit on it is unresolved. */
class History {
  readonly #possible = new Map<string, Set<string | undefined>>();
  readonly #uncertain = new Set<string>();

  async run(fixture: Fixture, key: string, what: "put" | "small" | "delete" | "tags", seed: number): Promise<void> {
    const bytes = manyBytes(what === "put" ? 1500 + seed : seed % 100, seed);
    const next = what === "delete" ? undefined : text(bytes);
    const before = this.#of(key);
    try {
      if (what === "tags") await fixture.store.setObjectTags({ bucket: "photos", key, tags: { s: `${seed}` } });
      else if (what === "delete") await fixture.store.deleteObject({ bucket: "photos", key });
      else await fixture.store.putObject({ bucket: "photos", key, body: bodyOf(bytes), attributes: NO_ATTRIBUTES, precondition: {} });
      if (what !== "tags") this.#possible.set(key, new Set([next, ...(this.#uncertain.has(key) ? before : [])]));
    } catch (error) {
      assert.ok(error instanceof ConcordError);
      const may = error.applied !== "no" && error.code === "OUTCOME_UNKNOWN";
      assert.ok(may || error.code === "OBJECT_UNKNOWN" || error.code === "REPLICAS_UNAVAILABLE", `${error.code} ${error.message}`);
      if (!may || what === "tags") return;
      this.#possible.set(key, new Set([next, ...before]));
      this.#uncertain.add(key);
    }
  }

  /** Nothing is unresolved any more: what is there now stays there. */
  resolve(): void {
    this.#uncertain.clear();
  }

  see(key: string, bytes: Uint8Array | undefined): void {
    const value = bytes === undefined ? undefined : text(bytes);
    assert.ok(this.#of(key).has(value), `${key} holds what it cannot hold`);
    if (!this.#uncertain.has(key)) this.#possible.set(key, new Set([value]));
  }

  #of(key: string): Set<string | undefined> {
    return this.#possible.get(key) ?? new Set([undefined]);
  }
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

/** Deletes that were abandoned may still arrive; everything else is resolved. */
async function resolveAll(fixtures: readonly Fixture[], model?: History): Promise<void> {
  for (const fixture of fixtures) {
    fixture.metadata.fate = () => "answered";
    for (const commit of fixture.unresolved.splice(0)) assert.equal(await commit.attempt(), true);
  }
  if (fixtures[0]!.metadata.lateCommits.length === 0) model?.resolve();
}

/** Blobs are exactly the references, names are resolved, usage is what the listing sums up to. */
async function assertResolved(first: Fixture, fixtures: readonly Fixture[]): Promise<void> {
  assert.deepEqual(faultsOf(first), []);
  for (const fixture of fixtures) assert.deepEqual(fixture.journal.unresolved, []);
  const { objects } = await first.store.listObjects({ bucket: "photos", prefix: "", delimiter: undefined, after: undefined, limit: 1000 });
  const bytes = objects.reduce((sum, object) => sum + object.sizeBytes, 0);
  assert.deepEqual(await first.store.bucketUsage("photos"), { objects: BigInt(objects.length), bytes: BigInt(bytes) });
}
