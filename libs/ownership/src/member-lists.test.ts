import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListedMembership, ReadList } from "@concord/failure-detection";
import { ConcordError, silentLog, type Clock, type Timer } from "@concord/runtime";
import { foundingList, LIST_READ_EVERY_MS, MemberLists, type RecordedList } from "./index.ts";
import { LIST_AWAITED_POLL_MS } from "./limits.ts";

const node = (name: string): { name: string; address: string; datacenter: string } => ({ name, address: `${name}:1`, datacenter: "d" });
const CONFIGURED = foundingList([node("a"), node("b")]);

function listOf(version: number, ...names: readonly (string | undefined)[]): RecordedList {
  const members = names.flatMap((name, place) => (name === undefined ? [] : [{ ...node(name), place, state: "member" as const }]));
  return { version, founders: ["a", "b"], members };
}

/** Time passes only when told to. */
class ManualClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly act: () => void }>();
  nowMs = (): number => this.#nowMs;
  nowUs = (): bigint => 1000n * BigInt(this.#nowMs);
  monotonicMs = (): number => this.#nowMs;
  defer = (act: () => void): void => void setImmediate(act);

  setTimer(delayMs: number, act: () => void): Timer {
    const timer = { atMs: this.#nowMs + delayMs, act };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  async advance(ms: number): Promise<void> {
    const endsMs = this.#nowMs + ms;
    for (;;) {
      await settle();
      const next = [...this.#timers].filter(({ atMs }) => atMs <= endsMs).sort((one, other) => one.atMs - other.atMs)[0];
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = next.atMs;
      next.act();
    }
    this.#nowMs = endsMs;
    await settle();
  }
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class ScriptedMembership implements ListedMembership {
  readonly readings: ReadList[] = [];
  onRead: () => void = () => undefined;
  start = async (): Promise<void> => {};
  leaseEndMs = (): number => Number.POSITIVE_INFINITY;
  stop = async (): Promise<void> => {};

  listRead(list: ReadList): void {
    this.readings.push(list);
    this.onRead();
  }
}

class Fixture {
  readonly clock = new ManualClock();
  readonly membership = new ScriptedMembership();
  readonly failures: string[] = [];
  readonly warnings: string[] = [];
  readonly stop = new AbortController();
  changes = 0;
  isUnread = false;
  stored: RecordedList | undefined;
  readonly lists: MemberLists<RecordedList>;

  constructor(nodeName: string) {
    const read = async (): Promise<RecordedList | undefined> => {
      if (this.isUnread) throw new ConcordError("REPLICAS_UNAVAILABLE", "no majority");
      return this.stored;
    };
    const log = { ...silentLog, warn: (line: string) => void this.warnings.push(line) };
    const { clock, membership } = this;
    const onFailed = (cause: ConcordError): void => void this.failures.push(cause.message);
    const what = { noun: "workers", addCommand: "workers add" } as const;
    this.lists = new MemberLists({ configured: CONFIGURED, nodeName, read, clock, log, membership, onFailed, ...what });
  }

  start(): Promise<void> {
    return this.lists.start(this.stop.signal, () => (this.changes += 1));
  }

  get versions(): readonly number[] {
    return this.membership.readings.map(({ version }) => version);
  }
}

test("[TX32] lists: never changed: the configured one counts, and is read again each second, with the time at which the reading began", async () => {
  const { lists, membership, clock, ...fixture } = await started("a");
  assert.deepEqual([lists.current, fixture.changes], [CONFIGURED, 0]);
  await clock.advance(2 * LIST_READ_EVERY_MS);
  const [first, second, third] = membership.readings.map(({ readAtMs }) => readAtMs);
  assert.deepEqual([second! - first!, third! - second!], [LIST_READ_EVERY_MS, LIST_READ_EVERY_MS]);
  lists.stop();
});

async function started(nodeName: string): Promise<Fixture> {
  const fixture = new Fixture(nodeName);
  await fixture.start();
  await settle();
  return fixture;
}

test("[TX32] lists: a newer version is named: it is read at once, and an older one that comes late changes nothing", async () => {
  const fixture = await started("a");
  const { lists } = fixture;
  fixture.stored = listOf(2, "a", "b", "c");
  lists.readSoon();
  await settle();
  assert.deepEqual([lists.current.version, fixture.changes, lists.at(2)?.name, lists.at(3)], [2, 1, "c", undefined]);
  fixture.stored = listOf(1, "a");
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  assert.deepEqual([lists.current.version, fixture.changes, fixture.failures], [2, 1, []]);
  assert.deepEqual(fixture.versions, [0, 2], "the lease hangs on what was read");
  lists.stop();
});

test("[TX32] lists: it cannot be read: nothing is said to the membership; it is read when it can be", async () => {
  const fixture = await started("a");
  fixture.isUnread = true;
  await fixture.clock.advance(3 * LIST_READ_EVERY_MS);
  assert.deepEqual(fixture.versions, [0]);
  fixture.isUnread = false;
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  assert.deepEqual(fixture.versions, [0, 0]);
  fixture.lists.stop();
});

test("[TX32] lists: one that is not in the list: it waits, says so, and starts when it is added", async () => {
  const fixture = new Fixture("c");
  let isStarted = false;
  const starting = fixture.start().then(() => (isStarted = true));
  await fixture.clock.advance(10 * LIST_AWAITED_POLL_MS);
  assert.deepEqual([isStarted, fixture.membership.readings, fixture.warnings.length], [false, [], 1]);
  fixture.stored = listOf(1, "a", "b", "c");
  await fixture.clock.advance(LIST_AWAITED_POLL_MS);
  await starting;
  assert.deepEqual([fixture.versions, fixture.changes, fixture.failures], [[1], 1, []]);
  fixture.lists.stop();
});

test("lists: the stop comes while it waits: the start is rejected", async () => {
  const fixture = new Fixture("c");
  const refused = assert.rejects(fixture.start(), { code: "DRAINING" });
  await settle();
  fixture.stop.abort();
  await fixture.clock.advance(LIST_AWAITED_POLL_MS);
  await refused;
});

const ends: readonly (readonly [what: string, list: RecordedList, reason: RegExp])[] = [
  ["it was removed", listOf(1, undefined, "b"), /^a was removed/],
  ["it was removed and has another place now", listOf(3, undefined, "b", "a"), /^a was removed/],
  ["the list is another cluster's", { ...listOf(1, "a", "b", "c"), founders: ["x", "y"] }, /founded by x, y, not by a, b/],
];

for (const [what, list, reason] of ends) {
  test(`[TX32] lists: ${what}: the process must end; its lease is not extended`, async () => {
    const fixture = await started("a");
    fixture.stored = list;
    await fixture.clock.advance(LIST_READ_EVERY_MS);
    assert.match(fixture.failures.join(), reason);
    assert.deepEqual([fixture.versions, fixture.changes], [[0], 0]);
    fixture.lists.stop();
  });
}

test("[TX32] lists: how long a version is known here; asked for, it is read at once, and a failure is the caller's", async () => {
  const fixture = await started("a");
  const { lists, clock } = fixture;
  assert.equal(lists.sinceReadMs, Number.POSITIVE_INFINITY);
  fixture.stored = listOf(1, "a", "b", "c");
  await lists.refresh();
  assert.deepEqual([lists.current.version, lists.sinceReadMs], [1, 0]);
  await clock.advance(3 * LIST_READ_EVERY_MS);
  assert.equal(lists.sinceReadMs, 3 * LIST_READ_EVERY_MS, "reading it again changes nothing");
  fixture.isUnread = true;
  await assert.rejects(lists.refresh(), { code: "REPLICAS_UNAVAILABLE" });
  lists.stop();
});

test("[TX32] lists: the membership has a verdict about a new member at once: its place has its name already", async () => {
  const fixture = await started("a");
  const names: (string | undefined)[] = [];
  fixture.membership.onRead = () => names.push(fixture.lists.at(2)?.name);
  fixture.stored = listOf(1, "a", "b", "c");
  await fixture.clock.advance(LIST_READ_EVERY_MS);
  assert.deepEqual(names, ["c"]);
  fixture.lists.stop();
});
