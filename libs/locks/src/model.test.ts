// The table against a model with no cleverness: lists, all pairs of conflicts, reachability by repeated search. The model follows the
// table's choice of victims and checks each; everything else (outcomes, grants, expiries) must be equal after every step.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LockTable, type LockGrant, type LockMode } from "./index.ts";

interface Request {
  readonly id: string;
  readonly key: string;
  readonly mode: LockMode;
  readonly upgrade: boolean;
  readonly deadlineMs: number;
}

const goTogether = (left: LockMode, right: LockMode): boolean => left === right && left !== "exclusive";

class Model {
  holders: { id: string; key: string; mode: LockMode }[] = [];
  queue: Request[] = [];
  doomed = new Set<string>();
  committing = new Set<string>();

  held(id: string, key: string): LockMode | undefined {
    return this.holders.find((holder) => holder.id === id && holder.key === key)?.mode;
  }

  enqueue(request: Request): void {
    const isBehind = (other: Request): boolean => !request.upgrade || (other.upgrade && other.key === request.key);
    const at = this.queue.findLastIndex(isBehind) + 1;
    this.queue.splice(at, 0, request);
  }

  blockers(request: Request): Set<string> {
    const earlier = this.queue.slice(0, this.queue.indexOf(request)).filter((other) => other.key === request.key);
    const holders = this.holders.filter((holder) => holder.key === request.key && holder.id !== request.id);
    const conflicting = [...earlier, ...holders].filter((other) => !goTogether(other.mode, request.mode));
    return new Set(conflicting.map((other) => other.id));
  }

  /** Grants whatever nothing stands against, until nothing changes. */
  settle(): LockGrant[] {
    const granted: LockGrant[] = [];
    for (;;) {
      const request = this.queue.find((candidate) => this.blockers(candidate).size === 0);
      if (request === undefined) return granted;
      this.queue.splice(this.queue.indexOf(request), 1);
      this.holders = this.holders.filter((holder) => holder.id !== request.id || holder.key !== request.key);
      this.holders.push({ id: request.id, key: request.key, mode: request.mode });
      granted.push({ transactionId: request.id, key: request.key, mode: request.mode });
    }
  }

  edges(): Map<string, Set<string>> {
    const edges = new Map<string, Set<string>>();
    for (const request of this.queue) {
      const known = edges.get(request.id) ?? new Set();
      for (const blocker of this.blockers(request)) known.add(blocker);
      edges.set(request.id, known);
    }
    return edges;
  }

  /** All transactions on a cycle with `id`, itself included; empty when it is in none. */
  cycleMembers(id: string): string[] {
    const edges = this.edges();
    const reach = (from: string): Set<string> => {
      const seen = new Set<string>();
      const open = [from];
      for (let at = open.pop(); at !== undefined; at = open.pop()) {
        for (const next of edges.get(at) ?? []) {
          if (!seen.has(next)) open.push(next);
          seen.add(next);
        }
      }
      return seen;
    };
    return [...reach(id)].filter((other) => reach(other).has(id));
  }

  isSimpleCycle(members: readonly string[]): boolean {
    const edges = this.edges();
    return members.every((id) => [...(edges.get(id) ?? [])].filter((next) => members.includes(next)).length === 1);
  }

  takeBack(id: string, key?: string): void {
    this.queue = this.queue.filter((request) => request.id !== id || (key !== undefined && request.key !== key));
  }

  /** I6: once a range is locked, a holder of a key of it exclusively holds it as intent. */
  addWriters(range: string): void {
    if (this.holders.some((holder) => holder.key === range)) return;
    const writers = this.holders.filter((holder) => holder.mode === "exclusive" && holder.key.startsWith(range));
    for (const id of new Set(writers.map((holder) => holder.id))) this.holders.push({ id, key: range, mode: "intent" });
  }

  end(id: string): void {
    this.takeBack(id);
    this.holders = this.holders.filter((holder) => holder.id !== id);
    this.doomed.delete(id);
    this.committing.delete(id);
  }
}

type Step =
  | { kind: "request"; id: string; key: string; mode: LockMode; waitMs: number }
  | { kind: "range"; id: string; waitMs: number }
  | { kind: "release" | "cancel" | "committing"; id: string }
  | { kind: "tick"; passMs: number };

const ids = ["t1", "t2", "t3", "t4", "t5", "t6"];
const id = fc.constantFrom(...ids);
/** The range and two of its keys. */
const RANGE = "r|";
const key = fc.constantFrom("w", "x", RANGE, "r|1", "r|2");
const mode = fc.constantFrom<LockMode>("shared", "exclusive", "intent");
const request = fc.record({ kind: fc.constant("request" as const), id, key, mode, waitMs: fc.constantFrom(0, 30, 100, 200) });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: request },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("range" as const), id, waitMs: fc.constantFrom(30, 200) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("committing" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("tick" as const), passMs: fc.integer({ min: 0, max: 40 }) }) },
);

/** Younger = larger start; several share one, so ties by id are met too. */
const startOf = (transaction: string): number => Math.floor(Number(transaction.slice(1)) / 2);

const sorted = (grants: readonly LockGrant[]): string[] =>
  grants.map((grant) => `${grant.key} ${grant.transactionId} ${grant.mode}`).toSorted();

function youngest(candidates: readonly string[]): string | undefined {
  return candidates.toSorted((left, right) => startOf(right) - startOf(left) || (left < right ? 1 : -1))[0];
}

/** Plays a request in both; returns how many deadlocks were broken. */
function playRequest(table: LockTable, model: Model, now: number, step: Extract<Step, { kind: "request" | "range" }>): number {
  const { id } = step;
  const { key, mode } = step.kind === "range" ? { key: RANGE, mode: "shared" as const } : step;
  if (step.kind === "range") model.addWriters(RANGE);
  const owner = { id, firstStartMs: startOf(id) };
  const deadlineMs = now + step.waitMs;
  const held = model.held(id, key);
  const covered = held === "exclusive" || held === mode;
  const waits = model.queue.some((other) => other.id === id && other.key === key);
  if (waits && !covered && !model.doomed.has(id)) {
    assert.throws(() => table.request(owner, key, mode, deadlineMs, now), { code: "TRANSACTION_STATE" });
    return 0;
  }
  const decision =
    step.kind === "range" ? table.requestRange(owner, key, deadlineMs, now) : table.request(owner, key, mode, deadlineMs, now);
  if (model.doomed.has(id)) {
    assert.deepEqual(decision, { outcome: "deadlock", victims: [], granted: [] });
    return 0;
  }
  if (covered) {
    assert.equal(decision.outcome, "granted");
    return 0;
  }
  const upgrade = held !== undefined;
  const asked: Request = { id, key, mode: upgrade ? "exclusive" : mode, upgrade, deadlineMs };
  model.enqueue(asked);
  if (model.blockers(asked).size > 0 && deadlineMs <= now) {
    model.takeBack(id, key);
    assert.equal(decision.outcome, "expired");
    return 0;
  }
  const granted = model.settle();
  for (const victim of decision.victims) granted.push(...checkVictim(model, id, victim));
  assert.deepEqual(model.cycleMembers(id), [], "a deadlock was left");
  const isOwn = (grant: LockGrant): boolean => grant.transactionId === id && grant.key === key;
  const outcome = model.doomed.has(id) ? "deadlock" : granted.some(isOwn) ? "granted" : "queued";
  assert.equal(decision.outcome, outcome);
  assert.deepEqual(sorted(decision.granted), sorted(granted.filter((grant) => !isOwn(grant))));
  return decision.victims.length;
}

function checkVictim(model: Model, asking: string, victim: string): LockGrant[] {
  const members = model.cycleMembers(asking);
  assert.ok(members.includes(victim), `${victim} is in no deadlock with ${asking}`);
  const eligible = members.filter((member) => !model.committing.has(member));
  if (eligible.length > 0 && model.isSimpleCycle(members)) assert.equal(victim, youngest(eligible));
  if (eligible.length === 0) assert.equal(victim, asking);
  model.doomed.add(victim);
  model.takeBack(victim);
  return model.settle();
}

function play(steps: readonly Step[]): number {
  const table = new LockTable();
  const model = new Model();
  let now = 0;
  let deadlocks = 0;
  for (const step of steps) {
    switch (step.kind) {
      case "request":
      case "range":
        deadlocks += playRequest(table, model, now, step);
        break;
      case "release":
        model.end(step.id);
        assert.deepEqual(sorted(table.release(step.id)), sorted(model.settle()));
        break;
      case "cancel":
        model.takeBack(step.id);
        assert.deepEqual(sorted(table.cancel(step.id)), sorted(model.settle()));
        break;
      case "committing":
        if (model.doomed.has(step.id) || table.stats().transactions === 0) break;
        if (!model.holders.some((holder) => holder.id === step.id)) break;
        table.setCommitting(step.id);
        model.committing.add(step.id);
        break;
      case "tick": {
        now += step.passMs;
        const due = model.queue.filter((waiting) => waiting.deadlineMs <= now);
        model.queue = model.queue.filter((waiting) => waiting.deadlineMs > now);
        const { expired, granted } = table.tick(now);
        assert.deepEqual(
          expired.map((one) => `${one.transactionId} ${one.key}`).toSorted(),
          due.map((one) => `${one.id} ${one.key}`).toSorted(),
        );
        assert.deepEqual(sorted(granted), sorted(model.settle()));
        const next = model.queue.map((waiting) => waiting.deadlineMs);
        assert.equal(table.nextDeadlineMs(), next.length === 0 ? undefined : Math.min(...next));
        break;
      }
    }
    table.audit();
    compareStates(table, model);
  }
  return deadlocks;
}

function compareStates(table: LockTable, model: Model): void {
  const { held, waiting } = table.stats();
  assert.deepEqual([held, waiting], [model.holders.length, model.queue.length]);
  for (const holder of model.holders) assert.ok(table.holds(holder.id, holder.key, holder.mode));
}

test("[TX4] [TXD9] lock table: any steps: mutual exclusion, no lost wake-up, deadlocks exactly as in the model", () => {
  let deadlocks = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
      deadlocks += play(steps);
    }),
    { numRuns: 1500, seed: 20261121 },
  );
  assert.ok(deadlocks > 500, `only ${deadlocks} deadlocks were met`);
});
