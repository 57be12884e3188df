// More large commits than a coordinator can do: the surplus is refused before any work, small commits go on.
import { ConcordError } from "@concord/runtime";
import assert from "node:assert/strict";
import { test } from "node:test";
import { albumKey, fails, insert, ManualClock, settle, TestFixture, text, type Client } from "./test/fixture.ts";
import { LargeCommits, type TableWrite } from "./index.ts";
import { LARGE_COMMIT_BYTES, LARGE_COMMITS_BYTES_MAX, LARGE_COMMITS_TARGET_MS, LARGE_RETRY_MS_MAX } from "./limits.ts";

const SMALL = LARGE_COMMIT_BYTES - 1;
const FAR_MS = 1_000_000;

const large = (id: number): TableWrite[] => [insert(albumKey(id), { title: text("x".repeat(200_000)) })];

function refused(large: LargeCommits, bytes: number, deadlineAtMs = FAR_MS): ConcordError {
  let error: unknown;
  assert.throws(
    () => large.enter(bytes, deadlineAtMs),
    (thrown) => {
      error = thrown;
      return thrown instanceof ConcordError && thrown.code === "OVERLOADED";
    },
  );
  return error as ConcordError;
}

test("overload: more large commits than are taken while the log is slow: the surplus is refused, small ones are not", async () => {
  const fixture = new TestFixture();
  const client: Client = await fixture.open();
  fixture.log.hold();
  const taken = Array.from({ length: 2 }, (_, at) => client.execute(large(at)));
  const surplus = client.begin();
  await surplus.start(albumKey(50));
  const error = await fails("OVERLOADED", surplus.commit(large(50)));
  assert.equal(error.applied, "no");
  assert.ok(error.retryAfterMs! > 0);
  const small = client.execute([insert(albumKey(60), { title: text("small") })]);
  const other = client.execute(large(70));
  await fails("OVERLOADED", other);
  fixture.log.release();
  await Promise.all([...taken, small]);
  await settle();
  await client.execute(large(50));
});

test("overload: large commits that fail or are rolled back: leave nothing behind", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  for (let at = 0; at < 20; at += 1) {
    const holder = client.begin();
    await holder.start(albumKey(1));
    const waiting = fails("LOCK_TIMEOUT", client.execute(large(1)));
    await fixture.clock.advance(1_100);
    await waiting;
    holder.rollback();
  }
  await client.execute(large(1));
});

test("overload: large commits that waited long for a lock: as many are taken as before", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  for (let at = 0; at < 20; at += 1) {
    const holder = client.begin();
    await holder.start(albumKey(1));
    const waiting = client.execute(large(1));
    await fixture.clock.advance(900);
    holder.rollback();
    await waiting;
  }
  fixture.log.hold();
  const taken = [client.execute(large(2)), client.execute(large(3))];
  await settle();
  fixture.log.release();
  await Promise.all(taken);
});

test("overload: large commits: below, at and above the limit; one alone is always taken", () => {
  const commits = new LargeCommits(new ManualClock());
  assert.equal(commits.enter(SMALL, FAR_MS), undefined);
  const whole = commits.enter(2 * LARGE_COMMITS_BYTES_MAX, FAR_MS);
  assert.equal(commits.enter(SMALL, FAR_MS), undefined);
  refused(commits, LARGE_COMMIT_BYTES);
  whole!.leave();
  const commit = commits.enter(LARGE_COMMITS_BYTES_MAX - LARGE_COMMIT_BYTES, FAR_MS)!;
  const last = commits.enter(LARGE_COMMIT_BYTES, FAR_MS)!;
  refused(commits, LARGE_COMMIT_BYTES);
  last.leave();
  commit.leave();
});

test("overload: large commits take long: fewer at once, and none whose deadline ends before", async () => {
  const clock = new ManualClock();
  const commits = new LargeCommits(clock);
  for (let round = 0; round < 12; round += 1) {
    const commit = commits.enter(LARGE_COMMIT_BYTES, FAR_MS)!;
    await clock.advance(4 * LARGE_COMMITS_TARGET_MS);
    commit.leave();
  }
  const first = commits.enter(LARGE_COMMIT_BYTES, FAR_MS)!;
  const soon = refused(commits, 2 * LARGE_COMMIT_BYTES).retryAfterMs!;
  assert.ok(soon >= LARGE_COMMITS_TARGET_MS && soon < LARGE_RETRY_MS_MAX, "as long as one takes");
  assert.ok(refused(commits, 2 * LARGE_COMMIT_BYTES).retryAfterMs! >= 2 * soon - 1, "one more wants the next place");
  for (let at = 0; at < 10; at += 1) refused(commits, 2 * LARGE_COMMIT_BYTES);
  assert.equal(refused(commits, 2 * LARGE_COMMIT_BYTES).retryAfterMs, LARGE_RETRY_MS_MAX);
  first.leave();
  for (let round = 0; round < 200; round += 1) commits.enter(LARGE_COMMIT_BYTES, FAR_MS)!.leave();
  const again = commits.enter(LARGE_COMMITS_BYTES_MAX / 2, FAR_MS)!;
  commits.enter(LARGE_COMMITS_BYTES_MAX / 2, FAR_MS)!.leave();
  again.leave();
});

test("overload: a large commit whose deadline ends before such commits do: refused", async () => {
  const clock = new ManualClock();
  const commits = new LargeCommits(clock);
  for (let round = 0; round < 10; round += 1) {
    const commit = commits.enter(LARGE_COMMIT_BYTES, FAR_MS)!;
    await clock.advance(LARGE_COMMITS_TARGET_MS);
    commit.leave();
  }
  const alone = commits.enter(LARGE_COMMIT_BYTES, clock.monotonicMs() + 10)!;
  refused(commits, LARGE_COMMIT_BYTES, clock.monotonicMs() + LARGE_COMMITS_TARGET_MS / 2);
  commits.enter(LARGE_COMMIT_BYTES, clock.monotonicMs() + 2 * LARGE_COMMITS_TARGET_MS)!.leave();
  alone.leave();
});

test("overload: a commit whose deadline passes before it is queued: not logged, nothing stays locked", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const session = client.begin();
  await session.start(albumKey(1));
  const decoded = Promise.withResolvers<TableWrite[]>();
  const commit = fails(
    "DEADLINE_EXCEEDED",
    client.group.serving().commit(session.call(undefined, 500), () => decoded.promise, { maxDelayMs: 0 }),
  );
  const logged = fixture.log.appends.length;
  await fixture.clock.advance(600);
  decoded.resolve([insert(albumKey(1), { title: text("late") })]);
  assert.equal((await commit).applied, "no");
  assert.equal(fixture.log.appends.length, logged);
  await client.execute([insert(albumKey(1), { title: text("next") })]);
});

test("overload: a commit whose deadline passes while its flush is made: sent, or refused with nothing logged; the master goes on", async () => {
  const fixture = new TestFixture();
  const client = await fixture.open();
  const { clock } = fixture;
  const realMs = clock.monotonicMs.bind(clock);
  for (let timeoutMs = 1; timeoutMs <= 60; timeoutMs += 1) {
    const session = client.begin();
    await session.start(albumKey(timeoutMs));
    const call = session.call(undefined, timeoutMs);
    const logged = fixture.log.appends.length;
    let looks = 0;
    // Each look at the clock finds it a millisecond later.
    clock.monotonicMs = () => realMs() + (looks += 1);
    const committed = client.group
      .serving()
      .commit(call, () => [insert(albumKey(timeoutMs), { title: text("in time?") })], { maxDelayMs: 0 });
    const error: unknown = await Promise.resolve(committed).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    clock.monotonicMs = realMs;
    await settle();
    if (error instanceof ConcordError && error.applied === "no") assert.equal(fixture.log.appends.length, logged);
    else assert.equal(fixture.log.appends.length, logged + 1);
  }
  await client.execute([insert(albumKey(100), { title: text("next") })]);
});
