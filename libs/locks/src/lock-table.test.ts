import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { LOCK_LIMITS, LockTable, type LockDecision, type LockLimits, type LockMode } from "./index.ts";

const FAR_MS = 1_000_000;

/** A table whose transactions are named by a letter and a start time: "a1" started first at 1 ms, "b2" at 2 ms. */
class Scenario {
  readonly table: LockTable;

  constructor(limits: Partial<LockLimits> = {}) {
    this.table = new LockTable({ ...LOCK_LIMITS, ...limits });
  }

  ask(id: string, key: string, mode: LockMode = "exclusive", deadlineMs = FAR_MS, nowMs = 0): LockDecision {
    const decision = this.table.request({ id, firstStartMs: Number(id.slice(1)) }, key, mode, deadlineMs, nowMs);
    this.table.audit();
    return decision;
  }

  /** The outcome alone, when no other transaction may be touched. */
  outcome(id: string, key: string, mode: LockMode = "exclusive"): string {
    const decision = this.ask(id, key, mode);
    assert.deepEqual(
      decision.victims.filter((victim) => victim !== id),
      [],
    );
    assert.deepEqual(decision.granted, []);
    return decision.outcome;
  }

  release(id: string): string[] {
    const granted = this.table.release(id).map((grant) => `${grant.transactionId} ${grant.key} ${grant.mode}`);
    this.table.audit();
    return granted;
  }
}

describe("modes", () => {
  const compatibility: readonly [LockMode, LockMode, boolean][] = [
    ["shared", "shared", true],
    ["intent", "intent", true],
    ["shared", "intent", false],
    ["intent", "shared", false],
    ["shared", "exclusive", false],
    ["exclusive", "shared", false],
    ["intent", "exclusive", false],
    ["exclusive", "intent", false],
    ["exclusive", "exclusive", false],
  ];
  for (const [held, wanted, together] of compatibility) {
    test(`[TXD6] request: ${held} held, ${wanted} wanted: ${together ? "granted" : "queued"}`, () => {
      const scenario = new Scenario();
      scenario.outcome("a1", "k", held);
      assert.equal(scenario.outcome("b2", "k", wanted), together ? "granted" : "queued");
    });
  }

  test("[TX4] release: the holder ends: the next request holds the lock", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    scenario.outcome("b2", "k");
    scenario.outcome("c3", "k");
    assert.deepEqual(scenario.release("a1"), ["b2 k exclusive"]);
    assert.deepEqual(scenario.release("b2"), ["c3 k exclusive"]);
    assert.deepEqual(scenario.release("c3"), []);
    assert.deepEqual(scenario.table.stats(), { transactions: 0, keys: 0, held: 0, waiting: 0 });
  });

  test("[TX4] release: several compatible requests next: all are granted at once", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    for (const id of ["b2", "c3"]) scenario.outcome(id, "k", "shared");
    scenario.outcome("d4", "k");
    scenario.outcome("e5", "k", "shared");
    assert.deepEqual(scenario.release("a1"), ["b2 k shared", "c3 k shared"]);
    assert.deepEqual(scenario.release("b2"), []);
    assert.deepEqual(scenario.release("c3"), ["d4 k exclusive"]);
    assert.deepEqual(scenario.release("d4"), ["e5 k shared"]);
  });

  test("release: unknown or released transaction: nothing happens", () => {
    const scenario = new Scenario();
    assert.deepEqual(scenario.release("a1"), []);
    scenario.outcome("a1", "k");
    scenario.release("a1");
    assert.deepEqual(scenario.release("a1"), []);
  });
});

describe("re-entrance and upgrade", () => {
  test("request: the same or a weaker mode again: granted, and nothing counted twice", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    for (const mode of ["exclusive", "shared", "intent"] as const) assert.equal(scenario.outcome("a1", "k", mode), "granted");
    assert.equal(scenario.table.stats().held, 1);
  });

  test("request: held, while others queue: granted all the same", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k");
    assert.equal(scenario.outcome("a1", "k", "shared"), "granted");
    assert.equal(scenario.outcome("c3", "k", "shared"), "queued");
  });

  test("upgrade: the only holder: granted before those who queue", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k");
    assert.equal(scenario.outcome("a1", "k"), "granted");
    assert.ok(scenario.table.holds("a1", "k", "exclusive"));
  });

  test("upgrade: other holders: waits in front of the queue", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k", "shared");
    scenario.outcome("c3", "k");
    assert.equal(scenario.outcome("a1", "k"), "queued");
    assert.ok(!scenario.table.holds("a1", "k", "exclusive"));
    assert.deepEqual(scenario.release("b2"), ["a1 k exclusive"]);
    assert.deepEqual(scenario.release("a1"), ["c3 k exclusive"]);
  });

  test("[TXD6] upgrade: shared and intent together: comes to exclusive", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "intent");
    assert.equal(scenario.outcome("a1", "k", "shared"), "granted");
    assert.ok(scenario.table.holds("a1", "k", "exclusive"));
    assert.equal(scenario.outcome("b2", "k", "intent"), "queued");
  });

  test("[TXD9] upgrade: two holders both upgrade: a deadlock, the younger is aborted", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k", "shared");
    scenario.outcome("a1", "k");
    assert.deepEqual(scenario.ask("b2", "k"), { outcome: "deadlock", victims: ["b2"], granted: [] });
    assert.deepEqual(scenario.release("b2"), ["a1 k exclusive"]);
  });

  test("[TXD9] upgrade: the older upgrades last: the younger upgrade is aborted and the older waits for its release", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k", "shared");
    scenario.outcome("b2", "k");
    assert.deepEqual(scenario.ask("a1", "k"), { outcome: "queued", victims: ["b2"], granted: [] });
    assert.deepEqual(scenario.release("b2"), ["a1 k exclusive"]);
  });

  test("release: a waiting upgrade's transaction ends: those behind go on", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k", "shared");
    scenario.outcome("a1", "k");
    scenario.outcome("c3", "k", "shared");
    assert.deepEqual(scenario.release("a1"), ["c3 k shared"]);
  });
});

describe("fairness", () => {
  test("request: compatible with the holders but not with an earlier request: queued behind it", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k");
    assert.equal(scenario.outcome("c3", "k", "shared"), "queued");
    assert.deepEqual(scenario.release("a1"), ["b2 k exclusive"]);
  });

  test("cancel: the request in front goes: those behind are granted", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "k");
    scenario.outcome("c3", "k", "shared");
    assert.deepEqual(scenario.table.cancel("b2", "k"), [{ transactionId: "c3", key: "k", mode: "shared" }]);
    scenario.table.audit();
    assert.equal(scenario.outcome("b2", "other"), "granted");
  });

  test("cancel: nothing waits: nothing happens and what is held stays", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    for (const key of [undefined, "k", "other"]) assert.deepEqual(scenario.table.cancel("a1", key), []);
    assert.deepEqual(scenario.table.cancel("unknown"), []);
    assert.ok(scenario.table.holds("a1", "k", "exclusive"));
  });

  test("request: already waiting for the key: TRANSACTION_STATE and nothing changed", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    scenario.outcome("b2", "k", "shared");
    assert.throws(() => scenario.ask("b2", "k", "shared"), { code: "TRANSACTION_STATE" });
    assert.equal(scenario.table.stats().waiting, 1);
  });
});

describe("deadlocks", () => {
  test("[TXD9] request: closes a cycle of two: the younger is aborted, though it waited first", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "x");
    scenario.outcome("b2", "y");
    scenario.outcome("b2", "x");
    assert.deepEqual(scenario.ask("a1", "y"), { outcome: "queued", victims: ["b2"], granted: [] });
    assert.deepEqual(scenario.release("b2"), ["a1 y exclusive"]);
  });

  test("[TXD9] request: closes a cycle of five: the youngest of it is aborted, none outside", () => {
    const scenario = new Scenario();
    const ids = ["a3", "b1", "c5", "d2", "e4"];
    for (const [at, id] of ids.entries()) scenario.outcome(id, `k${at}`);
    scenario.outcome("z9", "k0");
    for (const [at, id] of ids.slice(0, 4).entries()) scenario.outcome(id, `k${at + 1}`);
    assert.deepEqual(scenario.ask("e4", "k0").victims, ["c5"]);
  });

  test("[TXD9] request: equal start times: the larger id is aborted", () => {
    const scenario = new Scenario();
    scenario.outcome("a7", "x");
    scenario.outcome("b7", "y");
    scenario.outcome("a7", "y");
    assert.deepEqual(scenario.ask("b7", "x").victims, ["b7"]);
  });

  test("[TXD9] victim: its request stood in the way of the asking one: that is granted at once", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.outcome("b2", "y");
    scenario.outcome("c3", "k");
    scenario.outcome("a1", "y");
    assert.deepEqual(scenario.ask("b2", "k", "shared"), { outcome: "granted", victims: ["c3"], granted: [] });
  });

  test("[TXD9] victim: committing: the next youngest is aborted instead", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "x");
    scenario.outcome("b2", "y");
    scenario.table.setCommitting("b2");
    scenario.outcome("b2", "x");
    assert.deepEqual(scenario.ask("a1", "y"), { outcome: "deadlock", victims: ["a1"], granted: [] });
    assert.deepEqual(scenario.release("a1"), ["b2 x exclusive"]);
  });

  test("[TXD9] victim: asks for anything before its release: deadlock again", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "x");
    scenario.outcome("b2", "y");
    scenario.outcome("a1", "y");
    assert.equal(scenario.outcome("b2", "x"), "deadlock");
    assert.equal(scenario.outcome("b2", "free"), "deadlock");
    assert.throws(() => scenario.table.setCommitting("b2"), { code: "INTERNAL" });
    scenario.release("b2");
    assert.equal(scenario.outcome("b2", "free"), "granted");
  });

  test("[TXD9] retry: keeps its first start: has become the older and is not aborted again", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "x");
    scenario.outcome("b2", "y");
    scenario.outcome("a1", "y");
    assert.equal(scenario.outcome("b2", "x"), "deadlock");
    scenario.release("b2");
    scenario.release("a1");
    scenario.outcome("b2", "y");
    scenario.outcome("c3", "x");
    scenario.outcome("b2", "x");
    assert.deepEqual(scenario.ask("c3", "y").victims, ["c3"]);
  });

  test("[TXD9] request: waits behind many, closes no cycle: none is aborted", () => {
    const scenario = new Scenario();
    for (let at = 1; at <= 20; at += 1) scenario.outcome(`t${at}`, "hot");
    assert.equal(scenario.table.stats().waiting, 19);
  });

  test("[TXD9] request: two cycles closed at once: one of each is aborted", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "x");
    for (const id of ["b2", "c3"]) scenario.outcome(id, "y", "shared");
    for (const id of ["b2", "c3"]) scenario.outcome(id, "x", "shared");
    const decision = scenario.ask("a1", "y");
    assert.deepEqual([decision.outcome, [...decision.victims].toSorted()], ["queued", ["b2", "c3"]]);
    scenario.release("b2");
    assert.deepEqual(scenario.release("c3"), ["a1 y exclusive"]);
  });
});

describe("deadlines", () => {
  test("tick: before, at and after the deadline: expires from the deadline on", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k");
    assert.equal(scenario.table.nextDeadlineMs(), undefined);
    scenario.ask("b2", "k", "exclusive", 50);
    scenario.ask("c3", "k", "exclusive", 40);
    assert.equal(scenario.table.nextDeadlineMs(), 40);
    assert.deepEqual(scenario.table.tick(39), { expired: [], granted: [] });
    assert.deepEqual(scenario.table.tick(40), { expired: [{ transactionId: "c3", key: "k" }], granted: [] });
    assert.deepEqual(scenario.table.tick(99).expired, [{ transactionId: "b2", key: "k" }]);
    assert.equal(scenario.table.nextDeadlineMs(), undefined);
    scenario.table.audit();
  });

  test("tick: the request in front expires: those behind are granted", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.ask("b2", "k", "exclusive", 50);
    scenario.ask("c3", "k", "shared", 90);
    assert.deepEqual(scenario.table.tick(50).granted, [{ transactionId: "c3", key: "k", mode: "shared" }]);
  });

  test("tick: several expire together: none of them is granted on the way", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "k", "shared");
    scenario.ask("b2", "k", "exclusive", 50);
    scenario.ask("c3", "k", "shared", 50);
    const { expired, granted } = scenario.table.tick(50);
    assert.deepEqual([expired.length, granted], [2, []]);
  });

  test("request: deadline has passed: granted when free, expired when it would wait", () => {
    const scenario = new Scenario();
    assert.equal(scenario.ask("a1", "k", "exclusive", 10, 10).outcome, "granted");
    assert.equal(scenario.ask("b2", "k", "exclusive", 10, 10).outcome, "expired");
    assert.equal(scenario.ask("b2", "k", "exclusive", 11, 10).outcome, "queued");
    assert.equal(scenario.table.stats().waiting, 1);
  });
});

describe("limits", () => {
  test("locksPerTransactionMax: below, at, above: LIMIT_EXCEEDED above, held ones still covered", () => {
    const scenario = new Scenario({ locksPerTransactionMax: 2 });
    assert.equal(scenario.outcome("a1", "x"), "granted");
    assert.equal(scenario.outcome("a1", "y"), "granted");
    assert.throws(() => scenario.ask("a1", "z"), { code: "LIMIT_EXCEEDED" });
    assert.equal(scenario.outcome("a1", "x"), "granted");
    assert.equal(scenario.outcome("b2", "z"), "granted");
  });

  test("locksPerTransactionMax: a range is locked, before or after its writers came: they take as many keys as without its reader", () => {
    const range = ({ table }: Scenario, id: string): string =>
      table.requestRange({ id, firstStartMs: Number(id.slice(1)) }, "r|", 10_000, 0).outcome;
    const early = new Scenario({ locksPerTransactionMax: 2 });
    early.outcome("a1", "r|x");
    assert.equal(range(early, "b2"), "queued");
    assert.equal(early.outcome("a1", "r|y"), "granted");
    assert.equal(early.outcome("a1", "r|", "intent"), "granted");
    assert.throws(() => early.ask("a1", "z"), { code: "LIMIT_EXCEEDED" });
    const late = new Scenario({ locksPerTransactionMax: 2 });
    late.outcome("a1", "r|x");
    assert.equal(range(late, "b2"), "queued");
    for (const key of ["r|y", "r|z"]) late.outcome("c3", key);
    assert.equal(late.outcome("c3", "r|", "intent"), "queued");
    late.release("a1");
    late.table.audit();
    late.release("b2");
    assert.ok(late.table.holds("c3", "r|", "intent"));
    assert.throws(() => late.ask("c3", "z"), { code: "LIMIT_EXCEEDED" });
    late.table.audit();
  });

  test("locksPerTransactionMax: ranges that are read count", () => {
    const { table } = new Scenario({ locksPerTransactionMax: 2 });
    const ask = (range: string): unknown => table.requestRange({ id: "a1", firstStartMs: 1 }, range, 10_000, 0);
    for (const range of ["q|", "r|"]) ask(range);
    assert.throws(() => ask("s|"), { code: "LIMIT_EXCEEDED" });
  });

  test("waitersPerLockMax: below, at, above: OVERLOADED above and no trace left", () => {
    const scenario = new Scenario({ waitersPerLockMax: 2 });
    for (const id of ["a1", "b2", "c3"]) scenario.outcome(id, "k");
    assert.throws(() => scenario.ask("d4", "k"), { code: "OVERLOADED" });
    assert.equal(scenario.table.stats().transactions, 3);
    scenario.release("a1");
    assert.equal(scenario.outcome("d4", "k"), "queued");
  });

  test("locksTotalMax: held and waiting count: OVERLOADED above", () => {
    const scenario = new Scenario({ locksTotalMax: 3 });
    scenario.outcome("a1", "x");
    scenario.outcome("a1", "y");
    scenario.outcome("b2", "x");
    assert.throws(() => scenario.ask("b2", "z"), { code: "OVERLOADED" });
    scenario.release("a1");
    assert.equal(scenario.outcome("b2", "z"), "granted");
  });
});

describe("ranges", () => {
  const askRange = (scenario: Scenario, id: string): string => {
    const decision = scenario.table.requestRange({ id, firstStartMs: Number(id.slice(1)) }, "r|", FAR_MS, 0);
    scenario.table.audit();
    return decision.outcome;
  };

  test("[TXD6] range: keys of it held exclusively: waits for their holders, not for readers and not for other ranges", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "r|x");
    scenario.outcome("b2", "r|y", "shared");
    scenario.outcome("c3", "rs|x");
    assert.ok(!scenario.table.hasRanges);
    assert.equal(askRange(scenario, "d4"), "queued");
    assert.ok(scenario.table.isRangeLocked("r|"));
    assert.deepEqual(scenario.release("c3"), []);
    assert.deepEqual(scenario.release("a1"), ["d4 r| shared"]);
  });

  test("[TXD6] range: locked: writers have to wait for it; gone with its last holder", () => {
    const scenario = new Scenario();
    assert.equal(askRange(scenario, "a1"), "granted");
    assert.equal(askRange(scenario, "b2"), "granted");
    assert.equal(scenario.outcome("c3", "r|x"), "granted");
    assert.equal(scenario.outcome("c3", "r|", "intent"), "queued");
    scenario.release("a1");
    assert.deepEqual(scenario.release("b2"), ["c3 r| intent"]);
    scenario.release("c3");
    assert.ok(!scenario.table.hasRanges);
    assert.equal(scenario.table.stats().keys, 0);
  });

  test("[TXD6] range: its reader holds a key of it exclusively: the range is its own", () => {
    const scenario = new Scenario();
    scenario.outcome("a1", "r|x");
    assert.equal(askRange(scenario, "a1"), "granted");
    assert.ok(scenario.table.holds("a1", "r|", "exclusive"));
    assert.equal(askRange(scenario, "b2"), "queued");
    assert.deepEqual(scenario.release("a1"), ["b2 r| shared"]);
  });
});

test("summaryOf: what is held up to a limit, what is waited for and one that holds it, an upgrade among them; nothing once it was released", () => {
  const scenario = new Scenario();
  for (const key of ["x", "y", "z"]) scenario.outcome("a1", key, "shared");
  scenario.outcome("b2", "y", "shared");
  assert.equal(scenario.outcome("a1", "y", "exclusive"), "queued");
  assert.equal(scenario.outcome("c3", "x", "exclusive"), "queued");
  assert.deepEqual(scenario.table.summaryOf("a1", 2), {
    held: 3,
    keys: [
      { key: "x", mode: "shared" },
      { key: "y", mode: "shared" },
    ],
    waits: [{ key: "y", mode: "exclusive", holder: "b2" }],
  });
  assert.deepEqual(scenario.table.summaryOf("c3", 2), { held: 0, keys: [], waits: [{ key: "x", mode: "exclusive", holder: "a1" }] });
  scenario.release("a1");
  assert.deepEqual(scenario.table.summaryOf("a1", 2), { held: 0, keys: [], waits: [] });
  assert.deepEqual(scenario.table.summaryOf("c3", 2).keys, [{ key: "x", mode: "exclusive" }]);
});

test("holdersOf: shared lock: every holder", () => {
  const scenario = new Scenario();
  for (const id of ["a1", "b2"]) scenario.outcome(id, "k", "shared");
  assert.deepEqual(scenario.table.holdersOf("k"), ["a1", "b2"]);
  assert.deepEqual(scenario.table.holdersOf("free"), []);
});
